//! Functions of lists: Kubernetes' own, and cel-go's lists library.

use std::cmp::Ordering;

use machinery::Str;

use super::standard::leaked;
use super::{A, Library, args};
use crate::types::Type;
use crate::value::{Error, Result, Value};

const T: Type = Type::Param("T");
/// The longest list that `lists.range` makes.
const LONGEST_RANGE: i64 = 1_000_000;

pub(super) fn add(library: &mut Library) {
    let comparable =
        [Type::Int, Type::Uint, Type::Double, Type::Bool, Type::Duration, Type::Timestamp, Type::String, Type::Bytes];
    for of in &comparable {
        let (list, name) = (Type::list(of.clone()), of.to_string());
        let arg = std::slice::from_ref(&list);
        library.member("isSorted", leaked(format!("list_{name}_is_sorted_bool")), arg, Type::Bool, is_sorted);
        library.member("min", leaked(format!("list_{name}_min_{name}")), arg, of.clone(), |a| {
            extreme(a, "min", Ordering::Less)
        });
        library.member("max", leaked(format!("list_{name}_max_{name}")), arg, of.clone(), |a| {
            extreme(a, "max", Ordering::Greater)
        });
        library.member(
            "sort",
            leaked(format!("list_{name}_sort")),
            arg,
            list.clone(),
            |a| args!(a, list => sorted(list, list)),
        );
        let keyed = [Type::list(T), list.clone()];
        let id = leaked(format!("list_{name}_sortByAssociatedKeys"));
        library.member(
            "@sortByAssociatedKeys",
            id,
            &keyed,
            Type::list(T),
            |a| args!(a, list, keys => sorted(list, keys)),
        );
    }
    let sums: [(Type, &'static str, super::Call); 4] = [
        (Type::Int, "list_int_sum_int", |a| sum(a, Value::Int(0))),
        (Type::Uint, "list_uint_sum_uint", |a| sum(a, Value::Uint(0))),
        (Type::Double, "list_double_sum_double", |a| sum(a, Value::Double(0.0))),
        (Type::Duration, "list_duration_sum_duration", |a| sum(a, Value::Duration(0))),
    ];
    for (of, id, call) in sums {
        library.member("sum", id, &[Type::list(of.clone())], of, call);
    }
    library.member("indexOf", "list_a_index_of_int", &[Type::list(A), A], Type::Int, |a| position(a, false));
    library.member("lastIndexOf", "list_a_last_index_of_int", &[Type::list(A), A], Type::Int, |a| position(a, true));
    general(library);
}

fn general(library: &mut Library) {
    let list = || Type::list(T);
    library.member("slice", "list_slice", &[list(), Type::Int, Type::Int], list(), slice);
    library.member("flatten", "list_flatten", &[Type::list(list())], list(), |a| args!(a, list => flatten(list, 1)));
    library.member("flatten", "list_flatten_int", &[Type::list(Type::Dyn), Type::Int], Type::list(Type::Dyn), |a| {
        args!(a, list, Value::Int(depth) => match depth {
            0.. => flatten(list, *depth),
            _ => Err(Error::new("level must be non-negative")),
        })
    });
    library.member("distinct", "list_distinct", &[list()], list(), |a| args!(a, list => distinct(list)));
    library.member("reverse", "list_reverse", &[list()], list(), |a| {
        args!(a, list => {
            let mut items = items(list)?;
            items.reverse();
            Ok(Value::list(items))
        })
    });
    library.member(
        "first",
        "list_first",
        &[list()],
        Type::optional(T),
        |a| args!(a, list => Ok(end(items(list)?.first()))),
    );
    library.member(
        "last",
        "list_last",
        &[list()],
        Type::optional(T),
        |a| args!(a, list => Ok(end(items(list)?.last()))),
    );
    library.global("lists.range", "lists_range", &[Type::Int], Type::list(Type::Int), |a| {
        args!(a, Value::Int(n) => match n {
            ..=LONGEST_RANGE => Ok(Value::list((0..*n).map(Value::Int).collect())),
            _ => Err(Error::Failed(format!("lists.range: {n} exceeds the limit of {LONGEST_RANGE}"))),
        })
    });
}

/// The items of a list.
pub(super) fn items(list: &Value) -> Result<Vec<Value>> {
    list.items().ok_or_else(Error::no_overload)?.collect()
}

fn end(item: Option<&Value>) -> Value {
    item.cloned().map_or_else(Value::none, Value::some)
}

fn order(a: &Value, b: &Value) -> Result<Ordering> {
    a.compare(b).ok_or_else(Error::no_overload)
}

fn is_sorted(args: &[Value]) -> Result {
    args!(args, list => {
        let items = items(list)?;
        for pair in items.windows(2) {
            if order(&pair[0], &pair[1])?.is_gt() {
                return Ok(Value::Bool(false));
            }
        }
        Ok(Value::Bool(true))
    })
}

fn extreme(args: &[Value], name: &str, better: Ordering) -> Result {
    args!(args, list => {
        let mut items = items(list)?.into_iter();
        let mut best = items.next().ok_or_else(|| Error::Failed(format!("{name} called on empty list")))?;
        for item in items {
            if order(&item, &best)? == better {
                best = item;
            }
        }
        Ok(best)
    })
}

fn sum(args: &[Value], zero: Value) -> Result {
    args!(args, list => {
        let plus = super::function("_+_").expect("the sum is a function").overloads[0].call;
        list.items().ok_or_else(Error::no_overload)?.try_fold(zero, |sum, item| plus(&[sum, item?]))
    })
}

fn position(args: &[Value], last: bool) -> Result {
    args!(args, list, wanted => {
        let items = items(list)?;
        let found = if last { items.iter().rposition(|i| i.equals(wanted)) } else { items.iter().position(|i| i.equals(wanted)) };
        Ok(Value::Int(found.map_or(-1, |i| i as i64)))
    })
}

fn slice(args: &[Value]) -> Result {
    args!(args, list, Value::Int(from), Value::Int(to) => {
        let items = items(list)?;
        if *from < 0 || *to < 0 {
            return Err(Error::Failed(format!("cannot slice({from}, {to}), negative indexes not supported")));
        }
        if from > to {
            return Err(Error::Failed(format!("cannot slice({from}, {to}), start index must be less than or equal to end index")));
        }
        match items.get(*from as usize..*to as usize) {
            Some(part) => Ok(Value::list(part.to_vec())),
            None => Err(Error::Failed(format!("cannot slice({from}, {to}), list is length {}", items.len()))),
        }
    })
}

fn flatten(list: &Value, depth: i64) -> Result {
    fn into(flat: &mut Vec<Value>, list: &Value, depth: i64) -> Result<()> {
        for item in list.items().ok_or_else(Error::no_overload)? {
            let item = item?;
            if depth > 0 && item.items().is_some() {
                into(flat, &item, depth - 1)?;
            } else {
                flat.push(item);
            }
        }
        Ok(())
    }
    let mut flat = Vec::new();
    into(&mut flat, list, depth)?;
    Ok(Value::list(flat))
}

/// The items without those that stood there before. Numbers, texts and booleans are looked up; others are compared.
fn distinct(list: &Value) -> Result {
    let mut seen = std::collections::BTreeSet::new();
    let mut others: Vec<Value> = Vec::new();
    let mut kept = Vec::new();
    for item in items(list)? {
        let new = match crate::value::Key::of(&item) {
            Ok(key) => seen.insert(key),
            Err(_) if others.iter().any(|o| o.equals(&item)) => false,
            Err(_) => {
                others.push(item.clone());
                true
            }
        };
        if new {
            kept.push(item);
        }
    }
    Ok(Value::list(kept))
}

fn sorted(list: &Value, keys: &Value) -> Result {
    let (items, keys) = (items(list)?, items(keys)?);
    if items.len() != keys.len() {
        return Err(Error::new("lists must have the same size"));
    }
    let comparable = |v: &Value| !matches!(v, Value::Null | Value::Type(_)) && v.compare(v).is_some();
    if let Some(odd) = keys.iter().find(|k| !comparable(k) || k.type_of() != keys[0].type_of()) {
        return Err(Error::Failed(match comparable(odd) {
            true => "list elements must have the same type".into(),
            false => format!("list elements must be comparable: {}", Str::from(odd.type_of().to_string())),
        }));
    }
    let mut pairs: Vec<(Value, Value)> = keys.into_iter().zip(items).collect();
    pairs.sort_by(|(a, _), (b, _)| a.compare(b).unwrap_or(Ordering::Equal));
    Ok(Value::list(pairs.into_iter().map(|(_, item)| item).collect()))
}
