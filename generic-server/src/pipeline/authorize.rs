//! Step: may they?

use audit::Recorder;
use http::StatusCode;
use machinery::{
    Str,
    meta::{go_text::quote, status::Status},
};

use super::deadline;
use crate::request::Request;
use crate::response::{self, Response};
use auth::{Attributes, Authorizer, Decision, escape, refusal_of};

/// Asks the authorizer about the request, as long as the request may take.
///
/// # Errors
/// The request's time is over.
pub(super) async fn decide(authorizer: &dyn Authorizer, request: &Request) -> Result<Decision, Status> {
    let attributes = Attributes { user: &request.user, info: &request.info };
    deadline::within(request.deadline, authorizer.authorize(&attributes)).await
}

/// Notes the decision for those who read the audit log.
pub(super) fn record(decision: &Decision, audit: &Recorder) {
    const DECISION: &str = "authorization.k8s.io/decision";
    const REASON: &str = "authorization.k8s.io/reason";
    match (decision.is_allowed(), &decision.error) {
        (false, Some(_)) => audit.annotate(REASON, "internal error"),
        (allowed, _) => {
            audit.annotate(DECISION, Str::new_static(if allowed { "allow" } else { "forbid" }));
            audit.annotate(REASON, decision.reason.clone());
        }
    }
}

/// The answer to a request that is not allowed. An error on the way to the decision is not the client's: upstream answers it
/// with text.
pub(super) fn refuse(decision: &Decision, request: &Request) -> Result<Response, Status> {
    let Some(error) = &decision.error else {
        return Err(refusal_of(&request.info, &request.user, &decision.reason));
    };
    tracing::error!(%error, "the authorizers cannot tell");
    let target = request.uri.path_and_query().map_or("/", |target| target.as_str());
    let text = escape(&format!("Internal Server Error: {}: {error}\n", quote(target)));
    Ok(response::text(StatusCode::INTERNAL_SERVER_ERROR, text))
}
