//! Documents that are posted to a subresource of an object and answered at once: bindings, evictions, token requests.

use generic_server::{
    handlers::{
        check_namespace,
        options::{WriteKind, WriteOptions},
        read_object,
    },
    negotiate::{Accepted, Offer},
    pipeline::respond::{self, Response},
    registry::{Registry, Write},
    request::Request,
    resource::{Resource, Verb},
};
use http::StatusCode;
use machinery::{
    Value,
    meta::{
        field_error::{FieldError, aggregate},
        status::Status,
    },
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
    accepted: Accepted,
}

impl Posted {
    /// Reads a request. `row` is the resource's, `kind` the document's (group, version, kind).
    pub(crate) async fn read(mut request: Request, row: &Resource, kind: (&str, &str, &str)) -> Result<Self, Status> {
        if request.info.verb != Verb::Create {
            return Err(Status::method_not_allowed());
        }
        let accepted = respond::accepted(&request, &Offer { routed: false, ..Offer::PLAIN })?;
        let options = WriteOptions::read(&request, WriteKind::Create)?;
        let mut warnings = Vec::new();
        let document = read_object(&mut request, row, kind, options.field_validation, &mut warnings).await?;
        check_namespace(&document, &request.info.namespace, true)?;
        Ok(Posted { request, document, options, warnings, accepted })
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
            options: &self.options,
            warnings: &mut self.warnings,
        };
        (write, &mut self.document)
    }

    /// The answer 201 with a document.
    pub(crate) fn created(self, document: &Value) -> Response {
        respond::add_warnings(respond::document(StatusCode::CREATED, document, self.accepted), &self.warnings)
    }

    /// The answer that says no more than that it is done.
    pub(crate) fn done(self) -> Response {
        let status = Status { code: StatusCode::CREATED.as_u16(), ..Status::success(None) };
        self.created(&status.to_value())
    }
}

/// The error of documents whose findings upstream does not report one by one: a 500 with their texts.
pub(crate) fn plainly(errors: &[FieldError]) -> Result<(), Status> {
    aggregate(errors).map_or(Ok(()), |text| Err(Status::unknown_error(text)))
}
