//! The addresses and ports of services: who has which, the range they come from, and the service that this server is
//! itself.

mod addresses;
mod api_servers;
mod default_range;
mod kubernetes;
mod ports;
mod range;
mod repair;
pub(crate) mod service;

use std::{net::IpAddr, sync::Arc};

use generic_server::{
    registry::{Backing, Registries, Registry},
    tasks::Task,
};
use machinery::meta::ip::{Cidr, Family, family};

pub(crate) use addresses::{AddressError, Addresses, Owner};
pub(crate) use ports::{NodePorts, PortChange, PortError};

/// What the operator has said about services.
#[derive(Clone, Debug)]
pub struct NetworkSettings {
    /// The networks of the default range: one, or two of different families. The first is of the preferred family.
    pub ranges: Vec<Cidr>,
    /// The ports that nodes keep for services, both ends included.
    pub node_ports: (u16, u16),
    /// Where the members of the cluster reach this server.
    pub address: IpAddr,
    /// The port of this server.
    pub port: u16,
    /// The node port of the `kubernetes` service, if it has one.
    pub kubernetes_node_port: Option<u16>,
    /// Who keeps the addresses of the `kubernetes` service.
    pub reconciler: Reconciler,
}

/// Who keeps the addresses of the `kubernetes` service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reconciler {
    /// The servers, each of which renews a lease in the store as long as it runs.
    #[default]
    Lease,
    /// The servers, each of which adds itself and trusts in the others to be there.
    MasterCount,
    /// Somebody else.
    None,
}

impl NetworkSettings {
    /// The families that services can have addresses of; the preferred one first.
    pub(crate) fn families(&self) -> Vec<Family> {
        self.ranges.iter().map(|range| family(range.ip)).collect()
    }
}

/// What services take their addresses and ports from.
pub(crate) struct Network {
    /// The families that services can have addresses of; the preferred one first.
    pub(crate) families: Vec<Family>,
    /// The addresses.
    pub(crate) addresses: Addresses,
    /// The ports.
    pub(crate) ports: NodePorts,
    /// The endpoints, which go with their service.
    pub(crate) endpoints: Arc<Registry>,
}

/// Sets the pools up.
pub(crate) fn network(settings: &NetworkSettings, backing: &Backing, registries: &Registries) -> Arc<Network> {
    let registry = |group: &str, plural: &str| registries.of(group, plural).clone();
    let ranges = registry("networking.k8s.io", "servicecidrs").lister().clone();
    Arc::new(Network {
        families: settings.families(),
        addresses: Addresses::new(registry("networking.k8s.io", "ipaddresses"), ranges),
        ports: NodePorts::new(backing, settings.node_ports),
        endpoints: registry("", "endpoints"),
    })
}

/// What keeps the pools and the `kubernetes` service right.
pub(crate) fn tasks(
    settings: &NetworkSettings,
    backing: &Backing,
    network: &Arc<Network>,
    registries: &Registries,
    metrics: &prometheus::Registry,
) -> [Task; 4] {
    let registry = |group: &str, plural: &str| registries.of(group, plural).clone();
    let (services, events) = (registry("", "services"), registry("", "events"));
    let published = kubernetes::Published {
        services: services.clone(),
        endpoints: registry("", "endpoints"),
        slices: registry("discovery.k8s.io", "endpointslices"),
    };
    [
        default_range::task(registry("networking.k8s.io", "servicecidrs"), settings.ranges.clone()),
        repair::addresses(network.clone(), services.clone(), events.clone()),
        repair::ports(network.clone(), services, events, metrics),
        kubernetes::task(published, backing, settings.clone()),
    ]
}
