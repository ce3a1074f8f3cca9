//! Values of expressions.

pub(crate) mod data;
pub(crate) mod time;

use std::any::Any;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use machinery::Str;
use machinery::meta::Timestamp;

use crate::types::Type;
use data::Data;

/// A value. Cloning is cheap.
#[derive(Clone, Debug)]
pub enum Value {
    /// `null`
    Null,
    /// `bool`
    Bool(bool),
    /// `int`
    Int(i64),
    /// `uint`
    Uint(u64),
    /// `double`
    Double(f64),
    /// `string`
    String(Str),
    /// `bytes`
    Bytes(Arc<[u8]>),
    /// A span of time, in nanoseconds.
    Duration(i64),
    /// A point in time.
    Timestamp(Timestamp),
    /// A list that an expression made.
    List(Arc<Vec<Value>>),
    /// A map that an expression made.
    Map(Arc<BTreeMap<Key, Value>>),
    /// A list, map or object that comes from a document.
    Data(Data),
    /// A type.
    Type(Type),
    /// An optional value.
    Optional(Option<Arc<Value>>),
    /// A value of a library's type.
    Opaque(Arc<dyn Opaque>),
    /// A struct that an expression made: its type, its fields by name.
    Struct(Arc<(Str, BTreeMap<Str, Value>)>),
}

/// A value of a library's type.
pub trait Opaque: Any + Send + Sync + fmt::Debug {
    /// The name of its type.
    fn type_name(&self) -> &'static str;

    /// Whether both are the same; the other one may be of another type.
    fn equals(&self, other: &dyn Opaque) -> bool;

    /// The member of that name, if it has one.
    fn member(&self, _name: &str) -> Option<Result> {
        None
    }

    /// How large it is, where that matters for what it costs.
    fn size(&self) -> Option<u64> {
        None
    }
}

/// Why an evaluation failed, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Something does not work with these values.
    #[error("{0}")]
    Failed(String),
    /// It took more than it may.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimit,
}

impl Error {
    /// A failure.
    pub fn new(message: impl Into<String>) -> Self {
        Error::Failed(message.into())
    }

    pub(crate) fn no_overload() -> Self {
        Error::new("no such overload")
    }

    pub(crate) fn no_key(key: impl fmt::Display) -> Self {
        Error::Failed(format!("no such key: {key}"))
    }
}

/// The result of an evaluation.
pub type Result<T = Value, E = Error> = std::result::Result<T, E>;

/// A key of a map. Integers are the same whether they have a sign or not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// `bool`
    Bool(bool),
    /// `int`, and `uint` in its range
    Int(i64),
    /// A larger `uint`.
    Uint(u64),
    /// `string`
    String(Str),
}

impl Key {
    /// The key that a value is.
    pub(crate) fn of(value: &Value) -> Result<Key> {
        Ok(match value {
            Value::Bool(b) => Key::Bool(*b),
            Value::Int(i) => Key::Int(*i),
            Value::Uint(u) => i64::try_from(*u).map_or(Key::Uint(*u), Key::Int),
            Value::Double(d) if d.fract() == 0.0 && d.abs() < 9e15 => Key::Int(*d as i64),
            Value::String(s) => Key::String(s.clone()),
            _ => return Err(Error::new("unsupported key type")),
        })
    }

    pub(crate) fn value(&self) -> Value {
        match self {
            Key::Bool(b) => Value::Bool(*b),
            Key::Int(i) => Value::Int(*i),
            Key::Uint(u) => Value::Uint(*u),
            Key::String(s) => Value::String(s.clone()),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Bool(b) => b.fmt(f),
            Key::Int(i) => i.fmt(f),
            Key::Uint(u) => u.fmt(f),
            Key::String(s) => s.fmt(f),
        }
    }
}

impl Value {
    /// Text.
    pub fn string(text: impl Into<Str>) -> Value {
        Value::String(text.into())
    }

    /// A list.
    pub fn list(items: Vec<Value>) -> Value {
        Value::List(Arc::new(items))
    }

    pub(crate) fn none() -> Value {
        Value::Optional(None)
    }

    pub(crate) fn some(value: Value) -> Value {
        Value::Optional(Some(Arc::new(value)))
    }

