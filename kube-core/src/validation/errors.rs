//! The list of errors that validation has found.

use generic_server::features::Features;
use machinery::meta::field_error::FieldError;

/// Findings, in the order in which clients see them; and the features that rules on the way depend on.
#[derive(Default)]
pub(crate) struct Errors {
    found: Vec<FieldError>,
    features: Features,
}

impl Errors {
    /// Nothing yet, with these features.
    pub(crate) fn with(features: &Features) -> Self {
        Errors { found: Vec::new(), features: features.clone() }
    }

    /// Nothing yet, with the same features.
    pub(crate) fn afresh(&self) -> Self {
        Errors::with(&self.features)
    }

    /// Whether a feature is on.
    pub(crate) fn has(&self, feature: &str) -> bool {
        self.features.is_on(feature)
    }

    /// Adds a finding.
    pub(crate) fn push(&mut self, error: FieldError) {
        self.found.push(error);
    }

    /// Adds what another rule found.
    pub(crate) fn extend(&mut self, errors: impl IntoIterator<Item = FieldError>) {
        self.found.extend(errors);
    }

    /// How many there are: a rule that must know whether another one found something compares before and after.
    pub(crate) fn len(&self) -> usize {
        self.found.len()
    }

    /// Forgets what was found since there were `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.found.truncate(len);
    }

    /// Keeps, of what was found since there were `len`, what passes.
    pub(crate) fn retain(&mut self, len: usize, mut keep: impl FnMut(&FieldError) -> bool) {
        let mut position = 0;
        self.found.retain(|error| {
            position += 1;
            position <= len || keep(error)
        });
    }

    /// The findings.
    pub(crate) fn into_vec(self) -> Vec<FieldError> {
        self.found
    }
}
