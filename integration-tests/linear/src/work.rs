//! What a write does with a document, without its waiting: decoding, defaulting, conversion, rules of creations and of
//! updates, warnings, fields' managers, patches, and the answer in all encodings.

use auth::User;
use generic_server::{
    features::Features,
    handlers::conform,
    resource::{Converter, Resource, WriteContext},
    response,
};
use machinery::{
    Value,
    codec::{json, protobuf, yaml},
    meta::{
        FieldError, GroupKind, GvkRef, Meta, Status,
        validation::{validate_common_update, validate_kube_finalizers, validate_object_meta},
    },
    patch::{apply, merge, strategic},
    schema::{self, Schema},
    value::Path,
};

/// Handles a document of a row as a creation, as updates (of one that is a little different, and of the one of `before`),
/// as patches, and shows it.
pub fn write(row: &Resource, text: &[u8], before: &[u8]) {
    let kind = row.gvk();
    let Ok((sent, _)) = json::decode_strict(text) else { return };
    if row.built_in {
        // Only what is odd is looked for in the text.
        drop(json::strict_findings(text, &*row.schema));
    }
    let mut problems = Vec::new();
    let Ok(object) = conform(row, kind, sent.clone(), &mut problems) else { return };
    drop(response::add_warnings(response::page_not_found(), &problems));
    let before = json::decode(before).ok().and_then(|before| conform(row, kind, before, &mut problems).ok());
    let mut other = object.clone();
    other.set(&["metadata", "labels", "more"], "x");
    other.set(&["metadata", "resourceVersion"], "1");
    let reset = row.strategy.reset_fields(&row.version, "");
    managed((&row.schema, kind, &reset), &sent, &object, before.as_ref().unwrap_or(&other));
    let stored = |object: &Value| match &row.conversion {
        Some(Converter::Rule(rule)) => rule.to_storage(object.clone()),
        _ => object.clone(),
    };
    let old: Vec<Value> = [Some(object.clone()), before].iter().flatten().map(stored).collect();
    judged(row, &stored(&other), &old);
    shown(row, &object);
}

/// Handles a custom resource with a schema as a creation and as an update.
pub fn custom(schema: &Schema, text: &[u8], before: &[u8]) {
    let read = |text: &[u8]| {
        let (mut value, _) = json::decode_strict(text).ok()?;
        drop(schema::read_custom(schema, &mut value));
        schema::apply_defaults(schema, &mut value);
        Some(value)
    };
    let (Some(new), Some(old)) = (read(text), read(before)) else { return };
    let errors = schema::validate(schema, &new, &Path::ROOT);
    let lists = schema::validate_lists(schema, &new, &Path::ROOT);
    drop(Status::invalid(&GroupKind::new("example.com", "One"), "one", errors.into_iter().chain(lists).collect()));
    drop(schema::validate_update(schema, &old, &new, &Path::ROOT));
    drop(schema::validate_update(schema, &new, &new.clone(), &Path::ROOT));
    managed((schema, GvkRef::new("example.com", "v1", "One"), &apply::ResetFields::None), &new, &new, &old);
}

/// The rules of a kind, for all of its writes.
fn judged(row: &Resource, new: &Value, before: &[Value]) {
    let (user, features) = (User::default(), Features::default());
    let strategy = &row.strategy;
    let cx = |subresource| WriteContext {
        group: &row.group,
        version: &row.version,
        namespace: if row.namespaced { "default" } else { "" },
        subresource,
        user: &user,
        features: &features,
    };
    let metadata = Path::ROOT.field("metadata");
    let mut errors = validate_object_meta(Meta::of(new), row.namespaced, strategy.traits().names, &metadata);
    errors.extend(validate_kube_finalizers(Meta::of(new), &metadata));
    let mut made = new.clone();
    strategy.prepare_create(&cx(""), &mut made);
    errors.extend(strategy.validate(&cx(""), &made));
    refused(row, errors);
    drop(strategy.early_warnings(&made));
    drop(strategy.warnings_on_create(&made));
    let going = before.iter().cloned().map(|mut old| {
        old.set(&["metadata", "deletionTimestamp"], "2024-01-01T00:00:00Z");
        old
    });
    for old in &before.iter().cloned().chain(going).collect::<Vec<_>>() {
        let mut changed = new.clone();
        strategy.prepare_update(&cx(""), &mut changed, old);
        let mut errors = validate_common_update(Meta::of(&changed), Meta::of(old), row.namespaced);
        errors.extend(strategy.validate_update(&cx(""), &changed, old));
        refused(row, errors);
        drop(strategy.warnings_on_update(&changed, old));
    }
    for (subresource, old) in row.subresources.iter().flat_map(|s| before.iter().map(move |old| (s, old))) {
        let cx = cx(&subresource.name);
        let mut changed = new.clone();
        if subresource.name == "status" {
            strategy.prepare_status_update(&cx, &mut changed, old);
            refused(row, strategy.validate_status_update(&cx, &changed, old));
        } else {
            strategy.prepare_subresource_update(&cx, &mut changed, old);
            refused(row, strategy.validate_subresource_update(&cx, &changed, old));
        }
    }
}

fn refused(row: &Resource, errors: Vec<FieldError>) {
    let status = Status::invalid(&GroupKind::new(row.group.clone(), row.kind.clone()), "one", errors);
    drop(json::encode(&status.to_value()));
}

/// Who owns which field after a creation, an update and applies, and what patches make of the object.
fn managed(
    (schema, kind, reset): (&Schema, GvkRef<'_>, &apply::ResetFields),
    sent: &Value,
    object: &Value,
    other: &Value,
) {
    let kind = kind.to_owned();
    let write = |manager| apply::Write {
        manager,
        subresource: "",
        kind: &kind,
        now: "2024-01-01T00:00:00Z",
        reset,
        versions: &apply::OneVersion,
    };
    let mut made = object.clone();
    apply::track_update(None, &mut made, schema, &write("maker"));
    let mut changed = other.clone();
    apply::track_update(Some(&made), &mut changed, schema, &write("changer"));
    let mut config = sent.clone();
    config.remove_at(&["metadata", "managedFields"]);
    let applied = apply::apply(Some(&changed), &config, schema, &write("applier"), true).unwrap_or(changed);
    drop(apply::apply(Some(&applied), &config, schema, &write("other"), false));
    // What an applier no longer has goes.
    let mut less = Value::object();
    for member in ["apiVersion", "kind"] {
        less.set(&[member], config.get(member).cloned().unwrap_or_default());
    }
    drop(apply::apply(Some(&applied), &less, schema, &write("applier"), true));
    drop(merge::apply(other, sent));
    if schema.as_object().is_some_and(|object| object.definition.is_some()) {
        drop(strategic::apply(other, sent, schema));
    }
}

/// The object in all its forms.
fn shown(row: &Resource, object: &Value) {
    drop(json::encode_pretty(object));
    let text = yaml::encode(object);
    drop(yaml::decode_strict(&text));
    if let Ok(message) = protobuf::encode(object) {
        drop(protobuf::decode(&message));
    }
    drop(row.printer.cells(object, 0));
    if let Some(Converter::Rule(rule)) = &row.conversion {
        drop(rule.from_storage(object.clone()));
    }
}
