//! Configuration of authorizers.

use std::{path::PathBuf, time::Duration};

use auth::{
    Verdict,
    authz::{
        Conditions, ReviewVersion, WebhookSettings,
        config::{self, AuthorizerConfig, AuthorizerType},
    },
};

use super::Findings;
use crate::flags::Parsed;

/// Who decides.
#[derive(Clone, Debug)]
pub struct Authorization {
    /// The authorizers, asked in this order; never empty where nothing is wrong.
    pub authorizers: Vec<AuthorizerConfig>,
    /// `--authorization-config`, and its content: where they come from, if not from flags.
    pub file: Option<(PathBuf, Vec<u8>)>,
    /// `--authorization-policy-file`: what ABAC decides by.
    pub policies: Option<PathBuf>,
}

/// What cannot be combined with a file.
const FLAGS: [&str; 5] = [
    "authorization-mode",
    "authorization-webhook-config-file",
    "authorization-webhook-version",
    "authorization-webhook-cache-authorized-ttl",
    "authorization-webhook-cache-unauthorized-ttl",
];

/// How long a webhook that flags name may take.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(30);

impl Authorization {
    pub(super) fn from_flags(flags: &Parsed, findings: &mut Findings) -> Self {
        let policies = findings.file(flags, "authorization-policy-file");
        let authorization = match findings.file(flags, "authorization-config") {
            Some(path) => Self::from_file(path, flags, findings),
            None => Self { authorizers: from_modes(flags, policies.is_some(), findings), file: None, policies: None },
        };
        if authorization.has(AuthorizerType::Abac) && authorization.file.is_some() && policies.is_none() {
            findings.error("authorization-mode ABAC's authorization policy file not passed");
        }
        Self { policies, ..authorization }
    }

    /// Whether there is an authorizer of this type.
    pub fn has(&self, of_type: AuthorizerType) -> bool {
        self.authorizers.iter().any(|authorizer| authorizer.of_type == of_type)
    }

    fn from_file(path: PathBuf, flags: &Parsed, findings: &mut Findings) -> Self {
        if FLAGS.iter().any(|flag| flags.is_given(flag)) {
            findings.error(
                "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are \
                 defined",
            );
        }
        let content = std::fs::read(&path).unwrap_or_default(); // that it cannot be opened is told already
        let authorizers = config::read(&content, &[]).unwrap_or_else(|why| {
            findings.error(format!("--authorization-config: {}: {why}", path.display()));
            Vec::new()
        });
        Self { authorizers, file: Some((path, content)), policies: None }
    }
}

/// The authorizers that `--authorization-mode` names, each once.
fn from_modes(flags: &Parsed, has_policies: bool, findings: &mut Findings) -> Vec<AuthorizerConfig> {
    let names = flags.list("authorization-mode");
    let kubeconfig = findings.file(flags, "authorization-webhook-config-file");
    let has = |mode: AuthorizerType| names.iter().any(|name| name == mode.name());
    let mut authorizers = Vec::new();
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            findings
                .error(format!("authorization-mode {names:?} has mode specified more than once").replace(", ", " "));
            continue;
        }
        match AuthorizerType::of_name(name) {
            None => findings.error(format!("authorization-mode {name:?} is not a valid mode")),
            Some(AuthorizerType::Webhook) => authorizers.extend(webhook(flags, kubeconfig.clone(), findings)),
            Some(of_type) => authorizers.push(AuthorizerConfig::of(of_type)),
        }
    }
    if names.is_empty() {
        authorizers.push(AuthorizerConfig::of(AuthorizerType::AlwaysAllow));
        if flags.is_given("authorization-mode") {
            findings.error("at least one authorization-mode must be passed");
        }
    }
    match (has(AuthorizerType::Abac), has_policies) {
        (true, false) => findings.error("authorization-mode ABAC's authorization policy file not passed"),
        (false, true) => findings.error("cannot specify --authorization-policy-file without mode ABAC"),
        _ => {}
    }
    if kubeconfig.is_some() && !has(AuthorizerType::Webhook) {
        findings.error("cannot specify --authorization-webhook-config-file without mode Webhook");
    }
    authorizers
}

/// The webhook that flags name.
fn webhook(flags: &Parsed, kubeconfig: Option<PathBuf>, findings: &mut Findings) -> Option<AuthorizerConfig> {
    let name = flags.text("authorization-webhook-version");
    let version = ReviewVersion::of_name(&name);
    if version.is_none() {
        findings.error(format!(
            "unsupported webhook authorizer version {name:?}, supported versions are \"v1\", \"v1beta1\""
        ));
    }
    if kubeconfig.is_none() {
        findings.error("authorization-mode Webhook's authorization config file not passed");
    }
    let settings = WebhookSettings {
        name: "default".into(),
        authorized_ttl: findings.duration(flags, "authorization-webhook-cache-authorized-ttl"),
        unauthorized_ttl: findings.duration(flags, "authorization-webhook-cache-unauthorized-ttl"),
        timeout: WEBHOOK_TIMEOUT,
        version: version?,
        on_failure: Verdict::NoOpinion,
        conditions: Conditions::default(),
    };
    let webhook = Some((settings, kubeconfig?));
    Some(AuthorizerConfig { of_type: AuthorizerType::Webhook, name: "default".into(), webhook })
}
