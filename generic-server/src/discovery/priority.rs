//! In which order groups and versions stand: upstream's priorities of the local APIServices.

/// A local group version's priorities, as its APIService has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// `groupPriorityMinimum`: groups stand by it, highest first.
    pub group: i64,
    /// `versionPriority`: a group's versions stand by it, highest first.
    pub version: i64,
}

/// Group and version, and their priorities. Groups that are not here have custom resources.
const LOCAL: [(&str, &str, i64, i64); 36] = [
    ("", "v1", 18000, 1),
    ("apiregistration.k8s.io", "v1", 20000, 15),
    ("apps", "v1", 17800, 15),
    ("events.k8s.io", "v1", 17750, 15),
    ("authentication.k8s.io", "v1", 17700, 15),
    ("authorization.k8s.io", "v1", 17600, 15),
    ("autoscaling", "v1", 17500, 15),
    ("autoscaling", "v2", 17500, 30),
    ("batch", "v1", 17400, 15),
    ("certificates.k8s.io", "v1", 17300, 15),
    ("networking.k8s.io", "v1", 17200, 15),
    ("policy", "v1", 17100, 15),
    ("rbac.authorization.k8s.io", "v1", 17000, 15),
    ("storage.k8s.io", "v1", 16800, 15),
    ("apiextensions.k8s.io", "v1", 16700, 15),
    ("admissionregistration.k8s.io", "v1", 16700, 15),
    ("scheduling.k8s.io", "v1", 16600, 15),
    ("coordination.k8s.io", "v1", 16500, 15),
    ("node.k8s.io", "v1", 16300, 15),
    ("discovery.k8s.io", "v1", 16200, 15),
    ("resource.k8s.io", "v1", 16200, 21),
    ("flowcontrol.apiserver.k8s.io", "v1", 16100, 21),
    ("admissionregistration.k8s.io", "v1alpha1", 16700, 9),
    ("certificates.k8s.io", "v1alpha1", 17300, 1),
    ("internal.apiserver.k8s.io", "v1alpha1", 16000, 9),
    ("coordination.k8s.io", "v1alpha2", 16500, 12),
    ("scheduling.k8s.io", "v1alpha2", 16600, 2),
    ("resource.k8s.io", "v1alpha3", 16200, 1),
    ("admissionregistration.k8s.io", "v1beta1", 16700, 12),
    ("certificates.k8s.io", "v1beta1", 17300, 9),
    ("coordination.k8s.io", "v1beta1", 16500, 13),
    ("networking.k8s.io", "v1beta1", 17200, 9),
    ("resource.k8s.io", "v1beta1", 16200, 9),
    ("storage.k8s.io", "v1beta1", 16800, 9),
    ("storagemigration.k8s.io", "v1beta1", 15800, 9),
    ("resource.k8s.io", "v1beta2", 16200, 15),
];

/// The priorities of a local group version; those of custom resources for any that is not built in.
pub fn priority(group: &str, version: &str) -> Priority {
    LOCAL.iter().find(|(g, v, ..)| *g == group && *v == version).map_or(
        Priority { group: 1000, version: 100 },
        |(_, _, group, version)| Priority { group: *group, version: *version },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_are_not_built_in_rank_as_custom_resources() {
        assert_eq!(priority("apps", "v1"), Priority { group: 17800, version: 15 });
        assert_eq!(priority("example.dev", "v1"), Priority { group: 1000, version: 100 });
    }
}
