//! The forms that stored objects are sent in: as they are, in another version or encoding, as metadata, as a table.

mod list_body;
mod posted;

pub use posted::posted;

use std::sync::Arc;

use audit::{Layer, Recorder};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::TryStreamExt;
use http::StatusCode;
use machinery::{
    Map, Value,
    codec::{cbor, json, protobuf, scan},
    meta::{field_error::FieldError, status::Status, time},
    object,
};
use storage::cache::{FormId, Object};

use crate::{
    body::Body,
    negotiate::{Accepted, Form, Media, Offer},
    recorded::Shown,
    registry::{Lister, VersionForm, Written},
    request::Request,
    resource::{Column, Printer, Resource},
    response::{self, Response, encode},
    table::TableEntry,
};

/// How a request wants to see objects of a row.
pub struct View {
    entry: Arc<TableEntry>,
    printer: Arc<dyn Printer>,
    accepted: Accepted,
    include: Include,
    /// The row's version, if not all objects are stored in it.
    version: Option<VersionForm>,
    /// Who wants to know what is answered.
    audit: Recorder,
    /// How upstream's messages call the objects, if not as the row's.
    shown_as: Option<&'static str>,
}

/// What a table's rows carry of their objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Include {
    Nothing,
    Metadata,
    Object,
}

/// What a list says about itself.
pub struct ListMeta {
    /// The revision of the state it shows.
    pub revision: u64,
    /// Where to go on; empty at the end.
    pub continuation: String,
    /// How many more there are, if that is known.
    pub remaining: Option<usize>,
    /// The part of the collection that it is of, if not of all.
    pub shard: Option<String>,
}

impl View {
    /// Negotiates what the request's Accept header asks for.
    pub fn of_request(request: &Request, entry: &Arc<TableEntry>) -> Result<Self, Status> {
        let offer = match request.info.subresource.as_str() {
            _ if !entry.row.built_in => &Offer::CUSTOM,
            "resize" | "ephemeralcontainers" | "approval" | "finalize" => &Offer::TABLELESS,
            _ => &Offer::OBJECTS,
        };
        Self::with_printer(request, entry, offer, entry.row.printer.clone())
    }

    /// [`View::of_request`] of what is printed otherwise than the row's objects.
    pub(super) fn with_printer(
        request: &Request,
        entry: &Arc<TableEntry>,
        offer: &Offer,
        printer: Arc<dyn Printer>,
    ) -> Result<Self, Status> {
        let accepted = response::accepted(request, offer)?;
        let mut include = Include::Metadata;
        if matches!(accepted.form, Form::Table { .. }) {
            include = match request.query.get("includeObject").unwrap_or("") {
                "" | "Metadata" => Include::Metadata,
                "None" => Include::Nothing,
                "Object" => Include::Object,
                other => {
                    let detail = "must be 'Metadata', 'Object', 'None', or empty";
                    let error = FieldError::invalid("includeObject", other, detail);
                    return Err(Status::bad_request(format!(
                        "Unable to convert to Table as requested: includeObject: {}",
                        error.body()
                    )));
                }
            };
        }
        let version = entry.registry.as_ref().and_then(|registry| VersionForm::of(&entry.row, registry));
        let audit = request.audit.clone();
        Ok(View { entry: entry.clone(), printer, accepted, include, version, audit, shown_as: None })
    }

    /// Of objects that upstream's messages call by this type, whatever the row's is.
    pub(super) fn shown_as(mut self, go_type: &'static str) -> Self {
        self.shown_as = Some(go_type);
        self
    }

    /// The encoding.
    pub fn media(&self) -> Media {
        self.accepted.media
    }

    /// The same without indentation: the events of a watch are one line each, whatever the client would like.
    pub fn compact(mut self) -> Self {
        self.accepted.pretty = false;
        self
    }

    /// What was agreed on.
    pub fn accepted(&self) -> Accepted {
        self.accepted
    }

    /// Whether the JSON of objects can be sent as it is.
    pub fn is_raw(&self) -> bool {
        self.accepted == Accepted::JSON
    }

    /// Whether all objects are stored in the version asked for.
    pub fn is_stored(&self) -> bool {
        self.version.is_none()
    }

    /// Whether somebody else must be asked for objects in the version asked for.
    pub fn is_remote(&self) -> bool {
        self.version.as_ref().is_some_and(VersionForm::is_remote)
    }

    /// The version asked for, if somebody else must be asked for objects in it, who may give them other labels.
    pub(super) fn remote_version(&self) -> Option<&VersionForm> {
        self.version.as_ref().filter(|version| version.is_remote())
    }

    /// The row of the request.
    pub(super) fn row(&self) -> &Resource {
        &self.entry.row
    }

