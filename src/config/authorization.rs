//! Who decides what a client may do.

use std::path::PathBuf;

use super::Findings;
use crate::flags::Parsed;

/// One authorizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizationMode {
    /// Everyone may do everything.
    AlwaysAllow,
    /// Nobody may do anything.
    AlwaysDeny,
    /// A file of policies.
    Abac,
    /// A webhook decides.
    Webhook,
    /// Roles and bindings.
    Rbac,
    /// What kubelets need, by the pods on their node.
    Node,
}

impl AuthorizationMode {
    const ALL: [(&'static str, Self); 6] = [
        ("AlwaysAllow", Self::AlwaysAllow),
        ("AlwaysDeny", Self::AlwaysDeny),
        ("ABAC", Self::Abac),
        ("Webhook", Self::Webhook),
        ("RBAC", Self::Rbac),
        ("Node", Self::Node),
    ];
}

/// Authorizers that this server does not have yet: they have no opinion, so that what only they would allow is refused.
const NOT_BUILT: [AuthorizationMode; 2] = [AuthorizationMode::Abac, AuthorizationMode::Webhook];

/// Who decides, and what they need for it.
#[derive(Clone, Debug)]
pub struct Authorization {
    /// `--authorization-mode`, asked in this order; never empty.
    pub modes: Vec<AuthorizationMode>,
    /// `--authorization-webhook-config-file`.
    pub webhook_config: Option<PathBuf>,
    /// `--authorization-policy-file`.
    pub policy: Option<PathBuf>,
}

impl Authorization {
    pub(super) fn from_flags(flags: &Parsed, findings: &mut Findings) -> Self {
        let names = flags.list("authorization-mode");
        let file = findings.file(flags, "authorization-config");
        let mut modes = Vec::new();
        for name in &names {
            match AuthorizationMode::ALL.iter().find(|(known, _)| known == name) {
                None => findings.error(format!("authorization-mode {name:?} is not a valid mode")),
                Some((_, mode)) if modes.contains(mode) => findings
                    .error(format!("authorization-mode [{}] has mode specified more than once", names.join(" "))),
                Some((_, mode)) => {
                    if NOT_BUILT.contains(mode) {
                        findings.warn(format!("authorization-mode {name} allows nothing yet"));
                    }
                    modes.push(*mode);
                }
            }
        }
        if file.is_some() {
            if !names.is_empty() {
                findings.error("--authorization-config can not be specified when --authorization-mode is defined");
            }
            // What the file allows is not known: nothing is, rather than everything.
            findings.warn("--authorization-config is not read yet: everyone but system:masters is refused");
            modes = vec![AuthorizationMode::AlwaysDeny];
        } else if names.is_empty() {
            modes.push(AuthorizationMode::AlwaysAllow);
            if flags.is_given("authorization-mode") {
                findings.error("at least one authorization-mode must be passed");
            }
        }
        let webhook_config = findings.file(flags, "authorization-webhook-config-file");
        let policy = findings.file(flags, "authorization-policy-file");
        match (modes.contains(&AuthorizationMode::Webhook), &webhook_config) {
            (true, None) => findings.error("authorization-mode Webhook's authorization config file not passed"),
            (false, Some(_)) => {
                findings.error("cannot specify --authorization-webhook-config-file without mode Webhook");
            }
            _ => {}
        }
        match (modes.contains(&AuthorizationMode::Abac), &policy) {
            (true, None) => findings.error("authorization-mode ABAC's authorization policy file not passed"),
            (false, Some(_)) => findings.error("cannot specify --authorization-policy-file without mode ABAC"),
            _ => {}
        }
        Self { modes, webhook_config, policy }
    }
}
