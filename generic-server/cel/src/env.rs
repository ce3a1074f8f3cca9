//! What an expression can name, and how it is compiled.

use std::sync::Arc;

use machinery::Str;

use crate::check::{self, Reference};
use crate::cost::{self, Cost};
use crate::decl::Decl;
use crate::eval::Plan;
use crate::library::{self, Function};
use crate::syntax::{self, Issues};
use crate::types::Type;
use crate::value::Value;

/// The variables and types that expressions of one kind can use.
#[derive(Clone, Debug, Default)]
pub struct Env {
    variables: Vec<Variable>,
    structs: Option<Arc<dyn Structs>>,
    functions: Vec<(&'static str, &'static Function)>,
}

#[derive(Clone, Debug)]
struct Variable {
    name: Str,
    of: Type,
    /// What bounds its size.
    decl: Option<Arc<Decl>>,
}

/// The structs that expressions can make.
pub trait Structs: Send + Sync + std::fmt::Debug {
    /// Whether there is a struct of that name.
    fn exists(&self, name: &str) -> bool;

    /// The type of a struct's field; `None` if it has no such field.
    fn field(&self, name: &str, field: &str) -> Option<Type>;
}

impl Env {
    /// Nothing but the functions that all expressions have.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a variable. Its place, among all in the order of their addition, is where its value is given.
    #[must_use]
    pub fn variable_of(mut self, name: &str, of: Type) -> Self {
        self.variables.push(Variable { name: name.into(), of, decl: None });
        self
    }

    /// With a variable of a declared shape.
    #[must_use]
    pub fn variable_with(mut self, name: &str, decl: &Arc<Decl>) -> Self {
        self.variables.push(Variable { name: name.into(), of: decl.to_type(), decl: Some(decl.clone()) });
        self
    }

    /// With structs that expressions can make.
    #[must_use]
    pub fn with_structs(mut self, structs: Arc<dyn Structs>) -> Self {
        self.structs = Some(structs);
        self
    }

    /// With the functions that help to write JSON patches.
    #[must_use]
    pub fn with_patch_functions(mut self) -> Self {
        self.functions.extend(library::json_patch::functions());
        self
    }

    pub(crate) fn variable(&self, name: &str) -> Option<(usize, &Type)> {
        let place = self.variables.iter().rposition(|v| v.name == name)?;
        Some((place, &self.variables[place].of))
    }

    /// What is promised of a variable's value; of names that are no variables (of types, of macros) upstream takes what it
    /// knows of the first one.
    pub(crate) fn decl(&self, name: &str) -> Option<&Decl> {
        match self.variables.iter().rev().find(|v| v.name == name) {
            Some(variable) => variable.decl.as_deref(),
            None => self.variables.first()?.decl.as_deref(),
        }
    }

    pub(crate) fn structs(&self) -> Option<&dyn Structs> {
        self.structs.as_deref()
    }

    /// A function that all expressions have, or these.
    pub(crate) fn function(&self, name: &str) -> Option<&'static Function> {
        library::function(name).or_else(|| self.functions.iter().find(|(n, _)| *n == name).map(|(_, f)| *f))
    }

    /// Compiles an expression.
    pub fn compile(&self, text: &str) -> Result<Program, Issues> {
        let parsed = syntax::parse(text)?;
        let checked = check::check(self, parsed, text)?;
        let cost = cost::estimate(self, &checked);
        let mut used = vec![false; self.variables.len()];
        for reference in &checked.refs {
            if let Reference::Variable(place) = reference {
                used[*place] = true;
            }
        }
        let result = checked.type_of(&checked.expr).clone();
        let (plan, fault) = match Plan::of(&checked) {
            Ok(plan) => (plan, None),
            Err(fault) => (Plan::Constant(Value::Null), Some(fault)),
        };
        Ok(Program { plan, fault, result, cost, used })
    }
}

/// An expression that can be evaluated.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) plan: Plan,
    fault: Option<String>,
    result: Type,
    cost: Cost,
    used: Vec<bool>,
}

impl Program {
    /// The type of its value.
    pub fn result(&self) -> &Type {
        &self.result
    }

    /// What evaluating it costs at least and at most, by what is known of the sizes of its variables.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// Why it cannot be evaluated although its types are right: a pattern in it does not compile.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Whether it names the variable of this place.
    pub fn uses(&self, place: usize) -> bool {
        self.used.get(place).copied().unwrap_or(false)
    }
}
