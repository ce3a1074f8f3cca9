//! Forbidden responses.

use machinery::{
    meta::{
        go_text::quote,
        gvk::GroupResource,
        status::{Details, Status},
    },
    request::RequestInfo,
};

use crate::{Attributes, Authorizer, User};

/// Asks whether a user may do what a request turns out to need on its way.
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
pub fn refusal_of(info: &RequestInfo, user: &User, reason: &str) -> Status {
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

/// Text that is safe to stand in a page.
pub fn escape(text: &str) -> String {
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
