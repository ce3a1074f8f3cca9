//! Old values that correspond to new ones.

use std::collections::HashMap;
use std::sync::Arc;

use crate::Value;
use crate::meta::go_text;
use crate::schema::{ListType, Schema, Shape};

/// The old value of a place, and the schema that tells how its items correspond to new ones.
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
    let parts = keys.iter().map(|k| item.get(k).map_or_else(String::new, go_text::json));
    parts.collect::<Vec<_>>().join("\0")
}

impl<'a> Old<'a> {
    /// The old member of an object.
    pub(super) fn member<'s>(self, name: &str, schema: &'s Schema) -> Option<Old<'s>>
    where
        'a: 's,
    {
        Some(Old { value: self.value.get(name)?, schema })
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
                let by_key: HashMap<String, &Value> = old.iter().map(|item| (key_of(item, keys), item)).collect();
                new.iter().map(|item| by_key.get(&key_of(item, keys)).copied()).collect()
            }
            ListType::Set | ListType::Atomic => Vec::new(),
        };
        OldItems { items, schema }
    }

    /// Whether the new value is the old one; lists with keys may have another order.
    pub(super) fn equals(self, new: &Value) -> bool {
        match (self.value, new) {
            (Value::Object(old), Value::Object(members)) => {
                old.shares(members)
                    || (old.len() == members.len()
                        && members.iter().all(|(name, value)| match (old.get(name), self.child(name)) {
                            (Some(old), Some(schema)) => Old { value: old, schema }.equals(value),
                            (Some(old), None) => old == value,
                            (None, _) => false,
                        }))
            }
            (Value::Array(old), Value::Array(new)) => {
                Arc::ptr_eq(old, new)
                    || (old.len() == new.len() && {
                        let items = self.items(new);
                        let keyed = matches!(self.schema.list_type, ListType::Map(_));
                        if keyed {
                            new.iter().enumerate().all(|(i, v)| items.get(i).is_some_and(|old| old.equals(v)))
                        } else {
                            old == new
                        }
                    })
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
