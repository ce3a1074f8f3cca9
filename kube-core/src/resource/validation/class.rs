//! Classes of devices.

use generic_server::resource::WriteContext;

use super::{config, list, requests};
use crate::validation::{Errors, Field, is_extended_resource};

/// What is wrong with a class.
pub(in crate::resource) fn class(_cx: &WriteContext<'_>, class: &Field<'_>, errors: &mut Errors) {
    spec(&class.at("spec"), None, errors);
}

/// What is wrong with an update of a class.
pub(in crate::resource) fn class_update(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    spec(&new.at("spec"), Some(&old.at("spec")), errors);
}

fn spec(spec: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    let config = spec.at("config");
    let stored = old.is_some_and(|old| old.at("config").same(&config));
    requests::selectors(&spec.at("selectors"), errors);
    list(&config, config::MOST, |config, errors| config::opaque(&config, stored, errors), errors);
    let name = spec.at("extendedResourceName");
    if name.is_set() && !is_extended_resource(name.text()) {
        name.invalid("must be a valid extended resource name", errors);
    }
}
