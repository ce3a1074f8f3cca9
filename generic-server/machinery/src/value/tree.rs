//! `Value`: the tree's node.

use std::sync::Arc;

use super::{Map, Str};

/// A JSON value. Cloning is O(1): arrays and objects are shared and copied when one of the owners writes to them.
///
/// Numbers are what Kubernetes reads: an `i64` when the text is an integer that fits, an `f64` otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// `null`
    #[default]
    Null,
    /// `true` or `false`
    Bool(bool),
    /// An integer in the range of `i64`.
    Int(i64),
    /// Any other number; never NaN or infinite when it came from a document.
    Float(f64),
    /// Text.
    String(Str),
    /// A list; shared until written.
    Array(Arc<Vec<Value>>),
    /// An object; shared until written.
    Object(Map),
}

impl Value {
    /// The empty object.
    pub fn object() -> Self {
        Value::Object(Map::new())
    }

    /// The member `key` of an object; `None` for any other value.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_object()?.get(key)
    }

    /// The member `key` for writing; `None` if absent or not an object.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.as_object_mut()?.get_mut(key)
    }

    /// The value at the end of a chain of object members.
    pub fn at(&self, keys: &[&str]) -> Option<&Value> {
        keys.iter().try_fold(self, |v, k| v.get(k))
    }

    /// The text at the end of a chain of object members.
    pub fn str_at(&self, keys: &[&str]) -> Option<&str> {
        self.at(keys)?.as_str()
    }

    /// The value at the end of a chain of members for writing. Members that are missing or not objects become objects.
    pub fn at_mut(&mut self, keys: &[&str]) -> &mut Value {
        let mut v = self;
        for k in keys {
            v = v.make_object().entry(k);
        }
        v
    }

    /// Sets the value at the end of a chain of members; missing members on the way become objects.
    pub fn set(&mut self, keys: &[&str], value: impl Into<Value>) {
        *self.at_mut(keys) = value.into();
    }

    /// Removes the member at the end of a chain and returns it.
    pub fn remove_at(&mut self, keys: &[&str]) -> Option<Value> {
        let (last, parents) = keys.split_last()?;
        self.at(keys)?; // looks before it writes: a miss must not unshare the tree
        let mut v = self;
        for k in parents {
            v = v.get_mut(k)?;
        }
        v.as_object_mut()?.remove(last)
    }

    /// Turns anything else into an empty object, and gives the object for writing.
    pub fn make_object(&mut self) -> &mut Map {
        if !matches!(self, Value::Object(_)) {
            *self = Value::object();
        }
        match self {
            Value::Object(m) => m,
            _ => unreachable!("made an object above"),
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(s) => Some(s),
            _ => None,
        }
    }

    /// The shared text of a string.
    pub fn as_shared_str(&self) -> Option<&Str> {
        match self {
            Value::String(s) => Some(s),
            _ => None,
        }
    }

    /// An integer, also one that is written as a float without a fraction.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Int(i) => Some(*i),
            Value::Float(f) if f.fract() == 0.0 && f.abs() < 9.0e15 => Some(*f as i64),
            _ => None,
        }
    }

    /// Any number, as a float.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Int(i) => Some(*i as f64),
            Value::Float(f) => Some(*f),
            _ => None,
        }
    }

    /// A boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// The items of a list.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(a) => Some(a),
            _ => None,
        }
    }

    /// The items of a list for writing.
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Value>> {
        match self {
            Value::Array(a) => Some(Arc::make_mut(a)),
            _ => None,
        }
    }

    /// The members of an object.
    pub fn as_object(&self) -> Option<&Map> {
        match self {
            Value::Object(m) => Some(m),
            _ => None,
        }
    }

    /// The members of an object for writing.
    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        match self {
            Value::Object(m) => Some(m),
            _ => None,
        }
    }

    /// Whether this is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The JSON Schema name of the value's type: `null boolean integer number string array object`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Int(_) => "integer",
            Value::Float(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        }
    }

    /// Takes the value out and leaves `null`.
    pub fn take(&mut self) -> Value {
        std::mem::take(self)
    }

    /// Equality as equality.Semantic.DeepEqual has it, of decoded values: a member that is null or an empty list is one that is absent.
    /// An empty object is not: below decoded types it is a struct that is there, for maps that are empty have gone. The two values
    /// themselves may also be an empty object and nothing.
    pub fn semantic_eq(&self, other: &Value) -> bool {
        let blank = |v: &Value| is_blank(v) || v.as_object().is_some_and(crate::Map::is_empty);
        (blank(self) && blank(other)) || self.inner_eq(other)
    }

    fn inner_eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Object(a), Value::Object(b)) => {
                a.shares(b)
                    || (a.iter().all(|(k, v)| b.get(k).map_or_else(|| is_blank(v), |w| v.inner_eq(w)))
                        && b.iter().all(|(k, w)| a.contains_key(k) || is_blank(w)))
            }
            (Value::Array(a), Value::Array(b)) => {
                Arc::ptr_eq(a, b) || (a.len() == b.len() && a.iter().zip(b.iter()).all(|(x, y)| x.inner_eq(y)))
            }
            (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => self.as_f64() == other.as_f64(),
            _ => (is_blank(self) && is_blank(other)) || self == other,
        }
    }
}

/// Whether a member is as good as absent.
fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Value::Bool(b)
    }
}
impl From<i64> for Value {
    fn from(i: i64) -> Self {
        Value::Int(i)
    }
}
impl From<i32> for Value {
    fn from(i: i32) -> Self {
        Value::Int(i.into())
    }
}
impl From<f64> for Value {
    fn from(f: f64) -> Self {
        Value::Float(f)
    }
}
impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Value::String(s.into())
    }
}
impl From<String> for Value {
    fn from(s: String) -> Self {
        Value::String(s.into())
    }
}
impl From<Str> for Value {
    fn from(s: Str) -> Self {
        Value::String(s)
    }
}
impl From<&Str> for Value {
    fn from(s: &Str) -> Self {
        Value::String(s.clone())
    }
}
impl From<Map> for Value {
    fn from(m: Map) -> Self {
        Value::Object(m)
    }
}
impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(v: Vec<T>) -> Self {
        Value::Array(Arc::new(v.into_iter().map(Into::into).collect()))
    }
}
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(v: Option<T>) -> Self {
        v.map_or(Value::Null, Into::into)
    }
}
impl FromIterator<Value> for Value {
    fn from_iter<I: IntoIterator<Item = Value>>(iter: I) -> Self {
        Value::Array(Arc::new(iter.into_iter().collect()))
    }
}

/// Builds an object value: `object! { "kind" => "Status", "code" => 404 }`.
#[macro_export]
macro_rules! object {
    ($($key:expr => $value:expr),* $(,)?) => {{
        let entries: ::std::vec::Vec<($crate::Str, $crate::Value)> =
            ::std::vec![$(($crate::Str::from($key), $crate::Value::from($value))),*];
        $crate::Value::Object($crate::Map::from_entries(entries))
    }};
}

/// Builds a list value of anything that turns into values: `array!["a", 1, object! {}]`.
#[macro_export]
macro_rules! array {
    ($($value:expr),* $(,)?) => {
        $crate::Value::Array(::std::sync::Arc::new(::std::vec![$($crate::Value::from($value)),*]))
    };
}
