//! What belongs to a node, by way of its pods.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use generic_server::registry::{Lister, Listers};
use machinery::{Str, Value};
use storage::cache::{CacheEntry, Snapshot};

/// Kinds of objects that may belong to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Pod,
    Secret,
    ConfigMap,
    Account,
    /// A claim to storage.
    Claim,
    /// A persistent volume.
    Volume,
    DeviceClaim,
    Attachment,
    Slice,
    CertificateRequest,
}

/// What a pod names, in its namespace.
#[derive(Default)]
pub(crate) struct Names {
    secrets: HashSet<Str>,
    config_maps: HashSet<Str>,
    claims: HashSet<Str>,
    device_claims: HashSet<Str>,
    account: Str,
}

impl Names {
    pub(crate) fn any_secret(&self) -> bool {
        !self.secrets.is_empty()
    }

    pub(crate) fn any_config_map(&self) -> bool {
        !self.config_maps.is_empty()
    }
}

/// Claims that are bound, by the volumes and secrets that come with them: namespace and name.
#[derive(Default)]
struct Bound {
    by_volume: HashMap<Str, (Str, Str)>,
    by_secret: HashMap<(Str, Str), Vec<(Str, Str)>>,
}

/// What pods name, by their keys and revisions.
type Kept = HashMap<Arc<str>, (u64, Arc<Names>)>;

/// The listers that say what belongs to a node.
pub(super) struct Sources {
    pods: Arc<Lister>,
    /// Which of a pod's selectable fields names its node.
    node_field: usize,
    volumes: Arc<Lister>,
    attachments: Option<Arc<Lister>>,
    slices: Option<Arc<Lister>>,
    certificate_requests: Option<Arc<Lister>>,
    kept: Mutex<Kept>,
    bound: Mutex<Option<(Snapshot, Arc<Bound>)>>,
}

impl Sources {
    pub(super) fn new(listers: &Listers) -> Self {
        let optional = |group: &str, plural: &str| listers.get(group, plural).cloned();
        let pods = listers.of("", "pods").clone();
        let fields = &pods.row.selectable_fields;
        Sources {
            node_field: fields.iter().position(|field| field.name == "spec.nodeName").expect("pods are found by node"),
            pods,
            volumes: listers.of("", "persistentvolumes").clone(),
            attachments: optional("storage.k8s.io", "volumeattachments"),
            slices: optional("resource.k8s.io", "resourceslices"),
            certificate_requests: optional("certificates.k8s.io", "podcertificaterequests"),
            kept: Mutex::default(),
            bound: Mutex::default(),
        }
    }

    /// Whether an object belongs to the node.
    pub(super) fn relate(&self, node: &str, kind: Kind, namespace: &str, name: &str) -> bool {
        match kind {
            Kind::Pod => {
                let snapshot = self.pods.cache().latest();
                let pod = snapshot.get(&self.pods.key(namespace, name)).and_then(CacheEntry::object);
                pod.is_some_and(|pod| pod.field(self.node_field) == node)
            }
            Kind::Attachment => says_node(&self.attachments, ("", name), node),
            Kind::Slice => says_node(&self.slices, ("", name), node),
            Kind::CertificateRequest => says_node(&self.certificate_requests, (namespace, name), node),
            Kind::ConfigMap => self.any_pod(node, namespace, |pod| pod.config_maps.contains(name)),
            Kind::Account => self.any_pod(node, namespace, |pod| pod.account == name),
            Kind::DeviceClaim => self.any_pod(node, namespace, |pod| pod.device_claims.contains(name)),
            Kind::Claim => self.any_pod(node, namespace, |pod| pod.claims.contains(name)),
            Kind::Volume => {
                let bound = self.bound();
                bound.by_volume.get(name).is_some_and(|(ns, claim)| self.relate(node, Kind::Claim, ns, claim))
            }
            Kind::Secret => {
                if self.any_pod(node, namespace, |pod| pod.secrets.contains(name)) {
                    return true;
                }
                let bound = self.bound();
                let claims = bound.by_secret.get(&(namespace.into(), name.into()));
                claims.into_iter().flatten().any(|(ns, claim)| self.relate(node, Kind::Claim, ns, claim))
            }
        }
    }

