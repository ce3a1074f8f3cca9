//! From rows to entries: a registry for each stored resource, shared by its versions.

use std::{collections::HashMap, sync::Arc};

use machinery::Str;

use super::Entry;
use crate::{
    endpoint::Endpoint,
    registry::{Backing, Registry},
    resource::{Enablement, Resource},
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
///
/// A resource of alpha and beta versions alone, of which none is served, gets no registry: it costs nothing.
pub fn install(
    rows: Vec<Resource>,
    backing: &Backing,
    endpoints: impl FnOnce(&HashMap<(Str, Str), Arc<Registry>>) -> Endpoints,
) -> Installed {
    let settings = &backing.settings;
    let mut by_path: HashMap<Str, Arc<Registry>> = HashMap::new();
    let mut registries = HashMap::new();
    for row in stored_rows(&rows) {
        let (served, others): (Vec<Resource>, Vec<Resource>) = rows
            .iter()
            .filter(|r| r.storage_path == row.storage_path && r.is_stored())
            .cloned()
            .partition(|r| settings.serves(r));
        if served.is_empty() && others.iter().all(|r| Enablement::is_off_by_default(&r.version)) {
            continue;
        }
        let registry = Registry::start_versions(row.clone(), served, others, backing);
        by_path.insert(row.storage_path.clone(), registry.clone());
        registries.insert((row.group.clone(), row.plural.clone()), registry);
    }
    let endpoints = endpoints(&registries);
    let entries = rows
        .into_iter()
        .filter(|row| settings.serves(row))
        .map(|row| {
            let registry = by_path.get(&row.storage_path).filter(|_| row.is_stored()).cloned();
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

/// A row in the storage version for each place in the store. Where there is none in that version it is made of another.
fn stored_rows(rows: &[Resource]) -> Vec<Resource> {
    let rows = rows.iter().filter(|row| row.is_stored());
    let mut stored: Vec<Resource> = rows.clone().filter(|row| row.is_storage_version()).cloned().collect();
    for row in rows {
        if !stored.iter().any(|known| known.storage_path == row.storage_path) {
            let (group, version) = row.storage_version.clone();
            stored.push(Resource { group, version, conversion: None, ..row.clone() });
        }
    }
    stored
}
