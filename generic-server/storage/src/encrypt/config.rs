//! The file of `--encryption-provider-config`: `apiserver.config.k8s.io/v1` EncryptionConfiguration, read strictly and
//! validated with upstream's messages.

use std::{collections::HashSet, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use machinery::{
    codec::json,
    config::{APISERVER_CONFIG_SIBLINGS, ConfigKind, list, object, pointer, root, text, texts},
    meta::GoDuration,
    schema::{Field, IntFormat, Schema, Shape},
};
use serde::Deserialize;

use super::{
    EncryptionRules,
    error::EncryptionFault,
    kms::{Protocol, Reached},
};

const KIND: ConfigKind = ConfigKind {
    group: "apiserver.config.k8s.io",
    kind: "EncryptionConfiguration",
    versions: &["v1"],
    siblings: APISERVER_CONFIG_SIBLINGS,
    registry: "pkg/server/options/encryptionconfig/config.go:142",
    schema: shape,
};

/// What a file may say.
fn shape(version: &str) -> Schema {
    let named = |name: &str, fields: Vec<Field>| object(format!("{version}.{name}"), fields);
    let key = named("Key", vec![text("name"), text("secret")]);
    let keys = |name: &str| named(name, vec![list("keys", key.clone())]);
    let timeout = Schema::of(Shape::String(Default::default()));
    let kms = vec![
        text("apiVersion"),
        text("name"),
        pointer("cachesize", Schema::of(Shape::Integer(IntFormat::Int32))),
        text("endpoint"),
        pointer("timeout", timeout),
    ];
    let provider = vec![
        pointer("aesgcm", keys("AESConfiguration")),
        pointer("aescbc", keys("AESConfiguration")),
        pointer("secretbox", keys("SecretboxConfiguration")),
        pointer("identity", named("IdentityConfiguration", Vec::new())),
        pointer("kms", named("KMSConfiguration", kms)),
    ];
    let provider = named("ProviderConfiguration", provider);
    let resource = named("ResourceConfiguration", vec![texts("resources"), list("providers", provider)]);
    root(format!("{version}.EncryptionConfiguration"), [list("resources", resource)])
}

/// The configuration, as typed.
#[derive(Debug, Deserialize)]
pub(super) struct Config {
    #[serde(default)]
    pub(super) resources: Vec<ResourceConfig>,
}

/// Which resources are encrypted how.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResourceConfig {
    #[serde(default)]
    pub(super) resources: Vec<String>,
    #[serde(default)]
    pub(super) providers: Vec<ProviderConfig>,
}

/// One provider: exactly one of these.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProviderConfig {
    pub(super) aesgcm: Option<Keys>,
    pub(super) aescbc: Option<Keys>,
    pub(super) secretbox: Option<Keys>,
    pub(super) identity: Option<Identity>,
    pub(super) kms: Option<Kms>,
}

/// Keys of a local provider.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Keys {
    #[serde(default)]
    pub(super) keys: Vec<Key>,
}

/// A named key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Key {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    secret: String,
}

/// No encryption.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Identity {}

/// A KMS plugin.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Kms {
    #[serde(default = "v1", deserialize_with = "v1_if_empty")]
    api_version: String,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) endpoint: String,
    #[serde(default)]
    timeout: Option<String>,
    #[serde(rename = "cachesize")]
    cache_size: Option<i32>,
}

fn v1() -> String {
    "v1".into()
}

fn v1_if_empty<'de, D: serde::Deserializer<'de>>(value: D) -> Result<String, D::Error> {
    String::deserialize(value).map(|text| if text.is_empty() { v1() } else { text })
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Key {
    /// The key's bytes; empty if it is not base64.
    pub(super) fn secret(&self) -> Vec<u8> {
        STANDARD.decode(&self.secret).unwrap_or_default()
    }
}

impl Kms {
    /// How it is reached.
    pub(super) fn reached(&self) -> Reached<'_> {
        let timeout = self.timeout().unwrap_or(CALL);
        Reached { name: &self.name, endpoint: &self.endpoint, timeout }
    }

    /// What it speaks.
    pub(super) fn protocol(&self) -> Protocol {
        if self.is_first() { Protocol::V1 { keys: self.cache_size.unwrap_or(KEYS) } } else { Protocol::V2 }
    }

    fn is_first(&self) -> bool {
        self.api_version == "v1"
    }

    /// How long a call may take.
    fn timeout(&self) -> Option<Duration> {
        match &self.timeout {
            None => Some(CALL),
            Some(text) => GoDuration::parse(text).ok()?.to_std().filter(|timeout| !timeout.is_zero()),
        }
    }
}

