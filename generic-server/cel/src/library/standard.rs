//! What the language defines: operators, containers, sizes, text.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use machinery::schema::pattern::Regex;

use super::{A, Library, args};
use crate::syntax::ast::operator;
use crate::types::Type;
use crate::value::{Error, Key, Result, Value, time};

const B: Type = Type::Param("B");

pub(super) fn add(library: &mut Library) {
    library.global(operator::EQUALS, "equals", &[A, A], Type::Bool, |a| args!(a, x, y => Ok(Value::Bool(x.equals(y)))));
    library.global(
        operator::NOT_EQUALS,
        "not_equals",
        &[A, A],
        Type::Bool,
        |a| args!(a, x, y => Ok(Value::Bool(!x.equals(y)))),
    );
    library.global(
        operator::NOT,
        "logical_not",
        &[Type::Bool],
        Type::Bool,
        |a| args!(a, Value::Bool(b) => Ok(Value::Bool(!b))),
    );
    library.global("dyn", "to_dyn", &[A], Type::Dyn, |a| args!(a, x => Ok(x.clone())));
    library.global("type", "type", &[A], Type::Type(Arc::new(A)), |a| args!(a, x => Ok(Value::Type(x.type_of()))));
    order(library);
    arithmetic(library);
    containers(library);
    text(library);
}

fn order(library: &mut Library) {
    use Type::{Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint};
    /// The ends of the overloads' names, and the types.
    const PAIRS: [(&str, Type, Type); 14] = [
        ("bool", Bool, Bool),
        ("int64", Int, Int),
        ("int64_double", Int, Double),
        ("int64_uint64", Int, Uint),
        ("uint64", Uint, Uint),
        ("uint64_double", Uint, Double),
        ("uint64_int64", Uint, Int),
        ("double", Double, Double),
        ("double_int64", Double, Int),
        ("double_uint64", Double, Uint),
        ("string", String, String),
        ("bytes", Bytes, Bytes),
        ("timestamp", Timestamp, Timestamp),
        ("duration", Duration, Duration),
    ];
    fn ordered(args: &[Value], holds: fn(Ordering) -> bool) -> Result {
        args!(args, x, y => match x.compare(y) {
            Some(order) => Ok(Value::Bool(holds(order))),
            None if matches!((x, y), (Value::Double(_), _) | (_, Value::Double(_))) => Ok(Value::Bool(false)),
            None => Err(Error::no_overload()),
        })
    }
    let operators: [(&'static str, &'static str, super::Call); 4] = [
        (operator::LESS, "less", |a| ordered(a, Ordering::is_lt)),
        (operator::LESS_EQUALS, "less_equals", |a| ordered(a, Ordering::is_le)),
        (operator::GREATER, "greater", |a| ordered(a, Ordering::is_gt)),
        (operator::GREATER_EQUALS, "greater_equals", |a| ordered(a, Ordering::is_ge)),
    ];
    for (name, prefix, call) in operators {
        for (suffix, left, right) in PAIRS {
            library.global(name, leaked(format!("{prefix}_{suffix}")), &[left, right], Type::Bool, call);
        }
    }
}

/// A name that is made once, when the library is.
pub(super) fn leaked(name: String) -> &'static str {
    Box::leak(name.into_boxed_str())
}

pub(super) fn overflow() -> Error {
    Error::new("integer overflow")
}

pub(super) fn unsigned_overflow() -> Error {
    Error::new("unsigned integer overflow")
}

fn arithmetic(library: &mut Library) {
    use Type::{Bytes, Double, Duration, Int, String, Timestamp, Uint};
    let mut each = |name, id: &'static str, left: Type, right: Type, result: Type, call| {
        library.global(name, id, &[left, right], result, call);
    };
    each(operator::ADD, "add_int64", Int, Int, Int, plus);
    each(operator::ADD, "add_uint64", Uint, Uint, Uint, plus);
    each(operator::ADD, "add_double", Double, Double, Double, plus);
    each(operator::ADD, "add_string", String, String, String, plus);
    each(operator::ADD, "add_bytes", Bytes, Bytes, Bytes, plus);
    each(operator::ADD, "add_list", Type::list(A), Type::list(A), Type::list(A), plus);
    each(operator::ADD, "add_timestamp_duration", Timestamp, Duration, Timestamp, plus);
    each(operator::ADD, "add_duration_timestamp", Duration, Timestamp, Timestamp, plus);
    each(operator::ADD, "add_duration_duration", Duration, Duration, Duration, plus);
    each(operator::SUBTRACT, "subtract_int64", Int, Int, Int, minus);
    each(operator::SUBTRACT, "subtract_uint64", Uint, Uint, Uint, minus);
    each(operator::SUBTRACT, "subtract_double", Double, Double, Double, minus);
    each(operator::SUBTRACT, "subtract_timestamp_timestamp", Timestamp, Timestamp, Duration, minus);
    each(operator::SUBTRACT, "subtract_timestamp_duration", Timestamp, Duration, Timestamp, minus);
    each(operator::SUBTRACT, "subtract_duration_duration", Duration, Duration, Duration, minus);
    each(operator::MULTIPLY, "multiply_int64", Int, Int, Int, times);
    each(operator::MULTIPLY, "multiply_uint64", Uint, Uint, Uint, times);
    each(operator::MULTIPLY, "multiply_double", Double, Double, Double, times);
    each(operator::DIVIDE, "divide_int64", Int, Int, Int, over);
    each(operator::DIVIDE, "divide_uint64", Uint, Uint, Uint, over);
    each(operator::DIVIDE, "divide_double", Double, Double, Double, over);
    each(operator::MODULO, "modulo_int64", Int, Int, Int, modulo);
    each(operator::MODULO, "modulo_uint64", Uint, Uint, Uint, modulo);
    library.global(operator::NEGATE, "negate_int64", &[Type::Int], Type::Int, negate);
    library.global(operator::NEGATE, "negate_double", &[Type::Double], Type::Double, negate);
}

