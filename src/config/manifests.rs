//! Which directories hold the policies and webhooks that are no objects of the API: what the configurations of the plugins say
//! that judge writes by them.

use std::{path::Path, sync::Arc};

use generic_server::features::Features;
use machinery::{
    Value,
    codec::json,
    config::{Untyped, root, text},
    meta::FieldError,
};
use outbound::WebhookUsers;
use policies::PluginConfig;

/// What one plugin is told.
struct Kind {
    plugin: &'static str,
    kind: &'static str,
    go_type: &'static str,
    /// Where upstream has its registry of kinds, as its errors say.
    registry: &'static str,
}

const GATE: &str = "ManifestBasedAdmissionControlConfig";
const POLICIES: &str = "pkg/admission/plugin/policy/config/config.go:32";
const WEBHOOKS: &str = "pkg/admission/plugin/webhook/config/kubeconfig.go:34";

const KINDS: [Kind; 4] = [
    Kind {
        plugin: "ValidatingAdmissionPolicy",
        kind: "ValidatingAdmissionPolicyConfiguration",
        go_type: "ValidatingAdmissionPolicyConfiguration",
        registry: POLICIES,
    },
    Kind {
        plugin: "MutatingAdmissionPolicy",
        kind: "MutatingAdmissionPolicyConfiguration",
        go_type: "MutatingAdmissionPolicyConfiguration",
        registry: POLICIES,
    },
    Kind {
        plugin: "ValidatingAdmissionWebhook",
        kind: "WebhookAdmissionConfiguration",
        go_type: "WebhookAdmission",
        registry: WEBHOOKS,
    },
    Kind {
        plugin: "MutatingAdmissionWebhook",
        kind: "WebhookAdmissionConfiguration",
        go_type: "WebhookAdmission",
        registry: WEBHOOKS,
    },
];

/// What a plugin is told by its configuration; `None` if it is no plugin that judges writes by policies or webhooks.
///
/// # Errors
/// What is wrong with the configuration.
pub(super) fn read(plugin: &str, said: &Value, features: &Features) -> Result<Option<PluginConfig>, String> {
    let Some(kind) = KINDS.iter().find(|kind| kind.plugin == plugin) else { return Ok(None) };
    let untyped = Untyped::read(&json::encode(said)).map_err(|why| why.to_string())?;
    if untyped.api_version != "apiserver.config.k8s.io/v1" || KINDS.iter().all(|known| known.kind != untyped.kind) {
        return Err(untyped.unregistered(kind.registry).to_string());
    }
    if untyped.kind != kind.kind {
        return match KINDS.iter().find(|known| known.kind == untyped.kind && known.registry == kind.registry) {
            Some(other) => Err(format!("unexpected type: *policyconfig.{}", other.go_type)),
            None => Err(untyped.unregistered(kind.registry).to_string()),
        };
    }
    let fields = match kind.registry {
        WEBHOOKS => vec![text("kubeConfigFile"), text("staticManifestsDir")],
        _ => vec![text("staticManifestsDir")],
    };
    let read = untyped.shaped(&root(format!("v1.{}", kind.go_type), fields)).map_err(|why| why.to_string())?;
    let named = |member: &str| read.str_at(&[member]).unwrap_or_default().to_owned();
    let (users, directory) = (named("kubeConfigFile"), named("staticManifestsDir"));
    if !users.is_empty() && !users.starts_with('/') {
        let why = FieldError::invalid("kubeConfigFile", users.as_str(), "must be an absolute file path");
        return Err(why.to_string());
    }
    if !directory.is_empty() {
        check(&directory, features).map_err(|error| error.to_string())?;
    }
    Ok(Some(PluginConfig {
        directory: (!directory.is_empty()).then(|| directory.into()),
        users: match users.is_empty() {
            true => None,
            false => Some(Arc::new(WebhookUsers::load(Path::new(&users)).map_err(|error| error.to_string())?)),
        },
    }))
}