/// How long a call may take when nothing is said.
const CALL: Duration = Duration::from_secs(3);
/// How many keys are kept of a plugin of the first protocol when nothing is said.
const KEYS: i32 = 1000;

/// Reads and validates a configuration.
///
/// # Errors
/// All that is wrong with it.
pub(super) fn parse(text: &str, allowed: EncryptionRules) -> Result<Config, EncryptionFault> {
    let read = KIND.read(text.as_bytes())?;
    let config: Config = serde_json::from_slice(&json::encode(&read.document)).map_err(EncryptionFault::Shape)?;
    let errors = Validation { allowed, ..Validation::default() }.run(&config);
    if !errors.is_empty() {
        return Err(EncryptionFault::Invalid(errors));
    }
    let mut plugins = config.resources.iter().flat_map(|entry| &entry.providers).filter_map(|p| p.kms.as_ref());
    if plugins.any(Kms::is_first) && !allowed.kms_v1 {
        return Err(EncryptionFault::FirstKms);
    }
    Ok(config)
}

#[derive(Default)]
struct Validation {
    allowed: EncryptionRules,
    errors: Vec<String>,
    kms_names: HashSet<String>,
}

impl Validation {
    fn run(mut self, config: &Config) -> Vec<String> {
        if config.resources.is_empty() {
            self.required("resources", "at least one resources is required");
        }
        for (at, entry) in config.resources.iter().enumerate() {
            let (resources, providers) = (format!("resources[{at}].resources"), format!("resources[{at}].providers"));
            if entry.resources.is_empty() {
                self.required(&resources, &format!("at least one {resources} is required"));
            }
            self.overlaps(&entry.resources, &resources);
            for (at, resource) in entry.resources.iter().enumerate() {
                self.resource(resource, &format!("{resources}[{at}]"));
            }
            if entry.providers.is_empty() {
                self.required(&providers, &format!("at least one {providers} is required"));
            }
            for (at, provider) in entry.providers.iter().enumerate() {
                self.provider(provider, &format!("{providers}[{at}]"));
            }
        }
        self.errors
    }

    fn required(&mut self, field: &str, why: &str) {
        self.errors.push(format!("{field}: Required value: {why}"));
    }

    fn invalid(&mut self, field: &str, value: &str, why: &str) {
        self.errors.push(format!("{field}: Invalid value: {value:?}: {why}"));
    }

    fn overlaps(&mut self, resources: &[String], field: &str) {
        let parsed: Vec<_> = resources.iter().map(|resource| group_resource(resource)).collect();
        let pairs =
            || parsed.iter().enumerate().flat_map(|(at, one)| parsed[at + 1..].iter().map(move |two| (one, two)));
        let told = format!("{resources:?}");
        if pairs().any(|(one, two)| one == two) {
            self.errors
                .push(format!("{field}: Invalid value: {told}: the same resource cannot be specified multiple times"));
        }
        let all = ("*", "*");
        let masks = |one: (&str, &str), two: (&str, &str)| one == all || (one.0 == two.0 && one.1 == "*");
        if pairs().any(|(one, two)| one != two && (masks(*one, *two) || masks(*two, *one))) {
            self.errors.push(format!(
                "{field}: Invalid value: {told}: using overlapping resources such as 'secrets' and '*.' in the same \
                 resource list is not allowed as they will be masked"
            ));
        }
    }

    fn resource(&mut self, resource: &str, field: &str) {
        let (group, name) = group_resource(resource);
        let why = if resource.to_lowercase() != resource {
            "resource name should not contain capital letters"
        } else if resource == "*" {
            "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
        } else if ["apiserveripinfo", "serviceipallocations", "servicenodeportallocations"].contains(&resource) {
            "resources which do not have REST API/s cannot be encrypted"
        } else if group == "events.k8s.io" {
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config \
             file"
        } else if group == "extensions" {
            "'extensions' group has been removed and cannot be used for encryption"
        } else if group == "*" && name != "*" {
            "encrypting the same resource across groups is not supported"
        } else {
            return;
        };
        self.invalid(field, resource, why);
    }

