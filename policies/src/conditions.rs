//! Match conditions: which writes a policy or webhook is about, beyond its rules.

use cel::Value as CelValue;
use machinery::Value;

use crate::{
    activation::{Activation, CONDITIONS_BUDGET, Expression},
    compile::{Compiler, ExpectedType},
};

/// The conditions, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions(Vec<Expression>);

/// What conditions say of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All hold.
    Matches,
    /// One does not hold, or some cannot be evaluated and failures are ignored.
    Differs,
    /// Some cannot be evaluated, and that counts as a failure: why.
    Fails(String),
}

impl Conditions {
    /// Those of a policy's spec or of a webhook.
    pub(crate) fn of(holder: &Value, params: bool) -> Self {
        let mut compiler = Compiler::new(params, false);
        let condition = |condition: &Value| {
            let text = condition.str_at(&["expression"]).unwrap_or_default();
            Expression::new(text, ExpectedType::Condition, &mut compiler)
        };
        let conditions = holder.get("matchConditions").and_then(Value::as_array).unwrap_or_default();
        Conditions(conditions.iter().map(condition).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether they hold. `fail`: what cannot be evaluated is a failure. One that does not hold makes failures of others good.
    pub(crate) fn judge(&self, activation: &Activation<'_>, fail: bool) -> Verdict {
        let mut left = CONDITIONS_BUDGET;
        let mut failures: Vec<String> = Vec::new();
        let mut differs = false;
        for expression in &self.0 {
            match activation.evaluate(expression, &mut left) {
                Ok(Ok(CelValue::Bool(false))) => differs = true,
                Ok(Ok(_)) => {}
                Ok(Err(why)) if failures.contains(&why) => {}
                Ok(Err(why)) => failures.push(why),
                // What was found before does not count then.
                Err(spent) if fail => return Verdict::Fails(spent.to_string()),
                Err(_) => return Verdict::Differs,
            }
        }
        match failures.as_slice() {
            _ if differs => Verdict::Differs,
            [] => Verdict::Matches,
            _ if !fail => Verdict::Differs,
            [one] => Verdict::Fails(one.clone()),
            several => Verdict::Fails(format!("[{}]", several.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;
    use crate::{activation::Scene, write::Request};

    fn check(conditions: &[&str], fail: bool, expect: Verdict) {
        let items: Vec<Value> =
            conditions.iter().map(|text| machinery::object! { "name" => "c", "expression" => *text }).collect();
        let conditions = Conditions::of(&machinery::object! { "matchConditions" => items }, false);
        let request = Request::none();
        let object = json::decode(br#"{"a":1}"#).expect("JSON");
        let activation = Activation::new(Scene { object: &object, ..Scene::of(&request) }, &[]);
        assert_eq!(conditions.judge(&activation, fail), expect);
    }

    #[test]
    fn a_condition_that_does_not_hold_makes_failures_good() {
        check(&[], true, Verdict::Matches);
        check(&["object.a == 1", "true"], true, Verdict::Matches);
        check(&["object.b == 1", "object.a == 2"], true, Verdict::Differs);
        let error = |key: &str| format!("expression 'object.{key} == 1' resulted in error: no such key: {key}");
        check(&["object.b == 1", "object.a == 1"], true, Verdict::Fails(error("b")));
        check(&["object.b == 1"], false, Verdict::Differs);
        check(&["object.b == 1", "object.c == 1"], true, Verdict::Fails(format!("[{}, {}]", error("b"), error("c"))));
    }

    #[test]
    fn conditions_end_where_their_budget_does() {
        let dear = "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, \
                    [1,2,3,4,5,6,7,8,9,10].all(d, a + b + c + d > 0))))";
        check(&[dear; 30], true, Verdict::Fails(crate::activation::OUT_OF_BUDGET.into()));
        check(&[dear; 30], false, Verdict::Differs);
    }
}
