//! Allocates cluster IPs and node ports of services.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
};

use async_trait::async_trait;
use generic_server::registry::{Reservation, Reserve};
use machinery::{
    Value,
    meta::{
        FieldError, GroupKind, Status,
        ip::{Family, parse_sloppy},
    },
};

use super::{families, linked};
use crate::service_network::service::{NONE, Service, family_called, node_port};
use crate::service_network::{AddressError, Network, Owner, PortChange, PortError};

/// The pools of services.
pub(crate) struct Pools(pub(crate) Arc<Network>);

/// What one write of a service changes in the pools.
struct Taken {
    network: Arc<Network>,
    owner: Owner,
    dry_run: bool,
    addresses: Vec<IpAddr>,
    ports: Vec<i64>,
    /// What is given back once the service is written.
    old_addresses: Vec<IpAddr>,
    old_ports: Vec<i64>,
}

#[async_trait]
impl Reserve for Pools {
    async fn reserve(
        &self,
        new: &mut Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<Box<dyn Reservation>, Status> {
        match old {
            None => linked::on_create(new),
            Some(old) => linked::on_update(new, old),
        }
        families::init(new, old, &self.0.families).map_err(|errors| invalid(new, errors))?;
        let mut taken = Box::new(Taken {
            network: self.0.clone(),
            owner: Owner::of(new),
            dry_run,
            addresses: Vec::new(),
            ports: Vec::new(),
            old_addresses: Vec::new(),
            old_ports: Vec::new(),
        });
        let done = match taken.addresses(new, old).await {
            Ok(()) => taken.ports(new, old).await,
            Err(status) => Err(status),
        };
        match done {
            Ok(()) => Ok(taken),
            Err(status) => {
                taken.roll_back().await;
                Err(status)
            }
        }
    }

    async fn release(&self, service: &Value) {
        let owner = Owner::of(service);
        for ip in Service(service).addresses() {
            self.0.addresses.give_back(&owner, ip).await;
        }
        let ports: Vec<i64> = Service(service).held_ports().into_iter().collect();
        self.0.ports.give_back(&ports).await;
        // A later service of the same name shall not begin with the endpoints of this one.
        match self.0.endpoints.delete_as_server(&owner.namespace, &owner.name).await {
            Ok(_) => {}
            Err(status) if status.is_not_found() => {}
            Err(status) => tracing::warn!(?owner, error = status.message, "endpoints outlive their service"),
        }
    }
}

#[async_trait]
impl Reservation for Taken {
    async fn commit(self: Box<Self>) {
        if self.dry_run {
            return;
        }
        for ip in &self.old_addresses {
            self.network.addresses.give_back(&self.owner, *ip).await;
        }
        self.network.ports.give_back(&self.old_ports).await;
    }

    async fn roll_back(self: Box<Self>) {
        if self.dry_run {
            return;
        }
        for ip in &self.addresses {
            self.network.addresses.give_back(&self.owner, *ip).await;
        }
        self.network.ports.give_back(&self.ports).await;
    }
}

fn invalid(service: &Value, errors: Vec<FieldError>) -> Status {
    let name = service.str_at(&["metadata", "name"]).unwrap_or_default();
    Status::invalid(&GroupKind::new("", "Service"), name, errors)
}

/// Addresses.
impl Taken {
    async fn addresses(&mut self, new: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        let Some(old) = old.map(Service) else { return self.take_all(new).await };
        let service = Service(new);
        if families::keeps_preferred(service, old) {
            return Ok(());
        }
        match (old.is_external_name(), service.is_external_name()) {
            (true, false) => return self.take_all(new).await,
            _ if old.cluster_ips().first() == Some(&NONE) => return Ok(()),
            (false, true) => {
                self.old_addresses.extend(old.addresses());
                return Ok(());
            }
            _ => {}
        }
        let (before, now) = (old.families().len(), service.families().len());
        if (before, now) == (1, 2) {
            return self.take_from(new, 1).await;
        }
        if (before, now) == (2, 1) {
            self.old_addresses.extend(old.addresses().nth(1));
        }
        Ok(())
    }