fn check(directory: &str, features: &Features) -> Result<(), FieldError> {
    const FIELD: &str = "staticManifestsDir";
    if !features.is_on(GATE) {
        return Err(FieldError::forbidden(FIELD, format!("{FIELD} requires the {GATE} feature gate to be enabled")));
    }
    let invalid = |why: &str| Err(FieldError::invalid(FIELD, directory, why));
    if !directory.starts_with('/') {
        return invalid("must be an absolute file path");
    }
    match std::fs::metadata(directory) {
        Err(error) => {
            let why = crate::plain_io_error(&error).to_lowercase();
            invalid(&format!("unable to read: stat {directory}: {why}"))
        }
        Ok(meta) if !meta.is_dir() => invalid("must be a directory"),
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use machinery::object;

    use super::*;

    fn said(kind: &str, directory: &str) -> Value {
        object! {
            "apiVersion" => "apiserver.config.k8s.io/v1", "kind" => kind, "staticManifestsDir" => directory,
        }
    }

    /// The directory that a plugin is told to read.
    fn directory(plugin: &str, said: &Value, features: &Features) -> Result<Option<PathBuf>, String> {
        read(plugin, said, features).map(|config| config.unwrap_or_default().directory)
    }

    #[test]
    fn a_directory_is_read_where_the_gate_is_on() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().to_str().expect("text");
        let (on, off) = (Features::from_iter([GATE]), Features::default());
        for kind in KINDS {
            let said = said(kind.kind, path);
            assert_eq!(directory(kind.plugin, &said, &on), Ok(Some(dir.path().into())), "{}", kind.plugin);
            let why = "staticManifestsDir: Forbidden: staticManifestsDir requires the ManifestBasedAdmissionControlConfig \
                       feature gate to be enabled";
            assert_eq!(directory(kind.plugin, &said, &off), Err(why.to_owned()), "{}", kind.plugin);
            let nothing = self::said(kind.kind, "");
            assert_eq!(directory(kind.plugin, &nothing, &off), Ok(None), "{}", kind.plugin);
        }
        assert_eq!(directory("PodSecurity", &object! {}, &off), Ok(None));
    }

    #[test]
    fn what_is_no_such_configuration_is_refused() {
        let on = Features::from_iter([GATE]);
        let check = |plugin: &str, said: Value, expect: &str| {
            assert_eq!(directory(plugin, &said, &on), Err(expect.to_owned()), "{plugin} {said:?}");
        };
        let (policy, webhook) = ("ValidatingAdmissionPolicy", "MutatingAdmissionWebhook");
        let kind = "ValidatingAdmissionPolicyConfiguration";
        check(policy, said(kind, "x"), "staticManifestsDir: Invalid value: \"x\": must be an absolute file path");
        check(
            policy,
            said(kind, "/nowhere/x"),
            "staticManifestsDir: Invalid value: \"/nowhere/x\": unable to read: stat /nowhere/x: no such file or directory",
        );
        check(
            policy,
            said(kind, "/proc/version"),
            "staticManifestsDir: Invalid value: \"/proc/version\": must be a directory",
        );
        check(
            policy,
            said("MutatingAdmissionPolicyConfiguration", ""),
            "unexpected type: *policyconfig.MutatingAdmissionPolicyConfiguration",
        );
        check(
            webhook,
            said(kind, ""),
            "no kind \"ValidatingAdmissionPolicyConfiguration\" is registered for version \"apiserver.config.k8s.io/v1\" in scheme \
             \"pkg/admission/plugin/webhook/config/kubeconfig.go:34\"",
        );
        let mut users = said("WebhookAdmissionConfiguration", "");
        users.set(&["kubeConfigFile"], "x");
        check(webhook, users, "kubeConfigFile: Invalid value: \"x\": must be an absolute file path");
        let mut unknown = said(kind, "");
        unknown.set(&["other"], 1);
        check(policy, unknown, "strict decoding error: unknown field \"other\"");
    }
}
