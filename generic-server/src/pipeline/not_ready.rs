//! Step: a server that is told so answers nobody until it is ready for the first time (`--send-retry-after-while-not-ready-once`).

use http::{HeaderValue, StatusCode, header};
use tokio_util::sync::CancellationToken;

use crate::{
    request::Request,
    response::{self, Response},
    serve::Peer,
};

/// Paths that begin so say how the server is, and are answered at any time.
const EXEMPT: [&str; 4] = ["/readyz", "/livez", "/healthz", "/metrics"];

/// The answer to a request that comes too early; `ready` is cancelled when none does any more.
pub(super) fn refused(ready: Option<&CancellationToken>, request: &Request) -> Option<Response> {
    ready.filter(|ready| !ready.is_cancelled())?;
    // What has come by no connection is asked by this process itself, perhaps to become ready.
    let is_own = request.extensions.get::<Peer>().is_none();
    let is_exempt = is_own || EXEMPT.iter().any(|path| request.info.path.starts_with(path));
    (!is_exempt).then(|| {
        let text = "The apiserver hasn't been fully initialized yet, please try again later.\n";
        let mut response = response::text(StatusCode::SERVICE_UNAVAILABLE, text);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        response
    })
}
