//! Fields taken out of an object.

use super::element::field_key;
use super::field_set::{FieldSet, has_children, is_member};
use super::items::item_key;
use super::types::{Atom, ListAtom, MapAtom, Type};
use crate::schema::ListType;
use crate::{Map, Value};

/// The object without the fields of a set. Objects and lists that lose what is in them stay, empty.
pub(super) fn remove(value: &Value, fields: &FieldSet, ty: Type<'_>) -> Value {
    if fields.is_empty() { value.clone() } else { remove_value(value, &fields.0, ty) }
}

fn remove_value(value: &Value, fields: &Map, ty: Type<'_>) -> Value {
    match (ty.atom(Some(value)), value) {
        (Atom::List(list), Value::Array(items)) if *list.list_type != ListType::Atomic => {
            remove_items(items, fields, &list)
        }
        (Atom::Map(map), Value::Object(members)) if !map.atomic => remove_members(members, fields, &map),
        // Fields below one value: it goes as one.
        (Atom::List(_), Value::Array(_)) => Value::Array(Default::default()),
        (Atom::Map(_), Value::Object(_)) => Value::object(),
        _ => value.clone(),
    }
}

fn remove_items(items: &[Value], fields: &Map, list: &ListAtom<'_>) -> Value {
    let mut left = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let node = item_key(list, i, item).ok().and_then(|key| fields.get(&key)).and_then(Value::as_object);
        match node {
            Some(node) if is_member(node) => {}
            Some(node) if has_children(node) => left.push(remove_value(item, node, list.items)),
            _ => left.push(item.clone()),
        }
    }
    left.into_iter().collect()
}

fn remove_members(members: &Map, fields: &Map, map: &MapAtom<'_>) -> Value {
    let mut left = members.clone();
    for (name, value) in members {
        let Some(Value::Object(node)) = fields.get(&field_key(name)) else { continue };
        if is_member(node) {
            left.remove(name);
        } else if has_children(node)
            && let Some((ty, _)) = map.member(name)
        {
            *left.entry(name) = remove_value(value, node, ty);
        }
    }
    Value::Object(left)
}
