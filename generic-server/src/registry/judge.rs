//! What the rules of a kind find about objects by themselves, whoever brings them: a client, or a file of the server's.

use machinery::{
    Value,
    meta::{FieldError, Meta, validation},
    value::Path,
};

use crate::resource::{Resource, WriteContext};

/// What is wrong with a new object: with its metadata, and by the rules of its kind. It is in the row's version, defaulted.
pub fn findings_of_new(row: &Resource, cx: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
    let strategy = &row.strategy;
    if strategy.traits().judges_metadata_last {
        let errors = strategy.validate(cx, object);
        return if errors.is_empty() { findings_in_metadata(row, object) } else { errors };
    }
    let mut errors = findings_in_metadata(row, object);
    errors.extend(strategy.validate(cx, object));
    errors
}

fn findings_in_metadata(row: &Resource, object: &Value) -> Vec<FieldError> {
    let (strategy, at) = (&row.strategy, Path::ROOT.field("metadata"));
    let name_errors = |name: &str, prefix: bool| strategy.name_errors(object, name, prefix);
    let mut errors = validation::validate_object_meta(Meta::of(object), row.namespaced, name_errors, &at);
    if row.built_in && strategy.traits().knows_standard_finalizers {
        errors.extend(validation::validate_kube_finalizers(Meta::of(object), &at));
    }
    errors
}
