//! What a validation found, and how much of the schema matched.

use std::collections::HashSet;

use crate::meta::FieldError;

/// Errors of one validation; more are not kept, since a document could have as many as it has values.
const MAX_ERRORS: usize = 1000;

/// An error, and the message by which upstream knows repetitions.
pub(super) struct Fault {
    pub(super) message: String,
    pub(super) error: FieldError,
}

/// What came of validating one value against one node.
#[derive(Default)]
pub(super) struct Outcome {
    errors: Vec<Fault>,
    /// Upstream's match count: of the branches of an `anyOf` that all fail, the one with most matches is reported.
    pub(super) matches: u32,
}

impl Outcome {
    pub(super) fn fault(fault: Fault) -> Self {
        Outcome { errors: vec![fault], matches: 0 }
    }

    pub(super) fn with_matches(matches: u32) -> Self {
        Outcome { errors: Vec::new(), matches }
    }

    pub(super) fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    pub(super) fn matched(&mut self) {
        self.matches = self.matches.saturating_add(1);
    }

    /// Adds an error, unless its message is there already.
    pub(super) fn add(&mut self, fault: Fault) {
        if self.errors.len() < MAX_ERRORS && !self.errors.iter().any(|e| e.message == fault.message) {
            self.errors.push(fault);
        }
    }

    pub(super) fn merge(&mut self, other: Outcome) {
        self.matches = self.matches.saturating_add(other.matches);
        if self.errors.is_empty() {
            self.errors = other.errors;
            return;
        }
        if other.errors.is_empty() {
            return;
        }
        let seen: HashSet<String> = self.errors.iter().map(|e| e.message.clone()).collect();
        self.errors.extend(other.errors.into_iter().filter(|e| !seen.contains(&e.message)));
        self.errors.truncate(MAX_ERRORS);
    }

    /// Drops the errors; what matched still counts.
    pub(super) fn forgive(&mut self) {
        self.errors.clear();
    }

    pub(super) fn into_errors(self) -> Vec<FieldError> {
        self.errors.into_iter().map(|f| f.error).collect()
    }
}
