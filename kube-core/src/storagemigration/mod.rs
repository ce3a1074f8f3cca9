//! The group storagemigration.k8s.io: what is to be written anew in the version that is stored today.

mod rules;

use generic_server::{
    printer::{Doc, Table, items, name, text},
    resource::Resource,
};
use machinery::Value;

use crate::row::{GroupVersion, Row};

const V1BETA1: GroupVersion = GroupVersion("storagemigration.k8s.io", "v1beta1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [V1BETA1
        .cluster("storageversionmigrations", "StorageVersionMigration", "pCjmmKOkLy4=")
        .table(TABLE)
        .strategy(rules::RULES)
        .status()
        .gated("StorageVersionMigrator")
        .since(35)]
    .into_iter()
    .map(Row::build)
    .collect()
}

/// What is migrated, and how far it is.
const TABLE: Table = Table::new(
    &[
        text("Name", Doc::Of("apimachinery.pkg.apis.meta.v1.ObjectMeta", "name")),
        text("Resource", Doc::Text("GroupResource to migrate")),
        text("Status", Doc::Text("Status of the migration")),
    ],
    |migration, _| {
        let of = |member| migration.str_at(&["spec", "resource", member]).unwrap_or_default();
        let resource = match of("group") {
            "" => of("resource").to_owned(),
            group => format!("{}.{group}", of("resource")),
        };
        let is_state = |c: &&Value| {
            let state = matches!(c.str_at(&["type"]), Some("Running" | "Failed" | "Succeeded"));
            state && c.str_at(&["status"]) == Some("True")
        };
        let state = items(migration, &["status", "conditions"]).iter().rfind(is_state);
        let state = state.and_then(|c| c.str_at(&["type"])).unwrap_or("Unknown");
        vec![name(migration), resource.into(), state.into()]
    },
);
