//! What a service account that is annotated with `kubernetes.io/enforce-mountable-secrets` lets its pods use: the secrets that
//! it lists.

use std::collections::HashSet;

use machinery::{Value, meta::Meta};

const ANNOTATION: &str = "kubernetes.io/enforce-mountable-secrets";

/// Whether the account lists all secrets of a new pod.
pub(super) fn check_pod(account: &Value, pod: &Value) -> Result<(), String> {
    let Some(listed) = Listed::of(account) else { return Ok(()) };
    for volume in items(pod, &["spec", "volumes"]) {
        if let Some(secret) = present(volume, "secret") {
            listed.check(secret, "secretName", || "volume with".to_owned())?;
        }
    }
    listed.check_containers(pod, "initContainers", "init container")?;
    listed.check_containers(pod, "containers", "container")?;
    let pulled: HashSet<&str> = items(account, &["imagePullSecrets"]).iter().map(name_of).collect();
    for (i, secret) in items(pod, &["spec", "imagePullSecrets"]).iter().map(name_of).enumerate() {
        if !pulled.contains(secret) {
            let account = listed.account;
            return Err(format!(
                "imagePullSecrets[{i}].name=\"{secret}\" is not allowed because service account {account} does not reference \
                 that imagePullSecret"
            ));
        }
    }
    Ok(())
}

/// Whether the account lists all secrets of a pod's ephemeral containers.
pub(super) fn check_ephemeral(account: &Value, pod: &Value) -> Result<(), String> {
    let Some(listed) = Listed::of(account) else { return Ok(()) };
    listed.check_containers(pod, "ephemeralContainers", "ephemeral container")
}

/// The secrets that an account lists.
struct Listed<'a> {
    account: &'a str,
    secrets: HashSet<&'a str>,
}

impl<'a> Listed<'a> {
    /// `None` if pods may use others too.
    fn of(account: &'a Value) -> Option<Self> {
        // What strconv.ParseBool takes for true.
        let enforced = account.at(&["metadata", "annotations", ANNOTATION]).and_then(Value::as_str);
        if !matches!(enforced?, "1" | "t" | "T" | "true" | "TRUE" | "True") {
            return None;
        }
        let secrets = items(account, &["secrets"]).iter().map(name_of).collect();
        Some(Listed { account: Meta::of(account).name(), secrets })
    }

    fn check_containers(&self, pod: &Value, list: &str, what: &str) -> Result<(), String> {
        for container in items(pod, &["spec", list]) {
            let name = name_of(container);
            for variable in items(container, &["env"]) {
                let Some(secret) = variable.get("valueFrom").and_then(|from| present(from, "secretKeyRef")) else {
                    continue;
                };
                let variable = name_of(variable);
                self.check(secret, "name", || format!("{what} {name} with envVar {variable} referencing"))?;
            }
            for source in items(container, &["envFrom"]) {
                if let Some(secret) = present(source, "secretRef") {
                    self.check(secret, "name", || format!("{what} {name} with envFrom referencing"))?;
                }
            }
        }
        Ok(())
    }

    fn check(&self, reference: &Value, member: &str, place: impl FnOnce() -> String) -> Result<(), String> {
        let secret = reference.str_at(&[member]).unwrap_or_default();
        if self.secrets.contains(secret) {
            return Ok(());
        }
        let (place, account) = (place(), self.account);
        Err(format!(
            "{place} secret.secretName=\"{secret}\" is not allowed because service account {account} does not reference that \
             secret"
        ))
    }
}

fn items<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    value.at(path).and_then(Value::as_array).unwrap_or_default()
}

fn name_of(value: &Value) -> &str {
    value.str_at(&["name"]).unwrap_or_default()
}

fn present<'a>(value: &'a Value, member: &str) -> Option<&'a Value> {
    value.get(member).filter(|found| !found.is_null())
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn value(text: &str) -> Value {
        json::decode(text.as_bytes()).expect("valid JSON")
    }

    fn account(annotation: &str) -> Value {
        value(&format!(
            r#"{{"metadata":{{"name":"sa","annotations":{{"{ANNOTATION}":"{annotation}"}}}},
                "secrets":[{{"name":"ok"}}],"imagePullSecrets":[{{"name":"pull"}}]}}"#
        ))
    }

    const VOLUME: &str = r#""volumes":[{"name":"v","secret":{"secretName":"bad"}}]"#;

    #[test]
    fn it_is_enforced_where_the_annotation_is_true_as_go_reads_it() {
        let pod = value(&format!(r#"{{"spec":{{{VOLUME}}}}}"#));
        for yes in ["1", "t", "T", "true", "TRUE", "True"] {
            assert!(check_pod(&account(yes), &pod).is_err(), "{yes}");
        }
        for no in ["", "0", "false", "tRue", "yes", " true"] {
            assert_eq!(check_pod(&account(no), &pod), Ok(()), "{no}");
        }
        assert_eq!(check_pod(&value(r#"{"metadata":{"name":"sa"}}"#), &pod), Ok(()));
    }

    #[test]
    fn secrets_that_are_not_listed_are_refused_in_every_place() {
        let check = |spec: &str, expect: Option<&str>| {
            let pod = value(&format!(r#"{{"spec":{{{spec}}}}}"#));
            let account = account("true");
            let found = check_pod(&account, &pod).and_then(|()| check_ephemeral(&account, &pod));
            let because = " is not allowed because service account sa does not reference that ";
            let found = found.err().map(|why| why.split(because).next().unwrap_or_default().to_owned());
            assert_eq!(found.as_deref(), expect, "{spec}");
        };
        check(VOLUME, Some("volume with secret.secretName=\"bad\""));
        check(r#""volumes":[{"name":"v","secret":{}}]"#, Some("volume with secret.secretName=\"\""));
        check(r#""volumes":[{"name":"v","secret":{"secretName":"ok"}}]"#, None);
        for (list, what) in [
            ("containers", "container"),
            ("initContainers", "init container"),
            ("ephemeralContainers", "ephemeral container"),
        ] {
            let variable = r#"{"name":"E","valueFrom":{"secretKeyRef":{"name":"bad","key":"k"}}}"#;
            let from = r#""envFrom":[{"secretRef":{"name":"other"}}]"#;
            check(
                &format!(r#""{list}":[{{"name":"c",{from},"env":[{variable}]}}]"#),
                Some(&format!("{what} c with envVar E referencing secret.secretName=\"bad\"")),
            );
            check(
                &format!(r#""{list}":[{{"name":"c",{from}}}]"#),
                Some(&format!("{what} c with envFrom referencing secret.secretName=\"other\"")),
            );
            check(&format!(r#""{list}":[{{"name":"c","envFrom":[{{"secretRef":{{"name":"ok"}}}}]}}]"#), None);
        }
        let pulled = |name: &str| format!(r#""imagePullSecrets":[{{"name":"pull"}},{{"name":"{name}"}}]"#);
        check(&pulled("ok"), Some("imagePullSecrets[1].name=\"ok\""));
        check(&pulled("pull"), None);
    }
}
