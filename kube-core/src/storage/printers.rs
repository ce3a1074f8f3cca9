//! Table columns of classes, drivers and attachments.

use machinery::Value;

use generic_server::printer::{
    AGE, Doc, NAME, NONE, Table, UNSET, age, boolean, flag, integer, items, name, text, text_at,
};

const CLASS: &str = "storage.v1.StorageClass";

/// Storage classes.
pub(super) const STORAGE_CLASSES: Table = Table::new(
    &[
        NAME,
        text("Provisioner", Doc::Of(CLASS, "provisioner")),
        text("ReclaimPolicy", Doc::Of(CLASS, "reclaimPolicy")),
        text("VolumeBindingMode", Doc::Of(CLASS, "volumeBindingMode")),
        text("AllowVolumeExpansion", Doc::Of(CLASS, "allowVolumeExpansion")),
        AGE,
    ],
    |class, now| {
        let annotation = |key: &str| class.str_at(&["metadata", "annotations", key]) == Some("true");
        let is_default = annotation("storageclass.kubernetes.io/is-default-class")
            || annotation("storageclass.beta.kubernetes.io/is-default-class");
        let mut shown = class.str_at(&["metadata", "name"]).unwrap_or_default().to_owned();
        if is_default {
            shown.push_str(" (default)");
        }
        vec![
            shown.into(),
            text_at(class, &["provisioner"]),
            text_at(class, &["reclaimPolicy"]),
            text_at(class, &["volumeBindingMode"]),
            Value::Bool(flag(class, &["allowVolumeExpansion"])),
            age(class, now),
        ]
    },
);

/// Classes of attributes of volumes.
pub(super) const ATTRIBUTES_CLASSES: Table = Table::new(
    &[NAME, text("DriverName", Doc::Of("storage.v1.VolumeAttributesClass", "driverName")), AGE],
    |class, now| vec![name(class), text_at(class, &["driverName"]), age(class, now)],
);

const DRIVER: &str = "storage.v1.CSIDriverSpec";

/// Drivers.
pub(super) const DRIVERS: Table = Table::new(
    &[
        NAME,
        boolean("AttachRequired", Doc::Of(DRIVER, "attachRequired")),
        boolean("PodInfoOnMount", Doc::Of(DRIVER, "podInfoOnMount")),
        boolean("StorageCapacity", Doc::Of(DRIVER, "storageCapacity")),
        text("TokenRequests", Doc::Of(DRIVER, "tokenRequests")),
        boolean("RequiresRepublish", Doc::Of(DRIVER, "requiresRepublish")),
        text("Modes", Doc::Of(DRIVER, "volumeLifecycleModes")),
        AGE,
    ],
    |driver, now| {
        let set =
            |name: &str, unset: bool| Value::Bool(driver.at(&["spec", name]).and_then(Value::as_bool).unwrap_or(unset));
        let list = |name: &str, of: fn(&Value) -> Option<&str>, none: &str| -> Value {
            let texts: Vec<&str> = items(driver, &["spec", name]).iter().filter_map(of).collect();
            if texts.is_empty() { none.into() } else { texts.join(",").into() }
        };
        vec![
            name(driver),
            set("attachRequired", true),
            set("podInfoOnMount", false),
            set("storageCapacity", false),
            list("tokenRequests", |request| request.str_at(&["audience"]), UNSET),
            set("requiresRepublish", false),
            list("volumeLifecycleModes", Value::as_str, NONE),
            age(driver, now),
        ]
    },
);

/// Drivers of nodes.
pub(super) const NODES: Table = Table::new(
    &[NAME, integer("Drivers", Doc::Text("Drivers indicates the number of CSI drivers registered on the node")), AGE],
    |node, now| vec![name(node), Value::Int(items(node, &["spec", "drivers"]).len() as i64), age(node, now)],
);

/// Attachments.
pub(super) const ATTACHMENTS: Table = Table::new(
    &[
        NAME,
        text("Attacher", Doc::Of("storage.v1.VolumeAttachmentSpec", "attacher")).named(),
        text("PV", Doc::Of("storage.v1.VolumeAttachmentSource", "persistentVolumeName")),
        text("Node", Doc::Of("storage.v1.VolumeAttachmentSpec", "nodeName")),
        boolean("Attached", Doc::Of("storage.v1.VolumeAttachmentStatus", "attached")),
        AGE,
    ],
    |attachment, now| {
        vec![
            name(attachment),
            text_at(attachment, &["spec", "attacher"]),
            text_at(attachment, &["spec", "source", "persistentVolumeName"]),
            text_at(attachment, &["spec", "nodeName"]),
            Value::Bool(flag(attachment, &["status", "attached"])),
            age(attachment, now),
        ]
    },
);
