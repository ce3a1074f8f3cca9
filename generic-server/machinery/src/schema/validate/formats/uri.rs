//! URIs as Go's url.ParseRequestURI reads them: absolute, or an absolute path.

use crate::meta::go_url::GoUrl;

pub(super) fn is_request_uri(text: &str) -> bool {
    GoUrl::parse_request_uri(text).is_ok()
}
