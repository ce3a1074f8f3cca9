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

    /// Forgets what was found since there were `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    /// Keeps, of what was found since there were `len`, what passes.
    pub(crate) fn retain(&mut self, len: usize, mut keep: impl FnMut(&FieldError) -> bool) {
        let mut position = 0;
        self.0.retain(|error| {
            position += 1;
            position <= len || keep(error)
        });
    }

    /// The findings.
    pub(crate) fn into_vec(self) -> Vec<FieldError> {
        self.0
    }
}
