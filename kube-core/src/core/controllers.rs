//! Replication controllers and pod templates.

use generic_server::resource::WriteContext;
use machinery::{Value, meta::names};

use super::pods;
use super::pods::template::{lasting_template, template, warnings};
use crate::{
    defaults::{is_empty, pointer, within},
    strategy::Rules,
    validation::{Errors, Field, MISMATCH},
};

/// The rules of replication controllers.
pub(super) const REPLICATION_CONTROLLERS: Rules = Rules::WORKLOAD
    .orphans()
    .defaults(replication_controller)
    .names(names::name_is_declared_subdomain)
    .validate(|_, controller, errors| check_controller(controller, None, errors))
    .validate_update(|_, new, old, errors| check_controller(new, Some(old), errors))
    .status_update(|_, new, _| labels(new))
    .validate_status(check_status)
    .warn(warnings);

/// The rules of pod templates.
pub(super) const POD_TEMPLATES: Rules = Rules::COUNTED
    .returns_deleted()
    .counts(&["template"])
    .defaults(|t| within(t, "template", pods::template_defaults))
    .warn(|t, old| pods::warnings::within(t, old, &["template"]))
    .validate(|_, t, errors| template(&t.at("template"), None, errors))
    .validate_update(|_, new, old, errors| template(&new.at("template"), Some(&old.at("template")), errors));

/// The controller and its selector take their labels from the template.
fn labels(controller: &mut Value) {
    let labels = controller.at(&["spec", "template", "metadata", "labels"]).filter(|l| !is_empty(Some(l))).cloned();
    if let Some(labels) = labels {
        if is_empty(controller.at(&["spec", "selector"])) {
            controller.set(&["spec", "selector"], labels.clone());
        }
        if is_empty(controller.at(&["metadata", "labels"])) {
            controller.set(&["metadata", "labels"], labels);
        }
    }
}

fn replication_controller(controller: &mut Value) {
    labels(controller);
    within(controller, "spec", |spec| {
        pointer(spec, "replicas", 1);
        // Zero, the default, is not written.
        if spec.get("minReadySeconds").and_then(Value::as_i64) == Some(0) {
            spec.make_object().remove("minReadySeconds");
        }
        within(spec, "template", pods::template_defaults);
    });
}

fn check_controller(controller: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    let spec = controller.at("spec");
    spec.at("minReadySeconds").non_negative(errors);
    let (selector, pods) = (spec.at("selector"), spec.at("template"));
    selector.is_given(errors);
    spec.at("replicas").non_negative(errors);
    if !pods.is_set() {
        pods.required("", errors);
        return;
    }
    let metadata = pods.at("metadata");
    let labels = metadata.at("labels");
    if selector.keys().any(|key| selector.key(key).value() != labels.key(key).value()) {
        labels.invalid(MISMATCH, errors);
    }
    let old_spec = old.map(|old| old.at("spec"));
    let old_pods = old_spec.as_ref().map(|spec| spec.at("template"));
    lasting_template(&pods, old_pods.as_ref(), "ReplicationController", errors);
}

fn check_status(_cx: &WriteContext<'_>, new: &Field<'_>, _old: &Field<'_>, errors: &mut Errors) {
    let status = new.at("status");
    let counts = ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"];
    status.none_negative(&counts, errors);
    let replicas = status.at("replicas").int_or_zero();
    for count in &counts[1..4] {
        status.at(count).at_most(replicas, "cannot be greater than status.replicas", errors);
    }
    let ready = status.at("readyReplicas").int_or_zero();
    status.at("availableReplicas").at_most(ready, "cannot be greater than readyReplicas", errors);
}
