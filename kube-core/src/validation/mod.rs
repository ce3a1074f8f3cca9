//! The vocabulary of validation, in which the rules of kinds are written.
//!
//! A rule is a function of a [`Field`] (a value and where it stands) and of [`Errors`] (what was found so far). Rules run on
//! the storage version, defaulted, after the rules of metadata; the order of the findings is the order in which clients see
//! them, and upstream's. Walking costs no allocation; text is made only for an error.

mod addresses;
mod errors;
mod field;
mod metadata;
mod rules;

mod amounts;
pub(crate) mod declared;
mod go;
mod selector;

pub(crate) use machinery::value::{Content, Seen, repeated};

pub(crate) use amounts::{
    amount, container_resource_name, is_extended_resource, is_huge_pages, is_native, is_quota_resource,
    may_be_overcommitted, quota_resource_name, resource_amount, resource_name,
};
pub(crate) use errors::Errors;
pub(crate) use field::Field;
pub(crate) use go::{Go, Member, not_an_int64, shown, shown_of, shown_selector};
pub(crate) use metadata::second_look;
pub(crate) use selector::{MISMATCH, selects};
