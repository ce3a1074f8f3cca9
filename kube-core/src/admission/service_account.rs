//! ServiceAccount: every pod runs as an account of its namespace, finds its token, and uses only what the account lists if the
//! account says so.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use generic_server::{
    admission::{Admission, Attributes, Operation, Steps},
    registry::Lister,
};
use machinery::{
    Value, array,
    meta::{Meta, go_text::quote, names, status::Status},
    object,
};

use super::{creates, is_mirror, mountable_secrets};
use crate::node_authorizer::references_of;

/// Where containers look for the token.
const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// What the names of volumes with the token start with.
const VOLUME: &str = "kube-api-access-";
/// An hour, and a little more by which tokens of this volume are told from others.
const TOKEN_SECONDS: i64 = 60 * 60 + 7;
/// The account of pods that name none. A controller makes it for each namespace: it may be there in a moment.
const DEFAULT: &str = "default";
const DEFAULT_ATTEMPTS: usize = 10;
const DEFAULT_INTERVAL: Duration = Duration::from_millis(150);

/// The plugin.
pub(super) struct ServiceAccount {
    pub(super) accounts: Arc<Lister>,
}

#[async_trait]
impl Admission for ServiceAccount {
    fn steps(&self) -> Steps {
        Steps::Both
    }

    async fn mutate(&self, a: &Attributes<'_>, pod: &mut Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        if !creates(a, "pods") {
            return Ok(());
        }
        // A kubelet that finds another spec than it sent gives the pod up.
        if is_mirror(pod) {
            return check_mirror(a, pod);
        }
        let name = match pod.str_at(&["spec", "serviceAccountName"]) {
            None | Some("") => DEFAULT.to_owned(),
            Some(name) => name.to_owned(),
        };
        pod.set(&["spec", "serviceAccountName"], name.as_str());
        pod.set(&["spec", "serviceAccount"], name.as_str());
        let account = self.account(a, pod, &name).await?;
        let flag = |value: Option<&Value>| value.and_then(Value::as_bool);
        let mounts = flag(pod.at(&["spec", "automountServiceAccountToken"]))
            .or_else(|| flag(account.get("automountServiceAccountToken")))
            .unwrap_or(true);
        if mounts {
            mount_token(pod);
        }
        let secrets = items(&account, &["imagePullSecrets"]);
        if items(pod, &["spec", "imagePullSecrets"]).is_empty() && !secrets.is_empty() {
            let name = |secret: &Value| object! { "name" => secret.str_at(&["name"]).unwrap_or_default() };
            pod.set(&["spec", "imagePullSecrets"], secrets.iter().map(name).collect::<Vec<_>>());
        }
        mountable_secrets::check_pod(&account, pod).map_err(|why| a.forbidden(pod, why))
    }

    /// The same once more, when no other plugin changes the pod any further.
    async fn validate(&self, a: &Attributes<'_>, pod: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        if creates(a, "pods") {
            if is_mirror(pod) {
                return check_mirror(a, pod);
            }
            let account = self.account_of(a, pod).await?;
            return mountable_secrets::check_pod(&account, pod).map_err(|why| a.forbidden(pod, why));
        }
        if a.operation == Operation::Update && a.is_of("", "pods") && a.subresource == "ephemeralcontainers" {
            let account = self.account_of(a, pod).await?;
            // Upstream does not call it a refusal.
            return mountable_secrets::check_ephemeral(&account, pod).map_err(|why| Status::new(500, "", why));
        }
        Ok(())
    }
}

impl ServiceAccount {
    /// The account that a pod names.
    async fn account_of(&self, a: &Attributes<'_>, pod: &Value) -> Result<Value, Status> {
        match pod.str_at(&["spec", "serviceAccountName"]).unwrap_or_default() {
            "" => {
                let name = Meta::of(pod).name();
                Err(a.forbidden(pod, format!("no service account specified for pod {}/{name}", a.namespace)))
            }
            name => self.account(a, pod, name).await,
        }
    }

    async fn account(&self, a: &Attributes<'_>, pod: &Value, name: &str) -> Result<Value, Status> {
        if let Some(why) = names::unaskable_name(name) {
            return Err(a.forbidden(pod, looking_up(a, name, &why)));
        }
        let attempts = if name == DEFAULT { DEFAULT_ATTEMPTS } else { 1 };
        for attempt in 0..attempts {
            if attempt > 0 {
                tokio::time::sleep(DEFAULT_INTERVAL).await;
            }
            match self.accounts.find(a.namespace, name).await {
                Ok(None) => {}
                Ok(Some(account)) => return self.accounts.decode(account.bytes()),
                Err(status) => return Err(a.forbidden(pod, looking_up(a, name, &status.message))),
            }
        }
        Err(a.forbidden(pod, looking_up(a, name, &format!("serviceaccount {} not found", quote(name)))))
    }
}

