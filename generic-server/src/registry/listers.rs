//! The stored resources of a server, by group and resource.

use std::{collections::HashMap, sync::Arc};

use machinery::meta::{GroupResource, GroupVersion};
use outbound::{Resolver, egress::Egress};

use super::{Backing, Lister, Registry};
use crate::{
    admission::Admission,
    resource::{Enablement, Resource},
};

/// Something of each stored resource, by its group and plural name.
#[derive(Clone)]
pub struct ByResource<T>(HashMap<GroupResource, T>);

/// What reads each stored resource.
pub type Listers = ByResource<Arc<Lister>>;

/// What writes each stored resource.
pub type Registries = ByResource<Arc<Registry>>;

impl<T> Default for ByResource<T> {
    fn default() -> Self {
        ByResource(HashMap::new())
    }
}

impl<T> ByResource<T> {
    /// That of a resource, if it is there.
    pub fn get(&self, group: &str, plural: &str) -> Option<&T> {
        self.0.get(&GroupResource::new(group, plural))
    }

    /// That of a resource which no flag switches off.
    ///
    /// # Panics
    /// Where there is no such resource: names are those of rows in the code.
    pub fn of(&self, group: &str, plural: &str) -> &T {
        self.get(group, plural).unwrap_or_else(|| panic!("no row of {plural} in the group {group:?} is stored"))
    }

    /// All, in no order.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.0.values()
    }
}

impl Listers {
    /// Starts a lister for each stored resource among the rows. One of alpha and beta versions alone, of which none is served,
    /// gets none: it costs nothing.
    pub fn start(rows: &[Resource], backing: &Backing) -> Self {
        let settings = &backing.settings;
        let mut listers = HashMap::new();
        for row in stored_rows(rows) {
            let versions = rows.iter().filter(|r| r.storage_path == row.storage_path && r.is_stored()).cloned();
            let (served, others): (Vec<Resource>, Vec<Resource>) = versions.partition(|r| settings.serves(r));
            if served.is_empty() && others.iter().all(|r| Enablement::is_off_by_default(&r.version)) {
                continue;
            }
            let place = GroupResource::new(row.group.clone(), row.plural.clone());
            listers.insert(place, Lister::start_versions(row, served, others, backing));
        }
        ByResource(listers)
    }

    /// Finds services, or, with `to_endpoints`, what is behind them; `egress` is how they are reached.
    pub fn services(&self, to_endpoints: bool, egress: Egress) -> Arc<Resolver> {
        let (services, slices) = (self.of("", "services"), self.of("discovery.k8s.io", "endpointslices"));
        Arc::new(Resolver {
            services: services.cache().clone(),
            service_prefix: services.prefix().into(),
            slices: slices.cache().clone(),
            slice_prefix: slices.prefix().into(),
            to_endpoints,
            egress,
        })
    }
}

impl Registries {
    /// A registry for each lister.
    pub fn new(listers: &Listers, admission: &Arc<dyn Admission>) -> Self {
        let registry = |lister: &Arc<Lister>| Arc::new(Registry::new(lister.clone(), admission.clone()));
        ByResource(listers.0.iter().map(|(place, lister)| (place.clone(), registry(lister))).collect())
    }

    /// Puts another in the place of a resource's registry, if the resource is there.
    pub fn change(&mut self, group: &str, plural: &str, change: impl FnOnce(Registry) -> Registry) {
        if let Some(registry) = self.0.get_mut(&GroupResource::new(group, plural)) {
            *registry = Arc::new(change(Registry::clone(registry)));
        }
    }
}

/// A row in the storage version for each place in the store. Where there is none in that version it is made of another.
fn stored_rows(rows: &[Resource]) -> Vec<Resource> {
    let rows = rows.iter().filter(|row| row.is_stored());
    let mut stored: Vec<Resource> = rows.clone().filter(|row| row.is_storage_version()).cloned().collect();
    for row in rows {
        if !stored.iter().any(|known| known.storage_path == row.storage_path) {
            let GroupVersion { group, version } = row.storage_version.clone();
            stored.push(Resource { group, version, conversion: None, ..row.clone() });
        }
    }
    stored
}