    /// The value of a library's type, if it is of that type.
    pub(crate) fn opaque<T: 'static>(&self) -> Option<&T> {
        match self {
            Value::Opaque(value) => (value.as_ref() as &dyn Any).downcast_ref(),
            _ => None,
        }
    }

    /// Its type, as far as the value tells.
    pub fn type_of(&self) -> Type {
        match self {
            Value::Null => Type::Null,
            Value::Bool(_) => Type::Bool,
            Value::Int(_) => Type::Int,
            Value::Uint(_) => Type::Uint,
            Value::Double(_) => Type::Double,
            Value::String(_) => Type::String,
            Value::Bytes(_) => Type::Bytes,
            Value::Duration(_) => Type::Duration,
            Value::Timestamp(_) => Type::Timestamp,
            Value::List(_) => Type::list(Type::Dyn),
            Value::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Value::Data(data) => data.type_of(),
            Value::Type(of) => Type::Type(Arc::new(of.clone())),
            Value::Optional(_) => Type::optional(Type::Dyn),
            Value::Opaque(value) => Type::opaque(value.type_name()),
            Value::Struct(s) => Type::Opaque(s.0.clone(), Arc::from([])),
        }
    }

    /// Whether it can be given where this type is declared; what lists and maps hold is not looked at.
    pub(crate) fn is_a(&self, wanted: &Type) -> bool {
        match wanted {
            Type::Dyn | Type::Param(_) | Type::Var(_) | Type::Error => true,
            Type::Type(_) => matches!(self, Value::Type(_)),
            Type::List(_) => matches!(self, Value::List(_)) || matches!(self, Value::Data(d) if d.is_list()),
            Type::Map(_) => matches!(self, Value::Map(_)) || matches!(self, Value::Data(d) if !d.is_list()),
            Type::Object(_) => matches!(self, Value::Data(d) if !d.is_list()) || matches!(self, Value::Struct(_)),
            Type::Opaque(name, _) => match self {
                Value::Optional(_) => name == crate::types::OPTIONAL,
                Value::Opaque(value) => value.type_name() == name,
                Value::Struct(s) => s.0 == *name,
                _ => false,
            },
            exact => *exact == self.type_of(),
        }
    }

    /// The number of characters, bytes, items or entries; `None` for values that have no size.
    pub(crate) fn size(&self) -> Option<u64> {
        Some(match self {
            Value::String(s) => s.chars().count() as u64,
            Value::Bytes(b) => b.len() as u64,
            Value::List(l) => l.len() as u64,
            Value::Map(m) => m.len() as u64,
            Value::Data(d) => d.len() as u64,
            Value::Opaque(o) => return o.size(),
            _ => return None,
        })
    }

    /// The items of a list.
    pub(crate) fn items(&self) -> Option<Items<'_>> {
        match self {
            Value::List(items) => Some(Items { of: self, at: 0, len: items.len() }),
            Value::Data(data) if data.is_list() => Some(Items { of: self, at: 0, len: data.len() }),
            _ => None,
        }
    }

    /// The item of a list.
    pub(crate) fn item(&self, i: usize) -> Option<Result> {
        match self {
            Value::List(items) => items.get(i).cloned().map(Ok),
            Value::Data(data) => data.item(i),
            _ => None,
        }
    }

    /// The value of a map or object; `None`: it has no such key, or is no map.
    pub(crate) fn entry(&self, key: &Key) -> Option<Result> {
        match (self, key) {
            (Value::Map(map), _) => map.get(key).cloned().map(Ok),
            (Value::Data(data), Key::String(name)) => data.entry(name),
            (Value::Struct(s), Key::String(name)) => s.1.get(name).cloned().map(Ok),
            _ => None,
        }
    }

    /// The keys of a map or object.
    pub(crate) fn keys(&self) -> Option<Vec<Key>> {
        match self {
            Value::Map(map) => Some(map.keys().cloned().collect()),
            Value::Data(data) if !data.is_list() => Some(data.keys().map(Key::String).collect()),
            Value::Struct(s) => Some(s.1.keys().cloned().map(Key::String).collect()),
            _ => None,
        }
    }

    /// Whether both are the same. Numbers are compared as numbers; what cannot be compared differs.
    pub fn equals(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::String(a), Value::String(b)) => a == b,
            (Value::Bytes(a), Value::Bytes(b)) => a == b,
            (Value::Duration(a), Value::Duration(b)) => a == b,
            (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
            (Value::Type(a), Value::Type(b)) => a.same_kind(b),
            (Value::Optional(a), Value::Optional(b)) => match (a, b) {
                (Some(a), Some(b)) => a.equals(b),
                (a, b) => a.is_none() && b.is_none(),
            },
            (Value::Opaque(a), Value::Opaque(b)) => a.equals(b.as_ref()),
            _ => self.equals_container(other).unwrap_or_else(|| self.compare_numbers(other) == Some(Ordering::Equal)),
        }
    }

    fn equals_container(&self, other: &Value) -> Option<bool> {
        if let (Some(a), Some(b)) = (self.items(), other.items()) {
            if let Value::Data(a) = self
                && let Some(same) = a.same_items(other)
            {
                return Some(same);
            }
            let same = a.len == b.len && a.zip(b).all(|(a, b)| matches!((a, b), (Ok(a), Ok(b)) if a.equals(&b)));
            return Some(same);
        }
        let (keys, others) = (self.keys()?, other.keys()?);
        let same = |k: &Key| matches!((self.entry(k), other.entry(k)), (Some(Ok(a)), Some(Ok(b))) if a.equals(&b));
        Some(keys.len() == others.len() && keys.iter().all(same))
    }

    /// The order of two numbers of any kind; `None` if one is none, or not a number.
    pub(crate) fn compare_numbers(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
            (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
            (Value::Int(a), Value::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Value::Uint(a), Value::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
            (Value::Double(a), Value::Int(b)) => compare_double(*a, i128::from(*b)),
            (Value::Double(a), Value::Uint(b)) => compare_double(*a, i128::from(*b)),
            (Value::Int(a), Value::Double(b)) => compare_double(*b, i128::from(*a)).map(Ordering::reverse),
            (Value::Uint(a), Value::Double(b)) => compare_double(*b, i128::from(*a)).map(Ordering::reverse),
            _ => None,
        }
    }

    /// The order of two values of one type that has one.
    pub(crate) fn compare(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
            (Value::Duration(a), Value::Duration(b)) => Some(a.cmp(b)),
            (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
            _ => self.compare_numbers(other),
        }
    }
}

/// A double and an integer: integers beyond a double's precision are told apart.
fn compare_double(double: f64, integer: i128) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    if double.abs() >= 2f64.powi(65) {
        return Some(if double > 0.0 { Ordering::Greater } else { Ordering::Less });
    }
    let whole = double.trunc() as i128;
    Some(whole.cmp(&integer).then(double.fract().partial_cmp(&0.0)?))
}

/// Goes over the items of a list.
pub(crate) struct Items<'a> {
    of: &'a Value,
    at: usize,
    len: usize,
}

impl Iterator for Items<'_> {
    type Item = Result;

    fn next(&mut self) -> Option<Result> {
        let item = self.of.item(self.at)?;
        self.at += 1;
        Some(item)
    }
}
