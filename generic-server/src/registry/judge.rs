//! What the rules of a kind find about objects by themselves, whoever brings them: a client, or a file of the server's.

use machinery::{
    Value,
    meta::{FieldError, Meta, validation},
    value::Path,
};

use crate::resource::{Resource, WriteContext};

/// What is wrong with a new object: with its metadata, and by the rules of its kind. It is in the row's version, defaulted.
pub fn findings_of_new(row: &Resource, cx: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
    let (strategy, metadata) = (&row.strategy, Path::ROOT.field("metadata"));
    let name_errors = |name: &str, prefix: bool| strategy.name_errors(object, name, prefix);
    let mut errors = validation::validate_object_meta(Meta::of(object), row.namespaced, name_errors, &metadata);
    if row.built_in && strategy.knows_standard_finalizers() {
        errors.extend(validation::validate_kube_finalizers(Meta::of(object), &metadata));
    }
    errors.extend(strategy.validate(cx, object));
    errors
}
