//! Numbers and texts of items.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use super::error::CborError;
use super::head::*;
use crate::{Str, json};

/// An integer, which must fit Go's int64.
pub(super) fn integer(head: Head) -> Result<i64, CborError> {
    match i64::try_from(head.argument) {
        Ok(size) if head.major == POSITIVE => Ok(size),
        Ok(size) => Ok(-1 - size),
        Err(_) => Err(overflow(head, "int64", "Go's int64")),
    }
}

/// An integer that the type `wanted` does not hold; `holder` is what the message says it overflows.
pub(super) fn overflow(head: Head, wanted: &str, holder: &str) -> CborError {
    CborError::detailed(name(head.major), wanted, format!("{} overflows {holder}", value(head)))
}

/// An integer of any size.
pub(super) fn value(head: Head) -> i128 {
    let size = i128::from(head.argument);
    if head.major == POSITIVE { size } else { -1 - size }
}

/// The text of a byte string, encoded as a tag has said; bytes that are not UTF-8 become U+FFFD, as they would in JSON.
pub(super) fn text(bytes: &[u8], later: Option<u64>) -> Str {
    match later {
        Some(TAG_BASE64URL) => URL_SAFE_NO_PAD.encode(bytes).into(),
        Some(TAG_BASE64) => STANDARD.encode(bytes).into(),
        Some(_) => bytes.iter().fold(String::with_capacity(2 * bytes.len()), hexadecimal).into(),
        None => match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => json::mend_utf8(bytes).into(),
        },
    }
}

fn hexadecimal(mut text: String, byte: &u8) -> String {
    write!(text, "{byte:02x}").expect("writing to a String does not fail");
    text
}
