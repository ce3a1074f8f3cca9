//! What makes a schema structural: types everywhere outside of `allOf`, `anyOf`, `oneOf`, `not`, and only restrictions inside.

use super::keys::Keys;
use crate::Value;
use crate::meta::FieldError;
use crate::schema::pattern::Regex;
use crate::value::Path;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// What keeps a schema from being structural, sorted by text.
pub(super) fn errors(props: &Value, at: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    node(props, Level::Root, at, &mut errors);
    restrictions_complete(props, Some(props), at, at, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

pub(super) fn flag(props: &Value, key: &str) -> bool {
    props.get(key).and_then(Value::as_bool).unwrap_or(false)
}

pub(super) fn list<'a>(props: &'a Value, key: &str) -> &'a [Value] {
    props.get(key).and_then(Value::as_array).unwrap_or_default()
}

pub(super) fn type_of(props: &Value) -> &str {
    props.str_at(&["type"]).unwrap_or_default()
}

/// A member that is a schema.
pub(super) fn schema<'a>(props: &'a Value, key: &str) -> Option<&'a Value> {
    props.get(key).filter(|v| v.as_object().is_some())
}

pub(super) fn properties(props: &Value) -> impl Iterator<Item = (&str, &Value)> {
    props.get("properties").and_then(Value::as_object).into_iter().flatten().map(|(k, v)| (k.as_str(), v))
}

fn node(props: &Value, level: Level, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    let items = schema(props, "items");
    if type_of(props) == "array" && items.is_none() {
        errors.push(FieldError::required(at.field("items"), "must be specified"));
    }
    if let Some(items) = items {
        node(items, Level::Item, &at.field("items"), errors);
    }
    for (name, property) in properties(props) {
        node(property, Level::Field, &at.field("properties").key(name), errors);
    }
    if let Some(additional) = props.get("additionalProperties") {
        let path = at.field("additionalProperties");
        if level == Level::Root {
            errors.push(FieldError::forbidden(path, "must not be used at the root"));
        }
        if additional.as_object().is_some() {
            node(additional, Level::Field, &path, errors);
        }
    }
    let keys = Keys::of(props);
    if keys.any(Keys::EXTENSION) {
        extensions(props, at, errors);
    }
    if keys.any(Keys::LOGIC) {
        let either = list(props, "anyOf");
        let within = list(props, "allOf").first().map_or(&[][..], |first| list(first, "anyOf"));
        branches(props, is_int_or_string(either), is_int_or_string(within), at, errors);
    }
    if keys.any(Keys::PATTERN) {
        pattern(props, at, errors);
    }
    if level == Level::Root || keys.any(Keys::EXTENSION) || type_of(props).is_empty() {
        node_type(props, level, at, errors);
        metadata(props, level, at, errors);
    }
}

fn extensions(props: &Value, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    if !flag(props, "x-kubernetes-int-or-string") {
        return;
    }
    for key in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if flag(props, key) {
            errors.push(FieldError::invalid(
                at.field(key),
                true,
                "must be false if x-kubernetes-int-or-string is true",
            ));
        }
    }
}

fn node_type(props: &Value, level: Level, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    let type_name = type_of(props);
    let embedded = flag(props, "x-kubernetes-embedded-resource");
    let preserving = flag(props, "x-kubernetes-preserve-unknown-fields");
    let path = at.field("type");
    if embedded && type_name != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match type_name {
            "" => FieldError::required(path, detail),
            other => FieldError::invalid(path, other, detail),
        });
    } else if type_name.is_empty() && !preserving && !flag(props, "x-kubernetes-int-or-string") {
        let what = match level {
            Level::Root => "at the root",
            Level::Item => "for specified array items",
            Level::Field => "for specified object fields",
        };
        errors.push(FieldError::required(path, format!("must not be empty {what}")));
    }
    if embedded && props.get("additionalProperties").is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(at.field("additionalProperties"), detail));
    }
    if level == Level::Root && !type_name.is_empty() && type_name != "object" {
        errors.push(FieldError::invalid(path, type_name, "must be object at the root"));
    }
}

/// Objects, at the root and embedded, have their metadata's schema from the API.
fn metadata(props: &Value, level: Level, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    let embedded = flag(props, "x-kubernetes-embedded-resource");
    let checked = level == Level::Root || embedded;
    let property = |name: &str| props.at(&["properties", name]);
    let path = at.field("properties");
    for (name, wanted) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        if let Some(property) = property(name).filter(|p| checked && type_of(p) != wanted) {
            errors.push(FieldError::invalid(
                path.key(name).field("type"),
                type_of(property),
                format!("must be {wanted}"),
            ));
        }
    }
    if let Some(metadata) = property("metadata").filter(|m| level == Level::Root && !restricts_names_only(m)) {
        let _ = metadata;
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(path.key("metadata"), detail));
    }
    if embedded && !flag(props, "x-kubernetes-preserve-unknown-fields") && properties(props).next().is_none() {
        let detail =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(path, detail));
    }
}

