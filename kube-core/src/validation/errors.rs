//! What was found wrong so far.

use machinery::meta::field_error::FieldError;

/// Findings, in the order in which clients see them.
#[derive(Default)]
pub(crate) struct Errors(Vec<FieldError>);

impl Errors {
    /// Adds a finding.
    pub(crate) fn push(&mut self, error: FieldError) {
        self.0.push(error);
    }

    /// Adds what another rule found.
    pub(crate) fn extend(&mut self, errors: impl IntoIterator<Item = FieldError>) {
        self.0.extend(errors);
    }

    /// How many there are: a rule that must know whether another one found something compares before and after.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The findings.
    pub(crate) fn into_vec(self) -> Vec<FieldError> {
        self.0
    }
}
