//! The rules of StorageVersionMigrations: what is to be migrated never changes, and what has been done is not undone.

use machinery::{
    Value,
    meta::{names, validation::validate_conditions},
};

use crate::{
    core::pods::validation::internal::shown,
    strategy::{Rules, restore_metadata},
    validation::{Errors, Field, shown_of},
};

/// The rules.
pub(super) const RULES: Rules = Rules::STATUS
    .conditional()
    .status_alone()
    .status_update(|_, new, old| restore_metadata(new, old))
    .validate(|_, migration, errors| resource(migration, errors))
    .validate_update(|_, new, old, errors| {
        resource(new, errors);
        let (spec, before) = (new.at("spec"), old.at("spec"));
        if !spec.same(&before) {
            spec.invalid_as(shown("StorageVersionMigrationSpec", spec.value()), "field is immutable", errors);
        }
    })
    .validate_status(|_, new, old, errors| status(new, old, errors));

fn resource(migration: &Field<'_>, errors: &mut Errors) {
    let spec = migration.at("spec");
    let what = spec.at("resource");
    let (resource, group) = (what.at("resource"), what.at("group"));
    if resource.is_empty() {
        resource.required("resource is required to be set", errors);
    } else {
        whole(&resource, names::dns1035_label, errors);
    }
    if !group.is_empty() {
        whole(&group, names::dns1123_subdomain, errors);
    }
}

/// All that is wrong is told as one.
fn whole(field: &Field<'_>, rule: fn(&str) -> Vec<String>, errors: &mut Errors) {
    let found = rule(field.text());
    if !found.is_empty() {
        field.invalid(found.join(","), errors);
    }
}

fn status(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (status, before) = (new.at("status"), old.at("status"));
    let (revision, was) = (status.at("resourceVersion"), before.at("resourceVersion"));
    if !revision.is_empty() && !is_revision(revision.text()) {
        revision.invalid(format!("resource version is not well formed: {}", revision.text()), errors);
    }
    let conditions = status.at("conditions");
    errors.extend(validate_conditions(conditions.items(), conditions.path()));
    if !was.is_empty() && was.text() != revision.text() {
        revision.invalid_text("field is immutable", errors);
    }
    let is = |status: &Field<'_>, state: &str| {
        let first = |c: &&Value| c.str_at(&["type"]) == Some(state);
        let conditions = status.at("conditions");
        conditions.items().iter().find(first).and_then(|c| c.str_at(&["status"])) == Some("True")
    };
    let shown = || shown_of("apimachinery.pkg.apis.meta.v1.Condition", conditions.value());
    let mut refuse = |why: &str| conditions.invalid_as(shown(), why, errors);
    if is(&status, "Succeeded") && is(&status, "Failed") {
        refuse("Both success and failed conditions cannot be true at the same time");
    }
    for (state, why) in [
        ("Succeeded", "Success condition cannot be set to false once it is true"),
        ("Failed", "Failed condition cannot be set to false once it is true"),
    ] {
        if is(&before, state) && !is(&status, state) {
            refuse(why);
        }
    }
}

/// A number without leading zeros.
fn is_revision(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit())
}
