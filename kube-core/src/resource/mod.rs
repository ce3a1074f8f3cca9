//! The group resource.k8s.io: devices, and claims to them.

mod gates;
mod grants;
mod identity;
mod printers;
mod rules;
mod validation;

use generic_server::resource::{Resource, SelectableField as Field, UnknownField::UnsupportedForVersion};

use crate::row::{GroupVersion, Row};

pub(crate) use grants::Grants;

const V1: GroupVersion = GroupVersion("resource.k8s.io", "v1");

/// Resources that ask for devices, and where they do.
pub(crate) const CLAIMED: [(&str, &[&str]); 2] =
    [("resourceclaims", &["spec", "devices"]), ("resourceclaimtemplates", &["spec", "spec", "devices"])];

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [
        V1.cluster("deviceclasses", "DeviceClass", "Yk2PTc1Ybxk=").table(printers::NAMED).strategy(rules::CLASSES),
        V1.namespaced("resourceclaims", "ResourceClaim", "wgAZaHcZxUg=")
            .table(printers::CLAIMS)
            .strategy(rules::CLAIMS)
            .status(),
        V1.namespaced("resourceclaimtemplates", "ResourceClaimTemplate", "TuzjC49aUfM=")
            .table(printers::NAMED)
            .strategy(rules::TEMPLATES),
        V1.cluster("resourceslices", "ResourceSlice", "KsC072WgaEY=")
            .table(printers::SLICES)
            .strategy(rules::SLICES)
            .fields(UnsupportedForVersion, [Field::new("spec.driver"), Field::new("spec.nodeName")]),
    ]
    .into_iter()
    .map(Row::build)
    .collect()
}
