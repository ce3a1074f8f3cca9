//! JSON texts for the tests of this folder.

use crate::Value;
use crate::codec;

/// The value that a JSON text stands for.
pub(crate) fn json(text: &str) -> Value {
    codec::json::decode(text.as_bytes()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// The compact JSON of a value.
pub(crate) fn text(value: &Value) -> String {
    String::from_utf8(codec::json::encode(value)).expect("JSON is UTF-8")
}
