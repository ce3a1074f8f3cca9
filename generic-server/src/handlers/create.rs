//! POST to a collection.

use machinery::{Value, meta::status::Status};

use super::{
    Target, body,
    options::{WriteKind, WriteOptions},
    transform::View,
};
use crate::{pipeline::respond::Response, registry::Write};

/// Answers the request.
pub(super) async fn serve(target: &mut Target, warnings: &mut Vec<String>) -> Result<Response, Status> {
    let row = &target.entry.row;
    let view = View::of_request(&target.request, &target.entry)?;
    let options = WriteOptions::read(&target.request, WriteKind::Create)?;
    let kind = (row.group.as_str(), row.version.as_str(), row.kind.as_str());
    let object = body::read_object(&mut target.request, row, kind, options.field_validation, warnings).await?;
    let info = &target.request.info;
    check_namespace(&object, &info.namespace, row.namespaced)?;
    let mut write = Write {
        row,
        namespace: &info.namespace,
        subresource: &info.subresource,
        user: &target.request.user,
        options: &options,
        warnings,
    };
    let written = target.registry.create(&mut write, object).await?;
    target.settle_written(options.dry_run, &written).await;
    view.written(&target.registry, &written).await
}

/// The body's namespace must be the path's, or be left out.
pub fn check_namespace(object: &Value, namespace: &str, namespaced: bool) -> Result<(), Status> {
    let found = object.str_at(&["metadata", "namespace"]).unwrap_or("");
    if namespaced && !found.is_empty() && found != namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// The body's name must be there and be the path's.
pub(crate) fn check_name(object: &Value, name: &str) -> Result<(), Status> {
    match object.str_at(&["metadata", "name"]).unwrap_or("") {
        "" => Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        found if found != name => Err(Status::bad_request(format!(
            "the name of the object ({found}) does not match the name on the URL ({name})"
        ))),
        _ => Ok(()),
    }
}
