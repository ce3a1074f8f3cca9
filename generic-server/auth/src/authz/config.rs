//! `--authorization-config`: which authorizers decide, in which order (KEP-3221). The flags of old make the same of what they say.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use machinery::{
    Str, Value,
    config::{self, APISERVER_CONFIG_SIBLINGS, ConfigError, ConfigKind, field, list, pointer, text},
    meta::{
        BadValue,
        duration::{DurationError, GoDuration},
        field_error::{FieldError, aggregate},
        names,
    },
    schema::{Schema, Shape, StringFormat},
};

use super::{Conditions, ReviewVersion, WebhookSettings};
use crate::Verdict;

/// What kind of authorizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizerType {
    /// Policies in a file.
    Abac,
    /// Everyone may do everything.
    AlwaysAllow,
    /// Nobody may do anything.
    AlwaysDeny,
    /// What kubelets need, by the pods on their node.
    Node,
    /// Roles and bindings.
    Rbac,
    /// Somebody else knows.
    Webhook,
}

impl AuthorizerType {
    /// All of them, sorted by name.
    pub const ALL: [AuthorizerType; 6] = [
        AuthorizerType::Abac,
        AuthorizerType::AlwaysAllow,
        AuthorizerType::AlwaysDeny,
        AuthorizerType::Node,
        AuthorizerType::Rbac,
        AuthorizerType::Webhook,
    ];

    /// The name in flags and files.
    pub const fn name(self) -> &'static str {
        match self {
            AuthorizerType::Abac => "ABAC",
            AuthorizerType::AlwaysAllow => "AlwaysAllow",
            AuthorizerType::AlwaysDeny => "AlwaysDeny",
            AuthorizerType::Node => "Node",
            AuthorizerType::Rbac => "RBAC",
            AuthorizerType::Webhook => "Webhook",
        }
    }

    /// The type of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

/// One authorizer.
#[derive(Clone, Debug)]
pub struct AuthorizerConfig {
    /// Its type.
    pub of_type: AuthorizerType,
    /// What it is called.
    pub name: Str,
    /// Of webhooks: how to ask, and the kubeconfig file that says whom.
    pub webhook: Option<(WebhookSettings, PathBuf)>,
}

impl AuthorizerConfig {
    /// An authorizer that is no webhook.
    pub fn of(of_type: AuthorizerType) -> Self {
        AuthorizerConfig { of_type, name: of_type.name().to_ascii_lowercase().into(), webhook: None }
    }
}

const KIND: ConfigKind = ConfigKind {
    group: "apiserver.config.k8s.io",
    kind: "AuthorizationConfiguration",
    versions: &["v1", "v1beta1", "v1alpha1"],
    siblings: APISERVER_CONFIG_SIBLINGS,
    registry: "pkg/apis/apiserver/load/load.go:32",
    schema,
};

fn schema(version: &str) -> Schema {
    let duration = || Schema::of(Shape::String(StringFormat::Duration));
    let string = || Schema::of(Shape::String(StringFormat::Plain));
    let flag = || Schema::of(Shape::Boolean);
    let connection =
        config::object(format!("{version}.WebhookConnectionInfo"), [text("type"), pointer("kubeConfigFile", string())]);
    let condition = config::object(format!("{version}.WebhookMatchCondition"), [text("expression")]);
    let webhook = config::object(
        format!("{version}.WebhookConfiguration"),
        [
            field("authorizedTTL", duration()),
            pointer("cacheAuthorizedRequests", flag()),
            field("unauthorizedTTL", duration()),
            pointer("cacheUnauthorizedRequests", flag()),
            field("timeout", duration()),
            text("subjectAccessReviewVersion"),
            text("matchConditionSubjectAccessReviewVersion"),
            text("failurePolicy"),
            field("connectionInfo", connection),
            list("matchConditions", condition),
        ],
    );
    let authorizer = config::object(
        format!("{version}.AuthorizerConfiguration"),
        [text("type"), text("name"), pointer("webhook", webhook)],
    );
    config::root(format!("{version}.AuthorizationConfiguration"), [list("authorizers", authorizer)])
}

