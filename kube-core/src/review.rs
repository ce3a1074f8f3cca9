//! What all reviews have in common: a document is read, judged, and sent back with its status; nothing is stored.

use generic_server::{
    handlers::read_object,
    negotiate::{Accepted, Offer},
    options::{WriteKind, WriteOptions},
    request::Request,
    resource::Resource,
    response::{self, Response},
};
use http::StatusCode;
use machinery::{Value, meta::status::Status};

/// A review that has been asked for.
pub(crate) struct Review {
    /// The document, decoded and defaulted.
    pub(crate) document: Value,
    /// The options of the request.
    pub(crate) options: WriteOptions,
    accepted: Accepted,
    warnings: Vec<String>,
}

impl Review {
    /// Reads what the request asks about.
    pub(crate) async fn read(request: &mut Request, row: &Resource) -> Result<Self, Status> {
        let accepted = response::accepted(request, &Offer { routed: false, ..Offer::PLAIN })?;
        let options = WriteOptions::read(request, WriteKind::Create)?;
        let mut warnings = Vec::new();
        let kind = (row.group.as_str(), row.version.as_str(), row.kind.as_str());
        let document = read_object(request, row, kind, options.field_validation, &mut warnings).await?;
        Ok(Review { document, options, accepted, warnings })
    }

    /// Sends the document with what became of it.
    pub(crate) fn answer(&self) -> Response {
        response::add_warnings(response::document(StatusCode::CREATED, &self.document, self.accepted), &self.warnings)
    }
}
