//! The group coordination.k8s.io: leases, which leaders and nodes renew.

mod identity;

use generic_server::resource::Resource;
use machinery::Value;

use crate::{
    printer,
    row::{GroupVersion, Row},
    strategy::Rules,
};

const V1: GroupVersion = GroupVersion("coordination.k8s.io", "v1");

pub use identity::server_name;
pub(crate) use identity::tasks as identity_tasks;

/// Coordinated leader election is behind a gate that is off.
const RULES: Rules = Rules::PLAIN
    .create_on_update()
    .conditional()
    .any_finalizers()
    .create(|_, lease| drop_disabled(lease, None))
    .update(|_, lease, old| drop_disabled(lease, Some(old)))
    .validate(|_, lease, errors| {
        let spec = lease.at("spec");
        let duration = spec.at("leaseDurationSeconds");
        if duration.int().is_some_and(|seconds| seconds <= 0) {
            duration.invalid("must be greater than 0", errors);
        }
        spec.at("leaseTransitions").non_negative(errors);
    });

fn drop_disabled(lease: &mut Value, old: Option<&Value>) {
    for member in ["preferredHolder", "strategy"] {
        if old.and_then(|old| old.at(&["spec", member])).is_none() {
            lease.remove_at(&["spec", member]);
        }
    }
}

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [V1.namespaced("leases", "Lease", "gqkMMb/YqFM=").table(printer::LEASES).strategy(RULES)]
        .into_iter()
        .map(Row::build)
        .collect()
}
