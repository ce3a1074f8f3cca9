//! Which admission plugins run.

use super::Findings;
use crate::flags::Parsed;

/// Every admission plugin of v1.36 in the order in which they run, and whether it runs unless a flag says otherwise.
pub const ADMISSION_PLUGINS: [(&str, bool); 41] = [
    ("AlwaysAdmit", false),
    ("NamespaceAutoProvision", false),
    ("NamespaceLifecycle", true),
    ("NamespaceExists", false),
    ("LimitPodHardAntiAffinityTopology", false),
    ("LimitRanger", true),
    ("ServiceAccount", true),
    ("NodeRestriction", false),
    ("TaintNodesByCondition", true),
    ("AlwaysPullImages", false),
    ("ImagePolicyWebhook", false),
    ("PodSecurity", true),
    ("PodNodeSelector", false),
    ("Priority", true),
    ("DefaultTolerationSeconds", true),
    ("PodTolerationRestriction", false),
    ("EventRateLimit", false),
    ("ExtendedResourceToleration", false),
    ("DefaultStorageClass", true),
    ("StorageObjectInUseProtection", true),
    ("PodGroupProtection", true),
    ("OwnerReferencesPermissionEnforcement", false),
    ("PersistentVolumeClaimResize", true),
    ("RuntimeClass", true),
    ("CertificateApproval", true),
    ("CertificateSigning", true),
    ("ClusterTrustBundleAttest", true),
    ("CertificateSubjectRestriction", true),
    ("DefaultIngressClass", true),
    ("DenyServiceExternalIPs", false),
    ("PodTopologyLabels", true),
    ("PodGroupWorkloadExists", true),
    ("NodeDeclaredFeatureValidator", true),
    ("JobValidation", true),
    ("PodResizeValidator", true),
    ("MutatingAdmissionPolicy", true),
    ("MutatingAdmissionWebhook", true),
    ("ValidatingAdmissionPolicy", true),
    ("ValidatingAdmissionWebhook", true),
    ("ResourceQuota", true),
    ("AlwaysDeny", false),
];

/// Which admission plugins run.
#[derive(Clone, Debug)]
pub struct Admission {
    /// Their names, in the order in which they run.
    pub plugins: Vec<&'static str>,
    /// `--default-not-ready-toleration-seconds`.
    pub not_ready_toleration_seconds: i64,
    /// `--default-unreachable-toleration-seconds`.
    pub unreachable_toleration_seconds: i64,
}

impl Admission {
    pub(super) fn from_flags(flags: &Parsed, findings: &mut Findings) -> Self {
        let on = flags.list("enable-admission-plugins");
        let off = flags.list("disable-admission-plugins");
        let exactly = flags.list("admission-control");
        if !exactly.is_empty() && (!on.is_empty() || !off.is_empty()) {
            findings.error(
                "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive",
            );
        }
        let lists =
            [("enable-admission-plugins", &on), ("disable-admission-plugins", &off), ("admission-control", &exactly)];
        for (flag, list) in lists {
            for name in list.iter().filter(|name| !is_known(name)) {
                findings.error(format!("{flag} plugin {name:?} is unknown"));
            }
        }
        let both: Vec<_> = on.iter().filter(|name| off.contains(name)).map(String::as_str).collect();
        if !both.is_empty() {
            findings.error(format!(
                "[{}] in enable-admission-plugins and disable-admission-plugins overlapped",
                both.join(" ")
            ));
        }
        let has = |list: &[String], name: &str| list.iter().any(|given| given == name);
        let runs = |(name, default): &(&'static str, bool)| {
            let runs =
                if exactly.is_empty() { has(&on, name) || (*default && !has(&off, name)) } else { has(&exactly, name) };
            runs.then_some(*name)
        };
        Self {
            plugins: ADMISSION_PLUGINS.iter().filter_map(runs).collect(),
            not_ready_toleration_seconds: flags.int("default-not-ready-toleration-seconds"),
            unreachable_toleration_seconds: flags.int("default-unreachable-toleration-seconds"),
        }
    }
}

fn is_known(name: &str) -> bool {
    ADMISSION_PLUGINS.iter().any(|(known, _)| *known == name)
}
