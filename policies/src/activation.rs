//! The values of what expressions name, and what evaluating them may cost.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use cel::{Decl, Program, Value as CelValue, Variables, from_json};
use generic_server::offload;
use machinery::{Str, Value};

use crate::{
    compile::{CompileError, Compiler, ExpectedType},
    declarations::place,
    questions::Asker,
    write::Request,
};

/// What one evaluation may cost (upstream's PerCallLimit).
const CALL_LIMIT: u64 = 1_000_000;
/// What costs no more is evaluated where it is: it takes some four milliseconds.
const CHEAP: u64 = 100_000;
/// What the expressions of a policy may cost together for one write (upstream's RuntimeCELCostBudget).
pub(crate) const BUDGET: u64 = 10_000_000;
/// What its match conditions may cost together (upstream's RuntimeCELCostBudgetMatchConditions).
pub(crate) const CONDITIONS_BUDGET: u64 = BUDGET / 4;

/// More was spent than there was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{OUT_OF_BUDGET}")]
pub(crate) struct OutOfBudget;

/// How upstream says so.
pub(crate) const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// An expression with its text, which errors show.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    pub(crate) text: Str,
    pub(crate) program: Result<Program, CompileError>,
}

impl Expression {
    pub(crate) fn new(text: &str, wanted: ExpectedType, compiler: &mut Compiler) -> Self {
        Expression { text: text.into(), program: compiler.compile(text, wanted) }
    }
}

/// A named expression.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    name: Str,
    program: Result<Program, CompileError>,
}

impl Variable {
    /// The variables of a policy's spec, by name; of several of one name the last counts.
    pub(crate) fn all_of(spec: &Value, compiler: &mut Compiler) -> Vec<Variable> {
        let mut variables: BTreeMap<Str, Variable> = BTreeMap::new();
        for variable in spec.get("variables").and_then(Value::as_array).unwrap_or_default() {
            let name = Str::from(variable.str_at(&["name"]).unwrap_or_default());
            let program = compiler.variable(&name, variable.str_at(&["expression"]).unwrap_or_default());
            variables.insert(name.clone(), Variable { name, program });
        }
        variables.into_values().collect()
    }
}

/// What has come of a variable so far.
#[derive(Clone, Debug, Default)]
enum Memo {
    #[default]
    Unknown,
    UnderWay,
    Known(cel::Result),
}

/// What expressions see of one write.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    /// Null where there is none.
    pub(crate) object: &'a Value,
    /// Null where there is none.
    pub(crate) old: &'a Value,
    /// The namespace; null for cluster-scoped resources.
    pub(crate) namespace: &'a Value,
    /// Null where there are none.
    pub(crate) params: &'a Value,
    pub(crate) request: &'a Request<'a>,
    /// Who is asked what users may do; `None`: nobody.
    pub(crate) asker: Option<&'a Arc<Asker>>,
}

/// The values of names. Variables are evaluated when they are first named, once.
pub(crate) struct Activation<'a> {
    scene: Scene<'a>,
    /// By name.
    variables: &'a [Variable],
    memos: RefCell<Vec<Memo>>,
    /// What variables have cost since that was last taken off the budget.
    spent: Cell<u64>,
}

/// The shape of everything: expressions are not told the types of objects.
static ANYTHING: LazyLock<Arc<Decl>> = LazyLock::new(|| Arc::new(Decl::dynamic()));

fn seen(json: &Value) -> cel::Result {
    from_json(json, &ANYTHING)
}

#[cfg(test)]
impl<'a> Scene<'a> {
    /// A write without objects.
    pub(crate) fn of(request: &'a Request<'a>) -> Self {
        const NONE: &Value = &Value::Null;
        Scene { object: NONE, old: NONE, namespace: NONE, params: NONE, request, asker: None }
    }
}

impl<'a> Activation<'a> {
    /// With variables that can be named.
    pub(crate) fn new(scene: Scene<'a>, variables: &'a [Variable]) -> Self {
        Activation { scene, variables, memos: RefCell::new(vec![Memo::Unknown; variables.len()]), spent: Cell::new(0) }
    }

    /// The value of an expression, or upstream's text of why it has none. What it costs is taken off `left`.
    pub(crate) fn evaluate(
        &self,
        expression: &Expression,
        left: &mut u64,
    ) -> Result<Result<CelValue, String>, OutOfBudget> {
        let program = match &expression.program {
            Ok(program) => program,
            Err(fault) => return Ok(Err(format!("compilation error: {fault}"))),
        };
        let (result, cost) = self.run(program);
        let spent = self.spent.take().saturating_add(cost);
        *left = left.checked_sub(spent).ok_or(OutOfBudget)?;
        Ok(result.map_err(|error| format!("expression '{}' resulted in error: {error}", expression.text)))
    }

    /// Evaluates a program, outside of the reactor if that is dear.
    fn run(&self, program: &Program) -> (cel::Result, u64) {
        match program.evaluate(self, CHEAP) {
            (Err(cel::Error::CostLimit), _) => offload::once(usize::MAX, || program.evaluate(self, CALL_LIMIT)),
            done => done,
        }
    }

