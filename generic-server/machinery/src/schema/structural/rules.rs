//! Validates which of JSON Schema a CRD uses, and that list and map types fit together.

use std::cell::OnceCell;
use std::collections::HashSet;

use super::check::{Faulty, unsupported};
use super::invariants::{flag, list, properties, schema, type_of};
use super::{Tolerance, field_path, internal, keys::Keys, parse};
use crate::Value;
use crate::meta::{BadValue, FieldError};
use crate::value::{Content, Path, Seen};

/// What the surroundings of a node say.
#[derive(Clone, Copy, Default)]
struct Scope {
    root: bool,
    /// Why there may be no defaults here.
    no_defaults: Option<&'static str>,
    /// Inside the metadata of an object.
    in_metadata: bool,
    tolerance: Tolerance,
}

/// What is wrong with a schema and those in it.
pub(super) struct Found {
    pub(super) errors: Vec<FieldError>,
    /// The nodes that the errors are about.
    pub(super) faulty: Faulty,
}

/// Finds what is wrong with a schema and those in it.
pub(super) fn errors(props: &Value, at: &Path<'_>, tolerance: Tolerance) -> Found {
    let mut walk = Walk::default();
    walk.node(props, Scope { root: true, tolerance, ..Scope::default() }, at);
    Found { errors: walk.errors, faulty: Faulty::new(walk.faulty, walk.unknown_maps) }
}

#[derive(Default)]
struct Walk {
    errors: Vec<FieldError>,
    faulty: Vec<String>,
    unknown_maps: Vec<String>,
}

pub(super) const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

const UNSUPPORTED: [&str; 6] = ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];

impl Walk {
    fn node(&mut self, props: &Value, scope: Scope, at: &Path<'_>) {
        let keys = Keys::of(props);
        let mut found = Vec::new();
        standard(props, keys, scope, at, &mut found);
        if keys.any(Keys::RESTRICTING) && flag(props, "uniqueItems") {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            found.push(FieldError::forbidden(at.field("uniqueItems"), detail));
        }
        exclusive(props, at, &mut found);
        let mut is_faulty = !found.is_empty();
        self.errors.append(&mut found);
        self.children(props, keys, Scope { root: false, ..scope }, scope.root, at);
        if keys.any(Keys::EXTENSION) {
            extensions(props, scope, at, &mut found);
            if props.str_at(&[MAP_TYPE]).is_some_and(|map_type| !MAP_TYPES.contains(&map_type)) {
                self.unknown_maps.push(at.to_string());
            }
        }
        is_faulty |= !found.is_empty();
        self.errors.append(&mut found);
        if is_faulty {
            self.faulty.push(at.to_string());
        }
    }

    fn children(&mut self, props: &Value, keys: Keys, scope: Scope, root: bool, at: &Path<'_>) {
        let embedded = root || (keys.any(Keys::EXTENSION) && flag(props, "x-kubernetes-embedded-resource"));
        if let Some(additional) = props.get("additionalProperties") {
            let path = at.field("additionalProperties");
            let mut scope = scope;
            if scope.in_metadata {
                scope.no_defaults = Some("inside additionalProperties applying to object metadata");
            }
            if additional.as_object().is_some() {
                self.node(additional, scope, &path);
            }
        }
        for (name, property) in properties(props) {
            let mut scope = scope;
            let top = match name {
                _ if !embedded => None,
                "metadata" => Some("in top-level metadata"),
                "kind" => Some("in top-level kind"),
                "apiVersion" => Some("in top-level apiVersion"),
                _ => None,
            };
            if top.is_some() {
                scope.in_metadata = true;
                scope.no_defaults = if root { top } else { scope.no_defaults };
            }
            self.node(property, scope, &at.field("properties").key(name));
        }
        if keys.any(Keys::LOGIC) {
            if let Some(not) = schema(props, "not") {
                self.node(not, scope, &at.field("not"));
            }
            for key in ["allOf", "oneOf", "anyOf"] {
                for (i, branch) in list(props, key).iter().enumerate() {
                    self.node(branch, scope, &at.field(key).index(i));
                }
            }
        }
        if keys.any(Keys::FOREIGN) {
            self.named(props, "definitions", scope, at);
        }
        if let Some(items) = schema(props, "items") {
            self.node(items, scope, &at.field("items"));
        }
        for (i, items) in list(props, "items").iter().enumerate() {
            self.node(items, scope, &at.field("items").index(i));
        }
        if keys.any(Keys::FOREIGN) {
            self.named(props, "dependencies", scope, at);
        }
    }

    fn named(&mut self, props: &Value, key: &'static str, scope: Scope, at: &Path<'_>) {
        for (name, props) in props.get(key).and_then(Value::as_object).into_iter().flatten() {
            if props.as_object().is_some() {
                self.node(props, scope, &at.field(key).key(name));
            }
        }
    }
}

