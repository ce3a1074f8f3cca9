//! Documents that are posted and stored nowhere, and the forms that they come in.

use http::StatusCode;
use machinery::{Value, codec::json, meta::status::Status};

use super::{decode, metadata_document, not_a_list};
use crate::{
    negotiate::{Accepted, Form},
    response::{self, Response},
};

/// A document that was posted and is stored nowhere, in the form that was agreed on. A Status has no other form.
///
/// # Errors
/// It is no list. `package` is where upstream's messages have its kind.
pub fn posted(value: &Value, accepted: Accepted, package: &str) -> Result<Response, Status> {
    let kind = value.str_at(&["kind"]).unwrap_or_default();
    match accepted.form {
        _ if kind == "Status" => {}
        Form::Metadata { beta } => {
            let metadata = decode(&metadata_document(&json::encode(value).into(), beta)?)?;
            return Ok(response::document(StatusCode::CREATED, &metadata, accepted));
        }
        Form::MetadataList { .. } => return Err(not_a_list("PartialObjectMetadataList", &format!("{package}.{kind}"))),
        Form::Whole | Form::Table { .. } | Form::Aggregated => {}
    }
    Ok(response::document(StatusCode::CREATED, value, accepted.whole()))
}
