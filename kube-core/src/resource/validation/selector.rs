//! Expressions that devices have to meet, in CEL.

use std::sync::{Arc, LazyLock};

use cel::{Decl, Env, Type};
use machinery::{codec::json, meta::field_error::FieldError, schema::structural};

use crate::validation::{Errors, Field};

const MAX_EXPRESSION: usize = 10 * 1024;
/// What evaluating an expression may cost at most.
const MAX_COST: u64 = 1_000_000;

/// What expressions know of a device. What an attribute or a capacity is shows when an expression is evaluated.
const DEVICE: &str = r#"{"type":"object","properties":{
    "driver":{"type":"string","maxLength":63},
    "attributes":{"type":"object","maxProperties":32,"additionalProperties":{
        "type":"object","maxProperties":32,"additionalProperties":{"x-kubernetes-int-or-string":true,"maxLength":64}}},
    "capacity":{"type":"object","maxProperties":32,"additionalProperties":{
        "type":"object","maxProperties":32,"additionalProperties":{"x-kubernetes-int-or-string":true,"maxLength":64}}},
    "allowMultipleAllocations":{"type":"boolean"}}}"#;

static SHAPE: LazyLock<Arc<Decl>> = LazyLock::new(|| {
    let schema = structural::parse(&json::decode(DEVICE.as_bytes()).expect("a constant"));
    Arc::new(Decl::of_schema(&schema, false, "kubernetes.DRADevice").expect("an object"))
});

/// The expression is not too long, compiles to a truth value, and cannot cost too much.
pub(super) fn expression(expression: &Field<'_>, errors: &mut Errors) {
    let text = expression.text();
    if text.len() > MAX_EXPRESSION {
        return errors.push(FieldError::too_long(expression, MAX_EXPRESSION));
    }
    match Env::new().variable_with("device", &SHAPE).compile(text) {
        Err(issues) => expression.invalid_text(format!("compilation failed: {issues}"), errors),
        Ok(program) if !matches!(program.result(), Type::Bool | Type::Dyn) => {
            let detail = format!("must evaluate to bool or the unknown type, not {}", program.result());
            expression.invalid_text(detail, errors);
        }
        Ok(program) if program.cost().max > MAX_COST => {
            expression.forbidden("too complex, exceeds cost limit", errors);
        }
        Ok(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use machinery::Value;

    use super::*;

    fn check(text: &str, expect: &[&str]) {
        let value = Value::from(text);
        let mut errors = Errors::default();
        expression(&Field::root(&value), &mut errors);
        let found: Vec<String> = errors.into_vec().iter().map(|error| error.detail.clone()).collect();
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn an_expression_is_about_a_device_and_true_or_false() {
        check("device.driver == 'gpu.test' && device.attributes['gpu.test'].model == 'x1'", &[]);
        check("device.capacity['gpu.test'].memory.compareTo(quantity('8Gi')) >= 0", &[]);
        check("device.attributes['gpu.test'].fast", &[]);
        check("1", &["must evaluate to bool or the unknown type, not int"]);
        let unknown = "compilation failed: ERROR: <input>:1:1: undeclared reference to 'gadget' (in container '')\n | \
                       gadget.driver == 'x'\n | ^";
        check("gadget.driver == 'x'", &[unknown]);
        let sum = "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, \
                   device.attributes.all(e, a + b + c + d + e != '')))))";
        check(sum, &["too complex, exceeds cost limit"]);
    }
}
