//! Table columns of workloads.

use machinery::Value;

use crate::core::printers::selected;
use generic_server::printer::{
    AGE, Doc, Heading, NAME, NONE, Table, age, containers, int, integer, items, labels, name, text,
};

/// The names of a template's containers.
pub(crate) const NAMES: Heading = text("Containers", Doc::Text("Names of each container in the template.")).wide();
/// The images of a template's containers.
pub(crate) const IMAGES: Heading =
    text("Images", Doc::Text("Images referenced by each container in the template.")).wide();

const READY: Heading = text("Ready", Doc::Text("Number of the pod with ready state"));

fn number(object: &Value, path: [&str; 2]) -> Value {
    Value::Int(int(object, &path))
}

fn ready(object: &Value) -> Value {
    format!("{}/{}", int(object, &["status", "readyReplicas"]), int(object, &["spec", "replicas"])).into()
}

/// Deployments.
pub(super) const DEPLOYMENTS: Table = Table::new(
    &[
        NAME,
        READY,
        text("Up-to-date", Doc::Of("apps.v1.DeploymentStatus", "updatedReplicas")),
        text("Available", Doc::Of("apps.v1.DeploymentStatus", "availableReplicas")),
        AGE,
        NAMES,
        IMAGES,
        text("Selector", Doc::Of("apps.v1.DeploymentSpec", "selector")).wide(),
    ],
    |deployment, now| {
        let [names, images] = containers(deployment.at(&["spec", "template", "spec"]));
        vec![
            name(deployment),
            ready(deployment),
            number(deployment, ["status", "updatedReplicas"]),
            number(deployment, ["status", "availableReplicas"]),
            age(deployment, now),
            names,
            images,
            selected(deployment),
        ]
    },
);

/// Replica sets.
pub(super) const REPLICA_SETS: Table = Table::new(
    &[
        NAME,
        integer("Desired", Doc::Of("apps.v1.ReplicaSetSpec", "replicas")),
        integer("Current", Doc::Of("apps.v1.ReplicaSetStatus", "replicas")),
        integer("Ready", Doc::Of("apps.v1.ReplicaSetStatus", "readyReplicas")),
        AGE,
        NAMES,
        IMAGES,
        text("Selector", Doc::Of("apps.v1.ReplicaSetSpec", "selector")).wide(),
    ],
    |set, now| {
        let [names, images] = containers(set.at(&["spec", "template", "spec"]));
        vec![
            name(set),
            number(set, ["spec", "replicas"]),
            number(set, ["status", "replicas"]),
            number(set, ["status", "readyReplicas"]),
            age(set, now),
            names,
            images,
            selected(set),
        ]
    },
);

/// Stateful sets.
pub(super) const STATEFUL_SETS: Table = Table::new(&[NAME, READY, AGE, NAMES, IMAGES], |set, now| {
    let [names, images] = containers(set.at(&["spec", "template", "spec"]));
    vec![name(set), ready(set), age(set, now), names, images]
});

const DAEMON_STATUS: &str = "apps.v1.DaemonSetStatus";

/// Daemon sets.
pub(super) const DAEMON_SETS: Table = Table::new(
    &[
        NAME,
        integer("Desired", Doc::Of(DAEMON_STATUS, "desiredNumberScheduled")),
        integer("Current", Doc::Of(DAEMON_STATUS, "currentNumberScheduled")),
        integer("Ready", Doc::Of(DAEMON_STATUS, "numberReady")),
        integer("Up-to-date", Doc::Of(DAEMON_STATUS, "updatedNumberScheduled")),
        integer("Available", Doc::Of(DAEMON_STATUS, "numberAvailable")),
        text("Node Selector", Doc::Of("core.v1.PodSpec", "nodeSelector")),
        AGE,
        NAMES,
        IMAGES,
        text("Selector", Doc::Of("apps.v1.DaemonSetSpec", "selector")).wide(),
    ],
    |set, now| {
        let [names, images] = containers(set.at(&["spec", "template", "spec"]));
        vec![
            name(set),
            number(set, ["status", "desiredNumberScheduled"]),
            number(set, ["status", "currentNumberScheduled"]),
            number(set, ["status", "numberReady"]),
            number(set, ["status", "updatedNumberScheduled"]),
            number(set, ["status", "numberAvailable"]),
            labels(set.at(&["spec", "template", "spec", "nodeSelector"])),
            age(set, now),
            names,
            images,
            selected(set),
        ]
    },
);

/// Controller revisions.
pub(super) const CONTROLLER_REVISIONS: Table = Table::new(
    &[
        NAME,
        text("Controller", Doc::Text("Controller of the object")),
        text("Revision", Doc::Of("apps.v1.ControllerRevision", "revision")),
        AGE,
    ],
    |revision, now| {
        let owners = items(revision, &["metadata", "ownerReferences"]);
        let owner = owners.iter().find(|o| o.get("controller").and_then(Value::as_bool) == Some(true));
        let owner = owner.map_or_else(
            || NONE.to_owned(),
            |owner| {
                let part = |name: &str| owner.str_at(&[name]).unwrap_or_default();
                let group =
                    part("apiVersion").split_once('/').map_or_else(String::new, |(group, _)| format!(".{group}"));
                format!("{}/{}", format!("{}{group}", part("kind")).to_lowercase(), part("name"))
            },
        );
        vec![name(revision), owner.into(), Value::Int(int(revision, &["revision"])), age(revision, now)]
    },
);
