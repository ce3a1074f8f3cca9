//! Brings the pools into line with the services there are: what was leaked comes back, what is missing is noted.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use generic_server::{
    registry::Registry,
    tasks::{Task, TaskResult},
};
use machinery::{
    Value,
    meta::{TimeForm, Timestamp, ip::parse_sloppy},
};

use super::{AddressError, Network, Owner, addresses::MANAGED_BY_LABEL};
use crate::core::services::Service;

/// How often the pools are looked at.
const PERIOD: Duration = Duration::from_secs(3 * 60);
/// How old an address without a service must be: its service may be about to be written.
const GRACE_SECONDS: i64 = 60;
/// How often in a row a port must be found without a service.
const ROUNDS: u32 = 3;

/// Keeps the addresses right.
pub(super) fn addresses(network: Arc<Network>, services: Arc<Registry>) -> Task {
    let task = Task::new("start-service-ip-repair-controllers", move |cx| {
        let (network, services) = (network.clone(), services.clone());
        async move {
            services.cache().ready().await?;
            network.addresses.objects().cache().ready().await?;
            loop {
                repair_addresses(&network, &services).await?;
                cx.ready();
                tokio::select! {
                    () = cx.cancelled() => return Ok(()),
                    () = tokio::time::sleep(PERIOD) => {}
                }
            }
        }
    });
    task.after("start-kubernetes-service-cidr-controller")
}

/// Keeps the node ports right.
pub(super) fn ports(network: Arc<Network>, services: Arc<Registry>) -> Task {
    Task::new("start-service-node-port-repair-controllers", move |cx| {
        let (network, services) = (network.clone(), services.clone());
        async move {
            services.cache().ready().await?;
            let mut leaked = HashMap::new();
            loop {
                repair_ports(&network, &services, &mut leaked).await?;
                cx.ready();
                tokio::select! {
                    () = cx.cancelled() => return Ok(()),
                    () = tokio::time::sleep(PERIOD) => {}
                }
            }
        }
    })
}

/// Every object of a registry that can be read.
fn all(registry: &Registry) -> impl Iterator<Item = Value> {
    let snapshot = registry.cache().latest();
    let found = snapshot.range(registry.prefix(), None).filter_map(|e| e.object().cloned());
    found.filter_map(|o| registry.decode(o.bytes()).ok()).collect::<Vec<_>>().into_iter()
}

async fn repair_addresses(network: &Network, services: &Registry) -> TaskResult {
    let objects = network.addresses.objects();
    let mut held: HashSet<(String, String, IpAddr)> = HashSet::new();
    for service in all(services) {
        let owner = Owner::of(&service);
        for ip in Service(&service).addresses() {
            held.insert((owner.namespace.clone(), owner.name.clone(), ip));
        }
    }
    for (namespace, name, ip) in &held {
        let owner = Owner { namespace: namespace.clone(), name: name.clone() };
        let found = objects.get_value("", &ip.to_string()).await;
        match found {
            Ok(object) if owner.has(&object) => continue,
            Ok(object) => {
                let part = |key| object.str_at(&["spec", "parentRef", key]).unwrap_or_default().to_owned();
                if held.contains(&(part("namespace"), part("name"), *ip)) && part("resource") == "services" {
                    tracing::warn!(%ip, namespace, name, "the address of a service is another service's");
                    continue;
                }
                objects.delete_as_server("", &ip.to_string()).await?;
            }
            Err(status) if status.is_not_found() => {}
            Err(status) => return Err(status.into()),
        }
        match network.addresses.note(&owner, *ip).await {
            Ok(()) => tracing::info!(%ip, namespace, name, "the address of a service was not noted, and is now"),
            Err(AddressError::Taken) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let now = Timestamp::now().seconds();
    for object in all(objects).filter(|o| is_ours(o) && age(o, now) > GRACE_SECONDS) {
        let name = object.str_at(&["metadata", "name"]).unwrap_or_default();
        let part = |key| object.str_at(&["spec", "parentRef", key]).unwrap_or_default().to_owned();
        let is_held = parse_sloppy(name).is_some_and(|ip| held.contains(&(part("namespace"), part("name"), ip)));
        // The services were read before; one that has come since holds its address rightly.
        let service = services.get_value(&part("namespace"), &part("name")).await;
        let holds = |service: &Value| Service(service).addresses().any(|ip| Some(ip) == parse_sloppy(name));
        if is_held || service.as_ref().is_ok_and(holds) {
            continue;
        }
        match objects.delete_as_server("", name).await {
            Ok(_) => tracing::info!(ip = name, "an address that no service has is free again"),
            Err(status) if status.is_not_found() => {}
            Err(status) => return Err(status.into()),
        }
    }
    Ok(())
}

/// Whether an address was given out for a service.
fn is_ours(address: &Value) -> bool {
    address.str_at(&["metadata", "labels", MANAGED_BY_LABEL]) == Some("ipallocator.k8s.io")
        && address.str_at(&["spec", "parentRef", "resource"]) == Some("services")
}

fn age(object: &Value, now: i64) -> i64 {
    let created = object.str_at(&["metadata", "creationTimestamp"]).unwrap_or_default();
    Timestamp::parse(created, TimeForm::Seconds).map_or(0, |t| now - t.seconds())
}

async fn repair_ports(network: &Network, services: &Registry, leaked: &mut HashMap<i64, u32>) -> TaskResult {
    let mut held = network.ports.empty();
    let mut lost = Vec::new();
    for service in all(services) {
        for port in Service(&service).held_ports() {
            if let Err(error) = held.take(port) {
                let owner = Owner::of(&service);
                lost.push((owner, port, error));
            }
        }
    }
    for (owner, port, error) in lost {
        // One port may serve several protocols of one service; then it is taken already, and rightly.
        tracing::debug!(port, namespace = owner.namespace, name = owner.name, %error, "a node port is not as it should be");
    }
    let mut next = HashMap::new();
    let result = network
        .ports
        .edit(|set| {
            next.clear();
            let mut wanted = held.clone();
            for port in set.ports() {
                // Taken and without a service: one may be on its way. It is free when this goes on for long.
                if wanted.take(port).is_ok() {
                    let rounds = leaked.get(&port).copied().unwrap_or(0) + 1;
                    if rounds >= ROUNDS {
                        wanted.give_back(port);
                    } else {
                        next.insert(port, rounds);
                    }
                }
            }
            *set = wanted;
        })
        .await;
    *leaked = next;
    Ok(result?)
}
