//! The service `kubernetes` in the namespace `default`: this server and its like, as pods reach them.

use std::{net::IpAddr, sync::Arc, time::Duration};

use generic_server::{
    registry::{Backing, Registry},
    tasks::{Task, TaskResult},
};
use machinery::{
    Value, array,
    meta::ip::{Cidr, Family, family},
    object,
};

use super::{NetworkSettings, Reconciler, api_servers::ApiServers, range::Usable};

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";
const HTTPS: i64 = 443;
/// How often a server says that it runs.
const PERIOD: Duration = Duration::from_secs(10);

/// What is written about the service.
#[derive(Clone)]
pub(super) struct Published {
    pub(super) services: Arc<Registry>,
    pub(super) endpoints: Arc<Registry>,
    pub(super) slices: Arc<Registry>,
}

/// Keeps the service and its endpoints.
pub(super) fn task(published: Published, backing: &Backing, settings: NetworkSettings) -> Task {
    let servers = Arc::new(ApiServers::new(backing));
    let task = Task::new("bootstrap-controller", move |cx| {
        let (published, servers, settings) = (published.clone(), servers.clone(), settings.clone());
        async move {
            for registry in [&published.services, &published.endpoints, &published.slices] {
                registry.cache().ready().await?;
            }
            loop {
                published.keep(&servers, &settings).await?;
                cx.ready();
                tokio::select! {
                    () = cx.cancelled() => return published.leave(&servers, &settings).await,
                    () = tokio::time::sleep(PERIOD) => {}
                }
            }
        }
    });
    task.after("start-system-namespaces-controller").after("start-kubernetes-service-cidr-controller")
}

impl Published {
    async fn keep(&self, servers: &ApiServers, settings: &NetworkSettings) -> TaskResult {
        self.keep_service(settings).await?;
        let own = settings.address.to_string();
        let addresses = match settings.reconciler {
            Reconciler::None => return Ok(()),
            Reconciler::Lease => {
                servers.renew(settings.address).await?;
                servers.list().await?
            }
            Reconciler::MasterCount => {
                let mut known = self.known_addresses().await?;
                if !known.contains(&own) {
                    known.push(own);
                    known.sort();
                }
                known
            }
        };
        self.keep_endpoints(&addresses, settings).await
    }

    /// This server ends: its clients should go to the others.
    async fn leave(&self, servers: &ApiServers, settings: &NetworkSettings) -> TaskResult {
        let own = settings.address.to_string();
        let left = match settings.reconciler {
            Reconciler::None => return Ok(()),
            Reconciler::Lease => {
                servers.remove(settings.address).await?;
                servers.list().await?
            }
            Reconciler::MasterCount => {
                self.known_addresses().await?.into_iter().filter(|address| *address != own).collect()
            }
        };
        self.keep_endpoints(&left, settings).await
    }

    /// The addresses that the endpoints have now.
    async fn known_addresses(&self) -> Result<Vec<String>, machinery::meta::Status> {
        match self.endpoints.get_value(NAMESPACE, NAME).await {
            Ok(endpoints) => {
                let subsets = endpoints.get("subsets").and_then(Value::as_array).unwrap_or_default();
                let lists = subsets.iter().filter_map(|s| s.get("addresses")?.as_array());
                Ok(lists.flatten().filter_map(|a| a.str_at(&["ip"])).map(str::to_owned).collect())
            }
            Err(status) if status.is_not_found() => Ok(Vec::new()),
            Err(status) => Err(status),
        }
    }

    async fn keep_service(&self, settings: &NetworkSettings) -> TaskResult {
        match self.services.get_value(NAMESPACE, NAME).await {
            Ok(_) => return Ok(()),
            Err(status) if status.is_not_found() => {}
            Err(status) => return Err(status.into()),
        }
        let Some(ip) = settings.ranges.first().and_then(|range| first_address(*range)) else { return Ok(()) };
        let mut port = object! {
            "name" => "https", "port" => HTTPS, "protocol" => "TCP", "targetPort" => i64::from(settings.port),
        };
        let kind = match settings.kubernetes_node_port {
            Some(node_port) => {
                port.set(&["nodePort"], i64::from(node_port));
                "NodePort"
            }
            None => "ClusterIP",
        };
        let service = object! {
            "kind" => "Service", "apiVersion" => "v1",
            "metadata" => object! {
                "name" => NAME, "namespace" => NAMESPACE,
                "labels" => object! { "component" => "apiserver", "provider" => "kubernetes" },
            },
            "spec" => object! {
                "ports" => array![port], "clusterIP" => ip.to_string(), "sessionAffinity" => "None", "type" => kind,
                "ipFamilyPolicy" => "SingleStack",
            },
        };
        match self.services.create_as_server(service).await {
            Ok(_) => Ok(()),
            Err(status) if status.is_already_exists() => Ok(()), // another server was faster
            Err(status) => Err(status.into()),
        }
    }

