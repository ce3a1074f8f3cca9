//! GET of one object.

use std::pin::pin;

use http::StatusCode;
use machinery::meta::{gvk::GroupResource, status::Status};
use storage::cache::ReadAt;

use super::{Target, list_options::parse_revision, transform};
use crate::{offload, response::Response};

/// Answers the request.
pub(super) async fn serve(target: Target) -> Result<Response, Status> {
    if target.request.query.flag("export") {
        let text = "the export parameter, deprecated since v1.14, is no longer supported";
        return Err(Status::bad_request(text));
    }
    let view = transform::View::of_request(&target.request, &target.entry)?;
    let at = match target.request.query.get("resourceVersion").unwrap_or("") {
        "" => ReadAt::Latest,
        "0" => ReadAt::Any,
        text => {
            let revision = parse_revision(text).map_err(|error| Status::unknown_error(error.to_string()))?;
            ReadAt::NotOlderThan(revision)
        }
    };
    let info = &target.request.info;
    let object = target.registry.get(&info.namespace, &info.name, at).await.map_err(|status| {
        // A registry may be several groups'; a client hears of its own.
        if !status.is_not_found() {
            return status;
        }
        let row = &target.entry.row;
        Status::not_found(&GroupResource::new(row.group.clone(), row.plural.clone()), &info.name)
    })?;
    let shown = view.object(StatusCode::OK, &target.registry, &object);
    if object.bytes().len() <= offload::INLINE {
        return shown.await;
    }
    offload::run(&target.request.user.name, pin!(shown)).await?
}
