//! The group storage.k8s.io: classes of volumes, drivers and attachments.

mod printers;
mod rules;
mod validation;

use generic_server::resource::Resource;

use crate::row::{GroupVersion, Row};

const V1: GroupVersion = GroupVersion("storage.k8s.io", "v1");
const V1BETA1: GroupVersion = GroupVersion("storage.k8s.io", "v1beta1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [
        V1.cluster("csidrivers", "CSIDriver", "hL6j/rwBV5w=").table(printers::DRIVERS).strategy(rules::CSI_DRIVERS),
        V1.cluster("csinodes", "CSINode", "Pe62DkZtjuo=").table(printers::NODES).strategy(rules::CSI_NODES),
        V1.namespaced("csistoragecapacities", "CSIStorageCapacity", "xeVl+2Ly1kE=").strategy(rules::CAPACITIES),
        V1.cluster("storageclasses", "StorageClass", "K+m6uJwbjGY=")
            .table(printers::STORAGE_CLASSES)
            .strategy(rules::STORAGE_CLASSES)
            .short(&["sc"]),
        V1.cluster("volumeattachments", "VolumeAttachment", "tJx/ezt6UDU=")
            .table(printers::ATTACHMENTS)
            .strategy(rules::ATTACHMENTS)
            .status(),
        attributes_classes(V1).since(34),
        attributes_classes(V1BETA1).renamed_from(V1).deprecated_since(34, Some(V1)),
    ]
    .into_iter()
    .map(Row::build)
    .collect()
}

fn attributes_classes(version: GroupVersion) -> Row {
    version
        .cluster("volumeattributesclasses", "VolumeAttributesClass", "tIjydgKBC5w=")
        .table(printers::ATTRIBUTES_CLASSES)
        .strategy(rules::ATTRIBUTES_CLASSES)
        .short(&["vac"])
}
