//! A namespace's Pod Security policy: levels and versions, from its labels.

use std::fmt;

use machinery::{
    Str, Value,
    meta::{Meta, field_error::FieldError},
    value::Path,
};

use crate::admission::{PluginConfigError, expect_kind};

/// How strict a policy is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Everything goes.
    #[default]
    Privileged,
    /// Known ways to become more than a pod are shut.
    Baseline,
    /// What hardened pods do without is shut, too.
    Restricted,
}

impl Level {
    const ALL: [(&'static str, Level); 3] =
        [("privileged", Level::Privileged), ("baseline", Level::Baseline), ("restricted", Level::Restricted)];

    fn parse(text: &str) -> Option<Level> {
        Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, level)| *level)
    }
}

/// The version of Kubernetes whose checks count; the greatest is the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    /// That of 1.x.
    Minor(u32),
    /// All that are known.
    Latest,
}

impl Version {
    fn parse(text: &str) -> Option<Version> {
        if text == "latest" {
            return Some(Version::Latest);
        }
        let digits = text.strip_prefix("v1.")?;
        let is_canonical = digits == "0" || !digits.starts_with('0');
        (is_canonical && digits.bytes().all(|b| b.is_ascii_digit()))
            .then(|| digits.parse().ok().map(Version::Minor))
            .flatten()
    }
}

/// What is asked of pods in one of the modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Demand {
    pub(super) level: Level,
    pub(super) version: Version,
}

impl Default for Demand {
    fn default() -> Self {
        Demand { level: Level::Privileged, version: Version::Latest }
    }
}

impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = Level::ALL.iter().find(|(_, level)| *level == self.level).map_or("", |(name, _)| *name);
        match self.version {
            Version::Latest => write!(f, "{level}:latest"),
            Version::Minor(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

/// What is asked of pods: what is refused, what is noted, what is warned of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) enforce: Demand,
    pub(super) audit: Demand,
    pub(super) warn: Demand,
}

/// The modes, in the order in which their labels are read.
pub(super) const MODES: [&str; 3] = ["enforce", "audit", "warn"];
const PREFIX: &str = "pod-security.kubernetes.io/";

/// The labels of a namespace that are about its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Labels {
    /// Level and version, by mode.
    set: [[Option<Str>; 2]; 3],
}

impl Labels {
    pub(super) fn of(namespace: &Value) -> Labels {
        let labels = Meta::of(namespace).labels();
        let label = |key: String| labels.and_then(|labels| labels.get(&key)?.as_shared_str().cloned());
        Labels { set: MODES.map(|mode| [label(format!("{PREFIX}{mode}")), label(format!("{PREFIX}{mode}-version"))]) }
    }

    /// Whether a label of this mode is set.
    pub(super) fn names(&self, mode: usize) -> bool {
        self.set[mode].iter().any(Option::is_some)
    }

    /// The policy, where a label is not set that of `defaults`, and what is wrong with the labels: of a level that nobody
    /// knows the strictest is enforced, and nothing is warned of.
    pub(super) fn policy(&self, defaults: &Policy) -> (Policy, Vec<FieldError>) {
        let mut errors = Vec::new();
        let mut policy = *defaults;
        let modes = [&mut policy.enforce, &mut policy.audit, &mut policy.warn];
        for ((mode, [level, version]), demand) in MODES.iter().zip(&self.set).zip(modes) {
            if let Some(text) = level {
                let unknown = if *mode == "enforce" { Level::Restricted } else { Level::Privileged };
                demand.level = Level::parse(text).unwrap_or_else(|| {
                    errors.push(invalid(mode, text, LEVELS));
                    unknown
                });
            }
            if let Some(text) = version {
                demand.version = Version::parse(text).unwrap_or_else(|| {
                    errors.push(invalid(&format!("{mode}-version"), text, VERSIONS));
                    Version::Latest
                });
            }
        }
        // Authors of what makes pods are warned of what will be refused.
        let [[enforce, _], _, [warn, warn_version]] = &self.set;
        let enforces = enforce.as_deref().and_then(Level::parse).is_some_and(|level| level > policy.warn.level);
        if enforces && warn.is_none() {
            policy.warn.level = policy.enforce.level;
            if warn_version.is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, errors)
    }
}

const LEVELS: &str = "must be one of privileged, baseline, restricted";
const VERSIONS: &str = "must be \"latest\" or \"v1.x\"";

fn invalid(label: &str, value: &str, why: &str) -> FieldError {
    let key = format!("{PREFIX}{label}");
    FieldError::invalid(Path::ROOT.field("metadata").field("labels").key(&key), value, why)
}

/// What is said of all namespaces, and of those that are left alone.
#[derive(Clone, Debug, Default)]
pub struct PodSecuritySettings {
    pub(super) defaults: Policy,
    users: Vec<Str>,
    namespaces: Vec<Str>,
    runtime_classes: Vec<Str>,
}