    /// The JSON of a cached object in the version asked for.
    pub async fn fetch(&self, lister: &Lister, object: &Arc<Object>) -> Result<Bytes, Status> {
        match &self.version {
            Some(version) => lister.in_version(version, object).await,
            None => Ok(object.bytes().clone()),
        }
    }

    /// Has many objects converted that are about to be asked for one by one, as far as there is room to keep them.
    pub async fn prepare(&self, lister: &Arc<Lister>, objects: Vec<Arc<Object>>) {
        // What fails here fails again when the object is asked for, and the client hears of it then.
        let _ = self.convert_all(lister, &objects).await;
    }

    /// Has all objects converted by whom they must be converted.
    ///
    /// # Errors
    /// What the first that is not converted is refused with.
    pub(super) async fn convert_all(&self, lister: &Arc<Lister>, objects: &[Arc<Object>]) -> Result<(), Status> {
        if let Some(version) = self.remote_version() {
            let mut batches = lister.stream_in_version(version.clone(), objects.to_vec());
            while batches.try_next().await?.is_some() {}
        }
        Ok(())
    }

    /// One cached object.
    pub async fn object(&self, code: StatusCode, lister: &Lister, object: &Arc<Object>) -> Result<Response, Status> {
        self.audit.timed(Layer::Transform, self.shown(code, lister, object)).await
    }

    async fn shown(&self, code: StatusCode, lister: &Lister, object: &Arc<Object>) -> Result<Response, Status> {
        let bytes = self.fetch(lister, object).await?;
        let form = self.form_id().filter(|_| !matches!(self.accepted.form, Form::MetadataList { .. }));
        let shown = match form {
            _ if self.is_raw() => bytes.clone(),
            Some(form) => lister.cache().form(object, form, |_| self.encode_one(&bytes, true))?,
            None => return self.one(code, &bytes),
        };
        Ok(self.recorded(self.respond(code, self.whole(shown)), &bytes))
    }

    /// The body of one document. Compact JSON ends with a line feed, which stored text does not have.
    fn whole(&self, bytes: Bytes) -> Body {
        let compact = self.accepted.media == Media::Json && !self.accepted.pretty;
        if compact && bytes.last() != Some(&b'\n') { Body::line(bytes) } else { Body::full(bytes) }
    }

    /// The result of a write.
    pub async fn written(&self, lister: &Lister, written: &Written) -> Result<Response, Status> {
        let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
        self.bytes(code, lister, &written.bytes).await
    }

    /// Bytes of one object in the version that it is stored in.
    pub async fn bytes(&self, code: StatusCode, lister: &Lister, bytes: &Bytes) -> Result<Response, Status> {
        self.audit.timed(Layer::Transform, self.shown_bytes(code, lister, bytes)).await
    }

    async fn shown_bytes(&self, code: StatusCode, lister: &Lister, bytes: &Bytes) -> Result<Response, Status> {
        let bytes = match &self.version {
            Some(version) => lister.bytes_in_version(version, bytes).await?,
            None => bytes.clone(),
        };
        if self.is_raw() {
            return Ok(self.recorded(self.respond(code, self.whole(bytes.clone())), &bytes));
        }
        self.one(code, &bytes)
    }

    fn one(&self, code: StatusCode, bytes: &Bytes) -> Result<Response, Status> {
        if let Form::MetadataList { .. } = self.accepted.form {
            return Err(match self.entry.row.built_in {
                true => self.not_a_list("PartialObjectMetadataList"),
                false => Status::unknown_error("content is not a list"),
            });
        }
        Ok(self.recorded(self.respond(code, self.whole(self.encode_one(bytes, true)?)), bytes))
    }

    /// An answer whose object is recorded as this JSON, whatever it is encoded as.
    fn recorded(&self, mut response: Response, json: &Bytes) -> Response {
        if self.audit.wants_response() && matches!(self.accepted.form, Form::Whole | Form::Aggregated) {
            response.extensions_mut().insert(Shown::json(vec![json.clone()]));
        }
        response
    }

    /// The JSON of an object in the form asked for. `columns`: whether a table of one names its columns.
    pub fn encode_one(&self, bytes: &Bytes, columns: bool) -> Result<Bytes, Status> {
        Ok(match self.accepted.form {
            Form::Table { .. } => self.encode_table(&decode(bytes)?, columns),
            Form::Metadata { .. } | Form::MetadataList { .. } => self.encode_metadata(bytes)?,
            Form::Whole | Form::Aggregated => encode(&decode(bytes)?, self.accepted).into(),
        })
    }

    fn encode_table(&self, value: &Value, columns: bool) -> Bytes {
        let version = value.str_at(&["metadata", "resourceVersion"]).unwrap_or("").to_owned();
        let meta = if version.is_empty() {
            Value::object()
        } else {
            object! { "resourceVersion" => version }
        };
        let row = self.table_row(value, time::Timestamp::now().seconds());
        encode(&self.table(meta, vec![row], columns), self.accepted).into()
    }

