//! CustomResourceDefinition objects: their row, their rules, and what is read from them.

mod conditions;
mod row;
mod shelf;
mod strategy;
mod upgrade;
mod validate;
mod view;

pub(crate) use conditions::{
    API_APPROVED, Condition, ESTABLISHED, NAMES_ACCEPTED, TERMINATING, condition, is_true, set_condition,
};
pub use row::row;
pub(crate) use shelf::Shelf;
pub(crate) use validate::{Approval, approval_of, approval_problem};
pub(crate) use view::{Definition, Names, Version, storage_hash};

/// The finalizer of a definition whose objects are not cleared up yet.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
