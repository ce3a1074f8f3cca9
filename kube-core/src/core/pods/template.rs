//! Validates pod templates of controllers.

use machinery::{Value, meta::names};

use super::{validate_template, warnings::controller as template_warnings};
use crate::validation::{Errors, Field, MISMATCH, selects};

/// The template of pods. `old` is the one that it replaces.
pub(crate) fn template(template: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    validate_template(template, old.map(Field::value), errors);
}

/// The template of a controller that keeps pods running: they restart always, and without a deadline.
pub(crate) fn lasting_template(template: &Field<'_>, old: Option<&Field<'_>>, controller: &str, errors: &mut Errors) {
    self::template(template, old, errors);
    runs_on(template, controller, errors);
}

/// Its pods restart always, and have no deadline.
pub(crate) fn runs_on(template: &Field<'_>, controller: &str, errors: &mut Errors) {
    let spec = template.at("spec");
    spec.at("restartPolicy").one_of(&["Always"], errors);
    if spec.at("activeDeadlineSeconds").is_set() {
        let detail = format!("activeDeadlineSeconds in {controller} is not Supported");
        spec.at("activeDeadlineSeconds").forbidden(detail, errors);
    }
}

/// The label selector finds the template's labels. Answers whether the selector can be read at all.
pub(crate) fn is_selected(template: &Field<'_>, selector: &Field<'_>, errors: &mut Errors) -> bool {
    let metadata = template.at("metadata");
    let labels = metadata.at("labels");
    let found = selects(selector.value(), labels.value());
    if found == Some(false) {
        labels.invalid(MISMATCH, errors);
    }
    found.is_some()
}

/// What authors should know about a controller whose name and template its pods get.
pub(crate) fn warnings(controller: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = named_after(controller, old);
    warnings.extend(template_warnings(controller, old));
    warnings
}

/// What authors should know about a new controller that gives its name to its pods.
pub(crate) fn named_after(controller: &Value, old: Option<&Value>) -> Vec<String> {
    let messages = names::dns1123_label(controller.str_at(&["metadata", "name"]).unwrap_or_default());
    if old.is_some() || messages.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is \
         recommended: [{}]",
        messages.join(" ")
    )]
}
