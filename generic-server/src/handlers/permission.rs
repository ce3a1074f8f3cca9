//! Whether who may change an object may also make it: a PUT or an apply that finds none.

use async_trait::async_trait;
use machinery::{Value, meta::status::Status};

use crate::{
    auth::{Authorizer, User},
    pipeline::authorize_info,
    registry::Change,
    request::{Request, RequestInfo},
    resource::Verb,
};

/// A change by somebody who may make objects only if the authoriser says so.
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
