//! Step: may they?

use machinery::meta::{
    gvk::GroupResource,
    status::{Details, Status},
};

use crate::{
    auth::{Attributes, Authorizer, Decision, User},
    request::{Request, RequestInfo},
};

/// Lets the request pass, or refuses it with upstream's words.
pub(super) async fn authorize(authorizer: &dyn Authorizer, request: &Request) -> Result<(), Status> {
    authorize_info(authorizer, &request.info, &request.user).await
}

/// The same for what a request turns out to need on its way.
///
/// # Errors
/// The 403 that the user hears.
pub async fn authorize_info(authorizer: &dyn Authorizer, info: &RequestInfo, user: &User) -> Result<(), Status> {
    match authorizer.authorize(&Attributes { user, info }).await {
        Decision::Allow(_) => Ok(()),
        Decision::Deny(reason) | Decision::NoOpinion(reason) => Err(refusal_of(info, user, &reason)),
    }
}

/// The 403.
pub(super) fn refusal_of(info: &RequestInfo, user: &User, reason: &str) -> Status {
    let user = &user.name;
    let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    if !info.is_resource {
        let text = format!("forbidden: User {user:?} cannot {} path {:?}{because}", info.method, info.path);
        return Status::new(403, "Forbidden", text).with_details(Details::default());
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
        format!(" in the namespace {:?}", info.namespace)
    };
    let why = format!(
        "User {user:?} cannot {} resource {what:?} in API group {:?}{place}{because}",
        info.verb_name(),
        info.group
    );
    Status::forbidden(&resource, &info.name, why)
}
