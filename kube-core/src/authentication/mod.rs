//! The group authentication.k8s.io: who a request is from.

mod reviews;

use std::sync::Arc;

use generic_server::{registry::Endpoints, resource::Resource};

use reviews::SelfReview;

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
pub(crate) fn endpoints() -> Endpoints {
    let mut endpoints = Endpoints::new();
    for row in resources().into_iter().filter(|row| row.plural == "selfsubjectreviews") {
        endpoints.insert((row.group.clone(), row.plural.clone()), Arc::new(SelfReview { row }));
    }
    endpoints
}
