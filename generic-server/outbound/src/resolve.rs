//! Resolves services: endpoints, its cluster IP, or the host that it stands for.

use std::sync::Arc;

use machinery::{Str, Value, codec::json};
use storage::cache::Cache;

use crate::egress::Egress;

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

/// Why a service is not available, as the condition `Available` says it.
#[derive(Clone, Debug, PartialEq)]
pub struct Unavailable {
    /// A word for programs.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
}

/// Why there is nowhere to dial for a service. Shown, it is what upstream says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// There is no such service.
    #[error("service {0:?} not found")]
    NotFound(Str),
    /// It has no cluster IP.
    #[error("cannot route to service with ClusterIP \"None\"")]
    Headless,
    /// It does not listen on this port.
    #[error("no service port {port} found for service {name:?}")]
    NoPort {
        /// Its name.
        name: Str,
        /// The port.
        port: u16,
    },
    /// Nothing is behind it that is ready.
    #[error("no endpoints available for service {0:?}")]
    NoEndpoints(Str),
    /// It is of a type that is not dialled.
    #[error("unsupported service type {0:?}")]
    Type(String),
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
    /// Through which proxies connections leave.
    pub egress: Egress,
}

impl Resolver {
    /// Host and port to dial.
    ///
    /// # Errors
    /// There is nowhere to dial.
    pub fn resolve(&self, service: &ServiceRef) -> Result<(String, u16), ResolveError> {
        let ServiceRef { name, port, .. } = service;
        let found = self.find(service).ok_or_else(|| ResolveError::NotFound(name.clone()))?;
        let kind = found.str_at(&["spec", "type"]).unwrap_or_default();
        let no_port = || ResolveError::NoPort { name: name.clone(), port: *port };
        let listening = || service_port(&found, *port).ok_or_else(no_port);
        let cluster_ip = found.str_at(&["spec", "clusterIP"]).unwrap_or_default();
        match kind {
            "ClusterIP" if !self.to_endpoints && cluster_ip == "None" => Err(ResolveError::Headless),
            "ClusterIP" | "LoadBalancer" | "NodePort" => {
                let listening = listening()?;
                if !self.to_endpoints {
                    return Ok((cluster_ip.to_owned(), *port));
                }
                let family =
                    found.at(&["spec", "ipFamilies"]).and_then(Value::as_array).and_then(|f| f.first()?.as_str());
                let port_name = listening.str_at(&["name"]).unwrap_or_default();
                endpoint(&self.slices_of(service), port_name, family.unwrap_or_default())
                    .ok_or_else(|| ResolveError::NoEndpoints(name.clone()))
            }
            // A name is nobody's endpoint: whoever may write services must not send this server's identity anywhere.
            "ExternalName" if !self.to_endpoints => {
                Ok((found.str_at(&["spec", "externalName"]).unwrap_or_default().to_owned(), *port))
            }
            kind => Err(ResolveError::Type(kind.to_owned())),
        }
    }

    /// Whether the service is there and, if it has a cluster IP, has something behind it.
    ///
    /// # Errors
    /// What the condition `Available` says.
    pub fn check(&self, service: &ServiceRef) -> Result<(), Unavailable> {
        let ServiceRef { namespace, name, port } = service;
        let found = self.find(service).ok_or_else(|| Unavailable {
            reason: "ServiceNotFound",
            message: format!("service/{name} in {namespace:?} is not present"),
        })?;
        if found.str_at(&["spec", "type"]) != Some("ClusterIP") {
            return Ok(());
        }
        let listening = service_port(&found, *port).ok_or_else(|| Unavailable {
            reason: "ServicePortError",
            message: format!("service/{name} in {namespace:?} is not listening on port {port}"),
        })?;
        let slices = self.slices_of(service);
        if slices.is_empty() {
            return Err(Unavailable {
                reason: "EndpointsNotFound",
                message: format!("cannot find endpointslices for service/{name} in {namespace:?}"),
            });
        }
        let port_name = listening.str_at(&["name"]).unwrap_or_default();
        endpoint(&slices, port_name, "").map(|_| ()).ok_or_else(|| Unavailable {
            reason: "MissingEndpoints",
            message: format!(
                "endpointslices for service/{name} in {namespace:?} have no addresses with port name {port_name:?}"
            ),
        })
    }