    async fn take_all(&mut self, new: &mut Value) -> Result<(), Status> {
        let service = Service(new);
        if service.is_external_name() || service.cluster_ips().first() == Some(&NONE) {
            return Ok(());
        }
        self.take_from(new, 0).await
    }

    /// An address of each family from this one on: the one that is asked for, or any.
    async fn take_from(&mut self, new: &mut Value, first: usize) -> Result<(), Status> {
        let service = Service(new);
        let families: Vec<Family> = service.families().into_iter().filter_map(family_called).collect();
        let mut ips: Vec<String> = service.cluster_ips().into_iter().map(str::to_owned).collect();
        ips.resize(families.len().max(ips.len()), String::new());
        for (i, family) in families.into_iter().enumerate().skip(first) {
            if ips[i].is_empty() {
                ips[i] = self.any(family).await?.to_string();
            } else if let Some(ip) = parse_sloppy(&ips[i]) {
                self.certain(ip).await.map_err(|error| {
                    let shown = families::list(ips.iter().map(String::as_str));
                    let why = format!("failed to allocate IP {}: {error}", ips[i]);
                    invalid(new, vec![FieldError::invalid("spec.clusterIPs", shown, why)])
                })?;
            }
        }
        if let Some(ip) = ips.first() {
            new.set(&["spec", "clusterIP"], ip.as_str());
            new.set(&["spec", "clusterIPs"], families::list(ips.iter().map(String::as_str)));
        }
        Ok(())
    }

    async fn any(&mut self, family: Family) -> Result<IpAddr, Status> {
        let pool = &self.network.addresses;
        let ip = if self.dry_run { pool.look_next(family) } else { pool.take_next(&self.owner, family).await };
        let ip = ip.map_err(|error| Status::internal_error(format!("failed to allocate a serviceIP: {error}")))?;
        self.addresses.push(ip);
        Ok(ip)
    }

