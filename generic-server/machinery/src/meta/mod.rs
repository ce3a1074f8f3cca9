//! What all objects share: names, metadata, selectors, quantities, times, and the errors about them.

pub mod accessor;
pub mod domains;
pub mod duration;
pub mod field_error;
pub use crate::go_text;
pub mod go_url;
pub mod gvk;
pub mod int_or_percent;
pub mod ip;
pub mod names;
pub mod netip;
pub mod quantity;
pub mod selector;
pub mod semver;
pub mod status;
pub mod time;
pub mod validation;
pub mod webhook;

pub use accessor::{Meta, MetaMut, OwnerReference, kind_of};
pub use duration::GoDuration;
pub use field_error::{BadValue, FieldError, FieldErrorKind};
pub use gvk::{GrRef, GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource, GvkRef, GvrRef};
pub use quantity::{Quantity, QuantityError};
pub use selector::{FieldSelector, LabelSelector};
pub use status::{Cause, Details, Status};
pub use time::{TimeForm, Timestamp};
