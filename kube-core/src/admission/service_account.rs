//! ServiceAccount: every pod runs as an account of its namespace, and finds its token.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use generic_server::{
    admission::{Admission, Attributes},
    registry::Registry,
};
use machinery::{
    Str, Value, array,
    meta::{names, status::Status},
    object,
};

use super::{creates, is_mirror};

/// Where containers look for the token.
const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// An hour, and a little more by which tokens of this volume are told from others.
const TOKEN_SECONDS: i64 = 60 * 60 + 7;

/// The account of pods that name none.
const DEFAULT: &str = "default";
/// How often it is looked for, and how long there is in between (upstream: 100 to 200 ms).
const DEFAULT_ATTEMPTS: usize = 10;
const DEFAULT_INTERVAL: Duration = Duration::from_millis(150);

/// The plugin.
pub(super) struct ServiceAccount {
    pub(super) accounts: Arc<Registry>,
}

#[async_trait]
impl Admission for ServiceAccount {
    async fn mutate(&self, a: &Attributes<'_>, pod: &mut Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        if !creates(a, "pods") {
            return Ok(());
        }
        if is_mirror(pod) {
            return check_mirror(a, pod);
        }
        let name = match pod.str_at(&["spec", "serviceAccountName"]) {
            None | Some("") => DEFAULT.to_owned(),
            Some(name) => name.to_owned(),
        };
        pod.set(&["spec", "serviceAccountName"], name.as_str());
        pod.set(&["spec", "serviceAccount"], name.as_str());
        let account = self.account(a.namespace, &name).await?.ok_or_else(|| {
            let (namespace, missing) = (a.namespace, format!("serviceaccount {name:?} not found"));
            a.forbidden(pod, format!("error looking up service account {namespace}/{name}: {missing}"))
        })?;
        let enforced = account.at(&["metadata", "annotations", "kubernetes.io/enforce-mountable-secrets"]);
        if enforced.and_then(Value::as_str) == Some("true") {
            check_secrets(a, pod, &account, &name)?;
        }
        if pod.at(&["spec", "imagePullSecrets"]).and_then(Value::as_array).is_none_or(<[Value]>::is_empty)
            && let Some(secrets) = account.get("imagePullSecrets")
        {
            pod.set(&["spec", "imagePullSecrets"], secrets.clone());
        }
        let flag = |value: Option<&Value>| value.and_then(Value::as_bool);
        let mounts = flag(pod.at(&["spec", "automountServiceAccountToken"]))
            .or_else(|| flag(account.get("automountServiceAccountToken")))
            .unwrap_or(true);
        if mounts {
            mount_token(pod);
        }
        Ok(())
    }
}

impl ServiceAccount {
    /// The account. That by default is made by a controller, moments after its namespace: pods wait for it.
    async fn account(&self, namespace: &str, name: &str) -> Result<Option<Value>, Status> {
        let attempts = if name == DEFAULT { DEFAULT_ATTEMPTS } else { 1 };
        for attempt in 0..attempts {
            if attempt > 0 {
                tokio::time::sleep(DEFAULT_INTERVAL).await;
            }
            if let Some(account) = self.accounts.find(namespace, name).await? {
                return self.accounts.decode(account.bytes()).map(Some);
            }
        }
        Ok(None)
    }
}

fn items<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    value.at(path).and_then(Value::as_array).unwrap_or_default()
}

/// What a kubelet runs from a file has no account.
fn check_mirror(a: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
    if !pod.str_at(&["spec", "serviceAccountName"]).unwrap_or("").is_empty() {
        return Err(a.forbidden(pod, "a mirror pod may not reference service accounts"));
    }
    if !secrets_of(pod).is_empty() {
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

/// The secrets that a pod names, each with where it does so (in the words of a refusal).
fn secrets_of(pod: &Value) -> Vec<(String, Str)> {
    let mut found = Vec::new();
    for volume in items(pod, &["spec", "volumes"]) {
        if let Some(name) = volume.at(&["secret", "secretName"]).and_then(Value::as_shared_str) {
            found.push(("volume with".to_owned(), name.clone()));
        }
    }
    for (list, what) in [("initContainers", "init container"), ("containers", "container")] {
        for container in items(pod, &["spec", list]) {
            let of = container.str_at(&["name"]).unwrap_or("");
            for source in items(container, &["envFrom"]) {
                if let Some(name) = source.at(&["secretRef", "name"]).and_then(Value::as_shared_str) {
                    found.push((format!("{what} {of} with envFrom referencing"), name.clone()));
                }
            }
            for variable in items(container, &["env"]) {
                let name = variable.at(&["valueFrom", "secretKeyRef", "name"]).and_then(Value::as_shared_str);
                if let Some(name) = name {
                    let env = variable.str_at(&["name"]).unwrap_or("");
                    found.push((format!("{what} {of} with envVar {env} referencing"), name.clone()));
                }
            }
        }
    }
    found
}

/// An account may say that its pods use only the secrets that it lists.
fn check_secrets(a: &Attributes<'_>, pod: &Value, account: &Value, name: &str) -> Result<(), Status> {
    let listed = |list: &str, secret: &str| items(account, &[list]).iter().any(|s| s.str_at(&["name"]) == Some(secret));
    for (place, secret) in secrets_of(pod) {
        if !listed("secrets", &secret) {
            return Err(a.forbidden(
                pod,
                format!(
                    "{place} secret.secretName={:?} is not allowed because service account {name} does not reference that \
                     secret",
                    secret.as_str()
                ),
            ));
        }
    }
    for (i, secret) in items(pod, &["spec", "imagePullSecrets"]).iter().enumerate() {
        let secret = secret.str_at(&["name"]).unwrap_or("");
        if !listed("imagePullSecrets", secret) {
            return Err(a.forbidden(
                pod,
                format!(
                    "imagePullSecrets[{i}].name={secret:?} is not allowed because service account {name} does not reference \
                     that imagePullSecret"
                ),
            ));
        }
    }
    Ok(())
}

/// Mounts the token into every container that has nothing of its own there.
fn mount_token(pod: &mut Value) {
    let volume = names::generate_name("kube-api-access-");
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
    if !mounted {
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
