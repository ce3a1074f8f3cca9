//! POST to a collection.

use machinery::meta::status::Status;

use super::{Target, body, transform::View};
use crate::decode::check_namespace;
use crate::options::{WriteKind, WriteOptions};
use crate::{registry::Write, response::Response};

/// Answers the request.
pub(super) async fn serve(target: &mut Target, warnings: &mut Vec<String>) -> Result<Response, Status> {
    let row = &target.entry.row;
    let view = View::of_request(&target.request, &target.entry)?;
    let options = WriteOptions::read(&target.request, WriteKind::Create)?;
    let kind = row.gvk();
    let object = body::read_object(&mut target.request, row, kind, options.field_validation, warnings).await?;
    let info = &target.request.info;
    check_namespace(&object, &info.namespace, row.namespaced)?;
    let mut write = Write {
        row,
        namespace: &info.namespace,
        subresource: &info.subresource,
        user: &target.request.user,
        audit: &target.request.audit,
        options: &options,
        warnings,
    };
    traces::event("About to store object in database", |_| {});
    let written = target.registry.create(&mut write, object).await?;
    traces::event("Write to database call succeeded", |_| {});
    target.settle_written(options.dry_run, &written).await;
    view.written(&target.registry, &written).await
}
