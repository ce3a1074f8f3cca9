//! The group resource.k8s.io: devices, and claims to them.

mod conversion;
mod deallocation;
mod grants;
mod identity;
mod pool_status;
mod printers;
mod rules;
mod validation;

use generic_server::resource::{Resource, SelectableField as Field, UnknownField::UnsupportedForVersion};

use crate::row::{GroupVersion, Row};

pub(crate) use grants::Grants;

const V1: GroupVersion = GroupVersion("resource.k8s.io", "v1");
const V1BETA2: GroupVersion = GroupVersion("resource.k8s.io", "v1beta2");
const V1BETA1: GroupVersion = GroupVersion("resource.k8s.io", "v1beta1");
const V1ALPHA3: GroupVersion = GroupVersion("resource.k8s.io", "v1alpha3");

/// Resources that ask for devices, and where they do.
pub(crate) const CLAIMED: [(&str, &[&str]); 2] =
    [("resourceclaims", &["spec", "devices"]), ("resourceclaimtemplates", &["spec", "spec", "devices"])];

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    let stored = [classes, claims, templates, slices].map(|row| row(V1).since(34));
    let renamed = |row: fn(GroupVersion) -> Row| row(V1BETA2).renamed_from(V1).deprecated_since(36, None);
    let beta2 = [
        renamed(classes),
        taint_rules(V1BETA2).renamed_from(V1ALPHA3).since(36),
        renamed(claims),
        renamed(templates),
        renamed(slices),
    ];
    let beta1 = [classes(V1BETA1), claims(V1BETA1), templates(V1BETA1), slices(V1BETA1)]
        .map(|row| row.stored_as(V1, conversion::V1Beta1).deprecated_since(35, None));
    let others = [
        taint_rules(V1ALPHA3).deprecated_since(36, None),
        V1ALPHA3
            .cluster("resourcepoolstatusrequests", "ResourcePoolStatusRequest", "iy583CtMwdY=")
            .table(pool_status::TABLE)
            .strategy(pool_status::RULES)
            .status()
            .since(36),
    ];
    stored.into_iter().chain(beta2).chain(beta1).chain(others).map(Row::build).collect()
}

fn classes(version: GroupVersion) -> Row {
    version.cluster("deviceclasses", "DeviceClass", "Yk2PTc1Ybxk=").table(printers::NAMED).strategy(rules::CLASSES)
}

fn claims(version: GroupVersion) -> Row {
    version
        .namespaced("resourceclaims", "ResourceClaim", "wgAZaHcZxUg=")
        .table(printers::CLAIMS)
        .strategy(rules::CLAIMS)
        .status()
}

fn templates(version: GroupVersion) -> Row {
    version
        .namespaced("resourceclaimtemplates", "ResourceClaimTemplate", "TuzjC49aUfM=")
        .table(printers::NAMED)
        .strategy(rules::TEMPLATES)
}

fn slices(version: GroupVersion) -> Row {
    version
        .cluster("resourceslices", "ResourceSlice", "KsC072WgaEY=")
        .table(printers::SLICES)
        .strategy(rules::SLICES)
        .fields(UnsupportedForVersion, [Field::new("spec.driver"), Field::new("spec.nodeName")])
}

fn taint_rules(version: GroupVersion) -> Row {
    version
        .cluster("devicetaintrules", "DeviceTaintRule", "DJ3UJ0fj8MI=")
        .table(printers::TAINT_RULES)
        .strategy(rules::TAINT_RULES)
        .status()
}
