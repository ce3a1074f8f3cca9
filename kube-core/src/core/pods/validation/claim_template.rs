//! Claims to storage, as volumes that live and die with their pod make them.

use machinery::{
    Value,
    meta::{
        BadValue, Quantity, names,
        selector::{LabelSelectorRules, validate_label_selector, validate_labels},
        validation,
    },
};

use crate::validation::{Errors, Field, amount};

/// A claim in the making.
pub(super) fn template(template: &Field<'_>, errors: &mut Errors) {
    let metadata = template.at("metadata");
    template_metadata(&metadata, errors);
    spec(&template.at("spec"), errors);
}

/// What is in metadata besides labels and annotations, in upstream's order: its name in the API, and the one that errors show.
const OTHERS: [(&str, &str); 13] = [
    ("name", "name"),
    ("generateName", "generateName"),
    ("namespace", "namespace"),
    ("selfLink", "selfLink"),
    ("uid", "uID"),
    ("resourceVersion", "resourceVersion"),
    ("generation", "generation"),
    ("creationTimestamp", "creationTimestamp"),
    ("deletionTimestamp", "deletionTimestamp"),
    ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
    ("ownerReferences", "ownerReferences"),
    ("finalizers", "finalizers"),
    ("managedFields", "managedFields"),
];

/// Of the metadata of a template only labels and annotations are used, and nothing else may be there.
pub(crate) fn template_metadata(metadata: &Field<'_>, errors: &mut Errors) {
    let annotations = metadata.at("annotations");
    if let Some(map) = annotations.value().as_object() {
        errors.extend(validation::validate_annotations(map, annotations.path()));
    }
    let labels = metadata.at("labels");
    if let Some(map) = labels.value().as_object() {
        errors.extend(validate_labels(map, labels.path()));
    }
    for (member, shown) in OTHERS {
        let value = metadata.at(member);
        // A generation of zero is none; a grace period of zero is one.
        let is_zero = value.int() == Some(0) && member != "deletionGracePeriodSeconds";
        if value.is_set() && value.value().as_str() != Some("") && !is_zero {
            metadata.at(shown).forbidden("cannot be set", errors);
        }
    }
}

/// What upstream shows in place of a value: a path, which it cannot show.
const PATH: &str = "{}";

/// The ways to mount storage, in order.
const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// What a claim asks for.
pub(crate) fn spec(spec: &Field<'_>, errors: &mut Errors) {
    let modes = spec.at("accessModes");
    if modes.is_empty() {
        modes.required("at least 1 access mode is required", errors);
    }
    let selector = spec.at("selector");
    errors.extend(validate_label_selector(selector.value(), LabelSelectorRules::default(), selector.path()));
    let (mut once_pod, mut others) = (false, false);
    modes.each(|mode| {
        modes.with(mode.value()).one_of(ACCESS_MODES, errors);
        once_pod |= mode.text() == "ReadWriteOncePod";
        others |= mode.text() != "ReadWriteOncePod" && ACCESS_MODES.contains(&mode.text());
    });
    if once_pod && others {
        modes.forbidden("may not use ReadWriteOncePod with other access modes", errors);
    }
    storage(spec, errors);
    spec.at("storageClassName").check_some(names::dns1123_subdomain, errors);
    spec.at("volumeMode").some_one_of(&["Block", "Filesystem"], errors);
    data_sources(spec, errors);
    let class = spec.at("volumeAttributesClassName");
    class.check_some(names::dns1123_subdomain, errors);
}

fn storage(spec: &Field<'_>, errors: &mut Errors) {
    let holder = spec.at("resources");
    let place = holder.key("storage");
    let asked = spec.value().at(&["resources", "requests", "storage"]);
    let Some(quantity) = asked.and_then(|v| Quantity::from_value(v).ok()) else {
        return place.required("", errors);
    };
    if quantity.sign() <= 0 {
        place.invalid_as(quantity.text(), "must be greater than zero", errors);
    } else {
        amount(&place, "storage", &quantity, errors);
    }
}

fn data_sources(spec: &Field<'_>, errors: &mut Errors) {
    let (source, reference) = (spec.at("dataSource"), spec.at("dataSourceRef"));
    for field in [&source, &reference] {
        if field.is_set() {
            data_source(field, errors);
        }
    }
    let namespace = reference.at("namespace");
    if !namespace.is_empty() {
        namespace.check(names::dns1123_label, errors);
        if source.is_set() {
            let detail = "may not be specified when dataSourceRef.namespace is specified";
            spec.invalid_as(BadValue::verbatim(PATH), detail, errors);
        }
    } else if source.is_set() && reference.is_set() {
        let same = |member| {
            let text = |field: &Field<'_>| field.value().get(member).and_then(Value::as_str).map(str::to_owned);
            text(&source) == text(&reference)
        };
        if !["apiGroup", "kind", "name"].into_iter().all(same) {
            spec.invalid_as(BadValue::verbatim(PATH), "must match dataSourceRef", errors);
        }
    }
}

fn data_source(source: &Field<'_>, errors: &mut Errors) {
    source.at("name").is_given(errors);
    source.at("kind").is_given(errors);
    let group = source.at("apiGroup");
    if group.is_empty() && source.at("kind").text() != "PersistentVolumeClaim" {
        source.invalid_as(
            source.at("kind").text(),
            "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
            errors,
        );
    }
    if !group.is_empty() {
        group.check(names::dns1123_subdomain, errors);
    }
}
