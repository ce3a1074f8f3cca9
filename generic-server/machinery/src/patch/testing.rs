//! JSON texts for the tests of this folder.

use crate::{Map, Str, Value};

/// The value that a JSON text stands for.
pub(crate) fn json(text: &str) -> Value {
    from_serde(serde_json::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}")))
}

/// The compact JSON of a value.
pub(crate) fn text(value: &Value) -> String {
    to_serde(value).to_string()
}

fn from_serde(v: serde_json::Value) -> Value {
    match v {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(b) => Value::Bool(b),
        serde_json::Value::Number(n) => {
            n.as_i64().map_or_else(|| Value::Float(n.as_f64().expect("finite")), Value::Int)
        }
        serde_json::Value::String(s) => Value::String(s.into()),
        serde_json::Value::Array(a) => a.into_iter().map(from_serde).collect(),
        serde_json::Value::Object(m) => {
            Value::Object(m.into_iter().map(|(k, v)| (Str::from(k), from_serde(v))).collect::<Map>())
        }
    }
}

fn to_serde(v: &Value) -> serde_json::Value {
    match v {
        Value::Null => serde_json::Value::Null,
        Value::Bool(b) => (*b).into(),
        Value::Int(i) => (*i).into(),
        Value::Float(f) => (*f).into(),
        Value::String(s) => s.as_str().into(),
        Value::Array(a) => a.iter().map(to_serde).collect(),
        Value::Object(m) => m.iter().map(|(k, v)| (k.to_string(), to_serde(v))).collect(),
    }
}
