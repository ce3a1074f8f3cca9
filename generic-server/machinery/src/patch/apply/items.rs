//! The items of a list, by what identifies them.

use super::element::{key_of, value_key};
use super::types::{Atom, ListAtom, key_default};
use crate::schema::ListType;
use crate::{Str, Value};

/// The serialized path element of an item. Errors are upstream's texts.
pub(super) fn item_key(list: &ListAtom<'_>, index: usize, item: &Value) -> Result<Str, String> {
    match list.list_type {
        ListType::Atomic => Ok(format!("i:{index}").into()),
        ListType::Set => match item {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".into()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".into()),
            scalar => Ok(value_key(scalar)),
        },
        ListType::Map(names) => match item {
            Value::Object(members) => {
                let Atom::Map(map) = list.items.atom(Some(item)) else {
                    return Err("associative list with keys may not have non-map elements".into());
                };
                let mut key: Vec<(&str, Value)> = Vec::with_capacity(names.len());
                // Members that are missing and have no default are not part of the key, unless nothing is left of it.
                for name in names {
                    let value = members.get(name).cloned().or_else(|| key_default(&map, name));
                    key.extend(value.map(|value| (name.as_str(), value)));
                }
                if key.is_empty() {
                    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
                    return Err(format!(
                        "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                         values for any key fields)",
                        quoted.join(" ")
                    ));
                }
                key.sort_unstable_by(|a, b| a.0.cmp(b.0));
                Ok(key_of(key.iter().map(|(k, v)| (*k, v))))
            }
            Value::Null => Err("associative list with keys may not have a null element".into()),
            _ => Err("associative list with keys may not have non-map elements".into()),
        },
    }
}