    fn provider(&mut self, provider: &ProviderConfig, field: &str) {
        let local = [(&provider.aesgcm, "aesgcm"), (&provider.aescbc, "aescbc"), (&provider.secretbox, "secretbox")];
        let count = local.iter().filter(|(keys, _)| keys.is_some()).count()
            + usize::from(provider.identity.is_some())
            + usize::from(provider.kms.is_some());
        match count {
            0 => self.errors.push(format!(
                "{field}: Invalid value: provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, \
                 Secretbox, Identity"
            )),
            1 => {}
            _ => self.errors.push(format!(
                "{field}: Invalid value: more than one provider specified in a single element, should split into \
                 different list elements"
            )),
        }
        for (keys, name) in local {
            let sizes: &[usize] = if name == "secretbox" { &[32] } else { &[16, 24, 32] };
            if let Some(keys) = keys {
                self.keys(&keys.keys, &format!("{field}.{name}.keys"), sizes);
            }
        }
        if let Some(kms) = &provider.kms {
            self.kms(kms, &format!("{field}.kms"));
        }
    }

    fn keys(&mut self, keys: &[Key], field: &str, sizes: &[usize]) {
        if keys.is_empty() {
            self.required(field, "at least one keys is required");
        }
        for (at, key) in keys.iter().enumerate() {
            let (name, secret) = (format!("{field}[{at}].name"), format!("{field}[{at}].secret"));
            if key.name.is_empty() {
                self.required(&name, "name is a mandatory field for a key");
            }
            if key.secret.is_empty() {
                self.required(&secret, "secret is a mandatory field for a key");
                continue;
            }
            match STANDARD.decode(&key.secret) {
                Err(_) => self.invalid(&secret, "REDACTED", "secrets must be base64 encoded"),
                Ok(bytes) if !sizes.contains(&bytes.len()) => {
                    let sizes = sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
                    let len = bytes.len();
                    let why = format!("secret is not of the expected length, got {len}, expected one of [{sizes}]");
                    self.invalid(&secret, "REDACTED", &why);
                }
                Ok(_) => {}
            }
        }
    }

    fn kms(&mut self, kms: &Kms, field: &str) {
        let name = format!("{field}.name");
        if kms.name.is_empty() {
            self.required(&name, "name is a mandatory field for a provider");
        }
        if kms.name.contains(':') && !kms.is_first() {
            let why = format!("invalid KMS provider name {}, must not contain ':'", kms.name);
            self.invalid(&name, &kms.name, &why);
        }
        if !self.kms_names.insert(kms.name.clone()) && (self.allowed.reload || !kms.is_first()) {
            let why = format!("duplicate KMS provider name {}, names must be unique", kms.name);
            self.invalid(&name, &kms.name, &why);
        }
        if kms.timeout().is_none() {
            let timeout = kms.timeout.clone().unwrap_or_default();
            self.invalid(&format!("{field}.timeout"), &timeout, "timeout should be a positive value");
        }
        let endpoint = format!("{field}.endpoint");
        match kms.endpoint.split_once("://") {
            _ if kms.endpoint.is_empty() => self.invalid(&endpoint, "", "endpoint is a mandatory field for a kms"),
            Some(("unix", path)) if !path.is_empty() => {}
            Some(("unix", _)) | None => {
                self.invalid(&endpoint, &kms.endpoint, "invalid endpoint for kms provider, error: it has no path");
            }
            Some((scheme, _)) => {
                let why = format!("unsupported scheme {scheme:?} for KMS provider, only unix is supported");
                self.invalid(&endpoint, &kms.endpoint, &why);
            }
        }
        self.kms_cache_size(kms, &format!("{field}.cachesize"));
        if !["v1", "v2"].contains(&&*kms.api_version) {
            let why = "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported";
            self.invalid(&format!("{field}.apiVersion"), &kms.api_version, why);
        }
    }

