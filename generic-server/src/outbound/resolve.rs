//! Where a service is: its endpoints, its cluster IP, or the host that it stands for.

use std::sync::{Arc, OnceLock};

use machinery::{Str, Value, codec::json};
use storage::cache::Cache;

/// A service, as those name it who want to be reached through it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceRef {
    /// Its namespace.
    pub namespace: Str,
    /// Its name.
    pub name: Str,
    /// The port of the service.
    pub port: u16,
}

impl ServiceRef {
    /// The name that the server's certificate must have.
    pub fn server_name(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }
}

/// Why a service cannot be reached, as the condition `Available` says it.
#[derive(Clone, Debug, PartialEq)]
pub struct Unavailable {
    /// A word for programs.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
}

/// Finds services as soon as there are caches to find them in.
#[derive(Default)]
pub struct Services(OnceLock<Arc<Resolver>>);

impl Services {
    /// Says where services are found. Said once, at start.
    pub fn set(&self, resolver: Arc<Resolver>) {
        let _ = self.0.set(resolver); // a second one would be of the same caches
    }

    /// Host and port to dial.
    pub fn resolve(&self, service: &ServiceRef) -> Result<(String, u16), Unavailable> {
        let unknown = || Unavailable { reason: "ServiceNotFound", message: "services are not known yet".to_owned() };
        self.0.get().ok_or_else(unknown)?.resolve(service)
    }
}

/// Finds services in the caches of this server.
pub struct Resolver {
    /// The services.
    pub services: Arc<Cache>,
    /// What the keys of services start with.
    pub service_prefix: Str,
    /// The endpoint slices.
    pub slices: Arc<Cache>,
    /// What the keys of endpoint slices start with.
    pub slice_prefix: Str,
    /// Whether endpoints are dialled, rather than the cluster IP.
    pub to_endpoints: bool,
}

impl Resolver {
    /// Host and port to dial.
    pub fn resolve(&self, service: &ServiceRef) -> Result<(String, u16), Unavailable> {
        let ServiceRef { namespace, name, port } = service;
        let key = format!("{}{namespace}/{name}", self.service_prefix);
        let found = self.services.latest().get(&key).and_then(|e| e.object().cloned());
        let found = found.and_then(|o| json::decode(o.bytes()).ok()).ok_or_else(|| Unavailable {
            reason: "ServiceNotFound",
            message: format!("service/{name} in {namespace:?} is not present"),
        })?;
        if found.str_at(&["spec", "type"]) == Some("ExternalName") {
            return Ok((found.str_at(&["spec", "externalName"]).unwrap_or("").to_owned(), *port));
        }
        let ports = found.at(&["spec", "ports"]).and_then(Value::as_array).unwrap_or_default();
        let matching = ports.iter().find(|p| p.get("port").and_then(Value::as_i64) == Some(i64::from(*port)));
        let port_name = matching.ok_or_else(|| Unavailable {
            reason: "ServicePortError",
            message: format!("service/{name} in {namespace:?} is not listening on port {port}"),
        })?;
        let port_name = port_name.str_at(&["name"]).unwrap_or("");
        let endpoint = self.endpoint(service, port_name)?;
        let cluster_ip = found.str_at(&["spec", "clusterIP"]).unwrap_or("");
        if self.to_endpoints || matches!(cluster_ip, "" | "None") {
            return Ok(endpoint);
        }
        Ok((cluster_ip.to_owned(), *port))
    }

    /// A ready endpoint of the service.
    fn endpoint(&self, service: &ServiceRef, port_name: &str) -> Result<(String, u16), Unavailable> {
        let ServiceRef { namespace, name, .. } = service;
        let snapshot = self.slices.latest();
        let prefix = format!("{}{namespace}/", self.slice_prefix);
        let mut any = false;
        let slices = snapshot
            .range(&prefix, None)
            .filter_map(|e| e.object())
            .filter(|o| o.labels().get("kubernetes.io/service-name") == Some(name));
        for slice in slices {
            any = true;
            let Ok(slice) = json::decode(slice.bytes()) else { continue };
            let ports = slice.get("ports").and_then(Value::as_array).unwrap_or_default();
            let port = ports.iter().find(|p| p.str_at(&["name"]).unwrap_or("") == port_name);
            let Some(port) = port.and_then(|p| p.get("port")).and_then(Value::as_i64) else { continue };
            let ready = |e: &&Value| e.at(&["conditions", "ready"]).and_then(Value::as_bool).unwrap_or(true);
            let endpoints = slice.get("endpoints").and_then(Value::as_array).unwrap_or_default();
            let address = endpoints
                .iter()
                .filter(ready)
                .filter_map(|e| e.get("addresses").and_then(Value::as_array)?.first()?.as_str())
                .next();
            if let (Some(address), Ok(port)) = (address, u16::try_from(port)) {
                return Ok((address.to_owned(), port));
            }
        }
        if !any {
            return Err(Unavailable {
                reason: "EndpointsNotFound",
                message: format!("cannot find endpointslices for service/{name} in {namespace:?}"),
            });
        }
        Err(Unavailable {
            reason: "MissingEndpoints",
            message: format!(
                "endpointslices for service/{name} in {namespace:?} have no addresses with port name {port_name:?}"
            ),
        })
    }
}
