//! Step: a panic ends its request with a 500, and nothing else.

use std::{future::Future, panic::AssertUnwindSafe};

use futures_util::FutureExt;
use machinery::meta::status::Status;

/// Runs the request; an error is the text of a panic.
pub(super) async fn catch<T>(run: impl Future<Output = T>) -> Result<T, String> {
    // Whatever the request shares with others is behind locks that do not poison, or immutable.
    AssertUnwindSafe(run).catch_unwind().await.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("of unknown kind");
        tracing::error!(panic = text, "a request panicked");
        text.to_owned()
    })
}

/// What the client hears.
pub(super) fn status() -> Status {
    Status::unknown_error("This request caused apiserver to panic. Look in the logs for details.")
}
