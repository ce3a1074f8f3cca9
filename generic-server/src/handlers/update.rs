//! PUT of an object, or of its status.

use machinery::meta::status::Status;

use super::{Target, body, permission::Permitted, transform::View};
use crate::decode::{check_name, check_namespace};
use crate::options::{WriteKind, WriteOptions};
use crate::{
    registry::{Change, Replace, ReplaceOrCreate, Write},
    response::Response,
};

/// Answers the request.
pub(super) async fn serve(target: &mut Target, warnings: &mut Vec<String>) -> Result<Response, Status> {
    let row = &target.entry.row;
    let view = View::of_request(&target.request, &target.entry)?;
    let options = WriteOptions::read(&target.request, WriteKind::Update)?;
    let kind = row.gvk();
    let object = body::read_object(&mut target.request, row, kind, options.field_validation, warnings).await?;
    let info = &target.request.info;
    check_name(&object, &info.name)?;
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
    let creates = info.subresource.is_empty() && row.strategy.traits().allows_create_on_update;
    let change: &dyn Change = if creates { &ReplaceOrCreate(object) } else { &Replace(object) };
    let change = Permitted::new(change, &target.request);
    traces::event("About to store object in database", |_| {});
    let written = target.registry.update(&mut write, &info.name, &change).await?;
    traces::event("Write to database call succeeded", |_| {});
    target.settle_written(options.dry_run, &written).await;
    view.written(&target.registry, &written).await
}
