//! GET of one object.

use std::pin::pin;

use audit::Layer;
use http::StatusCode;
use machinery::meta::status::Status;
use storage::cache::ReadAt;

use super::{
    Target,
    list_options::{parse_resource_version, parse_revision},
    past, span, transform,
};
use crate::{offload, response::Response};

/// Answers the request.
pub(super) async fn serve(target: Target) -> Result<Response, Status> {
    if target.request.query.flag("export") {
        let text = "the export parameter, deprecated since v1.14, is no longer supported";
        return Err(Status::bad_request(text));
    }
    let view = transform::View::of_request(&target.request, &target.entry)?;
    let at = match past::moment(&target.request)? {
        Some(moment) => ReadAt::Exact(Box::pin(past::revision(&target.registry, moment)).await?),
        None => version(&target)?,
    };
    let info = &target.request.info;
    traces::event("About to Get from storage", |_| {});
    let span = span::of_get(&target.request, || target.registry.shown_key(&info.namespace, &info.name));
    let read = target.registry.get(&info.namespace, &info.name, at);
    let object = target.request.audit.timed(Layer::Storage, span.within(pin!(read))).await;
    drop(span);
    let object = object.map_err(|status| target.in_own_group(status))?;
    let shown = view.object(StatusCode::OK, &target.registry, &object);
    if object.bytes().len() <= offload::INLINE {
        return shown.await;
    }
    offload::run(&target.request.user.name, pin!(shown)).await?
}

/// The state that a resourceVersion asks for.
fn version(target: &Target) -> Result<ReadAt, Status> {
    Ok(match target.request.query.get("resourceVersion").unwrap_or("") {
        "" => ReadAt::Latest,
        "0" => ReadAt::Any,
        text => {
            // Kinds that are forgotten in time are in no cache of upstream's, and its store words it otherwise.
            let revision = match target.entry.row.strategy.traits().expires {
                true => parse_resource_version(text)?,
                false => parse_revision(text).map_err(|error| Status::unknown_error(error.to_string()))?,
            };
            ReadAt::NotOlderThan(revision)
        }
    })
}
