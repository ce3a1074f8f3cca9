//! `tokenreviews`: whose a token is, asked by somebody who was given it.

use std::sync::Arc;

use async_trait::async_trait;
use auth::TokenAuthenticators;
use generic_server::{
    endpoint::Endpoint, registry::field_manager, request::Request, resource::Resource, response::Response,
};
use machinery::{Str, Value, meta::status::Status, object};

use crate::review::Review;

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
        let mut asked = Review::read(&mut request, row).await?;
        let review = &mut asked.document;
        review.remove_at(&["metadata", "namespace"]);
        field_manager::track_virtual(row, &asked.options, review);
        let token = review.str_at(&["spec", "token"]).unwrap_or_default();
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        let audiences = review.at(&["spec", "audiences"]).and_then(Value::as_array).unwrap_or_default();
        let audiences: Vec<Str> = audiences.iter().filter_map(Value::as_shared_str).cloned().collect();
        let status =
            match self.tokens.owner(token, Some(&audiences[..]).filter(|audiences| !audiences.is_empty())).await {
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
        Ok(asked.answer())
    }
}