    fn encode_metadata(&self, bytes: &Bytes) -> Result<Bytes, Status> {
        let beta = matches!(self.accepted.form, Form::Metadata { beta: true } | Form::MetadataList { beta: true });
        let metadata = self.metadata_document(bytes, beta)?;
        if self.accepted.media == Media::Json && !self.accepted.pretty {
            return Ok(metadata);
        }
        let value = json::decode(&metadata).map_err(Status::internal_error)?;
        Ok(encode(&value, self.accepted).into())
    }

    /// A PartialObjectMetadata of an object's bytes.
    fn metadata_document(&self, bytes: &Bytes, beta: bool) -> Result<Bytes, Status> {
        let document = metadata_document(bytes, beta)?;
        let hidden = self.entry.row.strategy.traits().hidden_annotations;
        if !hidden.iter().any(|name| scan::field(&document, &["metadata", "annotations", name]).is_some()) {
            return Ok(document);
        }
        let mut value = decode(&document)?;
        self.hide_annotations(value.at_mut(&["metadata"]));
        Ok(json::encode(&value).into())
    }

    /// Takes what metadata say of members of upstream's internal type out of them.
    fn hide_annotations(&self, metadata: &mut Value) {
        for name in self.entry.row.strategy.traits().hidden_annotations {
            if metadata.remove_at(&["annotations", name]).is_some()
                && metadata.get("annotations").and_then(Value::as_object).is_some_and(Map::is_empty)
            {
                metadata.remove_at(&["annotations"]);
            }
        }
    }

    /// A value in the row's version, in the form asked for.
    pub fn encode_value(&self, value: &Value, columns: bool) -> Result<Bytes, Status> {
        match self.accepted.form {
            Form::Whole | Form::Aggregated => Ok(encode(value, self.accepted).into()),
            _ => self.encode_one(&json::encode(value).into(), columns),
        }
    }

    /// A document that is in no cache.
    pub(super) fn document(&self, code: StatusCode, value: &Value) -> Result<Response, Status> {
        let bytes = match self.accepted.form {
            Form::Whole | Form::Aggregated => encode(value, self.accepted).into(),
            Form::MetadataList { .. } => return Err(self.not_a_list("PartialObjectMetadataList")),
            Form::Metadata { .. } => self.encode_metadata(&json::encode(value).into())?,
            Form::Table { .. } => self.encode_table(value, true),
        };
        Ok(self.respond(code, self.whole(bytes)))
    }

    /// A list of documents that are in no cache.
    pub(super) fn documents(&self, values: Vec<Value>) -> Result<Response, Status> {
        self.check_list()?;
        let now = time::Timestamp::now().seconds();
        let list = match self.accepted.form {
            Form::Table { .. } => {
                let rows = values.iter().map(|value| self.table_row(value, now)).collect();
                self.table(Value::object(), rows, true)
            }
            Form::MetadataList { beta } => {
                let item = |value: &Value| {
                    let metadata = value.get("metadata").cloned();
                    object! {
                        "kind" => "PartialObjectMetadata", "apiVersion" => meta_version(beta), "metadata" => metadata,
                    }
                };
                let items = (!values.is_empty()).then(|| values.iter().map(item).collect::<Vec<_>>());
                object! {
                    "kind" => "PartialObjectMetadataList", "apiVersion" => meta_version(beta),
                    "metadata" => Value::object(), "items" => items,
                }
            }
            _ => {
                let row = &self.entry.row;
                let item = |mut value: Value| {
                    value.remove_at(&["kind"]);
                    value.remove_at(&["apiVersion"]);
                    value
                };
                object! {
                    "kind" => &row.list_kind, "apiVersion" => row.api_version(), "metadata" => Value::object(),
                    "items" => values.into_iter().map(item).collect::<Vec<_>>(),
                }
            }
        };
        Ok(self.respond(StatusCode::OK, Body::full(encode(&list, self.accepted))))
    }

    /// One event of a watch around an encoded object.
    pub fn watch_frame(&self, kind: &str, object: &Bytes) -> Bytes {
        match self.accepted.media {
            Media::Protobuf => return protobuf::watch_frame(kind, object).into(),
            Media::Cbor => return cbor::watch_frame(kind, object).into(),
            Media::Json | Media::Yaml => {}
        }
        let mut frame = BytesMut::with_capacity(object.len() + kind.len() + 24);
        frame.put_slice(b"{\"type\":\"");
        frame.put_slice(kind.as_bytes());
        frame.put_slice(b"\",\"object\":");
        frame.put_slice(object.trim_ascii_end());
        frame.put_slice(b"}\n");
        frame.freeze()
    }

