//! The group authentication.k8s.io: who a request is from.

mod bearer;
mod published;
mod reviews;
mod token_review;

use machinery::meta::GroupResource;
use std::sync::Arc;

use auth::TokenAuthenticators;
use generic_server::{admission::Admission, resource::Resource, table::Endpoints};

pub use bearer::BearerTokens;
pub use published::Trust;
pub(crate) use published::task as publish;
use reviews::SelfReview;
use token_review::TokenReview;

use crate::{
    review::Reviews,
    row::{GroupVersion, Row},
};

const V1: GroupVersion = GroupVersion("authentication.k8s.io", "v1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [V1.virtual_cluster("selfsubjectreviews", "SelfSubjectReview"), V1.virtual_cluster("tokenreviews", "TokenReview")]
        .into_iter()
        .map(Row::build)
        .collect()
}

/// Who serves the reviews.
pub(crate) fn endpoints(tokens: &Arc<TokenAuthenticators>, admission: &Arc<dyn Admission>) -> Endpoints {
    let mut endpoints = Endpoints::new();
    for row in resources() {
        let key = GroupResource::new(row.group.clone(), row.plural.clone());
        let admission = admission.clone();
        if row.plural == "tokenreviews" {
            let judge = TokenReview { tokens: tokens.clone() };
            endpoints.insert(key, Arc::new(Reviews { row, admission, judge }));
        } else {
            endpoints.insert(key, Arc::new(Reviews { row, admission, judge: SelfReview }));
        }
    }
    endpoints
}
