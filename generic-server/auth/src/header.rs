//! The text of headers.

use std::borrow::Cow;

use http::HeaderValue;

/// The text of a header's value. Go takes its bytes as they are, and so do we; what is no UTF-8 is shown as such, never
/// left out: a group that is not read could undo a denial.
pub fn header_text(value: &HeaderValue) -> Cow<'_, str> {
    String::from_utf8_lossy(value.as_bytes())
}