fn plus(args: &[Value]) -> Result {
    let [left, right] = args else { return Err(Error::no_overload()) };
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => a.checked_add(*b).map(Value::Int).ok_or_else(overflow),
        (Value::Uint(a), Value::Uint(b)) => a.checked_add(*b).map(Value::Uint).ok_or_else(unsigned_overflow),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
        (Value::String(a), Value::String(b)) => Ok(Value::string(format!("{a}{b}"))),
        (Value::Bytes(a), Value::Bytes(b)) => Ok(Value::Bytes(a.iter().chain(b.iter()).copied().collect())),
        (Value::Duration(a), Value::Duration(b)) => a.checked_add(*b).map(Value::Duration).ok_or_else(overflow),
        (Value::Timestamp(t), Value::Duration(d)) | (Value::Duration(d), Value::Timestamp(t)) => {
            time::shifted(*t, i128::from(*d))
        }
        _ => concatenated(left, right),
    }
}

fn concatenated(left: &Value, right: &Value) -> Result {
    if let Value::Data(data) = left
        && let Some(union) = data.union(right)
    {
        return Ok(union);
    }
    match (left.items(), right.items()) {
        (Some(a), Some(b)) => Ok(Value::list(a.chain(b).collect::<Result<_>>()?)),
        _ => Err(Error::no_overload()),
    }
}

fn minus(args: &[Value]) -> Result {
    match args {
        [Value::Int(a), Value::Int(b)] => a.checked_sub(*b).map(Value::Int).ok_or_else(overflow),
        [Value::Uint(a), Value::Uint(b)] => a.checked_sub(*b).map(Value::Uint).ok_or_else(unsigned_overflow),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a - b)),
        [Value::Duration(a), Value::Duration(b)] => a.checked_sub(*b).map(Value::Duration).ok_or_else(overflow),
        [Value::Timestamp(t), Value::Duration(d)] => time::shifted(*t, -i128::from(*d)),
        [Value::Timestamp(a), Value::Timestamp(b)] => {
            i64::try_from(time::nanoseconds(*a) - time::nanoseconds(*b)).map(Value::Duration).map_err(|_| overflow())
        }
        _ => Err(Error::no_overload()),
    }
}

fn times(args: &[Value]) -> Result {
    match args {
        [Value::Int(a), Value::Int(b)] => a.checked_mul(*b).map(Value::Int).ok_or_else(overflow),
        [Value::Uint(a), Value::Uint(b)] => a.checked_mul(*b).map(Value::Uint).ok_or_else(unsigned_overflow),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a * b)),
        _ => Err(Error::no_overload()),
    }
}

fn over(args: &[Value]) -> Result {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err(Error::new("division by zero")),
        [Value::Int(a), Value::Int(b)] => a.checked_div(*b).map(Value::Int).ok_or_else(overflow),
        [Value::Uint(a), Value::Uint(b)] => Ok(Value::Uint(a / b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a / b)),
        _ => Err(Error::no_overload()),
    }
}

fn modulo(args: &[Value]) -> Result {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err(Error::new("modulus by zero")),
        [Value::Int(a), Value::Int(b)] => a.checked_rem(*b).map(Value::Int).ok_or_else(overflow),
        [Value::Uint(a), Value::Uint(b)] => Ok(Value::Uint(a % b)),
        _ => Err(Error::no_overload()),
    }
}

fn negate(args: &[Value]) -> Result {
    match args {
        [Value::Int(a)] => a.checked_neg().map(Value::Int).ok_or_else(overflow),
        [Value::Double(a)] => Ok(Value::Double(-a)),
        _ => Err(Error::no_overload()),
    }
}