fn restricts_names_only(metadata: &Value) -> bool {
    let plain = metadata.as_object().into_iter().flatten();
    let plain = plain.map(|(k, _)| k.as_str()).all(|k| matches!(k, "type" | "default" | "properties"));
    plain && properties(metadata).all(|(name, _)| matches!(name, "name" | "generateName"))
}

/// The one place where types may stand in alternatives: `anyOf: [{type: integer}, {type: string}]`.
fn is_int_or_string(alternatives: &[Value]) -> bool {
    let only = |props: &Value, name: &str| props.as_object().is_some_and(|o| o.len() == 1) && type_of(props) == name;
    matches!(alternatives, [a, b] if only(a, "integer") && only(b, "string"))
}

fn branches(props: &Value, skip_any: bool, skip_first_all: bool, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    if !skip_any {
        for (i, branch) in list(props, "anyOf").iter().enumerate() {
            nested(branch, false, &at.field("anyOf").index(i), errors);
        }
    }
    for (i, branch) in list(props, "allOf").iter().enumerate() {
        nested(branch, skip_first_all && i == 0, &at.field("allOf").index(i), errors);
    }
    for (i, branch) in list(props, "oneOf").iter().enumerate() {
        nested(branch, false, &at.field("oneOf").index(i), errors);
    }
    if let Some(not) = schema(props, "not") {
        nested(not, false, &at.field("not"), errors);
    }
}

fn pattern(props: &Value, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    if let Some(pattern) = props.str_at(&["pattern"]).filter(|p| !p.is_empty())
        && let Err(error) = Regex::check(pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(FieldError::invalid(at.field("pattern"), pattern, detail));
    }
}

/// What may not stand in a branch, and what it would have to be.
const FORBIDDEN: [(&str, &str); 12] = [
    ("type", "empty"),
    ("additionalProperties", "undefined"),
    ("default", "undefined"),
    ("title", "empty"),
    ("description", "empty"),
    ("nullable", "false"),
    ("x-kubernetes-preserve-unknown-fields", "false"),
    ("x-kubernetes-embedded-resource", "false"),
    ("x-kubernetes-int-or-string", "false"),
    ("x-kubernetes-list-map-keys", "empty"),
    ("x-kubernetes-list-type", "undefined"),
    ("x-kubernetes-map-type", "undefined"),
];

fn nested(props: &Value, skip_any: bool, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    branches(props, skip_any, false, at, errors);
    pattern(props, at, errors);
    if let Some(items) = schema(props, "items") {
        nested(items, false, &at.field("items"), errors);
    }
    for (name, property) in properties(props) {
        nested(property, false, &at.field("properties").key(name), errors);
    }
    for (key, wanted) in FORBIDDEN.iter().chain([&("x-kubernetes-validations", "empty")]) {
        let written = match props.get(key) {
            None | Some(Value::Null) => false,
            Some(Value::Bool(b)) if *wanted == "false" => *b,
            Some(Value::Array(items)) if *wanted == "empty" => !items.is_empty(),
            Some(_) => true,
        };
        if written {
            errors.push(FieldError::forbidden(at.field(key), format!("must be {wanted} to be structural")));
        }
    }
    if props.at(&["properties", "metadata"]).is_some() {
        errors.push(FieldError::forbidden(
            at.field("properties").key("metadata"),
            "must not be specified in a nested context",
        ));
    }
}

/// What branches mention must be specified outside of them. As upstream, only the root's branches are looked at.
fn restrictions_complete(
    props: &Value,
    specified: Option<&Value>,
    at: &Path<'_>,
    branch: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if let Some(not) = schema(props, "not") {
        nested_complete(not, specified, at, &branch.field("not"), errors);
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for (i, props) in list(props, key).iter().enumerate() {
            nested_complete(props, specified, at, &branch.field(key).index(i), errors);
        }
    }
}

fn nested_complete(
    props: &Value,
    specified: Option<&Value>,
    at: &Path<'_>,
    branch: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let Some(structure) = specified else {
        errors.push(FieldError::required(at, format!("because it is defined in {branch}")));
        return;
    };
    restrictions_complete(props, specified, at, branch, errors);
    if let Some(items) = schema(props, "items") {
        nested_complete(items, schema(structure, "items"), &at.field("items"), &branch.field("items"), errors);
    }
    for (name, property) in properties(props) {
        let (at, branch) = (at.field("properties"), branch.field("properties"));
        nested_complete(property, structure.at(&["properties", name]), &at.key(name), &branch.key(name), errors);
    }
}
