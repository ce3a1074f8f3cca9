//! The resources of all servers of the chain.

use std::sync::Arc;

use arc_swap::ArcSwap;
use generic_server::{
    resource::Resource,
    table::{ResourceTable, TableEntry},
};

/// The servers' tables; they change while the server runs.
#[derive(Clone)]
pub struct Tables(pub Vec<Arc<ArcSwap<ResourceTable>>>);

impl Tables {
    /// The entry of a resource in a version.
    pub(crate) fn resource(&self, group: &str, version: &str, plural: &str) -> Option<Arc<TableEntry>> {
        self.0.iter().find_map(|table| table.load().get(group, version, plural).cloned())
    }

    /// The entry of a stored kind in a version.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<Arc<TableEntry>> {
        self.0.iter().find_map(|table| {
            let table = table.load();
            let rows = table.group(group)?.entries();
            let is = |row: &Resource| row.version == version && row.kind == kind;
            rows.iter().find(|entry| is(&entry.row) && entry.registry.is_some()).cloned()
        })
    }

    /// What else the objects of a row are served as through a subresource (the same one): in other versions or groups.
    pub(crate) fn equivalents(&self, row: &Resource, subresource: &str) -> Vec<Arc<TableEntry>> {
        let Some(entry) = self.resource(&row.group, &row.version, &row.plural) else { return Vec::new() };
        let Some(registry) = &entry.registry else { return Vec::new() };
        let others =
            registry.versions().iter().filter(|other| (&other.group, &other.version) != (&row.group, &row.version));
        let served = others.filter_map(|other| self.resource(&other.group, &other.version, &other.plural));
        served.filter(|e| subresource.is_empty() || e.row.subresource(subresource).is_some()).collect()
    }
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tables({})", self.0.len())
    }
}
