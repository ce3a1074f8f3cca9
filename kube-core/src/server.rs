//! The server of the built-in groups.

use std::{collections::HashMap, sync::Arc};

use arc_swap::ArcSwap;
use generic_server::{
    auth::Authorizer,
    fairness::Flows,
    registry::{Backing, Registry, install},
    server::{Builder, Claims, GenericServer, ResourceTable},
    tasks::Task,
};
use machinery::Str;

use crate::{admission, authentication, authorization, core, flowcontrol, namespaces, service_network};

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
    /// The flow schemas, for the pipeline.
    pub flows: Arc<Flows>,
}

/// Builds the server; what it does not claim goes to `delegate`.
pub fn build(
    backing: &Backing,
    authorizer: &Arc<dyn Authorizer>,
    network: &service_network::Settings,
    delegate: Arc<GenericServer>,
) -> KubeCore {
    let installed = install(crate::resources(), backing, |registries| {
        let mut endpoints = core::endpoints(registries);
        endpoints.extend(authentication::endpoints());
        endpoints.extend(authorization::endpoints(authorizer));
        endpoints
    });
    let table = Arc::new(ArcSwap::from_pointee(ResourceTable::new(installed.entries)));
    let server = Builder::new("kube-core", Claims::Groups).table(table.clone()).delegate(delegate).build();
    let namespaces = installed.registries[&(Str::default(), Str::new_static("namespaces"))].clone();
    let registry = |group: &'static str, plural: &'static str| {
        &installed.registries[&(Str::new_static(group), Str::new_static(plural))]
    };
    let classes = registry("scheduling.k8s.io", "priorityclasses").clone();
    let mut tasks = vec![namespaces::system_namespaces(namespaces), admission::system_classes(classes)];
    const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";
    let (schemas, levels) =
        (registry(FLOW_CONTROL, "flowschemas"), registry(FLOW_CONTROL, "prioritylevelconfigurations"));
    let flows = Arc::new(Flows::default());
    tasks.extend(flowcontrol::tasks(schemas, levels, &flows));
    let (network, more) = service_network::build(network, backing, &installed.registries);
    tasks.extend(more);
    registry("", "services").set_reserve(Arc::new(core::services::Pools(network)));
    KubeCore { server, table, registries: installed.registries, tasks, flows }
}
