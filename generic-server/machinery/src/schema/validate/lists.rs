//! `x-kubernetes-list-type` set and map: no item may be there twice.

use std::collections::HashSet;

use crate::meta::FieldError;
use crate::schema::{ListType, Schema, Shape};
use crate::value::Path;
use crate::{Map, Str, Value};

/// What is wrong with the lists of a custom resource that are sets or maps.
pub fn validate_lists(schema: &Schema, value: &Value, at: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, value, at, &mut errors);
    errors
}

fn walk(schema: &Schema, value: &Value, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    if schema.plain {
        return;
    }
    match (&schema.shape, value) {
        (_, Value::Array(array)) => {
            errors.extend(list_errors(&schema.list_type, array, at));
            if let Shape::List(items) = &schema.shape {
                array.iter().enumerate().for_each(|(i, item)| walk(items, item, &at.index(i), errors));
            }
        }
        (Shape::Object(object), Value::Object(members)) => {
            if let Some(values) = &object.additional {
                let others = members.iter().filter(|(name, _)| object.field(name).is_none());
                others.for_each(|(name, value)| walk(values, value, &at.key(name), errors));
            }
            for (name, value) in members {
                if let Some(field) = object.field(name) {
                    walk(&field.schema, value, &at.field(name), errors);
                }
            }
        }
        (Shape::Map(values), Value::Object(members)) => {
            members.iter().for_each(|(name, value)| walk(values, value, &at.key(name), errors));
        }
        _ => {}
    }
}

/// What is wrong with one list.
pub fn list_errors(list_type: &ListType, array: &[Value], at: &Path<'_>) -> Vec<FieldError> {
    match list_type {
        ListType::Atomic => Vec::new(),
        ListType::Set => duplicates(array).into_iter().map(|i| FieldError::duplicate(at.index(i), &array[i])).collect(),
        ListType::Map(keys) => {
            let foreign = array.iter().enumerate().filter(|(_, item)| !matches!(item, Value::Object(_) | Value::Null));
            let errors: Vec<_> = foreign
                .map(|(i, item)| {
                    FieldError::invalid(at.index(i), item, "must be an object for an array of list-type map")
                })
                .collect();
            if !errors.is_empty() {
                return errors;
            }
            let found: Vec<Value> = array.iter().map(|item| key_map(item, keys)).collect();
            duplicates(&found).into_iter().map(|i| FieldError::duplicate(at.index(i), &found[i])).collect()
        }
    }
}

fn key_map(item: &Value, keys: &[Str]) -> Value {
    let members = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
    Value::Object(members.collect::<Map>())
}

/// The indexes of values that stood in the list before.
pub(super) fn duplicates(array: &[Value]) -> Vec<usize> {
    if array.len() < 2 {
        return Vec::new();
    }
    let mut seen = HashSet::with_capacity(array.len());
    let texts = array.iter().map(crate::json::encode).enumerate();
    texts.filter_map(|(i, text)| (!seen.insert(text)).then_some(i)).collect()
}