/// What Kubernetes has added to JSON Schema.
fn extensions(props: &Value, scope: Scope, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    if props.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        errors.push(FieldError::invalid(
            at.field("x-kubernetes-preserve-unknown-fields"),
            false,
            "must be true or undefined",
        ));
    }
    map_type(props, at, errors);
    list_type(props, !scope.tolerance.atomic_sets, at, errors);
    map_keys(props, at, errors);
    if !scope.tolerance.set_keys {
        keys_are_set(props, at, errors);
    }
    let parsed = OnceCell::new();
    // A path into what is no schema of ours holds.
    let schema = || parsed.get_or_init(|| unsupported(props).is_none().then(|| parse(props)));
    let path_holds = |path: &str| schema().as_ref().is_none_or(|s| field_path::resolve_path(s, path, true).is_ok());
    for (i, rule) in list(props, "x-kubernetes-validations").iter().enumerate() {
        cel_rule(rule, &path_holds, &at.field("x-kubernetes-validations").index(i), errors);
    }
}

/// An object has named members, or any.
fn exclusive(props: &Value, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    let restricted = props.get("additionalProperties").is_some_and(|additional| *additional != Value::Bool(true));
    if restricted && properties(props).next().is_some() {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(at.field("additionalProperties"), detail));
    }
}

fn standard(props: &Value, keys: Keys, scope: Scope, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    let type_name = type_of(props);
    if !scope.tolerance.types && !type_name.is_empty() && !TYPES.contains(&type_name) {
        errors.push(FieldError::not_supported(at.field("type"), type_name, TYPES));
    }
    if let Some(reason) = scope.no_defaults
        && props.get("default").is_some()
    {
        errors.push(FieldError::forbidden(at.field("default"), format!("must not be set {reason}")));
    }
    if keys.any(Keys::FOREIGN) {
        let is_used = |key: &str| match (key, props.get(key)) {
            ("patternProperties" | "definitions", Some(Value::Object(map))) => !map.is_empty(),
            (_, value) => value.is_some(),
        };
        for key in UNSUPPORTED.iter().filter(|key| is_used(key)) {
            errors.push(FieldError::forbidden(at.field(key), format!("{key} is not supported")));
        }
    }
    if type_name == "null" {
        errors.push(FieldError::forbidden(
            at.field("type"),
            "type cannot be set to null, use nullable as an alternative",
        ));
    }
    if !list(props, "items").is_empty() {
        errors.push(FieldError::forbidden(at.field("items"), "items must be a schema object and not an array"));
    }
    if scope.in_metadata && flag(props, "x-kubernetes-embedded-resource") {
        let path = at.field("x-kubernetes-embedded-resource");
        errors.push(FieldError::forbidden(path, "must not be used inside of resource meta"));
    }
}

/// A type that an extension needs.
fn needs_type(props: &Value, wanted: &str, key: &str, at: &Path<'_>) -> Option<FieldError> {
    let detail = format!("must be {wanted} if {key} is specified");
    match type_of(props) {
        found if found == wanted => None,
        "" => Some(FieldError::required(at.field("type"), detail)),
        found => Some(FieldError::invalid(at.field("type"), found, detail)),
    }
}

const MAP_TYPE: &str = "x-kubernetes-map-type";
const MAP_TYPES: [&str; 2] = ["atomic", "granular"];

fn map_type(props: &Value, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    let Some(map_type) = props.str_at(&[MAP_TYPE]) else { return };
    errors.extend(needs_type(props, "object", MAP_TYPE, at));
    if !MAP_TYPES.contains(&map_type) {
        errors.push(FieldError::not_supported(at.field(MAP_TYPE), map_type, MAP_TYPES));
    }
}

/// The extension by which the items of a set are more than one value, and are not told apart as wholes.
pub(super) fn splits(items: &Value) -> Option<&'static str> {
    let (list, map) = ("x-kubernetes-list-type", "x-kubernetes-map-type");
    match type_of(items) {
        "array" if items.str_at(&[list]).is_some_and(|t| t != "atomic") => Some(list),
        "object" if items.str_at(&[map]) != Some("atomic") => Some(map),
        _ => None,
    }
}

fn list_type(props: &Value, atomic_sets: bool, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    const KEY: &str = "x-kubernetes-list-type";
    let Some(list_type) = props.str_at(&[KEY]) else { return };
    let misfit = needs_type(props, "array", KEY, at);
    let items = schema(props, "items").filter(|_| atomic_sets && misfit.is_none() && list_type == "set");
    errors.extend(misfit);
    if let Some((items, key)) = items.and_then(|items| Some((items, splits(items)?))) {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        errors.push(FieldError::invalid(at.field("items").field(key), Value::from(items.str_at(&[KEY])), detail));
    }
    if !matches!(list_type, "atomic" | "set" | "map") {
        errors.push(FieldError::not_supported(at.field(KEY), list_type, ["atomic", "set", "map"]));
    }
}

