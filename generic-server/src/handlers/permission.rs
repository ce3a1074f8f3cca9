//! Authorizes what the verb of a request does not show: a PUT or an apply that makes an object, a
//! DELETE of what cannot be read.

use async_trait::async_trait;
use machinery::{
    Value,
    meta::{gvk::GroupResource, status::Status},
};

use crate::{registry::Change, request::Request};
use auth::authorize_info;
use auth::{Attributes, Authorizer, User};
use machinery::request::{RequestInfo, Verb};

/// A change by somebody who may make objects only if the authorizer says so.
pub(super) struct Permitted<'a> {
    change: &'a dyn Change,
    authorizer: &'a dyn Authorizer,
    info: &'a RequestInfo,
    user: &'a User,
}

impl<'a> Permitted<'a> {
    /// The change that a request asks for.
    pub(super) fn new(change: &'a dyn Change, request: &'a Request) -> Self {
        Permitted { change, authorizer: &*request.authorizer, info: &request.info, user: &request.user }
    }
}

/// Whether the user may delete an object that cannot be read; the refusal is as upstream's admission tells it.
pub(super) async fn may_delete_unreadable(request: &Request) -> Result<(), Status> {
    const VERB: &str = "unsafe-delete-ignore-read-errors";
    let info = RequestInfo { verb: Verb::Other, method: VERB.into(), ..request.info.clone() };
    let decision = request.authorizer.authorize(&Attributes { user: &request.user, info: &info }).await;
    if decision.is_allowed() {
        return Ok(());
    }
    let resource = GroupResource::new(info.group.clone(), info.resource.clone());
    let why = match &decision.error {
        Some(error) => format!("error while checking permission for {VERB:?}, {error}"),
        None => format!("not permitted to do {VERB:?}, reason: {}", decision.reason),
    };
    Err(Status::forbidden(&resource, &info.name, why))
}

#[async_trait]
impl Change for Permitted<'_> {
    async fn apply(&self, current: Option<&Value>, warnings: &mut Vec<String>) -> Result<Option<Value>, Status> {
        self.change.apply(current, warnings).await
    }

    fn tracks_fields(&self) -> bool {
        self.change.tracks_fields()
    }

    async fn may_create(&self) -> Result<(), Status> {
        let info = RequestInfo { verb: Verb::Create, ..self.info.clone() };
        authorize_info(self.authorizer, &info, self.user).await
    }

    fn replaces(&self) -> bool {
        self.change.replaces()
    }
}
