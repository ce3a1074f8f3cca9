//! Old values that correspond to new ones.

use std::collections::HashMap;

use crate::Value;
use crate::schema::{ListType, Schema, Shape};

/// The old value of a place, and the schema that tells how its parts correspond to new ones: the one outside of `allOf` and
/// the like, which alone has list types.
#[derive(Clone, Copy)]
pub(super) struct Old<'a> {
    pub(super) value: &'a Value,
    pub(super) schema: &'a Schema,
}

/// The old items that correspond to the new items of a list.
pub(super) struct OldItems<'a> {
    items: Vec<Option<&'a Value>>,
    schema: Option<&'a Schema>,
}

impl<'a> OldItems<'a> {
    pub(super) fn get(&self, index: usize) -> Option<Old<'a>> {
        let value = (*self.items.get(index)?)?;
        Some(Old { value, schema: self.schema? })
    }
}

/// The text by which an item of a map list is known.
fn key_of(item: &Value, keys: &[crate::Str]) -> String {
    let parts = keys.iter().map(|k| item.get(k).map_or_else(String::new, crate::json::encode_text));
    parts.collect::<Vec<_>>().join("\0")
}

impl<'a> Old<'a> {
    /// The old member of an object; a member that is not specified has none.
    pub(super) fn member(self, name: &str) -> Option<Self> {
        Some(Old { value: self.value.get(name)?, schema: self.child(name)? })
    }

    /// The old items that the new ones correspond to: by key; those of other lists are not items of their own.
    pub(super) fn items(self, new: &[Value]) -> OldItems<'a> {
        let schema = match &self.schema.shape {
            Shape::List(items) => Some(&**items),
            _ => None,
        };
        let old = self.value.as_array().unwrap_or_default();
        let items = match &self.schema.list_type {
            ListType::Map(keys) => {
                // Of those with the same key the first one counts.
                let by_key: HashMap<String, &Value> = old.iter().rev().map(|item| (key_of(item, keys), item)).collect();
                new.iter().map(|item| by_key.get(&key_of(item, keys)).copied()).collect()
            }
            ListType::Set | ListType::Atomic => Vec::new(),
        };
        OldItems { items, schema }
    }

    /// Whether the new value is the old one; lists with keys may have another order. An object with members that are not
    /// specified never is: upstream finds no old ones for them.
    pub(super) fn equals(self, new: &Value) -> bool {
        match (self.value, new) {
            (Value::Object(old), Value::Object(members)) => {
                old.len() == members.len()
                    && members.iter().all(|(name, value)| self.member(name).is_some_and(|old| old.equals(value)))
            }
            (Value::Array(old), Value::Array(new)) if matches!(self.schema.list_type, ListType::Map(_)) => {
                let items = self.items(new);
                old.len() == new.len()
                    && new.iter().enumerate().all(|(i, v)| items.get(i).is_some_and(|old| old.equals(v)))
            }
            (old, new) => old == new,
        }
    }

    fn child(self, name: &str) -> Option<&'a Schema> {
        match &self.schema.shape {
            Shape::Object(object) => object.field(name).map(|f| &f.schema).or(object.additional.as_deref()),
            Shape::Map(values) => Some(values),
            _ => None,
        }
    }
}
