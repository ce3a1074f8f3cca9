//! Claims to devices, and templates of them.

use generic_server::resource::WriteContext;
use machinery::{
    Value,
    meta::{field_error::BadValue, go_text},
};

use super::requests;
use crate::{
    core::pods::validation::{internal::shown, template_metadata},
    validation::{Errors, Field},
};

const IMMUTABLE: &str = "field is immutable";

/// What is wrong with a claim.
pub(in crate::resource) fn claim(_cx: &WriteContext<'_>, claim: &Field<'_>, errors: &mut Errors) {
    requests::devices(&claim.at("spec").at("devices"), errors);
}

/// What is wrong with an update of a claim: what is asked for never changes.
pub(in crate::resource) fn claim_update(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let spec = new.at("spec");
    if !spec.same(&old.at("spec")) {
        spec.invalid_as(shown("ResourceClaimSpec", spec.value()), IMMUTABLE, errors);
    }
}

/// What is wrong with a template.
pub(in crate::resource) fn template(_cx: &WriteContext<'_>, template: &Field<'_>, errors: &mut Errors) {
    let spec = template.at("spec");
    template_metadata(&spec.at("metadata"), errors);
    requests::devices(&spec.at("spec").at("devices"), errors);
}

/// What is wrong with an update of a template: it never changes.
pub(in crate::resource) fn template_update(
    _cx: &WriteContext<'_>,
    new: &Field<'_>,
    old: &Field<'_>,
    errors: &mut Errors,
) {
    let spec = new.at("spec");
    if !spec.same(&old.at("spec")) {
        spec.invalid_as(shown_template(spec.value()), IMMUTABLE, errors);
    }
}

/// The members of metadata in upstream's order, those of templates.
const METADATA: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// A template as upstream shows it: what is set of its metadata, by names of the API, stands beside the spec.
fn shown_template(template: &Value) -> BadValue {
    let mut out = String::from("{");
    let metadata = template.get("metadata").unwrap_or(&Value::Null);
    for name in METADATA {
        if let Some(value) = metadata.get(name).filter(|v| !v.is_null()) {
            out.push_str(&format!("{}:{},", go_text::quote(name), go_text::json(value)));
        }
    }
    let spec = shown("ResourceClaimSpec", template.get("spec").unwrap_or(&Value::Null));
    BadValue::verbatim(format!("{out}\"Spec\":{spec}}}"))
}
