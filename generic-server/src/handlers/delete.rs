//! DELETE of one object.

use http::StatusCode;
use machinery::{Value, meta::status::Status, object};

use super::{Target, delete_options::read_options, permission, transform::View};
use crate::options::WriteOptions;
use crate::{
    registry::{Deleted, Write},
    response::{Response, document},
};

/// Answers the request.
pub(super) async fn serve(target: &mut Target, warnings: &mut Vec<String>) -> Result<Response, Status> {
    let view = View::of_request(&target.request, &target.entry)?;
    let options = read_options(&mut target.request, target.registry.settings()).await?;
    let info = &target.request.info;
    if let Some(why) = target.entry.row.strategy.refuse_delete(&info.name) {
        return Err(Status::forbidden(&target.registry.group_resource(), &info.name, why));
    }
    if options.propagation.is_none() && options.orphan_dependents.is_none() {
        warnings.extend(target.registry.row.strategy.traits().orphan_warning.map(str::to_owned)); // also if there is no object
    }
    let write_options = WriteOptions { dry_run: options.dry_run, ..WriteOptions::default() };
    let mut write = Write {
        row: &target.entry.row,
        namespace: &info.namespace,
        subresource: &info.subresource,
        user: &target.request.user,
        audit: &target.request.audit,
        options: &write_options,
        warnings,
    };
    let deleted = if options.ignore_store_read_error {
        target.request.audit.annotate("apiserver.k8s.io/unsafe-delete-ignore-read-error", "");
        permission::may_delete_unreadable(&target.request).await?;
        target.registry.check_unreadable(&info.namespace, &info.name).await?;
        target.registry.delete_unreadable(&mut write, &info.name).await?
    } else {
        target.registry.delete(&mut write, &info.name, &options).await?
    };
    target.settle(options.dry_run, &info.namespace, &info.name).await;
    let response = match deleted {
        // Whoever asks with the old form of the option that dependents go hears that the object is still there.
        Deleted::Marked(bytes) if options.orphan_dependents == Some(false) => {
            view.bytes(StatusCode::ACCEPTED, &target.registry, &bytes).await?
        }
        Deleted::Marked(bytes) => view.bytes(StatusCode::OK, &target.registry, &bytes).await?,
        Deleted::Gone(bytes) if target.entry.row.strategy.traits().returns_deleted_object => {
            view.bytes(StatusCode::OK, &target.registry, &bytes).await?
        }
        // Nobody could read it, so nothing of it can be told.
        Deleted::Unread => {
            let status = object! {
                "kind" => "Status", "apiVersion" => "v1", "metadata" => Value::object(), "status" => "Success",
                "details" => object! { "name" => &info.name, "kind" => &target.entry.row.kind }, "code" => 200,
            };
            document(StatusCode::OK, &status, view.accepted().whole())
        }
        Deleted::Gone(bytes) => {
            let uid = machinery::codec::scan::text(&bytes, &["metadata", "uid"]).unwrap_or_default();
            let mut details = object! { "name" => &info.name, "kind" => &target.entry.row.plural, "uid" => &*uid };
            if !info.group.is_empty() {
                details.set(&["group"], &info.group);
            }
            let status = object! {
                "kind" => "Status", "apiVersion" => "v1", "metadata" => Value::object(),
                "status" => "Success", "details" => details,
            };
            document(StatusCode::OK, &status, view.accepted().whole())
        }
    };
    Ok(response)
}