/// Why a file is no configuration of authorizers. Shown, it is what upstream's server says.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AuthorizationConfigError {
    /// It cannot be read.
    #[error("failed to load AuthorizationConfiguration from file: {0}")]
    Form(#[from] ConfigError),
    /// A duration in it is none.
    #[error("failed to load AuthorizationConfiguration from file: {0}")]
    Duration(#[from] DurationError),
    /// Its fields are invalid, in these ways.
    #[error("{}", aggregate(.0).unwrap_or_default())]
    Invalid(Vec<FieldError>),
    /// Its authorizers are not those that the server needs, or not called as they are.
    #[error("{}", crate::aggregate(&selection(.misnamed, .missing)).unwrap_or_default())]
    Selection {
        /// Those that are not called as the flags of old call them.
        misnamed: Vec<Misnamed>,
        /// Those that the server has begun with and that are not there.
        missing: Vec<AuthorizerType>,
    },
}

/// An authorizer of which there can be one, under a name that is not its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected name {} for authorizer {} instead of {name}", .of_type.name().to_ascii_lowercase(), .of_type.name())]
pub struct Misnamed {
    /// Its type.
    pub of_type: AuthorizerType,
    /// What it is called.
    pub name: Str,
}

fn selection(misnamed: &[Misnamed], missing: &[AuthorizerType]) -> Vec<String> {
    let mut told: Vec<String> = misnamed.iter().map(ToString::to_string).collect();
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(|of_type| of_type.name()).collect();
        told.push(format!("missing required types: [{}]", names.join(" ")));
    }
    told
}

/// Reads a file's content. `required`: types that the server has begun with and cannot do without.
///
/// # Errors
/// All that is wrong with it.
pub fn read(content: &[u8], required: &[AuthorizerType]) -> Result<Vec<AuthorizerConfig>, AuthorizationConfigError> {
    let document = match content.is_empty() {
        true => Value::object(),
        false => KIND.read(content)?.document,
    };
    if let Some(error) = unreadable_duration(&document) {
        return Err(error.into());
    }
    let mut reader = Reader::default();
    let authorizers = reader.authorizers(&document);
    if !reader.errors.is_empty() {
        return Err(AuthorizationConfigError::Invalid(reader.errors));
    }
    let misnamed: Vec<Misnamed> = authorizers.iter().filter_map(misnamed).collect();
    let is_missing = |needed: &AuthorizerType| authorizers.iter().all(|one| one.of_type != *needed);
    let missing: Vec<AuthorizerType> = required.iter().copied().filter(is_missing).collect();
    match misnamed.is_empty() && missing.is_empty() {
        true => Ok(authorizers),
        false => Err(AuthorizationConfigError::Selection { misnamed, missing }),
    }
}

/// What is wrong with the first duration that is none.
fn unreadable_duration(document: &Value) -> Option<DurationError> {
    let authorizers = document.get("authorizers").and_then(Value::as_array).unwrap_or_default();
    let durations = authorizers.iter().flat_map(|authorizer| {
        ["authorizedTTL", "unauthorizedTTL", "timeout"].map(|member| authorizer.str_at(&["webhook", member]))
    });
    durations.flatten().find_map(|text| GoDuration::parse(text).err())
}

/// Authorizers of which there is one are called as the flags of old call them.
fn misnamed(authorizer: &AuthorizerConfig) -> Option<Misnamed> {
    let AuthorizerConfig { of_type, name, .. } = authorizer;
    let is_right = *of_type == AuthorizerType::Webhook || *name == of_type.name().to_ascii_lowercase();
    (!is_right).then(|| Misnamed { of_type: *of_type, name: name.clone() })
}

/// Collects what is wrong.
#[derive(Default)]
struct Reader {
    errors: Vec<FieldError>,
}

impl Reader {
    fn error(&mut self, error: FieldError) {
        self.errors.push(error);
    }

