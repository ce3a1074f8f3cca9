//! The server of the built-in groups.

use std::{collections::HashMap, sync::Arc};

use arc_swap::ArcSwap;
use generic_server::{
    auth::Authorizer,
    registry::{Backing, Registry, install},
    server::{Builder, Claims, GenericServer, ResourceTable},
    tasks::Task,
};
use machinery::Str;

use crate::{admission, authentication, authorization, core, namespaces};

/// The built server, and what others need of it.
pub struct KubeCore {
    /// The server.
    pub server: Arc<GenericServer>,
    /// Its rows.
    pub table: Arc<ArcSwap<ResourceTable>>,
    /// The registries, by (group, plural).
    pub registries: HashMap<(Str, Str), Arc<Registry>>,
    /// What runs beside the requests.
    pub tasks: Vec<Task>,
}

/// Builds the server; what it does not claim goes to `delegate`.
pub fn build(backing: &Backing, authorizer: &Arc<dyn Authorizer>, delegate: Arc<GenericServer>) -> KubeCore {
    let installed = install(crate::resources(), backing, |registries| {
        let mut endpoints = core::endpoints(registries);
        endpoints.extend(authentication::endpoints());
        endpoints.extend(authorization::endpoints(authorizer));
        endpoints
    });
    let table = Arc::new(ArcSwap::from_pointee(ResourceTable::new(installed.entries)));
    let server = Builder::new("kube-core", Claims::Groups).table(table.clone()).delegate(delegate).build();
    let namespaces = installed.registries[&(Str::default(), Str::new_static("namespaces"))].clone();
    let classes =
        installed.registries[&(Str::new_static("scheduling.k8s.io"), Str::new_static("priorityclasses"))].clone();
    let tasks = vec![namespaces::system_namespaces(namespaces), admission::system_classes(classes)];
    KubeCore { server, table, registries: installed.registries, tasks }
}
