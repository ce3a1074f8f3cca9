//! From rows to entries: each with the registry of its resource, which its versions share.

use std::{collections::HashMap, sync::Arc};

use machinery::{Str, meta::GroupResource};

use super::TableEntry;
use crate::{
    endpoint::Endpoint,
    registry::{Registries, Registry, RegistrySettings},
    resource::Resource,
};

/// Endpoints of virtual resources and of subresources with rules of their own, by `resource` or
/// `resource/subresource`.
pub type Endpoints = HashMap<GroupResource, Arc<dyn Endpoint>>;

/// The entries of those rows that are served.
pub fn entries(
    rows: Vec<Resource>,
    settings: &RegistrySettings,
    registries: &Registries,
    endpoints: &Endpoints,
) -> Vec<Arc<TableEntry>> {
    let by_path: HashMap<Str, Arc<Registry>> =
        registries.values().map(|registry| (registry.row.storage_path.clone(), registry.clone())).collect();
    let entry = |row: Resource| {
        let registry = by_path.get(&row.storage_path).filter(|_| row.is_stored()).cloned();
        let mut own: HashMap<Str, Arc<dyn Endpoint>> = HashMap::new();
        if let Some(endpoint) = endpoints.get(&GroupResource::new(row.group.clone(), row.plural.clone())) {
            own.insert(Str::default(), endpoint.clone());
        }
        for subresource in &row.subresources {
            let path = Str::from(format!("{}/{}", row.plural, subresource.name));
            if let Some(endpoint) = endpoints.get(&GroupResource::new(row.group.clone(), path)) {
                own.insert(subresource.name.clone(), endpoint.clone());
            }
        }
        Arc::new(TableEntry { row, registry, endpoints: own, after_write: None, openapi: Default::default() })
    };
    rows.into_iter().filter(|row| settings.serves(row)).map(entry).collect()
}