    fn authorizers(&mut self, document: &Value) -> Vec<AuthorizerConfig> {
        let listed = document.get("authorizers").and_then(Value::as_array).unwrap_or_default();
        if listed.is_empty() {
            self.error(FieldError::required("authorizers", "at least one authorization mode must be defined"));
        }
        let (mut types, mut names): (Vec<AuthorizerType>, Vec<&str>) = (Vec::new(), Vec::new());
        let mut found = Vec::new();
        for (at, authorizer) in listed.iter().enumerate() {
            let path = format!("authorizers[{at}]");
            let Some(of_type) = self.of_type(authorizer, &path, &types) else { continue };
            types.push(of_type);
            let name = authorizer.str_at(&["name"]).unwrap_or_default();
            self.name(name, &path, &names);
            names.push(name);
            let webhook = authorizer.get("webhook").filter(|webhook| !webhook.is_null());
            let webhook = match (of_type, webhook) {
                (AuthorizerType::Webhook, Some(webhook)) => self.webhook(webhook, name, &path),
                (AuthorizerType::Webhook, None) => {
                    self.error(FieldError::required(format!("{path}.webhook"), "required when type=Webhook"));
                    None
                }
                (_, Some(_)) => {
                    let detail = "may only be specified when type=Webhook";
                    self.error(FieldError::invalid(format!("{path}.webhook"), "non-null", detail));
                    None
                }
                (_, None) => None,
            };
            found.push(AuthorizerConfig { of_type, name: name.into(), webhook });
        }
        found
    }

    fn of_type(&mut self, authorizer: &Value, path: &str, seen: &[AuthorizerType]) -> Option<AuthorizerType> {
        let path = format!("{path}.type");
        let name = authorizer.str_at(&["type"]).unwrap_or_default();
        if name.is_empty() {
            self.error(FieldError::required(path, ""));
            return None;
        }
        let Some(of_type) = AuthorizerType::of_name(name) else {
            self.error(FieldError::not_supported(path, name, AuthorizerType::ALL.map(AuthorizerType::name)));
            return None;
        };
        if of_type != AuthorizerType::Webhook && seen.contains(&of_type) {
            self.error(FieldError::duplicate(path, name));
            return None;
        }
        Some(of_type)
    }

    fn name(&mut self, name: &str, path: &str, seen: &[&str]) {
        let path = format!("{path}.name");
        if name.is_empty() {
            return self.error(FieldError::required(path, ""));
        }
        if seen.contains(&name) {
            return self.error(FieldError::duplicate(path, name));
        }
        let wrong = names::dns1123_subdomain(name);
        if !wrong.is_empty() {
            let detail = format!("authorizer name is invalid: {}", wrong.join(", "));
            self.error(FieldError::invalid(path, name, detail));
        }
    }

    fn webhook(&mut self, webhook: &Value, name: &str, path: &str) -> Option<(WebhookSettings, PathBuf)> {
        let before = self.errors.len();
        let timeout = self.timeout(webhook, path);
        let authorized_ttl = self.ttl(webhook, path, "authorizedTTL", "cacheAuthorizedRequests", 300);
        let unauthorized_ttl = self.ttl(webhook, path, "unauthorizedTTL", "cacheUnauthorizedRequests", 30);
        let version = self.choice(webhook, path, "subjectAccessReviewVersion", &["v1", "v1beta1"]);
        let version = ReviewVersion::of_name(version).unwrap_or(ReviewVersion::V1);
        let texts = self.condition_texts(webhook, path);
        let policy = self.choice(webhook, path, "failurePolicy", &["NoOpinion", "Deny"]);
        let on_failure = if policy == "Deny" { Verdict::Deny } else { Verdict::NoOpinion };
        let kubeconfig = self.connection(webhook.get("connectionInfo").unwrap_or(&Value::Null), path);
        let conditions = Conditions::compile(&texts, &format!("{path}.matchConditions"));
        let conditions = conditions.map_err(|errors| self.errors.extend(errors)).unwrap_or_default();
        let settings = WebhookSettings {
            name: name.into(),
            authorized_ttl,
            unauthorized_ttl,
            timeout,
            version,
            on_failure,
            conditions,
        };
        (self.errors.len() == before).then_some((settings, kubeconfig))
    }

    fn timeout(&mut self, webhook: &Value, path: &str) -> Duration {
        let timeout = duration(webhook, "timeout");
        let path = format!("{path}.timeout");
        match timeout.to_std() {
            Some(Duration::ZERO) => self.error(FieldError::required(path, "")),
            Some(timeout) if timeout <= Duration::from_secs(30) => return timeout,
            _ => self.error(FieldError::invalid(path, timeout.to_string(), "must be > 0s and <= 30s")),
        }
        Duration::ZERO
    }

