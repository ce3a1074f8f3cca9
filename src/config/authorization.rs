//! Who decides what a client may do.

use super::Findings;
use crate::flags::Parsed;

/// One authorizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizationMode {
    /// Everyone may do everything.
    AlwaysAllow,
    /// Nobody may do anything.
    AlwaysDeny,
    /// Roles and bindings.
    Rbac,
    /// What kubelets need, by the pods on their node.
    Node,
}

/// Every mode of v1.36. Who asks for one that this server does not have yet gets no server, rather than one that decides
/// otherwise.
const MODES: [(&str, Option<AuthorizationMode>); 6] = [
    ("AlwaysAllow", Some(AuthorizationMode::AlwaysAllow)),
    ("AlwaysDeny", Some(AuthorizationMode::AlwaysDeny)),
    ("ABAC", None),
    ("Webhook", None),
    ("RBAC", Some(AuthorizationMode::Rbac)),
    ("Node", Some(AuthorizationMode::Node)),
];

/// Who decides.
#[derive(Clone, Debug)]
pub struct Authorization {
    /// `--authorization-mode`, asked in this order; never empty.
    pub modes: Vec<AuthorizationMode>,
}

impl Authorization {
    pub(super) fn from_flags(flags: &Parsed, findings: &mut Findings) -> Self {
        let names = flags.list("authorization-mode");
        let mut modes = Vec::new();
        for (at, name) in names.iter().enumerate() {
            if names[..at].contains(name) {
                findings.error(format!("authorization-mode [{}] has mode specified more than once", names.join(" ")));
                continue;
            }
            match MODES.iter().find(|(known, _)| known == name) {
                None => findings.error(format!("authorization-mode {name:?} is not a valid mode")),
                Some((_, None)) => {
                    findings.error(format!("authorization-mode {name} is not built into this server yet"));
                }
                Some((_, Some(mode))) => modes.push(*mode),
            }
        }
        let is_configured = findings.file(flags, "authorization-config").is_some();
        if is_configured && !names.is_empty() {
            findings.error("--authorization-config can not be specified when --authorization-mode is defined");
        } else if is_configured {
            findings.error("--authorization-config is not read by this server yet");
        } else if names.is_empty() {
            modes.push(AuthorizationMode::AlwaysAllow);
            if flags.is_given("authorization-mode") {
                findings.error("at least one authorization-mode must be passed");
            }
        }
        for (mode, what, flag) in [
            ("Webhook", "config", "authorization-webhook-config-file"),
            ("ABAC", "policy", "authorization-policy-file"),
        ] {
            match (names.iter().any(|name| name == mode), findings.file(flags, flag)) {
                (true, None) => {
                    findings.error(format!("authorization-mode {mode}'s authorization {what} file not passed"));
                }
                (false, Some(_)) => findings.error(format!("cannot specify --{flag} without mode {mode}")),
                _ => {}
            }
        }
        Self { modes }
    }
}
