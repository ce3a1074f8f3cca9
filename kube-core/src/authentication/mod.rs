//! The group authentication.k8s.io: who a request is from.

use generic_server::resource::Resource;

use crate::row::{GroupVersion, Row};

const V1: GroupVersion = GroupVersion("authentication.k8s.io", "v1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [V1.virtual_cluster("selfsubjectreviews", "SelfSubjectReview"), V1.virtual_cluster("tokenreviews", "TokenReview")]
        .into_iter()
        .map(Row::build)
        .collect()
}