    fn find(&self, service: &ServiceRef) -> Option<Value> {
        let key = format!("{}{}/{}", self.service_prefix, service.namespace, service.name);
        let found = self.services.latest().get(&key).and_then(|e| e.object().cloned());
        found.and_then(|o| json::decode(o.bytes()).ok())
    }

    fn slices_of(&self, service: &ServiceRef) -> Vec<Value> {
        let snapshot = self.slices.latest();
        let prefix = format!("{}{}/", self.slice_prefix, service.namespace);
        snapshot
            .range(&prefix, None)
            .filter_map(|e| e.object())
            .filter(|o| o.labels().get("kubernetes.io/service-name") == Some(&service.name))
            .filter_map(|o| json::decode(o.bytes()).ok())
            .collect()
    }
}

/// The port of a service with this number.
fn service_port(service: &Value, port: u16) -> Option<&Value> {
    let ports = service.at(&["spec", "ports"]).and_then(Value::as_array)?;
    ports.iter().find(|p| p.get("port").and_then(Value::as_i64) == Some(i64::from(port)))
}

/// Any ready endpoint that serves the named port; one of the service's first address family if there is one.
fn endpoint(slices: &[Value], port_name: &str, family: &str) -> Option<(String, u16)> {
    let any = uuid::Uuid::new_v4().as_u64_pair().0 as usize;
    let is_preferred = |slice: &&Value| slice.str_at(&["addressType"]) == Some(family);
    let preferred = from_any(slices, any).filter(is_preferred);
    let others = from_any(slices, any).filter(|slice| !is_preferred(slice));
    preferred.chain(others).find_map(|slice| {
        let ports = slice.get("ports").and_then(Value::as_array)?;
        let port = ports.iter().find(|p| p.str_at(&["name"]).unwrap_or_default() == port_name)?.get("port")?;
        let port = port.as_i64().and_then(|port| u16::try_from(port).ok())?;
        let is_ready = |e: &&Value| e.at(&["conditions", "ready"]).and_then(Value::as_bool).unwrap_or(true);
        let endpoints = slice.get("endpoints").and_then(Value::as_array)?;
        from_any(endpoints, any)
            .filter(is_ready)
            .find_map(|e| e.get("addresses").and_then(Value::as_array)?.first()?.as_str())
            .map(|address| (address.to_owned(), port))
    })
}

/// All items, beginning somewhere in the middle.
fn from_any(items: &[Value], any: usize) -> impl Iterator<Item = &Value> {
    let (before, after) = items.split_at(any.checked_rem(items.len()).unwrap_or_default());
    after.iter().chain(before)
}

#[cfg(test)]
mod tests {
    use machinery::{array, object};

    use super::*;

    fn slice(family: &str, port_name: &str, endpoints: Value) -> Value {
        let ports = array![object! { "name" => port_name, "port" => 8443 }];
        object! { "addressType" => family, "ports" => ports, "endpoints" => endpoints }
    }

    fn at(address: &str, ready: bool) -> Value {
        object! { "addresses" => array![address], "conditions" => object! { "ready" => ready } }
    }

    #[test]
    fn an_endpoint_is_ready_serves_the_port_and_is_of_the_first_family() {
        let slices = [
            slice("IPv6", "https", array![at("2001:db8::1", true)]),
            slice("IPv4", "https", array![at("192.0.2.1", false), at("192.0.2.2", true)]),
            slice("IPv4", "other", array![at("192.0.2.3", true)]),
        ];
        for _ in 0..20 {
            let check = |family, expect: &str| {
                assert_eq!(endpoint(&slices, "https", family), Some((expect.to_owned(), 8443)));
            };
            check("IPv4", "192.0.2.2");
            check("IPv6", "2001:db8::1");
        }
        assert_eq!(endpoint(&slices, "none", ""), None);
        assert_eq!(endpoint(&[], "https", ""), None);
    }
}
