//! `tokenreviews`: whose a token is, asked by somebody who was given it.

use std::sync::Arc;

use async_trait::async_trait;
use auth::TokenAuthenticators;
use machinery::{Str, Value, meta::status::Status};

use super::reviews::user_info;
use crate::review::{Judge, Review, complete_status};

/// `tokenreviews`
pub(crate) struct TokenReview {
    pub(crate) tokens: Arc<TokenAuthenticators>,
}

#[async_trait]
impl Judge for TokenReview {
    fn complete(&self, review: &mut Value) {
        complete_status(review, "user", Value::object());
    }

    async fn judge(&self, review: &mut Review<'_>) -> Result<(), Status> {
        let token = Str::from(review.object.str_at(&["spec", "token"]).unwrap_or_default());
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        review.admit().await?;
        let audiences = review.object.at(&["spec", "audiences"]).and_then(Value::as_array).unwrap_or_default();
        let audiences: Vec<Str> = audiences.iter().filter_map(Value::as_shared_str).cloned().collect();
        let audiences = Some(&audiences[..]).filter(|audiences| !audiences.is_empty());
        // What the client has sent of the status stays where there is nothing else to say.
        let mut status = review.object.get("status").cloned().unwrap_or_default();
        match self.tokens.owner(&token, audiences).await {
            Ok(owner) => {
                for notes in owner.notes.iter() {
                    notes.annotations.iter().for_each(|(key, value)| review.audit.annotate(*key, value.clone()));
                    review.warnings.extend(notes.warnings.iter().cloned());
                }
                status.set(&["authenticated"], true);
                status.set(&["user"], user_info(&owner.user));
                status.remove_at(&["audiences"]);
                if !owner.audiences.is_empty() {
                    status.set(&["audiences"], owner.audiences.to_vec());
                }
            }
            Err(why) => {
                let notes = why.notes();
                let annotations = notes.iter().flat_map(|notes| &notes.annotations);
                annotations.for_each(|(key, value)| review.audit.annotate(*key, value.clone()));
                status.remove_at(&["authenticated"]);
                status.set(&["error"], why.to_string());
            }
        }
        review.object.set(&["status"], status);
        Ok(())
    }
}