/// Each of these errors shows all keys, so that many would be much text. Differs: upstream gives them all.
const MAX_KEY_ERRORS: usize = 8;

fn map_keys(props: &Value, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    let list_type = props.str_at(&["x-kubernetes-list-type"]);
    let keys = list(props, "x-kubernetes-list-map-keys");
    if !keys.is_empty() && list_type != Some("map") {
        let (path, detail) =
            (at.field("x-kubernetes-list-type"), "must be map if x-kubernetes-list-map-keys is non-empty");
        errors.push(match list_type {
            None => FieldError::required(path, detail),
            Some(other) => FieldError::invalid(path, other, detail),
        });
    }
    if list_type != Some("map") {
        return;
    }
    let keys_path = at.field("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        errors.push(FieldError::required(keys_path, "must not be empty if x-kubernetes-list-type is map"));
    }
    let items_path = at.field("items");
    let Some(items) = schema(props, "items") else {
        errors.push(match props.get("items") {
            None => FieldError::required(items_path, "must have a schema if x-kubernetes-list-type is map"),
            Some(_) => {
                let shown = BadValue::verbatim(internal::items_text(props));
                FieldError::invalid(
                    items_path,
                    shown,
                    "must only have a single schema if x-kubernetes-list-type is map",
                )
            }
        });
        return;
    };
    if type_of(items) != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(items_path.field("type"), type_of(items), detail));
        return;
    }
    let all_keys = || Value::from(keys.to_vec());
    let mut seen = HashSet::new();
    let found = errors.len();
    for key in keys {
        let name = key.as_str().unwrap_or_default();
        if errors.len() - found > MAX_KEY_ERRORS {
            return;
        }
        match items.at(&["properties", name]) {
            Some(property) if matches!(type_of(property), "array" | "object") => {
                let path = items_path.field("properties");
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(path.key(name).field("type"), type_of(items), detail));
            }
            Some(_) => {}
            None => {
                errors.push(FieldError::invalid(keys_path, all_keys(), "entries must all be names of item properties"))
            }
        }
        if !seen.insert(name) {
            errors.push(FieldError::invalid(keys_path, all_keys(), "must not contain duplicate entries"));
        }
    }
}

/// Items of sets and maps, and the keys of the latter, are always there.
pub(super) fn keys_are_set(props: &Value, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    let Some(items) = schema(props, "items") else { return };
    let Some(list_type @ ("set" | "map")) = props.str_at(&["x-kubernetes-list-type"]) else { return };
    let path = at.field("items");
    if flag(items, "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(path.field("nullable"), detail));
    }
    if list_type != "map" {
        return;
    }
    let required: Seen<Content<'_>> = list(items, "required").iter().map(Content).collect();
    for key in list(props, "x-kubernetes-list-map-keys") {
        let name = key.as_str().unwrap_or_default();
        let Some(property) = items.at(&["properties", name]) else { continue };
        let properties = path.field("properties");
        let path = properties.key(name);
        if !required.contains(Content(key)) && property.get("default").is_none() {
            let detail =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(path.field("default"), detail));
        }
        if flag(property, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(path.field("nullable"), detail));
        }
    }
}

const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// What is wrong with a rule before its expressions are looked at.
fn cel_rule(rule: &Value, path_holds: &dyn Fn(&str) -> bool, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    let text = |key: &str| rule.str_at(&[key]).unwrap_or_default();
    let broken = |text: &str| text.contains(['\n', '\r']);
    let (message, trimmed) = (text("message"), text("message").trim());
    if text("rule").trim().is_empty() {
        errors.push(FieldError::required(at.field("rule"), "rule is not specified"));
    } else if !message.is_empty() && trimmed.is_empty() {
        errors.push(FieldError::invalid(at.field("message"), message, "must be non-empty if specified"));
    } else if broken(trimmed) {
        errors.push(FieldError::invalid(at.field("message"), message, "must not contain line breaks"));
    } else if broken(text("rule").trim()) && trimmed.is_empty() {
        errors
            .push(FieldError::required(at.field("message"), "message must be specified if rule contains line breaks"));
    }
    let expression = text("messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(at.field("messageExpression"), detail));
    }
    if let Some(reason) = rule.str_at(&["reason"]).filter(|r| !REASONS.contains(r)) {
        errors.push(FieldError::not_supported(at.field("reason"), reason, REASONS));
    }
    let path = text("fieldPath");
    if path.is_empty() {
        return;
    }
    let mut invalid = |detail: &str| errors.push(FieldError::invalid(at.field("fieldPath"), path, detail));
    if path.trim().is_empty() {
        invalid("must be non-empty if specified");
    }
    if broken(path) {
        invalid("must not contain line breaks");
    }
    if !path_holds(path) {
        invalid("must be a valid path");
    }
}
