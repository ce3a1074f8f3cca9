//! The group authorization.k8s.io: what somebody may do.

use generic_server::resource::Resource;

use crate::row::{GroupVersion, Row};

const V1: GroupVersion = GroupVersion("authorization.k8s.io", "v1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [
        V1.virtual_namespaced("localsubjectaccessreviews", "LocalSubjectAccessReview"),
        V1.virtual_cluster("selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        V1.virtual_cluster("selfsubjectrulesreviews", "SelfSubjectRulesReview"),
        V1.virtual_cluster("subjectaccessreviews", "SubjectAccessReview"),
    ]
    .into_iter()
    .map(Row::build)
    .collect()
}
