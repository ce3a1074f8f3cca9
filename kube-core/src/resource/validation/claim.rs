//! Claims to devices, and templates of them.

use super::requests;
use crate::{
    core::pods::validation::{
        internal::{shown, shown_template},
        template_metadata,
    },
    validation::{Errors, Field},
};
use generic_server::resource::WriteContext;

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
        spec.invalid_as(shown_template("ResourceClaimSpec", spec.value()), IMMUTABLE, errors);
    }
}
