//! Configuration of admission plugins.

use std::path::Path;

use generic_server::features::GateState;
use kube_core::admission::{PluginSettings, is_idle};
use machinery::{
    Value,
    codec::yaml,
    config::{list, object, pointer, root, text},
    schema::{self, Schema, Shape},
};
use policies::PluginConfig;

use super::{Findings, manifests};
use crate::flags::Parsed;

/// Whether this server has a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Built,
    /// Who asks for it gets no server, rather than one that lets pass what it would have refused.
    NotBuilt,
}

/// One plugin.
struct Plugin {
    name: &'static str,
    /// Whether it runs unless a flag says otherwise.
    default: bool,
    state: State,
}

const fn row(name: &'static str, default: bool, state: State) -> Plugin {
    Plugin { name, default, state }
}

use State::*;

/// Every admission plugin of v1.36 in the order in which they run.
#[rustfmt::skip]
static PLUGINS: [Plugin; 41] = [
    row("AlwaysAdmit", false, Built),
    row("NamespaceAutoProvision", false, Built),
    row("NamespaceLifecycle", true, Built),
    row("NamespaceExists", false, Built),
    row("LimitPodHardAntiAffinityTopology", false, Built),
    row("LimitRanger", true, Built),
    row("ServiceAccount", true, Built),
    row("NodeRestriction", false, Built),
    row("TaintNodesByCondition", true, Built),
    row("AlwaysPullImages", false, Built),
    row("ImagePolicyWebhook", false, Built),
    row("PodSecurity", true, Built),
    row("PodNodeSelector", false, Built),
    row("Priority", true, Built),
    row("DefaultTolerationSeconds", true, Built),
    row("PodTolerationRestriction", false, Built),
    row("EventRateLimit", false, Built),
    row("ExtendedResourceToleration", false, Built),
    row("DefaultStorageClass", true, Built),
    row("StorageObjectInUseProtection", true, Built),
    row("PodGroupProtection", true, Built),
    row("OwnerReferencesPermissionEnforcement", false, Built),
    row("PersistentVolumeClaimResize", true, Built),
    row("RuntimeClass", true, Built),
    row("CertificateApproval", true, Built),
    row("CertificateSigning", true, Built),
    row("ClusterTrustBundleAttest", true, Built),
    row("CertificateSubjectRestriction", true, Built),
    row("DefaultIngressClass", true, Built),
    row("DenyServiceExternalIPs", false, Built),
    row("PodTopologyLabels", true, Built),
    row("PodGroupWorkloadExists", true, Built),
    row("NodeDeclaredFeatureValidator", true, Built),
    row("JobValidation", true, Built),
    row("PodResizeValidator", true, Built),
    row("MutatingAdmissionPolicy", true, Built),
    row("MutatingAdmissionWebhook", true, Built),
    row("ValidatingAdmissionPolicy", true, Built),
    row("ValidatingAdmissionWebhook", true, Built),
    row("ResourceQuota", true, Built),
    row("AlwaysDeny", false, Built),
];

/// Which admission plugins run, and how.
#[derive(Clone, Debug)]
pub struct Admission {
    /// Their names, in the order in which they run.
    pub plugins: Vec<&'static str>,
    /// What they are told.
    pub settings: PluginSettings,
    /// What plugins that judge by policies and webhooks are told, by their names.
    pub configs: Vec<(&'static str, PluginConfig)>,
}

impl Admission {
    pub(super) fn from_flags(flags: &Parsed, features: &GateState, findings: &mut Findings) -> Self {
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
        for name in on.iter().chain(&exactly) {
            if PLUGINS.iter().any(|plugin| plugin.name == name && plugin.state == NotBuilt) {
                findings.error(format!("admission plugin {name:?} is not built into this server yet"));
            }
        }
        let both: Vec<_> = on.iter().filter(|name| off.contains(name)).map(String::as_str).collect();
        if !both.is_empty() {
            findings.error(format!(
                "[{}] in enable-admission-plugins and disable-admission-plugins overlapped",
                both.join(" ")
            ));
        }
        let features = features.features();
        let has = |list: &[String], name: &str| list.iter().any(|given| given == name);
        let runs = |plugin: &&Plugin| {
            let Plugin { name, default, state } = plugin;
            let wanted =
                if exactly.is_empty() { has(&on, name) || (*default && !has(&off, name)) } else { has(&exactly, name) };
            wanted && *state == Built && !is_idle(name, &features)
        };
        let plugins: Vec<_> = PLUGINS.iter().filter(runs).map(|plugin| plugin.name).collect();
        let mut settings = PluginSettings {
            not_ready_toleration_seconds: flags.int("default-not-ready-toleration-seconds"),
            unreachable_toleration_seconds: flags.int("default-unreachable-toleration-seconds"),
            features: features.clone(),
            ..PluginSettings::default()
        };
        let mut configs = Vec::new();
        if let Some(file) = findings.file(flags, "admission-control-config-file")
            && let Err(why) = configure(&file, &plugins, (&mut settings, &mut configs), findings)
        {
            findings.error(format!("failed to read plugin config: {why}"));
        }
        if plugins.contains(&"EventRateLimit") && settings.event_limits.is_none() {
            findings.error(
                "couldn't init admission plugin \"EventRateLimit\": limits: Invalid value: null: must not be empty",
            );
        }
        if plugins.contains(&"ImagePolicyWebhook") && settings.image_policy.is_none() {
            findings.error("couldn't init admission plugin \"ImagePolicyWebhook\": no config specified");
        }
        Self { plugins, settings, configs }
    }
}

/// Reads the file that configures plugins: what it says to each stands in it, or in another file that it names.
fn configure(
    file: &Path,
    running: &[&'static str],
    (settings, configs): (&mut PluginSettings, &mut Vec<(&'static str, PluginConfig)>),
    findings: &mut Findings,
) -> Result<(), String> {
    let config = read(file)?;
    let kind = (config.str_at(&["apiVersion"]).unwrap_or_default(), config.str_at(&["kind"]).unwrap_or_default());
    let known = ["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"];
    if !known.contains(&kind.0) || kind.1 != "AdmissionConfiguration" {
        return Err(format!("{}: {} {} is no AdmissionConfiguration", file.display(), kind.0, kind.1));
    }
    // Members that nobody knows count for nothing, as upstream has it.
    let decoded = schema::decode_text(&shape(kind.0.rsplit('/').next().unwrap_or_default()), config, None);
    let (config, _) = decoded.map_err(|why| format!("{}: {why}", file.display()))?;
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
        let Some(plugin) = running.iter().copied().find(|running| *running == name) else {
            findings.warn(format!("--admission-control-config-file: {name} is configured and does not run"));
            continue;
        };
        settings.configure(name, &said).map_err(|why| format!("{name}: {why}"))?;
        match manifests::read(name, &said, &settings.features) {
            Ok(config) => configs.extend(config.map(|config| (plugin, config))),
            Err(why) => findings.error(format!("couldn't init admission plugin {name:?}: {why}")),
        }
    }
    Ok(())
}

/// What the file says, in a version.
fn shape(version: &str) -> Schema {
    let plugin = [text("name"), text("path"), pointer("configuration", Schema::of(Shape::Any))];
    let plugin = object(format!("{version}.AdmissionPluginConfiguration"), plugin);
    root(format!("{version}.AdmissionConfiguration"), [list("plugins", plugin)])
}

fn read(file: &Path) -> Result<Value, String> {
    let text = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    yaml::decode(&text).map_err(|error| format!("{}: {error}", file.display()))
}

fn is_known(name: &str) -> bool {
    PLUGINS.iter().any(|plugin| plugin.name == name)
}
