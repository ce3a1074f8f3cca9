//! Table columns of the core group's kinds.

use machinery::{Str, Value};

use generic_server::printer::integer;
use generic_server::printer::{
    AGE, Doc, Heading, NAME, NONE, Table, UNSET, age, amount, condition, containers, count, flag, int, is_deleting,
    items, labels, name, selector, some_of, text, text_at, text_or,
};

const NAMES: Heading = text("Containers", Doc::Text("Names of each container in the template."));
const IMAGES: Heading = text("Images", Doc::Text("Images referenced by each container in the template."));

/// Config maps.
pub(super) const CONFIG_MAPS: Table =
    Table::new(&[NAME, text("Data", Doc::Of("core.v1.ConfigMap", "data")), AGE], |map, now| {
        vec![name(map), Value::Int(count(map, &["data"]) + count(map, &["binaryData"])), age(map, now)]
    });

/// Secrets.
pub(super) const SECRETS: Table = Table::new(
    &[NAME, text("Type", Doc::Of("core.v1.Secret", "type")), text("Data", Doc::Of("core.v1.Secret", "data")), AGE],
    |secret, now| {
        vec![name(secret), text_at(secret, &["type"]), Value::Int(count(secret, &["data"])), age(secret, now)]
    },
);

/// Service accounts.
pub(super) const SERVICE_ACCOUNTS: Table =
    Table::new(&[NAME, AGE], |account, now| vec![name(account), age(account, now)]);

/// Namespaces.
pub(super) const NAMESPACES: Table =
    Table::new(&[NAME, text("Status", Doc::Text("The status of the namespace")), AGE], |namespace, now| {
        vec![name(namespace), text_at(namespace, &["status", "phase"]), age(namespace, now)]
    });

/// Endpoints.
pub(super) const ENDPOINTS: Table =
    Table::new(&[NAME, text("Endpoints", Doc::Of("core.v1.Endpoints", "subsets")), AGE], |endpoints, now| {
        vec![name(endpoints), addresses(endpoints).into(), age(endpoints, now)]
    });

fn addresses(endpoints: &Value) -> String {
    let subsets = items(endpoints, &["subsets"]);
    if subsets.is_empty() {
        return NONE.to_owned();
    }
    let mut all = Vec::new();
    for subset in subsets {
        let ips = || items(subset, &["addresses"]).iter().filter_map(|a| a.str_at(&["ip"]));
        let ports = items(subset, &["ports"]);
        if ports.is_empty() {
            all.extend(ips().map(str::to_owned));
        }
        for port in ports {
            let port = int(port, &["port"]);
            all.extend(
                ips().map(|ip| if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }),
            );
        }
    }
    some_of(&all, 3, ",")
}

/// Pod templates.
pub(super) const POD_TEMPLATES: Table = Table::new(
    &[NAME, NAMES, IMAGES, text("Pod Labels", Doc::Text("The labels for the pod template."))],
    |template, _| {
        let [names, images] = containers(template.at(&["template", "spec"]));
        vec![name(template), names, images, labels(template.at(&["template", "metadata", "labels"]))]
    },
);

/// Replication controllers.
pub(super) const REPLICATION_CONTROLLERS: Table = Table::new(
    &[
        NAME,
        integer("Desired", Doc::Of("core.v1.ReplicationControllerSpec", "replicas")),
        integer("Current", Doc::Of("core.v1.ReplicationControllerStatus", "replicas")),
        integer("Ready", Doc::Of("core.v1.ReplicationControllerStatus", "readyReplicas")),
        AGE,
        NAMES.wide(),
        IMAGES.wide(),
        text("Selector", Doc::Of("core.v1.ReplicationControllerSpec", "selector")).wide(),
    ],
    |rc, now| {
        let [names, images] = containers(rc.at(&["spec", "template", "spec"]));
        vec![
            name(rc),
            Value::Int(int(rc, &["spec", "replicas"])),
            Value::Int(int(rc, &["status", "replicas"])),
            Value::Int(int(rc, &["status", "readyReplicas"])),
            age(rc, now),
            names,
            images,
            labels(rc.at(&["spec", "selector"])),
        ]
    },
);

/// Resource quotas.
pub(super) const RESOURCE_QUOTAS: Table = Table::new(
    &[
        NAME,
        text("Request", Doc::Text("Request represents a minimum amount of cpu/memory that a container may consume.")),
        text(
            "Limit",
            Doc::Text(
                "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
            ),
        ),
        AGE,
    ],
    |quota, now| {
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        for (resource, _) in quota.at(&["status", "hard"]).and_then(Value::as_object).into_iter().flatten() {
            let used = amount(quota, &["status", "used", resource]);
            let entry = format!("{resource}: {used}/{}", amount(quota, &["status", "hard", resource]));
            if resource.starts_with("limits.") { limits.push(entry) } else { requests.push(entry) }
        }
        vec![name(quota), requests.join(", ").into(), limits.join(", ").into(), age(quota, now)]
    },
);