impl PodSecuritySettings {
    /// Reads a `PodSecurityConfiguration`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(config: &Value) -> Result<Self, PluginConfigError> {
        const KIND: &str = "PodSecurityConfiguration";
        let known = [
            ("pod-security.admission.config.k8s.io/v1", KIND),
            ("pod-security.admission.config.k8s.io/v1beta1", KIND),
            ("pod-security.admission.config.k8s.io/v1alpha1", KIND),
        ];
        expect_kind(config, &known, KIND)?;
        let invalid = |place: String, text: &str, why: &'static str| {
            PluginConfigError::Invalid(vec![FieldError::invalid(place, text, why)])
        };
        let mut settings = PodSecuritySettings::default();
        let Policy { enforce, audit, warn } = &mut settings.defaults;
        for (mode, demand) in MODES.iter().zip([enforce, audit, warn]) {
            if let Some(text) = config.str_at(&["defaults", mode]) {
                let wrong = || invalid(format!("defaults.{mode}"), text, LEVELS);
                demand.level = Level::parse(text).ok_or_else(wrong)?;
            }
            if let Some(text) = config.str_at(&["defaults", &format!("{mode}-version")]) {
                let wrong = || invalid(format!("defaults.{mode}-version"), text, VERSIONS);
                demand.version = Version::parse(text).ok_or_else(wrong)?;
            }
        }
        let texts = |list: &str| -> Vec<Str> {
            let list = config.at(&["exemptions", list]).and_then(Value::as_array).unwrap_or_default();
            list.iter().filter_map(|text| text.as_shared_str().cloned()).collect()
        };
        settings.users = texts("usernames");
        settings.namespaces = texts("namespaces");
        settings.runtime_classes = texts("runtimeClasses");
        Ok(settings)
    }

    pub(super) fn spares_user(&self, name: &str) -> bool {
        self.users.iter().any(|user| user == name)
    }

    pub(super) fn spares_namespace(&self, name: &str) -> bool {
        self.namespaces.iter().any(|namespace| namespace == name)
    }

    /// Whether pods with this spec are left alone, for what runs them.
    pub(super) fn spares_class(&self, spec: &Value) -> bool {
        spec.str_at(&["runtimeClassName"]).is_some_and(|name| self.runtime_classes.iter().any(|class| class == name))
    }
}

#[cfg(test)]
mod tests {
    use machinery::{codec::json, object};

    use super::*;

    #[test]
    fn labels_say_the_policy_and_what_is_wrong_with_them() {
        let check = |labels: &str, expect: [&str; 3], errors: &[&str]| {
            let labels = json::decode(labels.as_bytes()).expect("valid JSON");
            let prefixed: machinery::Map = labels
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, value)| (Str::from(format!("{PREFIX}{key}")), value.clone()))
                .collect();
            let namespace = object! { "metadata" => object! { "labels" => prefixed } };
            let (policy, found) = Labels::of(&namespace).policy(&Policy::default());
            assert_eq!([policy.enforce, policy.audit, policy.warn].map(|demand| demand.to_string()), expect);
            assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), errors);
        };
        let open = "privileged:latest";
        check("{}", [open, open, open], &[]);
        check(r#"{"enforce":"baseline"}"#, ["baseline:latest", open, "baseline:latest"], &[]);
        check(
            r#"{"enforce":"restricted","enforce-version":"v1.25","warn-version":"v1.30"}"#,
            ["restricted:v1.25", open, "restricted:v1.30"],
            &[],
        );
        check(r#"{"enforce":"restricted","warn":"baseline"}"#, ["restricted:latest", open, "baseline:latest"], &[]);
        let label = |label: &str| format!("metadata.labels[{PREFIX}{label}]: Invalid value");
        check(
            r#"{"enforce":"strict","audit":"odd","audit-version":"1.25","warn-version":"v1.01"}"#,
            ["restricted:latest", open, open],
            &[
                &format!("{}: \"strict\": {LEVELS}", label("enforce")),
                &format!("{}: \"odd\": {LEVELS}", label("audit")),
                &format!("{}: \"1.25\": {VERSIONS}", label("audit-version")),
                &format!("{}: \"v1.01\": {VERSIONS}", label("warn-version")),
            ],
        );
    }

    #[test]
    fn a_configuration_sets_the_defaults_and_spares_some() {
        let config = object! {
            "apiVersion" => "pod-security.admission.config.k8s.io/v1", "kind" => "PodSecurityConfiguration",
            "defaults" => object! { "enforce" => "baseline", "warn" => "restricted", "warn-version" => "v1.30" },
            "exemptions" => object! { "namespaces" => machinery::array!["kube-system"] },
        };
        let settings = PodSecuritySettings::read(&config).expect("a sound configuration");
        assert_eq!(settings.defaults.enforce.to_string(), "baseline:latest");
        assert_eq!(settings.defaults.warn.to_string(), "restricted:v1.30");
        assert!(settings.spares_namespace("kube-system") && !settings.spares_user("kube-system"));
        let mut odd = config.clone();
        odd.set(&["defaults", "audit"], "strict");
        let why = PodSecuritySettings::read(&odd).expect_err("an unknown level");
        assert_eq!(why.to_string(), format!("defaults.audit: Invalid value: \"strict\": {LEVELS}"));
        assert!(PodSecuritySettings::read(&object! { "kind" => "PodSecurityConfiguration" }).is_err());
    }
}
