//! What is wrong with runtime classes.

use generic_server::resource::WriteContext;
use machinery::meta::names;

use crate::core::pods::validation::tolerations as check_tolerations;
use crate::validation::{Errors, Field, container_resource_name, resource_amount};

pub(super) fn class(_cx: &WriteContext<'_>, class: &Field<'_>, errors: &mut Errors) {
    class.at("handler").check(names::dns1123_label, errors);
    let overhead = class.at("overhead");
    let fixed = overhead.at("podFixed");
    // Upstream judges them as the limits of a container.
    let limits = fixed.at("limits");
    let limits = limits.with(fixed.value());
    limits.each_key(|name, entry| {
        container_resource_name(&entry, name, errors);
        resource_amount(&entry, name, errors);
    });
    let scheduling = class.at("scheduling");
    scheduling.at("nodeSelector").labels(errors);
    let tolerations = scheduling.at("tolerations");
    check_tolerations(&tolerations, errors);
    for (i, toleration) in tolerations.items().iter().enumerate() {
        if tolerations.items()[..i].contains(toleration) {
            tolerations.index(i).duplicate(errors);
        }
    }
}

pub(super) fn class_update(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    new.at("handler").immutable(&old.at("handler"), errors);
}
