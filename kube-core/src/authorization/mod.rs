//! The group authorization.k8s.io: what somebody may do.

mod reviews;
mod rules_review;
mod selectors;
mod validation;

use std::sync::Arc;

use auth::Authorizer;
use generic_server::{admission::Admission, resource::Resource, table::Endpoints};
use machinery::meta::GroupResource;

use reviews::{AccessReview, Subject};
use rules_review::RulesReview;

use crate::{
    review::Reviews,
    row::{GroupVersion, Row},
};

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

/// Who serves the reviews.
pub(crate) fn endpoints(authorizer: &Arc<dyn Authorizer>, admission: &Arc<dyn Admission>) -> Endpoints {
    let subject = |plural: &str| match plural {
        "subjectaccessreviews" => Some(Subject::Anybody),
        "localsubjectaccessreviews" => Some(Subject::InNamespace),
        "selfsubjectaccessreviews" => Some(Subject::Oneself),
        _ => None,
    };
    let mut endpoints = Endpoints::new();
    for row in resources() {
        let key = GroupResource::new(row.group.clone(), row.plural.clone());
        let (authorizer, admission) = (authorizer.clone(), admission.clone());
        if let Some(subject) = subject(&row.plural) {
            endpoints.insert(key, Arc::new(Reviews { row, admission, judge: AccessReview { subject, authorizer } }));
        } else {
            endpoints.insert(key, Arc::new(Reviews { row, admission, judge: RulesReview { authorizer } }));
        }
    }
    endpoints
}