    /// Whether this holds of a pod of the namespace that is on the node.
    fn any_pod(&self, node: &str, namespace: &str, holds: impl Fn(&Names) -> bool) -> bool {
        if namespace.is_empty() {
            return false;
        }
        let snapshot = self.pods.cache().latest();
        let prefix = self.pods.namespace_prefix(namespace);
        let Some(pods) = snapshot.by_field(self.node_field, node, Some(&prefix)) else { return false };
        let mut pods = pods.take_while(|pod| pod.key().starts_with(&prefix));
        pods.any(|pod| {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let names = match kept.get(pod.key()) {
                Some((revision, names)) if *revision == pod.revision() => names.clone(),
                _ => {
                    let names = Arc::new(self.pods.decode(pod.bytes()).map(|pod| names_in(&pod)).unwrap_or_default());
                    if kept.len() > 2 * snapshot.len() + 16 {
                        kept.retain(|key, _| snapshot.get(key).is_some()); // what is gone is not asked for again
                    }
                    kept.insert(pod.key().clone(), (pod.revision(), names.clone()));
                    names
                }
            };
            drop(kept);
            holds(&names)
        })
    }

    /// The claims that are bound, of the latest state.
    fn bound(&self) -> Arc<Bound> {
        let latest = self.volumes.cache().latest();
        let mut kept = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((snapshot, bound)) = &*kept
            && snapshot.shares(&latest)
        {
            return bound.clone();
        }
        let mut bound = Bound::default();
        for object in latest.range(self.volumes.prefix(), None).filter_map(CacheEntry::object) {
            if let Ok(volume) = self.volumes.decode(object.bytes()) {
                bound.add(&volume, object.name());
            }
        }
        let bound = Arc::new(bound);
        *kept = Some((latest, bound.clone()));
        bound
    }
}

/// Whether an object says that it is this node's.
fn says_node(registry: &Option<Arc<Lister>>, (namespace, name): (&str, &str), node: &str) -> bool {
    let Some(registry) = registry else { return false };
    let snapshot = registry.cache().latest();
    let object = snapshot.get(&registry.key(namespace, name)).and_then(CacheEntry::object);
    let object = object.and_then(|object| registry.decode(object.bytes()).ok());
    object.is_some_and(|object| object.str_at(&["spec", "nodeName"]) == Some(node))
}

impl Bound {
    fn add(&mut self, volume: &Value, name: &str) {
        let text = |member: &str| volume.str_at(&["spec", "claimRef", member]).map(Str::from);
        let (Some(namespace), Some(claim)) = (text("namespace"), text("name")) else { return };
        for secret in secrets_of(volume, &namespace) {
            self.by_secret.entry(secret).or_default().push((namespace.clone(), claim.clone()));
        }
        self.by_volume.insert(name.into(), (namespace, claim));
    }
}

/// The secrets by which a kubelet mounts a volume: namespace and name. Those of no namespace are the claim's.
fn secrets_of(volume: &Value, namespace: &Str) -> Vec<(Str, Str)> {
    const REFERENCES: [&[&str]; 9] = [
        &["cephfs", "secretRef"],
        &["cinder", "secretRef"],
        &["flexVolume", "secretRef"],
        &["rbd", "secretRef"],
        &["scaleIO", "secretRef"],
        &["iscsi", "secretRef"],
        &["storageos", "secretRef"],
        &["csi", "nodePublishSecretRef"],
        &["csi", "nodeStageSecretRef"],
    ];
    let spec = volume.get("spec").unwrap_or(&Value::Null);
    let text = |value: &Value, member: &str| value.str_at(&[member]).filter(|text| !text.is_empty()).map(Str::from);
    let expand: &[&str] = &["csi", "nodeExpandSecretRef"];
    let references = REFERENCES.iter().copied().chain([expand]).filter_map(|path| spec.at(path));
    let mut found: Vec<(Str, Str)> = references
        .filter_map(|r| Some((text(r, "namespace").unwrap_or_else(|| namespace.clone()), text(r, "name")?)))
        .collect();
    if let Some(file) = spec.get("azureFile")
        && let Some(name) = text(file, "secretName")
    {
        found.push((text(file, "secretNamespace").unwrap_or_else(|| namespace.clone()), name));
    }
    found
}

