//! The group coordination.k8s.io: leases, which leaders and nodes renew, and candidates for them.

mod candidates;
mod election;
mod elections;
mod identity;
mod leadership;

use generic_server::resource::Resource;

use crate::{
    printer,
    row::{GroupVersion, Row},
    strategy::Rules,
};

const V1: GroupVersion = GroupVersion("coordination.k8s.io", "v1");
const V1BETA1: GroupVersion = GroupVersion("coordination.k8s.io", "v1beta1");
const V1ALPHA2: GroupVersion = GroupVersion("coordination.k8s.io", "v1alpha2");

pub(crate) use elections::task as elections;
pub use identity::server_name;
pub(crate) use identity::tasks as identity_tasks;
pub use leadership::Timers as LeadershipTimers;

const RULES: Rules = Rules::PLAIN.create_on_update().conditional().any_finalizers().validate(|_, lease, errors| {
    let spec = lease.at("spec");
    let duration = spec.at("leaseDurationSeconds");
    if duration.int().is_some_and(|seconds| seconds <= 0) {
        duration.invalid("must be greater than 0", errors);
    }
    spec.at("leaseTransitions").non_negative(errors);
    let strategy = spec.at("strategy");
    if strategy.is_set() {
        candidates::lease_strategy(&strategy, errors);
    }
    let preferred = spec.at("preferredHolder");
    if !preferred.is_empty() && strategy.is_empty() {
        preferred.forbidden("may only be specified if `strategy` is defined", errors);
    }
});

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [
        V1.namespaced("leases", "Lease", "gqkMMb/YqFM=").table(printer::LEASES).strategy(RULES),
        candidates(V1BETA1).deprecated_since(36, None),
        candidates(V1ALPHA2).renamed_from(V1BETA1).deprecated_since(35, None),
    ]
    .into_iter()
    .map(Row::build)
    .collect()
}

fn candidates(version: GroupVersion) -> Row {
    version
        .namespaced("leasecandidates", "LeaseCandidate", "lvME0iHWE20=")
        .table(candidates::TABLE)
        .strategy(candidates::RULES)
}