/// Component statuses.
pub(super) const COMPONENT_STATUSES: Table = Table::new(
    &[
        NAME,
        text("Status", Doc::Text("Status of the component conditions")),
        text("Message", Doc::Text("Message of the component conditions")),
        text("Error", Doc::Text("Error of the component conditions")),
    ],
    |status, _| {
        let healthy = items(status, &["conditions"]).iter().find(|c| c.str_at(&["type"]) == Some("Healthy"));
        let part = |part: &str| healthy.map_or_else(|| Value::from(""), |c| text_at(c, &[part]));
        let health = match healthy.and_then(|c| c.str_at(&["status"])) {
            Some("True") => "Healthy",
            Some("False") => "Unhealthy",
            _ => "Unknown",
        };
        vec![name(status), health.into(), part("message"), part("error")]
    },
);

const VOLUME: &str = "core.v1.PersistentVolumeSpec";
const CLAIM: &str = "core.v1.PersistentVolumeClaimSpec";
const CLAIM_STATUS: &str = "core.v1.PersistentVolumeClaimStatus";

/// Persistent volumes.
pub(super) const PERSISTENT_VOLUMES: Table = Table::new(
    &[
        NAME,
        text("Capacity", Doc::Of(VOLUME, "capacity")),
        text("Access Modes", Doc::Of(VOLUME, "accessModes")),
        text("Reclaim Policy", Doc::Of(VOLUME, "persistentVolumeReclaimPolicy")),
        text("Status", Doc::Of("core.v1.PersistentVolumeStatus", "phase")),
        text("Claim", Doc::Of(VOLUME, "claimRef")),
        text("StorageClass", Doc::Text("StorageClass of the pv")),
        text("VolumeAttributesClass", Doc::Text("VolumeAttributesClass of the pv")),
        text("Reason", Doc::Of("core.v1.PersistentVolumeStatus", "reason")),
        AGE,
        text("VolumeMode", Doc::Of(VOLUME, "volumeMode")).wide(),
    ],
    |volume, now| {
        let claim = volume.at(&["spec", "claimRef"]).filter(|c| !c.is_null()).map_or_else(String::new, |claim| {
            let part = |name: &str| claim.str_at(&[name]).unwrap_or_default();
            format!("{}/{}", part("namespace"), part("name"))
        });
        vec![
            name(volume),
            amount(volume, &["spec", "capacity", "storage"]).into(),
            access_modes(items(volume, &["spec", "accessModes"])),
            text_at(volume, &["spec", "persistentVolumeReclaimPolicy"]),
            phase(volume),
            claim.into(),
            storage_class(volume),
            text_or(volume, &["spec", "volumeAttributesClassName"], UNSET),
            text_at(volume, &["status", "reason"]),
            age(volume, now),
            text_or(volume, &["spec", "volumeMode"], UNSET),
        ]
    },
);

/// Claims.
pub(super) const PERSISTENT_VOLUME_CLAIMS: Table = Table::new(
    &[
        NAME,
        text("Status", Doc::Of(CLAIM_STATUS, "phase")),
        text("Volume", Doc::Of(CLAIM, "volumeName")),
        text("Capacity", Doc::Of(CLAIM_STATUS, "capacity")),
        text("Access Modes", Doc::Of(CLAIM_STATUS, "accessModes")),
        text("StorageClass", Doc::Text("StorageClass of the pvc")),
        text("VolumeAttributesClass", Doc::Text("VolumeAttributesClass of the pvc")),
        AGE,
        text("VolumeMode", Doc::Of(CLAIM, "volumeMode")).wide(),
    ],
    |claim, now| {
        let bound = claim.str_at(&["spec", "volumeName"]).is_some_and(|v| !v.is_empty());
        let capacity = if bound { amount(claim, &["status", "capacity", "storage"]) } else { String::new() };
        let modes = if bound { access_modes(items(claim, &["status", "accessModes"])) } else { Value::from("") };
        vec![
            name(claim),
            phase(claim),
            text_at(claim, &["spec", "volumeName"]),
            capacity.into(),
            modes,
            storage_class(claim),
            text_or(claim, &["spec", "volumeAttributesClassName"], UNSET),
            age(claim, now),
            text_or(claim, &["spec", "volumeMode"], UNSET),
        ]
    },
);

fn phase(object: &Value) -> Value {
    if is_deleting(object) { Value::from("Terminating") } else { text_at(object, &["status", "phase"]) }
}

/// The class in the annotation from before there was a field, or in the field.
fn storage_class(object: &Value) -> Value {
    const OLD: [&str; 3] = ["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"];
    match object.at(&OLD) {
        Some(class) => class.clone(),
        None => text_at(object, &["spec", "storageClassName"]),
    }
}

fn access_modes(modes: &[Value]) -> Value {
    let known =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let held = known.into_iter().filter(|(mode, _)| modes.iter().any(|m| m.as_str() == Some(mode)));
    held.map(|(_, short)| short).collect::<Vec<_>>().join(",").into()
}

