//! The strategy of CustomResourceDefinitions.

use std::collections::HashSet;

use generic_server::resource::{Generation, KindTraits, Strategy, WriteContext};
use machinery::{
    Str, Value,
    meta::field_error::FieldError,
    object,
    patch::apply::ResetFields,
    schema,
    value::{Content, Seen},
};

use super::{
    CLEANUP,
    conditions::{Condition, TERMINATING, set_condition},
    upgrade, validate,
    view::Definition,
};

/// The rules of definitions.
pub(super) struct DefinitionStrategy;

const TRAITS: KindTraits = KindTraits {
    has_status: true,
    generation: Generation::Members(&["spec"]),
    knows_standard_finalizers: false,
    allows_unconditional_update: false,
    marks_deletion: true,
    ..KindTraits::PLAIN
};

impl Strategy for DefinitionStrategy {
    fn traits(&self) -> &KindTraits {
        &TRAITS
    }

    fn default(&self, definition: &mut Value) {
        default_names(definition);
        if definition.at(&["spec", "conversion"]).is_none_or(Value::is_null) {
            definition.set(&["spec", "conversion"], object! { "strategy" => "None" });
        }
        let service = ["spec", "conversion", "webhook", "clientConfig", "service"];
        if let Some(service) = definition.at(&service).filter(|s| s.as_object().is_some())
            && service.get("port").is_none()
        {
            definition.set(&["spec", "conversion", "webhook", "clientConfig", "service", "port"], 443);
        }
        if definition.at(&["status", "storedVersions"]).and_then(Value::as_array).is_none_or(<[_]>::is_empty) {
            note_storage_version(definition);
        }
    }

    fn upgrade(&self, definition: &mut Value) {
        if definition.str_at(&["apiVersion"]) == Some("apiextensions.k8s.io/v1beta1") {
            upgrade::from_v1beta1(definition);
        }
    }

    fn prepare_create(&self, _cx: &WriteContext<'_>, definition: &mut Value) {
        reset_status(definition);
        note_storage_version(definition);
    }

    fn prepare_update(&self, _cx: &WriteContext<'_>, new: &mut Value, old: &Value) {
        match old.get("status") {
            Some(status) => new.set(&["status"], status.clone()),
            None => reset_status(new),
        }
        note_storage_version(new);
    }

    fn prepare_status_update(&self, _cx: &WriteContext<'_>, new: &mut Value, old: &Value) {
        if let Some(spec) = old.get("spec") {
            new.set(&["spec"], spec.clone());
        }
    }

    fn validate(&self, _cx: &WriteContext<'_>, definition: &Value) -> Vec<FieldError> {
        validate::create(definition)
    }

    fn validate_update(&self, _cx: &WriteContext<'_>, new: &Value, old: &Value) -> Vec<FieldError> {
        validate::update(new, old)
    }

    fn validate_status_update(&self, _cx: &WriteContext<'_>, new: &Value, _old: &Value) -> Vec<FieldError> {
        validate::status(new)
    }

    fn warnings_on_create(&self, definition: &Value) -> Vec<String> {
        unknown_formats(definition).into_iter().map(|f| format!("unrecognized format {f:?}")).collect()
    }

    fn warnings_on_update(&self, new: &Value, old: &Value) -> Vec<String> {
        let known: HashSet<Str> = unknown_formats(old).into_iter().collect();
        let new = unknown_formats(new).into_iter().filter(|f| !known.contains(f));
        new.map(|f| format!("unrecognized format {f:?}")).collect()
    }

    fn reset_fields(&self, _version: &str, subresource: &str) -> ResetFields {
        match subresource {
            // An update of the status may change the metadata.
            "status" => ResetFields::exclude(&[&["spec"]]),
            _ => ResetFields::exclude(&[&["status"]]),
        }
    }

    fn name_errors(&self, definition: &Value, name: &str, prefix: bool) -> Vec<String> {
        validate::name(definition, name, prefix)
    }

    fn mark_deletion(&self, definition: &mut Value) {
        if definition.at(&["metadata", "deletionGracePeriodSeconds"]).is_some() {
            return; // a second DELETE marks nothing more
        }
        let finalizers = definition.at_mut(&["metadata", "finalizers"]);
        if finalizers.as_array().is_none() {
            *finalizers = Value::from(Vec::<Value>::new());
        }
        let list = finalizers.as_array_mut().expect("made a list above");
        if !list.iter().any(|f| f.as_str() == Some(CLEANUP)) {
            list.push(CLEANUP.into());
        }
        let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        set_condition(definition, &Condition::new(TERMINATING, true, "InstanceDeletionPending", message));
    }
}

/// Names that follow from the kind.
fn default_names(definition: &mut Value) {
    let kind = definition.str_at(&["spec", "names", "kind"]).unwrap_or_default().to_owned();
    let missing = |key: &str| definition.str_at(&["spec", "names", key]).unwrap_or_default().is_empty();
    let (singular, list_kind) = (missing("singular"), missing("listKind"));
    if kind.is_empty() {
        return;
    }
    if singular {
        definition.set(&["spec", "names", "singular"], kind.to_lowercase());
    }
    if list_kind {
        definition.set(&["spec", "names", "listKind"], format!("{kind}List"));
    }
}

/// A status that says nothing.
fn reset_status(definition: &mut Value) {
    let names = object! { "plural" => "", "kind" => "" };
    let status = object! { "conditions" => Value::Null, "acceptedNames" => names, "storedVersions" => Value::Null };
    definition.set(&["status"], status);
}

/// Objects may from now on be stored in the storage version.
fn note_storage_version(definition: &mut Value) {
    let Some(name) = Definition(definition).storage_version().map(|v| v.name()) else { return };
    let stored: Vec<Str> = definition
        .at(&["status", "storedVersions"])
        .and_then(Value::as_array)
        .unwrap_or_default()
        .iter()
        .filter_map(|v| v.as_shared_str().cloned())
        .collect();
    if !stored.contains(&name) {
        let all: Vec<Str> = stored.into_iter().chain([name]).collect();
        definition.set(&["status", "storedVersions"], all);
    }
}

/// Formats in the schemas that mean nothing, in the order of a walk through them. Versions with the same schema say it once.
fn unknown_formats(definition: &Value) -> Vec<Str> {
    let mut found = Vec::new();
    let mut seen = Seen::default();
    for version in Definition(definition).versions() {
        let Some(schema) = version.schema() else { continue };
        if seen.insert(Content(schema)) {
            formats(schema, &mut found);
        }
    }
    found
}

fn formats(props: &Value, found: &mut Vec<Str>) {
    let format = props.get("format").and_then(Value::as_shared_str);
    if let Some(format) = format.filter(|f| !f.is_empty() && !schema::is_known_format(f)) {
        found.push(format.clone());
    }
    let one = |key: &str| props.get(key).filter(|v| v.as_object().is_some());
    let list = |key: &str| props.get(key).and_then(Value::as_array).unwrap_or_default();
    for key in ["items", "additionalProperties", "not"] {
        one(key).into_iter().for_each(|schema| formats(schema, found));
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        list(key).iter().for_each(|schema| formats(schema, found));
    }
    let properties = props.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().for_each(|(_, schema)| formats(schema, found));
}
