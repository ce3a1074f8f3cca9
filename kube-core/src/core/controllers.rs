//! Replication controllers and pod templates.

use machinery::Value;

use super::pods;
use crate::{
    defaults::{is_empty, pointer, within},
    strategy::{Rules, TEMPLATE},
};

/// The rules of replication controllers.
pub(super) const REPLICATION_CONTROLLERS: Rules =
    Rules { orphans: true, ..Rules::WORKLOAD.template(TEMPLATE).defaults(replication_controller) };

/// The rules of pod templates.
pub(super) const POD_TEMPLATES: Rules = Rules::COUNTED
    .returns_deleted()
    .counts(&["template"])
    .template(&["template", "spec"])
    .defaults(|t| within(t, "template", pods::template_defaults));

/// The controller and its selector take their labels from the template.
fn replication_controller(controller: &mut Value) {
    let labels = controller.at(&["spec", "template", "metadata", "labels"]).filter(|l| !is_empty(Some(l))).cloned();
    if let Some(labels) = labels {
        if is_empty(controller.at(&["spec", "selector"])) {
            controller.set(&["spec", "selector"], labels.clone());
        }
        if is_empty(controller.at(&["metadata", "labels"])) {
            controller.set(&["metadata", "labels"], labels);
        }
    }
    within(controller, "spec", |spec| {
        pointer(spec, "replicas", 1);
        within(spec, "template", pods::template_defaults);
    });
}