fn containers(library: &mut Library) {
    let map = || Type::map(A, B);
    library.global(operator::IN, "in_list", &[A, Type::list(A)], Type::Bool, contains);
    library.global(operator::IN, "in_map", &[A, map()], Type::Bool, contains);
    library.global(operator::INDEX, "index_list", &[Type::list(A), Type::Int], A, index);
    library.global(operator::INDEX, "index_map", &[map(), A], B, index);
    for (id, of) in
        [("size_string", Type::String), ("size_bytes", Type::Bytes), ("size_list", Type::list(A)), ("size_map", map())]
    {
        library.global("size", id, std::slice::from_ref(&of), Type::Int, size);
        library.member("size", leaked(format!("{}_size", &id[5..])), &[of], Type::Int, size);
    }
    library.global(
        "cel.@mapInsert",
        "@mapInsert_map_map",
        &[map(), map()],
        map(),
        |a| args!(a, into, rest => map_insert(into.clone(), std::slice::from_ref(rest))),
    );
    library.global(
        "cel.@mapInsert",
        "@mapInsert_map_key_value",
        &[map(), A, B],
        map(),
        |a| args!(a, into, key, value => map_insert(into.clone(), &[key.clone(), value.clone()])),
    );
}

/// A map with one more entry, given as key and value, or with all the entries of another map. What nobody else holds is not copied.
pub(crate) fn map_insert(into: Value, entry: &[Value]) -> Result {
    let Value::Map(mut map) = into else { return Err(Error::no_overload()) };
    match entry {
        [key, value] => insert(&mut map, Key::of(key)?, value.clone())?,
        [from] => {
            for key in from.keys().ok_or_else(Error::no_overload)? {
                let value = from.entry(&key).ok_or_else(|| Error::no_key(&key))??;
                insert(&mut map, key, value)?;
            }
        }
        _ => return Err(Error::no_overload()),
    }
    Ok(Value::Map(map))
}

fn insert(map: &mut Arc<BTreeMap<Key, Value>>, key: Key, value: Value) -> Result<()> {
    if map.contains_key(&key) {
        return Err(Error::Failed(format!("insert failed: key {key} already exists")));
    }
    Arc::make_mut(map).insert(key, value);
    Ok(())
}

fn contains(args: &[Value]) -> Result {
    let [wanted, within] = args else { return Err(Error::no_overload()) };
    if let Some(mut items) = within.items() {
        let mut failed = None;
        let found = items.any(|item| match item {
            Ok(item) => item.equals(wanted),
            Err(e) => {
                failed = Some(e);
                false
            }
        });
        return match failed {
            Some(e) if !found => Err(e),
            _ => Ok(Value::Bool(found)),
        };
    }
    if within.keys().is_none() {
        return Err(Error::no_overload());
    }
    Ok(Value::Bool(Key::of(wanted).is_ok_and(|key| within.entry(&key).is_some())))
}

/// The number of an item, given as an integer of any kind.
pub(crate) fn position(index: &Value) -> Result<i64> {
    match index {
        Value::Int(i) => Ok(*i),
        Value::Uint(u) => Ok(i64::try_from(*u).unwrap_or(i64::MAX)),
        Value::Double(d) if d.fract() == 0.0 => Ok(*d as i64),
        other => Err(Error::Failed(format!("unsupported index type '{}' in list", other.type_of()))),
    }
}

/// What stands at an index or a key.
pub(crate) fn index(args: &[Value]) -> Result {
    let [of, index] = args else { return Err(Error::no_overload()) };
    if of.items().is_some() {
        let i = position(index)?;
        let item = usize::try_from(i).ok().and_then(|i| of.item(i));
        return item.unwrap_or_else(|| Err(Error::Failed(format!("index out of bounds: {i}"))));
    }
    if of.keys().is_none() {
        return Err(Error::no_overload());
    }
    let key = Key::of(index)?;
    of.entry(&key).unwrap_or_else(|| Err(Error::no_key(&key)))
}

fn size(args: &[Value]) -> Result {
    args!(args, of => match (of.size(), of) {
        (Some(size), _) => Ok(Value::Int(size as i64)),
        (None, Value::Duration(_) | Value::Timestamp(_)) => Err(Error::no_overload()),
        (None, _) => Err(Error::new("no such overload: size")),
    })
}

fn text(library: &mut Library) {
    use Type::{Bool, String};
    library.member(
        "contains",
        "contains_string",
        &[String, String],
        Bool,
        |a| args!(a, Value::String(s), Value::String(part) => Ok(Value::Bool(s.contains(part.as_str())))),
    );
    library.member(
        "startsWith",
        "starts_with_string",
        &[String, String],
        Bool,
        |a| args!(a, Value::String(s), Value::String(start) => Ok(Value::Bool(s.starts_with(start.as_str())))),
    );
    library.member(
        "endsWith",
        "ends_with_string",
        &[String, String],
        Bool,
        |a| args!(a, Value::String(s), Value::String(end) => Ok(Value::Bool(s.ends_with(end.as_str())))),
    );
    library.member("matches", "matches_string", &[String, String], Bool, matches);
    library.global("matches", "matches", &[String, String], Bool, matches);
}

fn matches(args: &[Value]) -> Result {
    args!(args, Value::String(text), Value::String(pattern) => {
        let regex = Regex::new(pattern).map_err(|e| Error::new(e.to_string()))?;
        Ok(Value::Bool(regex.is_match(text)))
    })
}