    /// How long answers are kept; zero where they are not to be kept.
    fn ttl(&mut self, webhook: &Value, path: &str, member: &str, switch: &str, seconds: u64) -> Duration {
        let ttl = duration(webhook, member);
        let Some(mut given) = ttl.to_std() else {
            self.error(FieldError::invalid(format!("{path}.{member}"), ttl.to_string(), "must be > 0s"));
            return Duration::ZERO;
        };
        if given.is_zero() {
            given = Duration::from_secs(seconds);
        }
        if webhook.get(switch) == Some(&Value::Bool(false)) { Duration::ZERO } else { given }
    }

    /// A text that must be one of some.
    fn choice<'a>(&mut self, webhook: &'a Value, path: &str, member: &str, known: &[&str]) -> &'a str {
        let path = format!("{path}.{member}");
        match webhook.str_at(&[member]).unwrap_or_default() {
            "" => self.error(FieldError::required(path, "")),
            chosen if known.contains(&chosen) => return chosen,
            other => self.error(FieldError::not_supported(path, other, known)),
        }
        ""
    }

    /// The conditions' texts; the version of what they see is v1.
    fn condition_texts(&mut self, webhook: &Value, path: &str) -> Vec<Str> {
        let listed = webhook.get("matchConditions").and_then(Value::as_array).unwrap_or_default();
        let texts = listed.iter().map(|one| Str::from(one.str_at(&["expression"]).unwrap_or_default())).collect();
        let path = format!("{path}.matchConditionSubjectAccessReviewVersion");
        match webhook.str_at(&["matchConditionSubjectAccessReviewVersion"]).unwrap_or_default() {
            "" if !listed.is_empty() => {
                self.error(FieldError::required(path, "required if match conditions are specified"));
            }
            "" | "v1" => {}
            other => self.error(FieldError::not_supported(path, other, ["v1"])),
        }
        texts
    }

    fn connection(&mut self, connection: &Value, path: &str) -> PathBuf {
        let path = format!("{path}.connectionInfo");
        let file = connection.str_at(&["kubeConfigFile"]);
        let file_path = format!("{path}.kubeConfigFile");
        match connection.str_at(&["type"]).unwrap_or_default() {
            "" => self.error(FieldError::required(format!("{path}.type"), "")),
            "InClusterConfig" => match file {
                Some(file) => {
                    self.error(FieldError::invalid(file_path, file, "can only be set when type=KubeConfigFile"));
                }
                // Differs: upstream's server crashes. This one runs in no pod.
                None => {
                    self.error(FieldError::forbidden(format!("{path}.type"), "this server does not run in a cluster"))
                }
            },
            "KubeConfigFile" => match file.unwrap_or_default() {
                "" => self.error(FieldError::required(file_path, "")),
                file => match regular(Path::new(file)) {
                    Ok(()) => return file.into(),
                    Err(why) => self.error(FieldError::invalid(file_path, file, why)),
                },
            },
            other => {
                let file = file.map_or("null".to_owned(), machinery::meta::go_text::quote);
                let shown =
                    format!("{{\"Type\":{},\"KubeConfigFile\":{file}}}", machinery::meta::go_text::quote(other));
                let known = ["InClusterConfig", "KubeConfigFile"];
                self.error(FieldError::not_supported(format!("{path}.type"), BadValue::verbatim(shown), known));
            }
        }
        PathBuf::new()
    }
}

/// Whether a kubeconfig file is there.
fn regular(file: &Path) -> Result<(), String> {
    if !file.is_absolute() {
        return Err("must be an absolute path".to_owned());
    }
    match std::fs::metadata(file) {
        Ok(found) if found.is_file() => Ok(()),
        Ok(_) => Err("must be a regular file".to_owned()),
        Err(error) => Err(format!("error loading file: stat {}: {}", file.display(), go_words(&error))),
    }
}

/// What the operating system says, as Go writes it.
fn go_words(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

fn duration(webhook: &Value, member: &str) -> GoDuration {
    webhook.str_at(&[member]).and_then(|text| GoDuration::parse(text).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