    fn kms_cache_size(&mut self, kms: &Kms, field: &str) {
        let why = match kms.cache_size {
            Some(0) if kms.is_first() => "cachesize should be a positive value, or negative to disable",
            Some(_) if !kms.is_first() => "cachesize is not supported in v2",
            _ => return,
        };
        let size = kms.cache_size.unwrap_or_default();
        self.errors.push(format!("{field}: Invalid value: {size}: {why}"));
    }
}

/// `deployments.apps` as group and resource; the core group's is empty.
fn group_resource(text: &str) -> (&str, &str) {
    text.split_once('.').map_or(("", text), |(resource, group)| (group, resource))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(resources: &str, providers: &str) -> String {
        format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
             - resources: [{resources}]\n  providers: [{providers}]\n"
        )
    }

    #[test]
    fn what_is_wrong_is_said_as_upstream_says_it() {
        let check = |resources: &str, providers: &str, expect: &str| {
            let found = parse(&config(resources, providers), EncryptionRules::default())
                .map(drop)
                .map_err(|error| error.to_string());
            match expect {
                "" => assert_eq!(found, Ok(()), "{resources} {providers}"),
                expect => assert!(found.as_ref().is_err_and(|error| error.contains(expect)), "{found:?}"),
            }
        };
        let key = "{name: k, secret: MDEyMzQ1Njc4OWFiY2RlZg==}";
        check("secrets", "{identity: {}}", "");
        check("secrets, '*.apps', deployments.extensions.example", &format!("{{aescbc: {{keys: [{key}]}}}}"), "");
        check("", "{identity: {}}", "resources[0].resources: Required value: at least one");
        check("secrets", "", "resources[0].providers: Required value: at least one");
        check("Secrets", "{identity: {}}", "should not contain capital letters");
        check("'*'", "{identity: {}}", "use '*.' to encrypt");
        check("secrets, secrets", "{identity: {}}", "the same resource cannot be specified");
        check("secrets, '*.'", "{identity: {}}", "using overlapping resources");
        check("secrets, '*.*'", "{identity: {}}", "using overlapping resources");
        check("'secrets.*'", "{identity: {}}", "across groups is not supported");
        check("events.events.k8s.io", "{identity: {}}", "Use 'events' instead");
        check("secrets", "{}", "does not contain any of the expected providers");
        check("secrets", "{identity: {}, secretbox: {keys: []}}", "more than one provider");
        check("secrets", "{secretbox: {keys: []}}", "at least one keys is required");
        check("secrets", &format!("{{secretbox: {{keys: [{key}]}}}}"), "got 16, expected one of [32]");
        check("secrets", "{aesgcm: {keys: [{name: k, secret: '!'}]}}", "secrets must be base64 encoded");
        check("secrets", "{aesgcm: {keys: [{secret: AAAA}]}}", "name is a mandatory field");
        check("secrets", "{aesgcm: {keys: [{name: k}]}}", "secret is a mandatory field");
        check(
            "secrets",
            "{aesgcm: {keyz: []}}",
            "strict decoding error: unknown field \"resources[0].providers[0].aesgcm.keyz\"",
        );
        check("secrets", "{aesgcm: {keys: 7}}", "json: cannot unmarshal number into Go struct field ");
        check("secrets", "{kms: {apiVersion: v2, name: k, endpoint: 'unix:///k.sock', timeout: 1m3s}}", "");
        check("secrets", "{kms: {apiVersion: v2, name: 'k:', endpoint: 'unix:///k.sock'}}", "must not contain ':'");
        check("secrets", "{kms: {apiVersion: v2, name: k, endpoint: 'tcp://k'}}", "only unix is supported");
        check("secrets", "{kms: {apiVersion: v2, name: k, endpoint: 'unix:///k', timeout: 0s}}", "positive value");
        check(
            "secrets",
            "{kms: {apiVersion: v2, name: k, endpoint: 'unix:///k', cachesize: 5}}",
            "not supported in v2",
        );
        check("secrets", "{kms: {name: k, endpoint: 'unix:///k.sock'}}", "KMSv1 is deprecated");
        assert!(
            parse("kind: Pod\napiVersion: v1\nresources: []", EncryptionRules::default())
                .is_err_and(|error| error.to_string().contains("no kind"))
        );
        let twice = "{kms: {apiVersion: v2, name: k, endpoint: 'unix:///k'}}";
        check("secrets", &format!("{twice}, {twice}"), "duplicate KMS provider name k");
    }
}
