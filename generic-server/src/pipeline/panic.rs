//! Step: a panic ends its request with a 500, and nothing else.

use std::{future::Future, panic::AssertUnwindSafe};

use futures_util::FutureExt;
use machinery::meta::status::Status;

use crate::response::Response;

/// Runs the request; a panic becomes an error.
pub(super) async fn catch(run: impl Future<Output = Result<Response, Status>>) -> Result<Response, Status> {
    // Whatever the request shares with others is behind locks that do not poison, or immutable.
    AssertUnwindSafe(run).catch_unwind().await.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        tracing::error!(panic = text.unwrap_or("of unknown kind"), "a request panicked");
        Err(Status::unknown_error("This request caused apiserver to panic. Look in the logs for details."))
    })
}
