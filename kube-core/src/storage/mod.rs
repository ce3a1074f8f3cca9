//! The group storage.k8s.io: classes of volumes, drivers and attachments.

mod rules;

use generic_server::resource::Resource;

use crate::{
    row::{GroupVersion, Row},
    strategy::Rules,
};

const V1: GroupVersion = GroupVersion("storage.k8s.io", "v1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [
        V1.cluster("csidrivers", "CSIDriver", "hL6j/rwBV5w=").strategy(rules::CSI_DRIVERS),
        V1.cluster("csinodes", "CSINode", "Pe62DkZtjuo=").strategy(Rules::PLAIN.conditional().returns_deleted()),
        V1.namespaced("csistoragecapacities", "CSIStorageCapacity", "xeVl+2Ly1kE=")
            .strategy(Rules::PLAIN.conditional().returns_deleted()),
        V1.cluster("storageclasses", "StorageClass", "K+m6uJwbjGY=").strategy(rules::STORAGE_CLASSES).short(&["sc"]),
        V1.cluster("volumeattachments", "VolumeAttachment", "tJx/ezt6UDU=")
            .strategy(Rules::STATUS.conditional().returns_deleted())
            .status(),
        V1.cluster("volumeattributesclasses", "VolumeAttributesClass", "tIjydgKBC5w=")
            .strategy(Rules::PLAIN.returns_deleted())
            .short(&["vac"]),
    ]
    .into_iter()
    .map(Row::build)
    .collect()
}
