//! The result of a validation, and how much of the schema matched.

use std::collections::HashSet;

use crate::meta::FieldError;

/// Errors of one validation; more are not kept, since a document could have as many as it has values.
const MAX_ERRORS: usize = 1000;

/// Nor much more text than this: one error may show all values of a long enum.
const MAX_TEXT: usize = 4 << 20;

/// An error, and the message by which upstream knows repetitions.
pub(super) struct Fault {
    pub(super) message: String,
    pub(super) error: FieldError,
}

/// What came of validating one value against one node.
#[derive(Default)]
pub(super) struct Outcome {
    errors: Vec<Fault>,
    /// The length of the errors' messages.
    text: usize,
    /// Upstream's match count: of the branches of an `anyOf` that all fail, the one with most matches is reported.
    pub(super) matches: u32,
}

impl Outcome {
    pub(super) fn fault(fault: Fault) -> Self {
        Outcome { text: fault.message.len(), errors: vec![fault], matches: 0 }
    }

    pub(super) fn with_matches(matches: u32) -> Self {
        Outcome { matches, ..Outcome::default() }
    }

    pub(super) fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    pub(super) fn matched(&mut self) {
        self.matches = self.matches.saturating_add(1);
    }

    fn is_full(&self) -> bool {
        self.errors.len() >= MAX_ERRORS || self.text >= MAX_TEXT
    }

    /// Adds an error, unless its message is there already.
    pub(super) fn add(&mut self, fault: Fault) {
        if !self.is_full() && !self.errors.iter().any(|e| e.message == fault.message) {
            self.text += fault.message.len();
            self.errors.push(fault);
        }
    }

    pub(super) fn merge(&mut self, other: Outcome) {
        self.matches = self.matches.saturating_add(other.matches);
        if self.errors.is_empty() {
            (self.errors, self.text) = (other.errors, other.text);
        } else if other.errors.len() < 8 {
            other.errors.into_iter().for_each(|fault| self.add(fault));
        } else {
            let seen: HashSet<String> = self.errors.iter().map(|e| e.message.clone()).collect();
            for fault in other.errors.into_iter().filter(|e| !seen.contains(&e.message)) {
                if self.is_full() {
                    break;
                }
                self.text += fault.message.len();
                self.errors.push(fault);
            }
        }
    }

    /// Drops the errors; what matched still counts.
    pub(super) fn forgive(&mut self) {
        self.errors.clear();
        self.text = 0;
    }

    pub(super) fn into_errors(self) -> Vec<FieldError> {
        self.errors.into_iter().map(|f| f.error).collect()
    }
}
