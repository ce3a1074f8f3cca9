//! GET of one object.

use http::StatusCode;
use machinery::meta::status::Status;
use storage::cache::ReadAt;

use super::{Target, list_options::parse_resource_version, transform};
use crate::pipeline::respond::Response;

/// Answers the request.
pub(super) async fn serve(target: Target) -> Result<Response, Status> {
    let view = transform::View::of_request(&target.request, &target.entry)?;
    let at = match target.request.query.get("resourceVersion").unwrap_or("") {
        "" => ReadAt::Latest,
        "0" => ReadAt::Any,
        text => ReadAt::NotOlderThan(parse_resource_version(text)?),
    };
    let info = &target.request.info;
    let object = target.registry.get(&info.namespace, &info.name, at).await?;
    view.object(StatusCode::OK, &target.registry, &object)
}
