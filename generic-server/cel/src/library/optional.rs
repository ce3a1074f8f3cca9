//! Values that may be missing (cel-go's optional types).

use super::standard::index;
use super::{Library, args};
use crate::syntax::ast::operator;
use crate::types::Type;
use crate::value::{Error, Key, Result, Value};

const K: Type = Type::Param("K");
const V: Type = Type::Param("V");

pub(super) fn add(library: &mut Library) {
    let optional = || Type::optional(V);
    library.global("optional.of", "optional_of", &[V], optional(), |a| args!(a, v => Ok(Value::some(v.clone()))));
    library.global(
        "optional.ofNonZeroValue",
        "optional_ofNonZeroValue",
        &[V],
        optional(),
        |a| args!(a, v => Ok(if is_zero(v) { Value::none() } else { Value::some(v.clone()) })),
    );
    library.global("optional.none", "optional_none", &[], optional(), |_| Ok(Value::none()));
    library.member("value", "optional_value", &[optional()], V, |a| {
        args!(a, Value::Optional(o) => match o {
            Some(value) => Ok(value.as_ref().clone()),
            None => Err(Error::new("optional.none() dereference")),
        })
    });
    library.member(
        "hasValue",
        "optional_hasValue",
        &[optional()],
        Type::Bool,
        |a| args!(a, Value::Optional(o) => Ok(Value::Bool(o.is_some()))),
    );
    library.member("or", "optional_or_optional", &[optional(), optional()], optional(), |a| {
        args!(a, first, second => Ok(if matches!(first, Value::Optional(Some(_))) { first.clone() } else { second.clone() }))
    });
    library.member(
        "orValue",
        "optional_orValue_value",
        &[optional(), V],
        V,
        |a| args!(a, Value::Optional(o), otherwise => Ok(o.as_deref().unwrap_or(otherwise).clone())),
    );
    indexes(library);
}

fn indexes(library: &mut Library) {
    let list = || Type::list(V);
    let map = || Type::map(K, V);
    let optional = || Type::optional(V);
    let rows: [(&'static str, &'static str, Type, Type); 6] = [
        (operator::OPT_INDEX, "list_optindex_optional_int", list(), Type::Int),
        (operator::OPT_INDEX, "optional_list_optindex_optional_int", Type::optional(list()), Type::Int),
        (operator::OPT_INDEX, "map_optindex_optional_value", map(), K),
        (operator::OPT_INDEX, "optional_map_optindex_optional_value", Type::optional(map()), K),
        (operator::INDEX, "optional_list_index_int", Type::optional(list()), Type::Int),
        (operator::INDEX, "optional_map_index_value", Type::optional(map()), K),
    ];
    for (name, id, of, by) in rows {
        library.global(name, id, &[of, by], optional(), if name == operator::INDEX { strict } else { lenient });
    }
}

/// The index of what an optional holds.
fn strict(args: &[Value]) -> Result {
    args!(args, Value::Optional(of), by => match of {
        Some(of) => Ok(Value::some(index(&[of.as_ref().clone(), by.clone()])?)),
        None => Ok(Value::none()),
    })
}

/// What stands at an index or key, if something does.
pub(crate) fn lenient(args: &[Value]) -> Result {
    let [of, by] = args else { return Err(Error::no_overload()) };
    let of = match of {
        Value::Optional(None) => return Ok(Value::none()),
        Value::Optional(Some(of)) => of.as_ref(),
        plain => plain,
    };
    if of.items().is_some() {
        let i = super::standard::position(by)?;
        let item = usize::try_from(i).ok().and_then(|i| of.item(i));
        return item.map_or_else(|| Ok(Value::none()), |item| item.map(Value::some));
    }
    if of.keys().is_none() {
        return Err(Error::no_overload());
    }
    let entry = Key::of(by).ok().and_then(|key| of.entry(&key));
    entry.map_or_else(|| Ok(Value::none()), |value| value.map(Value::some))
}

/// Whether a value is what a field has that nobody has set.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Int(i) => *i == 0,
        Value::Uint(u) => *u == 0,
        Value::Double(d) => *d == 0.0,
        Value::Duration(d) => *d == 0,
        Value::Timestamp(t) => *t == machinery::meta::Timestamp::ZERO,
        Value::Optional(o) => o.is_none(),
        Value::Type(_) | Value::Opaque(_) => false,
        other => other.size() == Some(0),
    }
}