    /// Writes the servers' addresses where they are not written yet.
    async fn keep_endpoints(&self, addresses: &[String], settings: &NetworkSettings) -> TaskResult {
        let of = |address: &String| object! { "ip" => address.as_str() };
        let port = object! { "name" => "https", "port" => i64::from(settings.port), "protocol" => "TCP" };
        let subsets = if addresses.is_empty() {
            Value::from(Vec::<Value>::new())
        } else {
            array![object! {
                "addresses" => addresses.iter().map(of).collect::<Vec<_>>(), "ports" => array![port.clone()],
            }]
        };
        let endpoints = object! {
            "kind" => "Endpoints", "apiVersion" => "v1",
            "metadata" => object! {
                "name" => NAME, "namespace" => NAMESPACE,
                // The slice below is made here, so nobody need make one of this.
                "labels" => object! { "endpointslice.kubernetes.io/skip-mirror" => "true" },
            },
            "subsets" => subsets,
        };
        put(&self.endpoints, endpoints, &["subsets"]).await?;
        let ready = |address: &String| {
            object! {
                "addresses" => array![address.as_str()], "conditions" => object! { "ready" => true },
            }
        };
        let slice = object! {
            "kind" => "EndpointSlice", "apiVersion" => "discovery.k8s.io/v1",
            "metadata" => object! {
                "name" => NAME, "namespace" => NAMESPACE,
                "labels" => object! { "kubernetes.io/service-name" => NAME },
            },
            "addressType" => if family(settings.address) == Family::V4 { "IPv4" } else { "IPv6" },
            "endpoints" => addresses.iter().map(ready).collect::<Vec<_>>(),
            "ports" => array![port],
        };
        put(&self.slices, slice, &["endpoints", "ports"]).await
    }
}

/// Makes the object, or brings these members and its labels into line.
async fn put(registry: &Arc<Registry>, wanted: Value, members: &[&str]) -> TaskResult {
    let current = match registry.get_value(NAMESPACE, NAME).await {
        Ok(current) => current,
        Err(status) if status.is_not_found() => {
            return match registry.create_as_server(wanted).await {
                Err(status) if !status.is_already_exists() => Err(status.into()),
                _ => Ok(()),
            };
        }
        Err(status) => return Err(status.into()),
    };
    let same = |member: &&str| {
        let (now, then) = (current.get(member).unwrap_or(&Value::Null), wanted.get(member).unwrap_or(&Value::Null));
        now.semantic_eq(then)
    };
    let labels = wanted.at(&["metadata", "labels"]).and_then(Value::as_object).cloned().unwrap_or_default();
    let labelled = labels.iter().all(|(k, v)| current.at(&["metadata", "labels", k]) == Some(v));
    if labelled && members.iter().all(same) {
        return Ok(());
    }
    let edit = |current: &Value| {
        let mut new = current.clone();
        for member in members {
            new.set(&[member], wanted.get(member).cloned().unwrap_or_default());
        }
        for (key, value) in &labels {
            new.set(&["metadata", "labels", key], value.clone());
        }
        Ok(new)
    };
    registry.edit(NAMESPACE, NAME, "", edit).await?;
    Ok(())
}

/// The first address of a network that a service can have.
fn first_address(range: Cidr) -> Option<IpAddr> {
    let next = match range.network() {
        IpAddr::V4(v4) => IpAddr::from(std::net::Ipv4Addr::from_bits(v4.to_bits().checked_add(1)?)),
        IpAddr::V6(v6) => IpAddr::from(std::net::Ipv6Addr::from_bits(v6.to_bits().checked_add(1)?)),
    };
    Usable::of(range).is_some_and(|usable| usable.contains(next)).then_some(next)
}
