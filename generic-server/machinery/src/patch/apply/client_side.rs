//! Objects that `kubectl apply` kept before, on the client's side: the annotation with the configuration last applied.

use super::compare::compare;
use super::field_set::FieldSet;
use super::of_value::field_set;
use super::types::Type;
use super::validate::validate;
use crate::Value;
use crate::json;
use crate::schema::Schema;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The most that all annotations of an object may hold.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// The fields that client-side apply set and that still have its values: kubectl may take them over. None if there is no
/// annotation, or one that does not fit.
pub(super) fn owned(live: &Value, schema: &Schema, version: &str) -> Option<FieldSet> {
    let text = live.str_at(&["metadata", "annotations", ANNOTATION]).filter(|t| !t.is_empty())?;
    let last = json::decode(text.as_bytes()).ok()?;
    if last.str_at(&["apiVersion"]) != Some(version) {
        return None;
    }
    let ty = Type::root(schema);
    validate(&last, ty, false).ok()?;
    let found = compare(&last, live, ty).ok()?;
    let set = field_set(&last, ty);
    Some(set.difference(&found.modified).difference(&found.added).difference(&found.removed))
}

/// Keeps the annotation, if there is one, at what is applied now, so that client-side apply can take over again.
pub(super) fn synced(mut object: Value, config: &Value) -> Value {
    let path = ["metadata", "annotations", ANNOTATION];
    if object.str_at(&path).is_none_or(str::is_empty) {
        return object;
    }
    let mut applied = config.clone();
    applied.remove_at(&path);
    if applied.at(&["metadata", "annotations"]).is_some_and(|a| a.as_object().is_none_or(crate::Map::is_empty)) {
        applied.remove_at(&["metadata", "annotations"]);
    }
    let mut text = json::encode(&applied);
    text.push(b'\n');
    let text = String::from_utf8(text).expect("JSON is UTF-8");
    object.set(&path, text);
    let annotations = object.at(&["metadata", "annotations"]).and_then(Value::as_object);
    let size: usize = annotations.into_iter().flatten().map(|(k, v)| k.len() + v.as_str().map_or(0, str::len)).sum();
    if size > MAX_ANNOTATIONS {
        object.remove_at(&path);
    }
    object
}
