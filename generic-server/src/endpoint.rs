//! Whatever answers requests: the interface between servers and what they serve.

use std::sync::Arc;

use async_trait::async_trait;
use machinery::meta::status::Status;

use crate::{request::Request, response::Response};

/// Serves requests that its owner has claimed for it: a path, a virtual resource, a subresource with rules of its own.
#[async_trait]
pub trait Endpoint: Send + Sync {
    /// Answers the request.
    async fn serve(&self, request: Request) -> Result<Response, Status>;

    /// The paths below its own that the index lists.
    fn listed(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Group versions that are served elsewhere as a whole (the aggregator's remote APIServices), and the documents of
/// those that a server has rows of.
pub trait VersionEndpoints: Send + Sync {
    /// Who serves everything below `/apis/GROUP/VERSION` of this path; `None` if it is nobody here.
    fn endpoint(&self, request: &Request) -> Option<Arc<dyn Endpoint>>;
}

/// Acts on what a write has changed, before the writer hears of it.
#[async_trait]
pub trait AfterWrite: Send + Sync {
    /// The object `name` was made, changed, marked or removed.
    async fn written(&self, namespace: &str, name: &str);
}