/// Services.
pub(super) const SERVICES: Table = Table::new(
    &[
        NAME,
        text("Type", Doc::Of("core.v1.ServiceSpec", "type")),
        text("Cluster-IP", Doc::Of("core.v1.ServiceSpec", "clusterIP")),
        text("External-IP", Doc::Of("core.v1.ServiceSpec", "externalIPs")),
        text("Port(s)", Doc::Of("core.v1.ServiceSpec", "ports")),
        AGE,
        text("Selector", Doc::Of("core.v1.ServiceSpec", "selector")).wide(),
    ],
    |service, now| {
        let ips = items(service, &["spec", "clusterIPs"]);
        let ip = ips.first().cloned().unwrap_or_else(|| text_or(service, &["spec", "clusterIP"], NONE));
        let ports = items(service, &["spec", "ports"]).iter().map(|port| {
            let (number, node) = (int(port, &["port"]), int(port, &["nodePort"]));
            let protocol = port.str_at(&["protocol"]).unwrap_or_default();
            if node > 0 { format!("{number}:{node}/{protocol}") } else { format!("{number}/{protocol}") }
        });
        let ports = ports.collect::<Vec<_>>().join(",");
        vec![
            name(service),
            text_at(service, &["spec", "type"]),
            ip,
            external_ip(service).into(),
            if ports.is_empty() { NONE.into() } else { ports.into() },
            age(service, now),
            labels(service.at(&["spec", "selector"])),
        ]
    },
);

fn external_ip(service: &Value) -> String {
    let given: Vec<&str> = items(service, &["spec", "externalIPs"]).iter().filter_map(Value::as_str).collect();
    match service.str_at(&["spec", "type"]).unwrap_or_default() {
        "ClusterIP" | "NodePort" if given.is_empty() => NONE.to_owned(),
        "ClusterIP" | "NodePort" => given.join(","),
        "LoadBalancer" => {
            let balanced = balanced_at(service);
            let all: Vec<&str> = balanced.iter().map(Str::as_str).chain(given).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => service.str_at(&["spec", "externalName"]).unwrap_or_default().to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// Where a load balancer is, sorted.
pub(crate) fn balanced_at(object: &Value) -> Vec<Str> {
    let place = |ingress: &Value| {
        ["ip", "hostname"].into_iter().filter_map(|k| ingress.str_at(&[k])).find(|t| !t.is_empty()).map(Str::from)
    };
    let mut places: Vec<Str> = items(object, &["status", "loadBalancer", "ingress"]).iter().filter_map(place).collect();
    places.sort_unstable();
    places.dedup();
    places
}

const NODE_INFO: &str = "core.v1.NodeSystemInfo";

/// Nodes.
pub(super) const NODES: Table = Table::new(
    &[
        NAME,
        text("Status", Doc::Text("The status of the node")),
        text("Roles", Doc::Text("The roles of the node")),
        AGE,
        text("Version", Doc::Of(NODE_INFO, "kubeletVersion")),
        text("Internal-IP", Doc::Of("core.v1.NodeStatus", "addresses")).wide(),
        text("External-IP", Doc::Of("core.v1.NodeStatus", "addresses")).wide(),
        text("OS-Image", Doc::Of(NODE_INFO, "osImage")).wide(),
        text("Kernel-Version", Doc::Of(NODE_INFO, "kernelVersion")).wide(),
        text("Container-Runtime", Doc::Of(NODE_INFO, "containerRuntimeVersion")).wide(),
    ],
    |node, now| {
        let mut status = match condition(node, "Ready").and_then(|c| c.str_at(&["status"])) {
            Some("True") => "Ready",
            Some(_) => "NotReady",
            None => "Unknown",
        }
        .to_owned();
        if flag(node, &["spec", "unschedulable"]) {
            status.push_str(",SchedulingDisabled");
        }
        let address = |kind: &str| {
            let held = items(node, &["status", "addresses"]).iter().find(|a| a.str_at(&["type"]) == Some(kind));
            held.map_or_else(|| NONE.into(), |a| text_or(a, &["address"], NONE))
        };
        let held = |name: &str| node.str_at(&["status", "nodeInfo", name]).filter(|t| !t.is_empty());
        let info = |name: &str| held(name).unwrap_or("<unknown>");
        let architecture = held("architecture").map_or_else(String::new, |name| format!(" ({name})"));
        vec![
            name(node),
            status.into(),
            roles(node),
            age(node, now),
            text_at(node, &["status", "nodeInfo", "kubeletVersion"]),
            address("InternalIP"),
            address("ExternalIP"),
            info("osImage").into(),
            format!("{}{architecture}", info("kernelVersion")).into(),
            info("containerRuntimeVersion").into(),
        ]
    },
);

/// The roles that labels give a node, in two ways.
fn roles(node: &Value) -> Value {
    let held = node.at(&["metadata", "labels"]).and_then(Value::as_object);
    let role = |(key, value): &(Str, Value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => Some(role.to_owned()),
        None if key == "kubernetes.io/role" => value.as_str().map(str::to_owned),
        None => None,
    };
    let mut roles: Vec<String> = held.into_iter().flatten().filter_map(role).filter(|r| !r.is_empty()).collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() { NONE.into() } else { roles.join(",").into() }
}

/// For kinds that select by the newer form of selectors.
pub(crate) fn selected(object: &Value) -> Value {
    selector(object.at(&["spec", "selector"]))
}
