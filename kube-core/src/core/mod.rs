//! The core group: `v1`.

pub(crate) mod claims;
mod claims_validation;
mod components;
mod config;
mod controllers;
mod endpoints;
mod key_pair;
mod limits;
mod limits_validation;
mod namespaces;
mod nodes;
mod nodes_validation;
pub(crate) mod pods;
pub(crate) mod printers;
mod quota_warnings;
pub(crate) mod services;
pub(crate) mod volumes_validation;

use generic_server::resource::{Resource, SelectableField as Field, UnknownField::Unsupported};
use machinery::{
    meta::GvkRef,
    request::{Verb, Verbs},
};

pub(crate) use components::ComponentStatuses;
pub(crate) use endpoints::endpoints;

use crate::row::{GroupVersion, Row};

const V1: GroupVersion = GroupVersion("", "v1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [
        V1.virtual_namespaced("bindings", "Binding"),
        component_statuses(),
        V1.namespaced("configmaps", "ConfigMap", "qFsyl6wFWjQ=")
            .table(printers::CONFIG_MAPS)
            .strategy(config::CONFIG_MAPS)
            .short(&["cm"]),
        V1.namespaced("endpoints", "Endpoints", "fWeeMqaN/OA=")
            .table(printers::ENDPOINTS)
            .strategy(services::ENDPOINTS)
            .short(&["ep"])
            .path("services/endpoints")
            .deprecated("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
        V1.namespaced("events", "Event", "r2yiGXH7wu8=")
            .table(crate::events::EVENTS)
            .strategy(crate::events::CORE_RULES)
            .short(&["ev"])
            .fields(Unsupported, event_fields()),
        V1.namespaced("limitranges", "LimitRange", "EBKMFVe6cwo=").strategy(limits::RULES).short(&["limits"]),
        V1.cluster("namespaces", "Namespace", "Q3oi5N2YM8M=")
            .table(printers::NAMESPACES)
            .strategy(namespaces::RULES)
            .short(&["ns"])
            .only(Verbs::STANDARD.without(Verb::DeleteCollection))
            .status()
            .sub("finalize", Verbs::of(&[Verb::Update]))
            .fields(Unsupported, [Field::new("status.phase")]),
        V1.cluster("nodes", "Node", "XwShjMxG9Fs=")
            .table(printers::NODES)
            .strategy(nodes::RULES)
            .short(&["no"])
            .path("minions")
            .status()
            .proxy("NodeProxyOptions")
            .fields(Unsupported, [Field::new("spec.unschedulable").or("false")]),
        V1.namespaced("persistentvolumeclaims", "PersistentVolumeClaim", "QWTyNDq0dC4=")
            .table(printers::PERSISTENT_VOLUME_CLAIMS)
            .strategy(claims::CLAIMS)
            .short(&["pvc"])
            .status(),
        V1.cluster("persistentvolumes", "PersistentVolume", "HN/zwEC+JgM=")
            .table(printers::PERSISTENT_VOLUMES)
            .strategy(claims::VOLUMES)
            .short(&["pv"])
            .status(),
        V1.namespaced("pods", "Pod", "xPOwRZ+Yhw8=")
            .table(pods::table())
            .strategy(pods::RULES)
            .short(&["po"])
            .category("all")
            .status()
            .stream("attach", "PodAttachOptions")
            .post("binding", GvkRef::new("", "v1", "Binding"))
            .sub("ephemeralcontainers", Verbs::STATUS)
            .post("eviction", GvkRef::new("policy", "v1", "Eviction"))
            .stream("exec", "PodExecOptions")
            .sub("log", Verbs::of(&[Verb::Get]))
            .stream("portforward", "PodPortForwardOptions")
            .proxy("PodProxyOptions")
            .sub("resize", Verbs::STATUS)
            .fields(Unsupported, pod_fields()),
        V1.namespaced("podtemplates", "PodTemplate", "LIXB2x4IFpk=")
            .table(printers::POD_TEMPLATES)
            .strategy(controllers::POD_TEMPLATES),
        V1.namespaced("replicationcontrollers", "ReplicationController", "Jond2If31h0=")
            .table(printers::REPLICATION_CONTROLLERS)
            .strategy(controllers::REPLICATION_CONTROLLERS)
            .short(&["rc"])
            .category("all")
            .path("controllers")
            .status()
            .scale("spec.selector")
            .fields(Unsupported, [Field::new("status.replicas").or("0")]),
        V1.namespaced("resourcequotas", "ResourceQuota", "8uhSgffRX6w=")
            .table(printers::RESOURCE_QUOTAS)
            .strategy(limits::QUOTAS)
            .short(&["quota"])
            .status(),
        V1.namespaced("secrets", "Secret", "S6u1pOWzb84=")
            .table(printers::SECRETS)
            .strategy(config::SECRETS)
            .fields(Unsupported, [Field::new("type")]),
        V1.namespaced("serviceaccounts", "ServiceAccount", "pbx9ZvyFpBE=")
            .table(printers::SERVICE_ACCOUNTS)
            .strategy(config::SERVICE_ACCOUNTS)
            .short(&["sa"])
            .post("token", GvkRef::new("authentication.k8s.io", "v1", "TokenRequest")),
        V1.namespaced("services", "Service", "0/CO1lhkEBI=")
            .table(printers::SERVICES)
            .strategy(services::SERVICES)
            .short(&["svc"])
            .category("all")
            .path("services/specs")
            .status()
            .proxy("ServiceProxyOptions")
            .fields(Unsupported, [Field::new("spec.clusterIP"), Field::new("spec.type")]),
    ]
    .into_iter()
    .map(Row::build)
    .collect()
}

fn component_statuses() -> Row {
    V1.virtual_cluster("componentstatuses", "ComponentStatus")
        .table(printers::COMPONENT_STATUSES)
        .short(&["cs"])
        .only(Verbs::of(&[Verb::Get, Verb::List]))
        .deprecated("v1 ComponentStatus is deprecated in v1.19+")
}

fn event_fields() -> Vec<Field> {
    let plain = [
        "involvedObject.apiVersion",
        "involvedObject.fieldPath",
        "involvedObject.kind",
        "involvedObject.name",
        "involvedObject.namespace",
        "involvedObject.resourceVersion",
        "involvedObject.uid",
        "reason",
        "reportingComponent",
        "type",
    ];
    let source = Field::at("source", &["source.component", "reportingComponent"]);
    plain.into_iter().map(Field::new).chain([source]).collect()
}

fn pod_fields() -> Vec<Field> {
    let plain = [
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.nominatedNodeName",
        "status.phase",
        "status.podIP",
        "status.podIPs", // a list: known, and never equal to any text but the empty one
    ];
    plain.into_iter().map(Field::new).chain([Field::new("spec.hostNetwork").or("false")]).collect()
}
