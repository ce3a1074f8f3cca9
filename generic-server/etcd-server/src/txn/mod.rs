//! Requests that read and write keys: what is wrong with them, what they do to a state, and their answers.

mod answer;
mod check;
mod compare;
mod run;
mod select;

pub(crate) use answer::{Outcome, key_value};
pub(crate) use check::{check_delete, check_put, check_range, check_txn, is_read_only, puts_something};
pub(crate) use run::{Change, Staging};
pub(crate) use select::select;

use crate::proto::{DeleteRangeRequest, PutRequest, TxnRequest};

/// A request that may write.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// Writes a key.
    Put(PutRequest),
    /// Deletes a range.
    DeleteRange(DeleteRangeRequest),
    /// Compares, and then does several of these as one.
    Txn(TxnRequest),
}
