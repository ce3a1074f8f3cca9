//! The group internal.apiserver.k8s.io: in which version each API server of a cluster stores and serves what.

mod publish;
mod rules;

use generic_server::{
    printer::{AGE, Doc, NAME, Table, UNSET, age, items, name, some_of, text},
    resource::Resource,
};

pub use publish::{of_servers, storage_versions};

use crate::row::{GroupVersion, Row};

const V1ALPHA1: GroupVersion = GroupVersion("internal.apiserver.k8s.io", "v1alpha1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [V1ALPHA1.cluster("storageversions", "StorageVersion", "c8YZt5U0nPk=").table(TABLE).strategy(rules::RULES).status()]
        .into_iter()
        .map(Row::build)
        .collect()
}

const STATUS: &str = "apiserverinternal.v1alpha1.StorageVersionStatus";

/// What the servers say.
const TABLE: Table = Table::new(
    &[
        NAME,
        text("CommonEncodingVersion", Doc::Of(STATUS, "commonEncodingVersion")),
        text("StorageVersions", Doc::Of(STATUS, "storageVersions")),
        AGE,
    ],
    |version, now| {
        let of = |server: &machinery::Value| {
            let text = |member| server.str_at(&[member]).unwrap_or_default();
            format!("{}={}", text("apiServerID"), text("encodingVersion"))
        };
        let servers: Vec<String> = items(version, &["status", "storageVersions"]).iter().map(of).collect();
        let common = version.str_at(&["status", "commonEncodingVersion"]).unwrap_or(UNSET);
        let servers = if servers.is_empty() { UNSET.to_owned() } else { some_of(&servers, 3, ",") };
        vec![name(version), common.into(), servers.into(), age(version, now)]
    },
);