    fn table(&self, metadata: Value, rows: Vec<Value>, columns: bool) -> Value {
        let beta = matches!(self.accepted.form, Form::Table { beta: true });
        let definitions = if columns { self.column_definitions() } else { Value::Null };
        object! {
            "kind" => "Table", "apiVersion" => meta_version(beta), "metadata" => metadata,
            "columnDefinitions" => definitions, "rows" => rows,
        }
    }

    fn column_definitions(&self) -> Value {
        let definition = |c: &Column| {
            object! {
                "name" => &c.name, "type" => &c.kind, "format" => &c.format,
                "description" => &c.description, "priority" => c.priority,
            }
        };
        self.printer.columns().iter().map(definition).collect::<Vec<_>>().into()
    }

    /// `now`: what ages are counted from, in seconds.
    fn table_row(&self, object: &Value, now: i64) -> Value {
        let mut row = object! { "cells" => self.printer.cells(object, now) };
        let members = row.make_object();
        if let Some(conditions) = self.printer.conditions(object) {
            members.insert("conditions", conditions);
        }
        let beta = matches!(self.accepted.form, Form::Table { beta: true });
        let carried = match self.include {
            Include::Nothing => Value::Null,
            Include::Object => object.clone(),
            Include::Metadata => {
                let mut metadata = object.get("metadata").cloned().unwrap_or_default();
                self.hide_annotations(&mut metadata);
                object! {
                    "kind" => "PartialObjectMetadata", "apiVersion" => meta_version(beta), "metadata" => metadata,
                }
            }
        };
        members.insert("object", carried);
        row
    }

    /// A number for the form among the forms that the cache keeps, `None` if it should not be kept.
    pub fn form_id(&self) -> Option<FormId> {
        self.form_id_of(self.accepted.form)
    }

    fn form_id_of(&self, form: Form) -> Option<FormId> {
        let form = match (form, self.accepted.media, self.accepted.pretty) {
            (_, _, true) => return None,
            (Form::Whole, Media::Json, _) => 0,
            (Form::Whole, media, _) => 1 + media as u32,
            (Form::Metadata { beta }, media, _) => 8 + media as u32 * 2 + u32::from(beta),
            _ => return None,
        };
        Some(self.version.as_ref().map_or(FormId(form), |version| version.form(form)))
    }

    /// A response in the agreed encoding.
    pub fn respond(&self, code: StatusCode, body: Body) -> Response {
        let mut response = response::bytes(code, self.accepted.media.name(), body);
        if self.audit.wants_response() {
            response.extensions_mut().insert(Shown::Body(self.accepted));
        }
        response
    }

    /// Refuses a form that only single objects have.
    pub fn check_list(&self) -> Result<(), Status> {
        if matches!(self.accepted.form, Form::Metadata { .. }) { Err(self.not_an_object()) } else { Ok(()) }
    }

    fn not_an_object(&self) -> Status {
        let list = self.go_type("List");
        let message = format!("you requested PartialObjectMetadata, but the requested object is a list (*{list})");
        Status::new(406, "NotAcceptable", message)
    }

    fn not_a_list(&self, asked: &str) -> Status {
        not_a_list(asked, self.shown_as.map_or_else(|| self.go_type(""), str::to_owned).as_str())
    }

    /// How upstream's messages call the row's type.
    fn go_type(&self, suffix: &str) -> String {
        if !self.entry.row.built_in {
            return format!("unstructured.Unstructured{suffix}");
        }
        // The internal type is of the group that has it in the store.
        let package = match self.entry.row.storage_version.group.split('.').next() {
            None | Some("") => "core",
            Some(package) => package,
        };
        format!("{package}.{}{suffix}", self.entry.row.kind)
    }
}

fn not_a_list(asked: &str, go_type: &str) -> Status {
    let message = format!("you requested {asked}, but the requested object is not a list (*{go_type})");
    Status::new(406, "NotAcceptable", message)
}

fn meta_version(beta: bool) -> &'static str {
    if beta { "meta.k8s.io/v1beta1" } else { "meta.k8s.io/v1" }
}

/// The JSON of an object as a tree.
fn decode(bytes: &Bytes) -> Result<Value, Status> {
    json::decode(bytes).map_err(|error| Status::internal_error(format!("a stored object: {error}")))
}

/// A PartialObjectMetadata of an object's bytes, without a look at the rest of it.
fn metadata_document(bytes: &Bytes, beta: bool) -> Result<Bytes, Status> {
    let metadata = scan::metadata(bytes).ok_or_else(|| Status::internal_error("an object without metadata"))?;
    let mut out = BytesMut::with_capacity(metadata.range.len() + 96);
    out.put_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"");
    out.put_slice(meta_version(beta).as_bytes());
    out.put_slice(b"\",\"metadata\":");
    out.put_slice(&bytes[metadata.range]);
    out.put_u8(b'}');
    Ok(out.freeze())
}