/// What a pod names. What a kubelet runs from a file gives it nothing.
fn names_in(pod: &Value) -> Names {
    let is_mirror = pod.at(&["metadata", "annotations", "kubernetes.io/config.mirror"]).is_some();
    if is_mirror { Names::default() } else { references_of(pod) }
}

/// What a pod refers to.
pub(crate) fn references_of(pod: &Value) -> Names {
    let mut names = Names::default();
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let list = |value: &'_ Value, path: &[&str]| -> Vec<Value> {
        value.at(path).and_then(Value::as_array).unwrap_or_default().to_vec()
    };
    let note = |set: &mut HashSet<Str>, value: &Value, path: &[&str]| {
        set.extend(value.str_at(path).filter(|name| !name.is_empty()).map(Str::from));
    };
    names.account = spec.str_at(&["serviceAccountName"]).unwrap_or_default().into();
    for secret in list(spec, &["imagePullSecrets"]) {
        note(&mut names.secrets, &secret, &["name"]);
    }
    for containers in ["initContainers", "containers", "ephemeralContainers"] {
        for container in list(spec, &[containers]) {
            for source in list(&container, &["envFrom"]) {
                note(&mut names.secrets, &source, &["secretRef", "name"]);
                note(&mut names.config_maps, &source, &["configMapRef", "name"]);
            }
            for variable in list(&container, &["env"]) {
                note(&mut names.secrets, &variable, &["valueFrom", "secretKeyRef", "name"]);
                note(&mut names.config_maps, &variable, &["valueFrom", "configMapKeyRef", "name"]);
            }
        }
    }
    for volume in list(spec, &["volumes"]) {
        note(&mut names.secrets, &volume, &["secret", "secretName"]);
        note(&mut names.secrets, &volume, &["azureFile", "secretName"]);
        for kind in ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"] {
            note(&mut names.secrets, &volume, &[kind, "secretRef", "name"]);
        }
        note(&mut names.secrets, &volume, &["csi", "nodePublishSecretRef", "name"]);
        note(&mut names.config_maps, &volume, &["configMap", "name"]);
        for source in list(&volume, &["projected", "sources"]) {
            note(&mut names.secrets, &source, &["secret", "name"]);
            note(&mut names.config_maps, &source, &["configMap", "name"]);
        }
        note(&mut names.claims, &volume, &["persistentVolumeClaim", "claimName"]);
        if volume.get("ephemeral").is_some_and(|ephemeral| !ephemeral.is_null()) {
            let text = |value: &Value, path: &[&str]| value.str_at(path).unwrap_or_default().to_owned();
            names.claims.insert(format!("{}-{}", text(pod, &["metadata", "name"]), text(&volume, &["name"])).into());
        }
    }
    let made = list(pod, &["status", "resourceClaimStatuses"]);
    for claim in list(spec, &["resourceClaims"]) {
        let is_set = |key: &str| claim.get(key).is_some_and(|value| !value.is_null());
        if is_set("resourceClaimName") {
            note(&mut names.device_claims, &claim, &["resourceClaimName"]);
        } else if is_set("resourceClaimTemplateName") {
            // What was made of a template counts for the claim of its name alone.
            let of_claim = |status: &&Value| status.str_at(&["name"]) == claim.str_at(&["name"]);
            made.iter().find(of_claim).into_iter().for_each(|status| {
                note(&mut names.device_claims, status, &["resourceClaimName"]);
            });
        }
    }
    note(&mut names.device_claims, pod, &["status", "extendedResourceClaimStatus", "resourceClaimName"]);
    names
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn value(text: &str) -> Value {
        json::decode(text.as_bytes()).expect("valid JSON")
    }

    #[test]
    fn a_pod_names_what_it_needs() {
        let names = names_in(&value(
            r#"{"metadata":{"name":"p"},"spec":{"serviceAccountName":"runner","imagePullSecrets":[{"name":"pull"}],
                "containers":[{"envFrom":[{"secretRef":{"name":"a"}},{"configMapRef":{"name":"b"}}],
                    "env":[{"valueFrom":{"secretKeyRef":{"name":"c"}}},{"valueFrom":{"configMapKeyRef":{"name":"d"}}}]}],
                "volumes":[{"name":"x","projected":{"sources":[{"secret":{"name":"e"}},{"configMap":{"name":"f"}}]}},
                    {"name":"y","persistentVolumeClaim":{"claimName":"g"}},{"name":"z","ephemeral":{}},
                    {"name":"w","rbd":{"secretRef":{"name":"h"}}},{"name":"v","csi":{"nodePublishSecretRef":{"name":"i"}}}],
                "resourceClaims":[{"name":"r","resourceClaimName":"j"},{"name":"s","resourceClaimTemplateName":"t"}]},
                "status":{"resourceClaimStatuses":[{"name":"s","resourceClaimName":"k"},
                    {"name":"r","resourceClaimName":"l"},{"name":"o","resourceClaimName":"m"}]}}"#,
        ));
        let sorted = |set: &HashSet<Str>| {
            let mut names: Vec<&str> = set.iter().map(Str::as_str).collect();
            names.sort_unstable();
            names.join(" ")
        };
        assert_eq!(sorted(&names.secrets), "a c e h i pull");
        assert_eq!(sorted(&names.config_maps), "b d f");
        assert_eq!(sorted(&names.claims), "g p-z");
        assert_eq!(sorted(&names.device_claims), "j k");
        assert_eq!(names.account, "runner");
        let mirror =
            r#"{"metadata":{"annotations":{"kubernetes.io/config.mirror":"x"}},"spec":{"serviceAccountName":"a"}}"#;
        assert_eq!(names_in(&value(mirror)).account, "");
    }

    #[test]
    fn volumes_come_with_their_secrets() {
        let check = |spec: &str, expect: &[(&str, &str)]| {
            let volume = value(&format!(r#"{{"spec":{{{spec}}}}}"#));
            let found = secrets_of(&volume, &"ns".into());
            let found: Vec<(&str, &str)> = found.iter().map(|(ns, name)| (ns.as_str(), name.as_str())).collect();
            assert_eq!(found, expect);
        };
        check(r#""rbd":{"secretRef":{"name":"a"}}"#, &[("ns", "a")]);
        check(r#""csi":{"nodeStageSecretRef":{"name":"a","namespace":"b"}}"#, &[("b", "a")]);
        check(r#""csi":{"controllerPublishSecretRef":{"name":"a","namespace":"b"}}"#, &[]);
        check(r#""azureFile":{"secretName":"a","secretNamespace":"c"}"#, &[("c", "a")]);
        let mut bound = Bound::default();
        let claim = r#""claimRef":{"namespace":"ns","name":"claim"},"iscsi":{"secretRef":{"name":"s"}}"#;
        bound.add(&value(&format!(r#"{{"spec":{{{claim}}}}}"#)), "pv");
        bound.add(&value(r#"{"spec":{"rbd":{"secretRef":{"name":"t"}}}}"#), "unbound");
        assert_eq!(bound.by_volume.get("pv"), Some(&("ns".into(), "claim".into())));
        assert_eq!((bound.by_volume.len(), bound.by_secret.len()), (1, 1));
    }
}
