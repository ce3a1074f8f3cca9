//! One document, as it is sent.

use std::sync::OnceLock;

use aws_lc_rs::digest;
use bytes::Bytes;
use machinery::{Value, codec::json};

/// A discovery document. Its JSON is made when it is first asked for.
#[derive(Debug)]
pub struct Document {
    value: Value,
    json: OnceLock<Bytes>,
}

impl Document {
    pub(super) fn new(value: Value) -> Self {
        Document { value, json: OnceLock::new() }
    }

    /// The document.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The document as JSON, with the newline that ends every JSON answer.
    pub fn json(&self) -> Bytes {
        let write = || {
            let mut text = json::encode_document(&self.value);
            text.push(b'\n');
            Bytes::from(text)
        };
        self.json.get_or_init(write).clone()
    }
}

/// An ETag of a hash.
pub(super) fn etag(hash: &digest::Digest) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut etag = String::with_capacity(130);
    etag.push('"');
    for byte in hash.as_ref() {
        etag.extend([byte >> 4, byte & 15].map(|digit| char::from(DIGITS[usize::from(digit)])));
    }
    etag.push('"');
    etag
}
