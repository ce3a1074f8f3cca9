//! Documents that are posted to a subresource of an object and answered at once: bindings, evictions, token requests.

use generic_server::{
    handlers::{check_namespace, read_object, transform},
    negotiate::{Accepted, Offer},
    options::{WriteKind, WriteOptions},
    registry::{Registry, Write, field_manager, wipe_system_fields},
    request::Request,
    resource::Resource,
    response::{self, Response},
};
use http::StatusCode;
use machinery::{
    Value,
    meta::{
        GvkRef,
        field_error::{FieldError, aggregate},
        status::Status,
    },
    request::Verb,
};

/// A request with such a document, read.
pub(crate) struct Posted {
    /// The request.
    pub(crate) request: Request,
    /// The document, of its kind and defaulted.
    pub(crate) document: Value,
    /// The options in the query.
    pub(crate) options: WriteOptions,
    /// Warnings for the client.
    pub(crate) warnings: Vec<String>,
    /// The document's group, version and kind.
    kind: Kind,
    accepted: Accepted,
}

type Kind = GvkRef<'static>;

impl Posted {
    /// Reads a request. `row` is the resource's, `kind` the document's .
    pub(crate) async fn read(mut request: Request, row: &Resource, kind: Kind) -> Result<Self, Status> {
        if request.info.verb != Verb::Create {
            return Err(Status::method_not_allowed());
        }
        let accepted = response::accepted(&request, &Offer::TABLELESS)?;
        let options = WriteOptions::read(&request, WriteKind::Create)?;
        let mut warnings = Vec::new();
        let document = read_object(&mut request, row, kind, options.field_validation, &mut warnings).await?;
        check_namespace(&document, &request.info.namespace, true)?;
        Ok(Posted { request, document, options, warnings, kind, accepted })
    }

    /// Drops what only the server sets on objects: a document that is posted is made anew.
    pub(crate) fn wipe(&mut self) {
        wipe_system_fields(&mut self.document);
    }

    /// Puts the document into the namespace of the request, and notes which fields it came with.
    pub(crate) fn track(&mut self) {
        let info = &self.request.info;
        self.document.set(&["metadata", "namespace"], &info.namespace);
        field_manager::track_posted(self.kind, &info.subresource, &self.options, &mut self.document);
    }

    /// Lets admission see the document, as something made through `row` for the object `name` of `parent`.
    pub(crate) async fn admit(&mut self, parent: &Registry, row: &Resource, name: &str) -> Result<(), Status> {
        self.mutate(parent, row, name).await?;
        self.validate(parent, row, name).await
    }

    /// The first half of [`Posted::admit`], for documents that are completed after it.
    pub(crate) async fn mutate(&mut self, parent: &Registry, row: &Resource, name: &str) -> Result<(), Status> {
        let (mut write, document) = self.write(row);
        parent.mutate_posted(&mut write, name, document).await
    }

    /// The second half.
    pub(crate) async fn validate(&mut self, parent: &Registry, row: &Resource, name: &str) -> Result<(), Status> {
        let (mut write, document) = self.write(row);
        parent.validate_posted(&mut write, name, document).await
    }

    fn write<'a>(&'a mut self, row: &'a Resource) -> (Write<'a>, &'a mut Value) {
        let write = Write {
            row,
            namespace: &self.request.info.namespace,
            subresource: &self.request.info.subresource,
            user: &self.request.user,
            audit: &self.request.audit,
            options: &self.options,
            warnings: &mut self.warnings,
        };
        (write, &mut self.document)
    }

    /// The answer: 201 with a document, or an error. The client hears of warnings either way.
    pub(crate) fn answer(self, result: Result<Value, Status>) -> Response {
        let package = self.kind.group.split('.').next().unwrap_or_default();
        let response = result.and_then(|document| transform::posted(&document, self.accepted, package));
        let response = response.unwrap_or_else(|status| response::error(&status, response::wanted(&self.request)));
        response::add_warnings(response, &self.warnings)
    }
}

/// The document that says no more than that it is done.
pub(crate) fn done() -> Value {
    Status { code: StatusCode::CREATED.as_u16(), ..Status::success(None) }.to_value()
}

/// The error of documents whose findings upstream does not report one by one: a 500 with their texts.
pub(crate) fn plainly(errors: &[FieldError]) -> Result<(), Status> {
    aggregate(errors).map_or(Ok(()), |text| Err(Status::unknown_error(text)))
}
