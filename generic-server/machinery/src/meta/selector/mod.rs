//! Label and field selectors: their texts, the JSON form of label selectors, and cheap matching.

mod field;
mod json;
mod label;
mod parse;

pub use field::{FieldSelector, Term};
pub use json::{LabelSelectorRules, validate_label_selector, validate_labels};
pub use label::{LabelSelector, Operator, Requirement};

/// A selector that does not parse; the text is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);
