//! Requests of this server's own components (controllers): they pass every step but authentication, since it is known who
//! asks. So admission, audit, flow control, authorization and metrics treat them as any client's.

use std::sync::Arc;

use auth::User;
use bytes::Bytes;
use http::{Request, Response};

use super::Pipeline;
use crate::{body::Body, request::RequestBody};

/// Who is known to ask. Only this module can make one, and a request's extensions are not a client's to set.
#[derive(Clone)]
pub(super) struct Known(pub(super) Arc<User>);

impl Pipeline {
    /// Answers a request of a component that acts as `user`.
    pub async fn handle_as(self: Arc<Self>, user: Arc<User>, request: Request<Bytes>) -> Response<Body> {
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(Known(user));
        self.accept(parts, RequestBody::whole(body), None).await
    }
}
