//! Label selectors.

use machinery::{
    Value,
    meta::selector::{LabelSelector, LabelSelectorRules, validate_label_selector, validate_labels},
};

use super::{Errors, Field, shown_selector};

impl Field<'_> {
    /// The label selector, if there is one, is well formed.
    pub(crate) fn label_selector(&self, errors: &mut Errors) {
        errors.extend(validate_label_selector(self.value(), LabelSelectorRules::default(), self.path()));
    }

    /// The label selector is well formed; values of an old one that was not need not be.
    pub(crate) fn label_selector_as_before(&self, old: Option<&Field<'_>>, errors: &mut Errors) {
        let any_values = old.is_some_and(|old| {
            !validate_label_selector(old.value(), LabelSelectorRules::default(), old.path()).is_empty()
        });
        errors.extend(validate_label_selector(self.value(), LabelSelectorRules { any_values }, self.path()));
    }

    /// Labels, keys and values.
    pub(crate) fn labels(&self, errors: &mut Errors) {
        if let Some(labels) = self.value().as_object() {
            errors.extend(validate_labels(labels, self.path()));
        }
    }

    /// `Invalid value: SELECTOR: detail`
    pub(crate) fn invalid_selector(&self, detail: &str, errors: &mut Errors) {
        self.invalid_as(shown_selector(self.value()), detail, errors);
    }

    /// The label selector is the old one.
    pub(crate) fn immutable_selector(&self, old: &Field<'_>, errors: &mut Errors) {
        if !self.same(old) {
            self.invalid_selector("field is immutable", errors);
        }
    }

    /// Whether the selector is there and selects everything.
    pub(crate) fn selects_everything(&self) -> bool {
        self.is_set() && self.at("matchLabels").is_empty() && self.at("matchExpressions").is_empty()
    }
}

/// Why a template is not the one that a selector finds.
pub(crate) const MISMATCH: &str = "`selector` does not match template `labels`";

/// Whether the label selector finds these labels: none if it cannot be read. An absent one finds nothing.
pub(crate) fn selects(selector: &Value, labels: &Value) -> Option<bool> {
    let selector = LabelSelector::from_value(selector).ok()?;
    Some(selector.matches(labels.as_object()))
}
