//! From rows to entries: a registry for each stored resource, shared by its versions.

use std::{collections::HashMap, sync::Arc};

use machinery::Str;

use super::Entry;
use crate::{
    endpoint::Endpoint,
    registry::{Backing, Registry},
    resource::Resource,
};

/// Endpoints of virtual resources and of subresources with rules of their own: (group, `resource` or
/// `resource/subresource`) → who serves it.
pub type Endpoints = HashMap<(Str, Str), Arc<dyn Endpoint>>;

/// The entries of rows, and the registries behind them by (group, plural) of the stored row.
pub struct Installed {
    /// One a row.
    pub entries: Vec<Arc<Entry>>,
    /// One a stored resource.
    pub registries: HashMap<(Str, Str), Arc<Registry>>,
}

/// Starts a registry for each stored resource and makes the entries of those that are served. `endpoints` is asked for the endpoints once the
/// registries are there.
pub fn install(
    rows: Vec<Resource>,
    backing: &Backing,
    endpoints: impl FnOnce(&HashMap<(Str, Str), Arc<Registry>>) -> Endpoints,
) -> Installed {
    let mut by_path: HashMap<Str, Arc<Registry>> = HashMap::new();
    let mut registries = HashMap::new();
    let is_stored = |row: &Resource| row.storage_version_hash.is_some();
    for row in stored_rows(rows.iter().filter(|row| is_stored(row))) {
        let versions: Vec<Resource> =
            rows.iter().filter(|r| r.storage_path == row.storage_path && is_stored(r)).cloned().collect();
        let registry = Registry::start_versions(row.clone(), versions, backing);
        by_path.insert(row.storage_path.clone(), registry.clone());
        registries.insert((row.group.clone(), row.plural.clone()), registry);
    }
    let endpoints = endpoints(&registries);
    let entries = rows
        .into_iter()
        .filter(|row| backing.settings.apis.serves(row))
        .map(|row| {
            let registry = by_path.get(&row.storage_path).filter(|_| is_stored(&row)).cloned();
            let mut own: HashMap<Str, Arc<dyn Endpoint>> = HashMap::new();
            if let Some(endpoint) = endpoints.get(&(row.group.clone(), row.plural.clone())) {
                own.insert(Str::default(), endpoint.clone());
            }
            for subresource in &row.subresources {
                let path = Str::from(format!("{}/{}", row.plural, subresource.name));
                if let Some(endpoint) = endpoints.get(&(row.group.clone(), path)) {
                    own.insert(subresource.name.clone(), endpoint.clone());
                }
            }
            Arc::new(Entry { row, registry, endpoints: own, after_write: None, openapi: Default::default() })
        })
        .collect();
    Installed { entries, registries }
}

/// A row in the storage version for each place in the store. Where that version is not served it is made of one that is.
fn stored_rows<'a>(rows: impl Iterator<Item = &'a Resource> + Clone) -> Vec<Resource> {
    let mut stored: Vec<Resource> = rows.clone().filter(|row| row.is_storage_version()).cloned().collect();
    for row in rows {
        if !stored.iter().any(|known| known.storage_path == row.storage_path) {
            let (group, version) = row.storage_version.clone();
            stored.push(Resource { group, version, conversion: None, ..row.clone() });
        }
    }
    stored
}
