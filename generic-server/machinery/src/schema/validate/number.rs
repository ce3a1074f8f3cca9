//! Numbers: the range of their type and format, `minimum`, `maximum`, `multipleOf`.

use super::Walk;
use super::result::{Fault, Outcome};
use crate::Value;
use crate::meta::{FieldErrorKind, go_text};
use crate::schema::Schema;
use crate::value::Path;

/// Whether a float is an integer, as go-openapi's swag sees it: within 2^53, and nearly so.
pub(super) fn is_whole(f: f64) -> bool {
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    if !f.is_finite() || f.abs() > LARGEST {
        return false;
    }
    let whole = f.trunc();
    f == whole || (f - whole).abs() / (f.abs() + whole.abs()) < 1e-9
}

/// Whether a number can be held by a type and format. What upstream holds as a double is an integer if its shortest text
/// reads as one: limits up to 9223372036854774784 do, the next double does not.
fn in_range(number: &Value, type_name: &str, format: &str) -> bool {
    let text = match number {
        Value::Int(i) => i.to_string(),
        Value::Float(f) => f.to_string(),
        _ => return false,
    };
    match (type_name, format) {
        ("integer", "int32") => text.parse::<i32>().is_ok(),
        ("integer", "uint32") => text.parse::<u32>().is_ok(),
        ("integer", "uint64") => text.parse::<u64>().is_ok(),
        ("integer", _) => text.parse::<i64>().is_ok(),
        (_, "float" | "float32") => number.as_f64().is_some_and(|f| f.abs() <= f64::from(f32::MAX)),
        _ => true,
    }
}

pub(super) fn check(walk: &Walk<'_>, schema: &Schema, value: &Value, path: &Path<'_>) -> Outcome {
    let validation = schema.validation.as_deref();
    let format = validation.and_then(|v| v.format.as_deref()).unwrap_or_default();
    let type_name = match walk.allowed(schema) {
        [one] => *one,
        _ => "",
    };
    let range = |number: &Value, prefix: &str| {
        let kind = if format.is_empty() { "(default format)".to_owned() } else { format!("with format {format}") };
        (!in_range(number, type_name, format))
            .then(|| walk.plain(format!("{prefix} value must be of type {type_name} {kind} in {path}")))
    };
    let mut outcome = Outcome::default();
    if let Some(fault) = range(value, "Checked") {
        outcome.add(fault);
    }
    if let Some(validation) = validation {
        let invalid = |what: String| walk.fault(FieldErrorKind::Invalid, path, value.clone(), &what);
        // A limit that the type cannot hold is an error of its own, and then compared as a float.
        let mut limited = |limit: Option<f64>, prefix: &str, broken: &dyn Fn(f64, bool) -> Option<String>| {
            let Some(limit) = limit else { return };
            let misfit = range(&Value::Float(limit), prefix);
            let native = misfit.is_none() && matches!(value, Value::Int(_));
            let faults: [Option<Fault>; 2] = [misfit, broken(limit, native).map(invalid)];
            faults.into_iter().flatten().for_each(|f| outcome.add(f));
        };
        limited(validation.multiple_of, "MultipleOf", &|factor, native| multiple_of(value, factor, native));
        limited(validation.minimum, "Minimum boundary", &|min, native| {
            let exclusive = validation.exclusive_minimum;
            let words = if exclusive { "greater than" } else { "greater than or equal to" };
            let (below, equal) = compare(min, value, native);
            (below || exclusive && equal).then(|| format!("should be {words} {}", limit_text(min, native)))
        });
        limited(validation.maximum, "Maximum boundary", &|max, native| {
            let exclusive = validation.exclusive_maximum;
            let words = if exclusive { "less than" } else { "less than or equal to" };
            let (below, equal) = compare(max, value, native);
            (!below && !equal || exclusive && equal).then(|| format!("should be {words} {}", limit_text(max, native)))
        });
    }
    outcome.matched();
    outcome
}

/// Whether the value is below the limit, and whether it equals it. Integers are compared with the limit's whole part.
fn compare(limit: f64, value: &Value, native: bool) -> (bool, bool) {
    match value {
        Value::Int(i) if native => (*i < whole(limit), *i == whole(limit)),
        _ => {
            let value = value.as_f64().unwrap_or(0.0);
            (value < limit, value == limit)
        }
    }
}

/// The whole part of a float, or what Go's processors make of one that no integer holds: the least of them.
fn whole(f: f64) -> i64 {
    let holds = (i64::MIN as f64..i64::MAX as f64).contains(&f);
    if holds { f as i64 } else { i64::MIN }
}

fn limit_text(limit: f64, native: bool) -> String {
    if native { whole(limit).to_string() } else { go_text::float(limit) }
}

fn multiple_of(value: &Value, factor: f64, native: bool) -> Option<String> {
    let whole = match value {
        // Differs: for integers upstream divides by the factor's whole part, and fails where that is zero.
        Value::Int(i) if native && factor.trunc() != 0.0 => i.checked_rem(whole(factor)) == Some(0),
        _ => {
            let number = value.as_f64().unwrap_or(0.0);
            is_whole(if factor < 1.0 { 1.0 / factor * number } else { number / factor })
        }
    };
    let native = native && factor.trunc() != 0.0;
    (!whole).then(|| format!("should be a multiple of {}", limit_text(factor, native)))
}