fn looking_up(a: &Attributes<'_>, name: &str, why: &str) -> String {
    format!("error looking up service account {}/{name}: {why}", a.namespace)
}

fn items<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    value.at(path).and_then(Value::as_array).unwrap_or_default()
}

/// What a kubelet runs from a file has no account.
fn check_mirror(a: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
    if !pod.str_at(&["spec", "serviceAccountName"]).unwrap_or("").is_empty() {
        return Err(a.forbidden(pod, "a mirror pod may not reference service accounts"));
    }
    if references_of(pod).any_secret() {
        return Err(a.forbidden(pod, "a mirror pod may not reference secrets"));
    }
    let projects = |volume: &Value| {
        items(volume, &["projected", "sources"]).iter().any(|source| source.get("serviceAccountToken").is_some())
    };
    if items(pod, &["spec", "volumes"]).iter().any(projects) {
        return Err(a.forbidden(pod, "a mirror pod may not use ServiceAccountToken volume projections"));
    }
    Ok(())
}

/// Mounts the token into every container that has nothing of its own there.
fn mount_token(pod: &mut Value) {
    let names = items(pod, &["spec", "volumes"]).iter().filter_map(|volume| volume.str_at(&["name"]));
    let own = names.into_iter().find(|name| name.starts_with(VOLUME)).map(str::to_owned);
    let volume = own.clone().unwrap_or_else(|| names::generate_name(VOLUME));
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        let Some(containers) = pod.at(&["spec", list]).and_then(Value::as_array) else { continue };
        let mut containers = containers.to_vec();
        for container in &mut containers {
            let mut mounts = items(container, &["volumeMounts"]).to_vec();
            if mounts.iter().any(|m| m.str_at(&["mountPath"]) == Some(MOUNT)) {
                continue;
            }
            mounts.push(object! { "name" => volume.as_str(), "readOnly" => true, "mountPath" => MOUNT });
            container.set(&["volumeMounts"], mounts);
            mounted = true;
        }
        pod.set(&["spec", list], containers);
    }
    if !mounted || own.is_some() {
        return;
    }
    let mut volumes = items(pod, &["spec", "volumes"]).to_vec();
    let namespace = object! {
        "path" => "namespace",
        "fieldRef" => object! { "apiVersion" => "v1", "fieldPath" => "metadata.namespace" },
    };
    let sources = array![
        object! { "serviceAccountToken" => object! { "expirationSeconds" => TOKEN_SECONDS, "path" => "token" } },
        object! {
            "configMap" => object! {
                "name" => "kube-root-ca.crt", "items" => array![object! { "key" => "ca.crt", "path" => "ca.crt" }],
            },
        },
        object! { "downwardAPI" => object! { "items" => array![namespace] } },
    ];
    volumes.push(object! {
        "name" => volume, "projected" => object! { "sources" => sources, "defaultMode" => 0o644 },
    });
    pod.set(&["spec", "volumes"], volumes);
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn volumes_and_mounts(spec: &str) -> (Vec<String>, Vec<String>) {
        let mut pod = json::decode(format!(r#"{{"spec":{spec}}}"#).as_bytes()).expect("JSON");
        mount_token(&mut pod);
        let names = |list: &[Value]| list.iter().filter_map(|v| v.str_at(&["name"])).map(str::to_owned).collect();
        let mounts = items(&pod, &["spec", "containers"]).iter().flat_map(|c| items(c, &["volumeMounts"]).to_vec());
        (names(items(&pod, &["spec", "volumes"])), names(&mounts.collect::<Vec<_>>()))
    }

    #[test]
    fn a_volume_with_the_token_is_made_unless_the_pod_has_one() {
        let (volumes, mounts) = volumes_and_mounts(r#"{"containers":[{"name":"c"}]}"#);
        assert!(volumes == mounts && volumes[0].starts_with(VOLUME) && volumes[0].len() == VOLUME.len() + 5);
        let own = r#"{"containers":[{"name":"c"}],"volumes":[{"name":"a"},{"name":"kube-api-access-mine"}]}"#;
        let (volumes, mounts) = volumes_and_mounts(own);
        assert_eq!((volumes.len(), mounts), (2, vec!["kube-api-access-mine".to_owned()]));
        let there =
            format!(r#"{{"containers":[{{"name":"c","volumeMounts":[{{"name":"x","mountPath":"{MOUNT}"}}]}}]}}"#);
        assert_eq!(volumes_and_mounts(&there), (vec![], vec!["x".to_owned()]));
    }
}
