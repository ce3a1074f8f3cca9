//! Validates v1 Pods, and the pod templates that other kinds hold.
//!
//! A file a topic; `spec.rs` calls them in upstream's order. Rules that upstream made stricter over time let pass what the old
//! object of an update had already ([`Scope::tolerates`]); whether it had is found out only where a rule would refuse.

mod annotations;
mod claim_template;
mod containers;
pub(crate) mod difference;
mod env;
pub(crate) mod internal;
mod mounts;
mod network;
mod paths;
mod probes;
mod projected;
mod resources;
mod scheduling;
pub(super) mod scope;
mod security;
pub(crate) mod signers;
pub(crate) mod sources;
mod spec;
mod status;
mod update;
mod volumes;
mod windows;

use generic_server::resource::WriteContext;
use machinery::{
    Value,
    meta::{Meta, names, selector::validate_labels, validation},
};

use self::scope::Scope;
use crate::validation::{Errors, Field};

#[allow(unused_imports, reason = "rules of other kinds are made of these")]
pub(crate) use self::{
    claim_template::{spec as claim_spec, template_metadata},
    resources::class_overhead,
    scheduling::{node_selector, tolerations},
    update::ephemeral_containers,
};

/// What is wrong with a template of pods. `old` is the template before an update.
pub(crate) fn validate_template(template: &Field<'_>, old: Option<&Value>, errors: &mut Errors) {
    let (metadata, spec) = (template.at("metadata"), template.at("spec"));
    let (labels, annotations) = (metadata.at("labels"), metadata.at("annotations"));
    // Upstream names them on the template itself.
    let (label_place, annotation_place) = (template.at("labels"), template.at("annotations"));
    if let Some(map) = labels.value().as_object() {
        errors.extend(validate_labels(map, label_place.path()));
    }
    let annotations = annotation_place.with(annotations.value());
    if let Some(map) = annotations.value().as_object() {
        errors.extend(validation::validate_annotations(map, annotations.path()));
    }
    let mut scope = Scope::new(spec.value(), old.map(spec::of), None);
    let old_annotations = old.and_then(|old| old.at(&["metadata", "annotations"]));
    annotations::known(&annotations, old_annotations, &scope, errors);
    spec::spec(&spec, &mut scope, errors);
    if !annotations.is_empty() {
        annotations::seccomp_matches(&spec, annotations.value(), errors);
    }
    if !spec.at("ephemeralContainers").is_empty() {
        spec.at("ephemeralContainers").forbidden("ephemeral containers not allowed in pod template", errors);
    }
}

/// What is wrong with a new pod.
pub(super) fn validate(_cx: &WriteContext<'_>, pod: &Field<'_>, errors: &mut Errors) {
    let scope = metadata_and_spec(pod, None, errors);
    spec::only_new_pods(pod, &scope, errors);
}

/// What is wrong with an update of a pod.
pub(super) fn validate_update(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let scope = metadata_and_spec(new, Some(old.value()), errors);
    update::changes(new, old.value(), &scope, errors);
}

/// What is wrong with an update of a pod's status.
pub(super) fn validate_status(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (metadata, value) = (new.at("metadata"), new.value());
    let scope = Scope::new(spec::of(value), Some(spec::of(old.value())), value.get("metadata"));
    update::annotation_changes(&metadata.at("annotations"), old.value(), &scope, errors);
    status::status(new, old.value(), &scope, errors);
}

/// What is wrong with a pod whose subresource is written, but for the change itself.
pub(crate) fn validate_pod(new: &Field<'_>, old: &Value, errors: &mut Errors) {
    let metadata = new.at("metadata");
    let meta = Meta::of(new.value());
    errors.extend(validation::validate_object_meta(meta, true, names::name_is_dns_subdomain, metadata.path()));
    metadata_and_spec(new, Some(old), errors);
}

/// What is wrong with a pod, new or not.
fn metadata_and_spec<'a>(pod: &Field<'a>, old: Option<&'a Value>, errors: &mut Errors) -> Scope<'a> {
    let (metadata, value) = (pod.at("metadata"), pod.value());
    let mut scope = Scope::new(spec::of(value), old.map(spec::of), value.get("metadata"));
    let old_annotations = old.and_then(|old| old.at(&["metadata", "annotations"]));
    annotations::known(&metadata.at("annotations"), old_annotations, &scope, errors);
    let spec_field = pod.at("spec");
    spec::spec(&spec_field, &mut scope, errors);
    spec::only_pods(&spec_field, errors);
    scope
}
