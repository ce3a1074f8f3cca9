//! Which of the built-in API versions and resources are served: `--runtime-config`.

use machinery::meta::{GroupVersion, GroupVersionResource};
use std::collections::{BTreeMap, BTreeSet};

use super::REGISTERED;
use super::Resource;
use super::emulation::Emulated;
use crate::features::BINARY;

/// A class of versions: its key, and which are of it.
type Class = (&'static str, fn(&str) -> bool);

/// Classes of versions, in the order in which they are applied: later ones win.
const CLASSES: [Class; 4] = [
    ("api/all", |_| true),
    ("api/ga", |version| is_of(version, "")),
    ("api/beta", |version| is_of(version, "beta")),
    ("api/alpha", |version| is_of(version, "alpha")),
];

/// Groups with servers of their own, beside those of kube-core.
const OTHERS: [(&str, &[&str]); 2] =
    [("apiextensions.k8s.io", &["v1", "v1beta1"]), ("apiregistration.k8s.io", &["v1", "v1beta1"])];

/// Why pairs of `--runtime-config` say nothing. Shown, it is what upstream says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnablementError {
    /// Nothing would be served.
    #[error("invalid runtime-config with only api/all=false")]
    Nothing,
    /// A key that is neither a class, a version nor a resource.
    #[error("runtime-config invalid key {0}")]
    Key(String),
    /// A key whose resource is not written in lower case.
    #[error("invalid key {key}: group/version/resource and resource is always lowercase plural, not {resource:?}")]
    ResourceName {
        /// The key.
        key: String,
        /// Its resource.
        resource: String,
    },
    /// Groups, with their versions, that are nobody's.
    #[error("unknown api groups {}", .0.iter().map(String::as_str).collect::<Vec<_>>().join(","))]
    UnknownGroups(BTreeSet<String>),
    /// A version that its group does not have.
    #[error("group version {0} that has not been registered")]
    UnknownVersion(String),
    /// The value of a class is neither `true` nor `false`.
    #[error("invalid value {class}={value}")]
    ClassValue {
        /// The class.
        class: &'static str,
        /// Its value.
        value: String,
    },
    /// The value of a version or resource is no boolean.
    #[error("invalid value of {key}: {value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax")]
    Value {
        /// The key.
        key: String,
        /// Its value.
        value: String,
    },
}

/// What is switched on or off. All that is not is served as it is by default: alpha and beta versions are not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Enablement {
    classes: Vec<(&'static str, bool)>,
    versions: BTreeMap<GroupVersion, bool>,
    resources: BTreeMap<GroupVersionResource, bool>,
    /// What is there, if the server behaves like an older version.
    pub(super) emulated: Option<Emulated>,
}

impl Enablement {
    /// Reads the flag's pairs.
    ///
    /// # Errors
    /// What is wrong.
    pub fn parse(pairs: &BTreeMap<String, String>) -> Result<Self, EnablementError> {
        let pairs = &complete(pairs);
        if pairs.len() == 1 && pairs.get("api/all").is_some_and(|value| value == "false") {
            return Err(EnablementError::Nothing);
        }
        let mut found = Enablement::default();
        let mut unknown = BTreeSet::new();
        for (key, value) in pairs.iter().filter(|(key, _)| !CLASSES.iter().any(|(class, _)| key == class)) {
            match key.split('/').collect::<Vec<_>>()[..] {
                [group, version] => {
                    if check_version(group, version, &mut unknown)? {
                        found.versions.insert(GroupVersion::new(group, version), switch(key, value)?);
                    }
                }
                [group, version, resource] => {
                    if check_version(group, version, &mut unknown)? {
                        let on = switch(key, value)?;
                        if resource.to_lowercase() != resource {
                            let (key, resource) = (key.clone(), resource.to_owned());
                            return Err(EnablementError::ResourceName { key, resource });
                        }
                        found.resources.insert(GroupVersionResource::new(group, version, resource), on);
                    }
                }
                _ => return Err(EnablementError::Key(key.clone())),
            }
        }
        if !unknown.is_empty() {
            return Err(EnablementError::UnknownGroups(unknown));
        }
        for (class, _) in CLASSES {
            match pairs.get(class).map(String::as_str) {
                None => {}
                Some("true") => found.classes.push((class, true)),
                Some("false") => found.classes.push((class, false)),
                Some(value) => return Err(EnablementError::ClassValue { class, value: value.to_owned() }),
            }
        }
        Ok(found)
    }

    /// Whether a row is served.
    pub fn serves(&self, row: &Resource) -> bool {
        let emulated = self.emulated.as_ref().and_then(|emulated| emulated.serves(row));
        let allows = || self.allows(&row.group, &row.version, &row.plural);
        emulated.unwrap_or_else(|| allows() && !row.availability.is_gone(BINARY))
    }

    /// Whether resources of a version are served only where they are asked for: alpha and beta ones.
    pub fn is_off_by_default(version: &str) -> bool {
        is_of(version, "alpha") || is_of(version, "beta")
    }

    /// Whether a resource is switched on.
    pub(super) fn allows(&self, group: &str, version: &str, resource: &str) -> bool {
        self.resource(group, version, resource).unwrap_or_else(|| self.allows_version(group, version))
    }

    /// Whether a version is switched on.
    pub(super) fn allows_version(&self, group: &str, version: &str) -> bool {
        self.version(group, version).unwrap_or_else(|| {
            let of_class = |(class, _): &&(&str, bool)| CLASSES.iter().any(|(name, is)| name == class && is(version));
            let of_class = self.classes.iter().rev().find(of_class);
            of_class.map_or_else(|| !Self::is_off_by_default(version), |(_, on)| *on)
        })
    }