    fn variable(&self, at: usize) -> cel::Result {
        let name = &self.variables[at].name;
        let memo = std::mem::replace(&mut self.memos.borrow_mut()[at], Memo::UnderWay);
        match memo {
            Memo::Unknown => {}
            Memo::UnderWay => return Err(cel::Error::new(format!("composited variable {name:?} refers to itself"))),
            Memo::Known(result) => {
                self.memos.borrow_mut()[at] = Memo::Known(result.clone());
                return result;
            }
        }
        let result = match &self.variables[at].program {
            Ok(program) => {
                let (result, cost) = self.run(program);
                self.spent.set(self.spent.get().saturating_add(cost));
                result.map_err(|e| cel::Error::new(format!("composited variable {name:?} fails to evaluate: {e}")))
            }
            Err(fault) => Err(cel::Error::new(format!("composited variable {name:?} fails to compile: {fault}"))),
        };
        self.memos.borrow_mut()[at] = Memo::Known(result.clone());
        result
    }

    fn place_of(&self, name: &str) -> Option<usize> {
        self.variables.binary_search_by(|variable| variable.name.as_str().cmp(name)).ok()
    }

    fn all_variables(&self) -> cel::Result {
        let entries = self.variables.iter().enumerate();
        let entries = entries.map(|(at, v)| Ok((cel::Key::String(v.name.clone()), self.variable(at)?)));
        Ok(CelValue::Map(Arc::new(entries.collect::<cel::Result<_>>()?)))
    }
}

impl Variables for Activation<'_> {
    fn value(&self, place: usize) -> cel::Result {
        match place {
            place::OBJECT => seen(self.scene.object),
            place::OLD_OBJECT => seen(self.scene.old),
            place::NAMESPACE => seen(self.scene.namespace),
            place::REQUEST => seen(self.scene.request.value()),
            place::PARAMS => seen(self.scene.params),
            place::AUTHORIZER => match self.scene.asker {
                Some(asker) => Ok(cel::authorizer(asker.clone())),
                None => Err(cel::Error::new("no such attribute(s): authorizer")),
            },
            place::REQUEST_RESOURCE => match self.scene.asker {
                Some(asker) => Ok(cel::resource_check(asker.clone(), self.scene.request.question())),
                None => Err(cel::Error::new("no such attribute(s): authorizer.requestResource")),
            },
            _ => self.all_variables(),
        }
    }

    fn member(&self, place: usize, name: &str) -> Option<cel::Result> {
        (place == place::VARIABLES).then(|| match self.place_of(name) {
            Some(at) => self.variable(at),
            None => Err(cel::Error::new(format!("no such key: {name}"))),
        })
    }

    fn has_member(&self, place: usize, name: &str) -> Option<bool> {
        (place == place::VARIABLES).then(|| self.place_of(name).is_some())
    }
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;
    use crate::write::Request;

    fn check(variables: &str, text: &str, expect: Result<bool, &str>) {
        let spec = json::decode(format!(r#"{{"variables":{variables}}}"#).as_bytes()).expect("JSON");
        let mut compiler = Compiler::new(false, true);
        let variables = Variable::all_of(&spec, &mut compiler);
        let expression = Expression::new(text, ExpectedType::Condition, &mut compiler);
        let request = Request::none();
        let object = json::decode(br#"{"a":1,"list":[1,2,3]}"#).expect("JSON");
        let activation = Activation::new(Scene { object: &object, ..Scene::of(&request) }, &variables);
        let result = activation.evaluate(&expression, &mut BUDGET.clone()).expect("it is cheap");
        let result = result.map(|value| matches!(value, CelValue::Bool(true)));
        assert_eq!(result.as_ref().map_err(String::as_str), expect.as_ref().map_err(|e| &**e), "{text}");
    }

    #[test]
    fn variables_are_evaluated_when_they_are_named() {
        check(r#"[{"name":"n","expression":"object.a"}]"#, "variables.n == 1", Ok(true));
        check(r#"[{"name":"n","expression":"object.b"}]"#, "true || variables.n == 1", Ok(true));
        check(
            r#"[{"name":"n","expression":"object.b"}]"#,
            "variables.n == 1",
            Err(
                "expression 'variables.n == 1' resulted in error: composited variable \"n\" fails to evaluate: no such key: b",
            ),
        );
        check(
            r#"[{"name":"n","expression":"object.a"},{"name":"m","expression":"variables.n + 1"}]"#,
            "variables.m == 2 && has(variables.m)",
            Ok(true),
        );
        check(r#"[{"name":"l","expression":"object.list"}]"#, "variables.l.all(i, i > 0)", Ok(true));
    }

    #[test]
    fn a_variable_that_replaces_another_of_its_name_does_not_run_forever() {
        check(
            r#"[{"name":"n","expression":"1"},{"name":"n","expression":"variables.n + 1"}]"#,
            "variables.n == 2",
            Err(
                "expression 'variables.n == 2' resulted in error: composited variable \"n\" fails to evaluate: composited \
                 variable \"n\" refers to itself",
            ),
        );
    }
}