    async fn certain(&mut self, ip: IpAddr) -> Result<(), AddressError> {
        let pool = &self.network.addresses;
        if self.dry_run { pool.look(ip) } else { pool.take(&self.owner, ip).await }?;
        self.addresses.push(ip);
        Ok(())
    }
}

/// Ports of nodes.
impl Taken {
    async fn ports(&mut self, new: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        let involved = |service: Service<'_>| service.has_node_ports() || service.needs_health_check();
        if !involved(Service(new)) && !old.is_some_and(|old| involved(Service(old))) {
            return Ok(());
        }
        if let Some(old) = old
            && Service(new).node_ports() == Service(old).node_ports()
            && Service(new).health_check_port() == Service(old).health_check_port()
            && Service(new).has_node_ports() == Service(old).has_node_ports()
            && Service(new).ports().iter().all(|port| node_port(port) != 0)
            && Service(new).needs_health_check() == Service(old).needs_health_check()
        {
            return Ok(());
        }
        let plan = |ports: &mut PortChange| {
            let mut service = new.clone();
            match old {
                None => create_ports(&mut service, ports)?,
                Some(old) => update_ports(&mut service, Service(old), ports)?,
            }
            Ok(service)
        };
        let (service, change) = self.network.ports.change(self.dry_run, plan).await?;
        *new = service;
        self.ports = change.taken;
        self.old_ports = change.released;
        Ok(())
    }
}

fn refused(service: &Value, index: usize, port: i64, error: &PortError) -> Status {
    let field = format!("spec.ports[{index}].nodePort");
    invalid(service, vec![FieldError::invalid(field, port, error.to_string())])
}

fn any_port(ports: &mut PortChange) -> Result<i64, Status> {
    ports.take_next().map_err(|error| Status::internal_error(format!("failed to allocate a nodePort: {error}")))
}

fn set_node_port(service: &mut Value, index: usize, port: i64) {
    let ports = service.at_mut(&["spec", "ports"]).as_array_mut();
    if let Some(item) = ports.and_then(|ports| ports.get_mut(index)) {
        item.set(&["nodePort"], port);
    }
}

/// Node ports of a new service. Ports of the same number, of different protocols, share one.
fn create_ports(service: &mut Value, ports: &mut PortChange) -> Result<(), Status> {
    if Service(service).has_node_ports() {
        let mut shared: HashMap<i64, i64> = HashMap::new();
        let all = Service(service).ports().to_vec();
        let number = |port: &Value| port.get("port").and_then(Value::as_i64).unwrap_or(0);
        // A later port of the same number may ask for a certain one: the first that does.
        let mut wanted: HashMap<i64, i64> = HashMap::new();
        for port in all.iter().filter(|port| node_port(port) != 0) {
            wanted.entry(number(port)).or_insert(node_port(port));
        }
        for (i, port) in all.iter().enumerate() {
            let asked = node_port(port);
            if asked == 0 && !Service(service).wants_node_ports() {
                continue;
            }
            let known = shared.get(&number(port)).copied();
            let node = match known {
                Some(node) if asked == 0 || asked == node => node,
                Some(_) => {
                    ports.take(asked).map_err(|error| refused(service, i, asked, &error))?;
                    asked
                }
                None => {
                    let node = match wanted.get(&number(port)).copied() {
                        Some(node) => {
                            ports.take(node).map_err(|error| refused(service, i, node, &error))?;
                            node
                        }
                        None => any_port(ports)?,
                    };
                    shared.insert(number(port), node);
                    node
                }
            };
            set_node_port(service, i, node);
        }
    }
    if Service(service).needs_health_check() {
        take_health_check_port(service, ports)?;
    }
    Ok(())
}

fn take_health_check_port(service: &mut Value, ports: &mut PortChange) -> Result<(), Status> {
    let asked = Service(service).health_check_port();
    if asked != 0 {
        return ports.take(asked).map_err(|error| {
            Status::internal_error(format!("failed to allocate requested HealthCheck NodePort {asked}: {error}"))
        });
    }
    let port = ports
        .take_next()
        .map_err(|error| Status::internal_error(format!("failed to allocate a HealthCheck NodePort 0: {error}")))?;
    service.set(&["spec", "healthCheckNodePort"], port);
    Ok(())
}

fn update_ports(service: &mut Value, old: Service<'_>, ports: &mut PortChange) -> Result<(), Status> {
    if old.has_node_ports() && matches!(Service(service).kind(), "ExternalName" | "ClusterIP") {
        old.node_ports().into_iter().for_each(|port| ports.release(port));
    }
    if Service(service).has_node_ports() {
        change_ports(service, old, ports)?;
    }
    match (old.needs_health_check(), Service(service).needs_health_check()) {
        (false, true) => take_health_check_port(service, ports)?,
        (true, false) => ports.release(old.health_check_port()),
        _ => {}
    }
    Ok(())
}

fn change_ports(service: &mut Value, old: Service<'_>, ports: &mut PortChange) -> Result<(), Status> {
    let before: HashSet<i64> = old.node_ports().into_iter().collect();
    let mut seen: HashSet<(String, i64)> = HashSet::new();
    let mut taken: HashSet<i64> = HashSet::new();
    for (i, port) in Service(service).ports().to_vec().iter().enumerate() {
        let asked = node_port(port);
        if asked == 0 && !Service(service).wants_node_ports() {
            continue;
        }
        let node = if asked == 0 { any_port(ports)? } else { asked };
        if asked != 0 && !before.contains(&asked) && !taken.contains(&asked) {
            ports.take(asked).map_err(|error| refused(service, i, asked, &error))?;
            taken.insert(asked);
        }
        set_node_port(service, i, node);
        let protocol = port.str_at(&["protocol"]).unwrap_or_default().to_owned();
        if !seen.insert((protocol.clone(), node)) {
            return Err(Status::unknown_error(format!("duplicate nodePort: {{{protocol} {node}}}")));
        }
    }
    let now: HashSet<i64> = Service(service).node_ports().into_iter().collect();
    old.node_ports().into_iter().filter(|port| !now.contains(port)).for_each(|port| ports.release(port));
    Ok(())
}
