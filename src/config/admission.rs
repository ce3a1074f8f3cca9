//! Which admission plugins run.

use std::path::Path;

use kube_core::admission::Settings;
use machinery::{Value, codec::yaml};

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

/// Which admission plugins run, and how.
#[derive(Clone, Debug)]
pub struct Admission {
    /// Their names, in the order in which they run.
    pub plugins: Vec<&'static str>,
    /// What they are told.
    pub settings: Settings,
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
        let mut settings = Settings {
            not_ready_toleration_seconds: flags.int("default-not-ready-toleration-seconds"),
            unreachable_toleration_seconds: flags.int("default-unreachable-toleration-seconds"),
            ..Settings::default()
        };
        if let Some(file) = findings.file(flags, "admission-control-config-file")
            && let Err(why) = configure(&file, &mut settings, findings)
        {
            findings.error(format!("failed to read plugin config: {why}"));
        }
        Self { plugins: ADMISSION_PLUGINS.iter().filter_map(runs).collect(), settings }
    }
}

/// Reads the file that configures plugins: what it says to each stands in it, or in another file that it names.
fn configure(file: &Path, settings: &mut Settings, findings: &mut Findings) -> Result<(), String> {
    let config = read(file)?;
    let kind = (config.str_at(&["apiVersion"]).unwrap_or_default(), config.str_at(&["kind"]).unwrap_or_default());
    let known = ["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"];
    if !known.contains(&kind.0) || kind.1 != "AdmissionConfiguration" {
        return Err(format!("{}: {} {} is no AdmissionConfiguration", file.display(), kind.0, kind.1));
    }
    for plugin in config.get("plugins").and_then(Value::as_array).unwrap_or_default() {
        let name = plugin.str_at(&["name"]).unwrap_or_default();
        if !is_known(name) {
            return Err(format!("{}: unknown plugin {name:?}", file.display()));
        }
        let said = match (plugin.get("configuration").filter(|c| !c.is_null()), plugin.str_at(&["path"])) {
            (Some(inline), _) => inline.clone(),
            (None, Some(path)) if !path.is_empty() => read(&file.parent().unwrap_or(Path::new("")).join(path))?,
            _ => continue,
        };
        if !settings.configure(name, &said).map_err(|why| format!("{name}: {why}"))? {
            findings.warn(format!("--admission-control-config-file: what it says to {name} has no effect yet"));
        }
    }
    Ok(())
}

fn read(file: &Path) -> Result<Value, String> {
    let text = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    yaml::decode(&text).map_err(|error| format!("{}: {error}", file.display()))
}

fn is_known(name: &str) -> bool {
    ADMISSION_PLUGINS.iter().any(|(known, _)| *known == name)
}
