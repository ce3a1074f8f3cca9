//! Step: may they?

use http::StatusCode;
use machinery::meta::{
    go_text::quote,
    gvk::GroupResource,
    status::{Details, Status},
};

use super::{
    deadline,
    respond::{self, Response},
};
use crate::request::Request;
use auth::{Attributes, Authorizer, Decision, User};
use machinery::request::RequestInfo;

/// Asks the authorizer about the request, as long as the request may take.
///
/// # Errors
/// The request's time is over.
pub(super) async fn decide(authorizer: &dyn Authorizer, request: &Request) -> Result<Decision, Status> {
    let attributes = Attributes { user: &request.user, info: &request.info };
    let asked = authorizer.authorize(&attributes);
    let Some(deadline) = request.deadline else { return Ok(asked.await) };
    // The answer is mostly there at once: no timer is set for it.
    let mut asked = std::pin::pin!(asked);
    match futures_util::FutureExt::now_or_never(asked.as_mut()) {
        Some(decision) => Ok(decision),
        None => tokio::time::timeout_at(deadline.into(), asked).await.map_err(|_| deadline::exceeded()),
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
    Ok(respond::text(StatusCode::INTERNAL_SERVER_ERROR, text))
}

/// The same for what a request turns out to need on its way.
///
/// # Errors
/// The 403 that the user hears.
pub async fn authorize_info(authorizer: &dyn Authorizer, info: &RequestInfo, user: &User) -> Result<(), Status> {
    let decision = authorizer.authorize(&Attributes { user, info }).await;
    match &decision.error {
        _ if decision.is_allowed() => Ok(()),
        Some(error) => Err(Status::internal_error(error)),
        None => Err(refusal_of(info, user, &decision.reason)),
    }
}

/// The 403. What the client sent is shown as upstream shows it, safe to stand in a page.
pub(super) fn refusal_of(info: &RequestInfo, user: &User, reason: &str) -> Status {
    let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let user = quote(&user.name);
    if !info.is_resource {
        let what = escape(&format!("User {user} cannot {} path {}", info.method, quote(&info.path)));
        return Status::new(403, "Forbidden", format!("forbidden: {what}{because}")).with_details(Details::default());
    }
    let resource = GroupResource::new(info.group.clone(), info.resource.clone());
    let what = if info.subresource.is_empty() {
        info.resource.to_string()
    } else {
        format!("{}/{}", info.resource, info.subresource)
    };
    let place = if info.namespace.is_empty() {
        " at the cluster scope".to_owned()
    } else {
        format!(" in the namespace {}", quote(&info.namespace))
    };
    let (verb, what, group) = (info.verb_name(), quote(&what), quote(&info.group));
    let why = escape(&format!("User {user} cannot {verb} resource {what} in API group {group}{place}"));
    Status::forbidden(&resource, &info.name, why + &because)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::request::resource_info;

    #[test]
    fn a_refusal_shows_what_was_sent_harmlessly() {
        let user = User { name: "<b>&\u{7f}\u{fc}".into(), ..User::default() };
        let info = RequestInfo { namespace: "a'b".into(), ..resource_info("get", "x>y", "v1", "pods") };
        let status = refusal_of(&info, &user, "a<b");
        let expect = "pods.x>y is forbidden: User \"&lt;b&gt;&amp;\\x7f\u{fc}\" cannot get resource \"pods\" in API group \
                      \"x&gt;y\" in the namespace \"a'b\": a<b";
        assert_eq!(status.message, expect);
    }
}
