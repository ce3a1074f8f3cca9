//! The map of node ports, made anew from the services at the start and from time to time.

use std::{collections::HashMap, sync::Arc};

use generic_server::{
    registry::Registry,
    tasks::{Task, TaskResult},
};
use prometheus::IntCounter;

use super::{PERIOD, all, complaints::Complaints};
use crate::{
    service_network::service::Service,
    service_network::{Network, PortError},
};

/// How often in a row a port must be found without a service.
const ROUNDS: u32 = 3;

/// Keeps the node ports right.
pub(in crate::service_network) fn task(
    network: Arc<Network>,
    services: Arc<Registry>,
    events: Arc<Registry>,
    metrics: &prometheus::Registry,
) -> Task {
    let failures = "apiserver_nodeport_repair_reconcile_errors_total";
    let failures = IntCounter::new(failures, "Times that the map of node ports could not be made anew.");
    let failures = failures.expect("constant names are valid");
    metrics.register(Box::new(failures.clone())).expect("the name is registered once");
    Task::new("start-service-node-port-repair-controllers", move |cx| {
        let (network, services, events) = (network.clone(), services.clone(), events.clone());
        let failures = failures.clone();
        async move {
            services.cache().ready().await?;
            let mut leaked = HashMap::new();
            let mut complaints = Complaints::new(events, "portallocator-repair-controller");
            loop {
                let repaired = repair(&network, &services, &mut leaked, &mut complaints).await;
                repaired.inspect_err(|_| failures.inc())?;
                cx.ready();
                tokio::select! {
                    () = cx.cancelled() => return Ok(()),
                    () = tokio::time::sleep(PERIOD) => {}
                }
            }
        }
    })
}

async fn repair(
    network: &Network,
    services: &Registry,
    leaked: &mut HashMap<i64, u32>,
    complaints: &mut Complaints,
) -> TaskResult {
    const ACTION: &str = "PortAllocation";
    let stored = network.ports.taken().await?;
    let mut held = network.ports.empty();
    for service in all(services) {
        // One port may serve several protocols of one service: it is named once here.
        for port in Service(&service).held_ports() {
            let (reason, note) = match held.take(port) {
                Ok(()) if stored.has(port) => continue,
                Ok(()) => ("PortNotAllocated", format!("Port {port} is not allocated; repairing")),
                Err(PortError::Taken) => (
                    "PortAlreadyAllocated",
                    format!("Port {port} was assigned to multiple services; please recreate service"),
                ),
                Err(PortError::Outside(first, last)) => (
                    "PortOutOfRange",
                    format!("Port {port} is not within the port range {first}-{last}; please recreate service"),
                ),
                Err(PortError::Full) => continue, // of a certain port nobody says so
            };
            complaints.make(&service, (reason, ACTION), note).await;
        }
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