    /// What is said of this resource by its name.
    pub(super) fn resource(&self, group: &str, version: &str, resource: &str) -> Option<bool> {
        self.resources.get(&GroupVersionResource::new(group, version, resource)).copied()
    }

    /// What is said of this version by its name.
    pub(super) fn version(&self, group: &str, version: &str) -> Option<bool> {
        self.versions.get(&GroupVersion::new(group, version)).copied()
    }

    /// The versions that are switched on by their names.
    pub(super) fn named_versions(&self) -> impl Iterator<Item = &GroupVersion> {
        self.versions.iter().filter(|(_, on)| **on).map(|(version, _)| version)
    }
}

/// Replaces the keys of the core group that predate groups: all of them, with or without a resource, stand for the whole
/// version, and `api/legacy` for nothing.
fn complete(pairs: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let is_core = |key: &str| {
        let key = key.strip_prefix("api/").unwrap_or(key);
        key == "v1" || key.starts_with("v1/")
    };
    let pairs = pairs.iter().filter(|(key, _)| *key != "api/legacy");
    pairs.map(|(key, value)| (if is_core(key) { "/v1" } else { key }.to_owned(), value.clone())).collect()
}

/// Whether the version is one of Kubernetes'; those of other groups are noted.
fn check_version(group: &str, version: &str, unknown: &mut BTreeSet<String>) -> Result<bool, EnablementError> {
    let shown = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let Some((_, versions)) = REGISTERED.iter().chain(&OTHERS).find(|(known, _)| *known == group) else {
        unknown.insert(shown);
        return Ok(false);
    };
    if versions.contains(&version) {
        return Ok(true);
    }
    Err(EnablementError::UnknownVersion(shown))
}

/// The value of a version or resource: Go's booleans; none at all is on.
fn switch(key: &str, value: &str) -> Result<bool, EnablementError> {
    match value {
        "" | "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(EnablementError::Value { key: key.to_owned(), value: value.to_owned() }),
    }
}

/// `v1` of the stage nothing, `v1beta2` of `beta`.
fn is_of(version: &str, stage: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let Some(rest) = version.strip_prefix('v') else { return false };
    if stage.is_empty() {
        return digits(rest);
    }
    rest.split_once(stage).is_some_and(|(major, minor)| digits(major) && digits(minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Enablement, String> {
        let pairs = text.split(',').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Enablement::parse(&pairs).map_err(|why| why.to_string())
    }

    #[test]
    fn resources_win_over_versions_and_versions_over_classes() {
        let check = |text: &str, row: (&str, &str, &str), expect: bool| {
            let apis = parse(text).expect(text);
            assert_eq!(apis.allows(row.0, row.1, row.2), expect, "{text} {row:?}");
        };
        let jobs = ("batch", "v1", "jobs");
        check("api/all=true", jobs, true);
        check("api/all=false,/v1=true", jobs, false);
        check("api/all=false,/v1=true", ("", "v1", "pods"), true);
        check("api/all=false,api/ga=true", jobs, true);
        check("api/ga=false,apps/v1", jobs, false);
        check("api/beta=false,api/alpha=false", jobs, true);
        check("batch/v1=false", jobs, false);
        check("batch/v1=0,batch/v1/jobs=1", jobs, true);
        check("batch/v1=0,batch/v1/jobs=1", ("batch", "v1", "cronjobs"), false);
        check("batch/v1/jobs=false", jobs, false);
        check("batch/v1/jobs=false", ("batch", "v1", "cronjobs"), true);
        let claims = ("resource.k8s.io", "v1beta1", "resourceclaims");
        let rules = ("resource.k8s.io", "v1alpha3", "devicetaintrules");
        check("api/ga=true", claims, false);
        check("api/all=true", claims, true);
        check("api/all=true", rules, true);
        check("api/beta=true", claims, true);
        check("api/beta=true", rules, false);
        check("api/all=true,api/alpha=false", rules, false);
        check("resource.k8s.io/v1beta1=true", claims, true);
        check("resource.k8s.io/v1beta1/resourceslices=true", claims, false);
    }

    #[test]
    fn the_core_group_has_keys_from_before_there_were_groups() {
        let check = |text: &str, expect: bool| {
            let apis = parse(text).expect(text);
            assert_eq!(apis.allows("", "v1", "pods"), expect, "{text}");
            assert!(apis.allows("batch", "v1", "jobs"), "{text}");
        };
        check("api/v1", true);
        check("v1=false", false);
        check("api/v1=false", false);
        check("v1/configmaps=false", false);
        check("api/v1/pods=true", true);
        check("api/legacy=false", true);
        check("api/legacy=true,/v1=false", false);
    }

    #[test]
    fn what_is_wrong_is_said_in_upstreams_words() {
        let check = |text: &str, expect: &str| assert_eq!(parse(text).expect_err(text), expect);
        check("api/all=false", "invalid runtime-config with only api/all=false");
        check("api/all=maybe", "invalid value api/all=maybe");
        check("v2", "runtime-config invalid key v2");
        check("a/b/c/d", "runtime-config invalid key a/b/c/d");
        check("foo.dev/v1,api/v2,api/legacy", "unknown api groups api/v2,foo.dev/v1");
        check("apps/v9", "group version apps/v9 that has not been registered");
        check(
            "apps/v1=maybe",
            "invalid value of apps/v1: maybe, err: strconv.ParseBool: parsing \"maybe\": invalid syntax",
        );
        check(
            "apps/v1/Deployments",
            "invalid key apps/v1/Deployments: group/version/resource and resource is always lowercase plural, not \
             \"Deployments\"",
        );
    }
}
