//! `tokenreviews`: whose a token is, asked by somebody who was given it.

use std::sync::Arc;

use async_trait::async_trait;
use generic_server::{
    auth::TokenAuthenticators,
    fields,
    handlers::{
        options::{WriteKind, WriteOptions},
        read_object,
    },
    negotiate::Offer,
    pipeline::respond::{self, Response},
    request::Request,
    resource::Resource,
    server::Endpoint,
};
use http::StatusCode;
use machinery::{Str, Value, meta::status::Status, object};

use super::reviews::user_info;

/// `tokenreviews`
pub(crate) struct TokenReview {
    pub(crate) row: Resource,
    pub(crate) tokens: Arc<TokenAuthenticators>,
}

#[async_trait]
impl Endpoint for TokenReview {
    async fn serve(&self, mut request: Request) -> Result<Response, Status> {
        let row = &self.row;
        let accepted = respond::accepted(&request, &Offer { routed: false, ..Offer::PLAIN })?;
        let options = WriteOptions::read(&request, WriteKind::Create)?;
        let mut warnings = Vec::new();
        let kind = (row.group.as_str(), row.version.as_str(), row.kind.as_str());
        let mut review = read_object(&mut request, row, kind, options.field_validation, &mut warnings).await?;
        review.remove_at(&["metadata", "namespace"]);
        fields::track_virtual(row, &options, &mut review);
        let token = review.str_at(&["spec", "token"]).unwrap_or_default();
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        let asked = review.at(&["spec", "audiences"]).and_then(Value::as_array).unwrap_or_default();
        let asked: Vec<Str> = asked.iter().filter_map(Value::as_shared_str).cloned().collect();
        let status = match self.tokens.owner(token, Some(&asked[..]).filter(|asked| !asked.is_empty())).await {
            Ok(owner) => {
                let mut status = object! { "authenticated" => true, "user" => user_info(&owner.user) };
                if !owner.audiences.is_empty() {
                    status.set(&["audiences"], owner.audiences.to_vec());
                }
                status
            }
            Err(why) => object! { "user" => object! {}, "error" => why },
        };
        review.set(&["status"], status);
        Ok(respond::add_warnings(respond::document(StatusCode::CREATED, &review, accepted), &warnings))
    }
}
