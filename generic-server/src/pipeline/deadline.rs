//! Step: a request that is no watch and no stream has a deadline.

use std::{
    future::Future,
    pin::pin,
    time::{Duration, Instant},
};

use futures_util::FutureExt as _;
use machinery::{
    meta::{duration::GoDuration, status::Status},
    request::Verb,
};

use crate::request::Request;
use crate::response::Response;

/// Subresources whose requests last as long as they last.
const STREAMS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// Paths that are no resources whose requests do, too.
const LASTING: [&str; 2] = ["/debug/pprof/", "/debug/storage/"];

/// Sets the deadline: `--request-timeout`, or less if the client's `timeout` says so.
pub(super) fn set(request: &mut Request, limit: Duration) -> Result<(), Status> {
    let info = &request.info;
    let is_stream = info.verb == Verb::Watch || info.is_resource && STREAMS.contains(&info.subresource.as_str());
    if is_stream || LASTING.iter().any(|path| info.path.starts_with(path)) {
        return Ok(());
    }
    let mut timeout = limit;
    if let Some(text) = request.query.get("timeout").filter(|t| !t.is_empty()) {
        let asked = GoDuration::parse(text)
            .map_err(|error| Status::bad_request(format!("invalid timeout specified in the request URL - {error}")))?;
        let asked = asked.to_std().unwrap_or_default();
        if !asked.is_zero() {
            timeout = asked.min(limit);
        }
    }
    request.deadline = Some(Instant::now() + timeout);
    Ok(())
}

/// Ends what is not done at the deadline: the answer, or a body that the client has not taken until then.
pub(super) async fn enforce(
    deadline: Option<Instant>,
    run: impl Future<Output = Result<Response, Status>>,
) -> Result<Response, Status> {
    let Some(deadline) = deadline else { return run.await };
    tokio::time::timeout_at(deadline.into(), run)
        .await
        .map(|answer| answer.map(|response| response.map(|body| body.until(Some(deadline)))))
        .unwrap_or_else(|_| Err(exceeded()))
}

/// What is found out on the way to an answer, as long as the request may take. It is mostly there at once: no timer is set
/// for it then.
///
/// # Errors
/// The request's time is over.
pub(super) async fn within<T>(deadline: Option<Instant>, run: impl Future<Output = T>) -> Result<T, Status> {
    let mut run = pin!(run);
    if let Some(done) = run.as_mut().now_or_never() {
        return Ok(done);
    }
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline.into(), run).await.map_err(|_| exceeded()),
        None => Ok(run.await),
    }
}

/// What a client hears whose request was not done in time.
fn exceeded() -> Status {
    Status::timeout("request did not complete within the allotted timeout", 0)
}
