//! DELETE of one object.

use http::StatusCode;
use machinery::{Value, codec::protobuf, meta::status::Status, object, schema::builtin};

use super::{
    Target,
    body::{self, excerpt},
    options::{DeleteOptions, WriteOptions},
    permission,
    transform::View,
};
use crate::{
    negotiate::Media,
    pipeline::respond::{Response, document},
    registry::{Deleted, Settings, Write},
    request::Request,
};

/// Answers the request.
pub(super) async fn serve(target: &mut Target, warnings: &mut Vec<String>) -> Result<Response, Status> {
    let view = View::of_request(&target.request, &target.entry)?;
    let options = read_options(&mut target.request, target.registry.settings()).await?;
    let info = &target.request.info;
    if let Some(why) = target.entry.row.strategy.refuse_delete(&info.name) {
        return Err(Status::forbidden(&target.registry.group_resource(), &info.name, why));
    }
    let write_options = WriteOptions { dry_run: options.dry_run, ..WriteOptions::default() };
    let mut write = Write {
        row: &target.entry.row,
        namespace: &info.namespace,
        subresource: &info.subresource,
        user: &target.request.user,
        options: &write_options,
        warnings,
    };
    let deleted = if options.ignore_store_read_error {
        permission::may_delete_unreadable(&target.request).await?;
        target.registry.check_unreadable(&info.namespace, &info.name)?;
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
        Deleted::Gone(bytes) if target.entry.row.strategy.returns_deleted_object() => {
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

/// The options in the body, or else in the query.
pub(super) async fn read_options(request: &mut Request, settings: &Settings) -> Result<DeleteOptions, Status> {
    let bytes = body::read_body(request).await?;
    if bytes.is_empty() {
        return DeleteOptions::read(request, None, settings);
    }
    let all = [Media::Json, Media::Yaml, Media::Protobuf];
    let media = Media::of_content_type(request.header("content-type"), &all)
        .ok_or_else(|| Status::unsupported_media_type(&all.map(Media::name)))?;
    let bad = |why: String| Status::bad_request(why);
    let value = match media {
        Media::Json => machinery::codec::json::decode(&bytes)
            .map_err(|e| bad(format!("couldn't get version/kind; json parse error: {e}")))?,
        Media::Yaml => machinery::codec::yaml::decode(&bytes).map_err(|e| bad(e.to_string()))?,
        Media::Protobuf => protobuf::decode(&bytes).map_err(|e| bad(format!("{e} ({})", excerpt(&bytes))))?,
    };
    if !matches!(value, Value::Object(_) | Value::Null) {
        return Err(bad(body::no_type_in(&value)));
    }
    let text = |key: &str| value.str_at(&[key]).unwrap_or("");
    let (kind, version) = (text("kind"), text("apiVersion"));
    if !matches!(kind, "" | "DeleteOptions") {
        return Err(bad(format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \
             \"pkg/apis/meta/internalversion/scheme/register.go:27\""
        )));
    }
    let schema = builtin::schema_of("", "v1", "DeleteOptions").expect("the table has DeleteOptions");
    let (value, _) = machinery::schema::decode(schema, value).map_err(|e| bad(e.to_string()))?;
    DeleteOptions::read(request, Some(value), settings)
}
