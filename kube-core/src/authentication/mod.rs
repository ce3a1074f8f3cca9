//! The group authentication.k8s.io: who a request is from.

mod bearer;
mod published;
mod reviews;
mod token_review;

use std::sync::Arc;

use auth::TokenAuthenticators;
use generic_server::{resource::Resource, table::Endpoints};

pub use bearer::BearerTokens;
pub use published::Trust;
pub(crate) use published::task as publish;
use reviews::SelfReview;
use token_review::TokenReview;

use crate::row::{GroupVersion, Row};

const V1: GroupVersion = GroupVersion("authentication.k8s.io", "v1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [V1.virtual_cluster("selfsubjectreviews", "SelfSubjectReview"), V1.virtual_cluster("tokenreviews", "TokenReview")]
        .into_iter()
        .map(Row::build)
        .collect()
}

/// Who serves the reviews.
pub(crate) fn endpoints(tokens: &Arc<TokenAuthenticators>) -> Endpoints {
    let mut endpoints = Endpoints::new();
    for row in resources() {
        let key = (row.group.clone(), row.plural.clone());
        if row.plural == "tokenreviews" {
            endpoints.insert(key, Arc::new(TokenReview { row, tokens: tokens.clone() }));
        } else {
            endpoints.insert(key, Arc::new(SelfReview { row }));
        }
    }
    endpoints
}
