//! Where a service is: its endpoints, its cluster IP, or the host that it stands for.

use std::sync::Arc;

use machinery::{Str, Value, codec::json};
use storage::cache::Cache;

/// The service that an APIService names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServiceRef {
    /// Its namespace.
    pub(crate) namespace: Str,
    /// Its name.
    pub(crate) name: Str,
    /// The port that the APIService names.
    pub(crate) port: u16,
}

impl ServiceRef {
    /// The name that the server's certificate must have.
    pub(crate) fn server_name(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }
}

/// Why a service cannot be reached, as the condition `Available` says it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unavailable {
    /// A word for programs.
    pub(crate) reason: &'static str,
    /// A sentence for people.
    pub(crate) message: String,
}

/// Finds services in the caches of this server.
pub(crate) struct Resolver {
    /// The services.
    pub(crate) services: Arc<Cache>,
    /// What the keys of services start with.
    pub(crate) service_prefix: Str,
    /// The endpoint slices.
    pub(crate) slices: Arc<Cache>,
    /// What the keys of endpoint slices start with.
    pub(crate) slice_prefix: Str,
    /// Whether endpoints are dialled, rather than the cluster IP.
    pub(crate) to_endpoints: bool,
}

impl Resolver {
    /// Host and port to dial.
    pub(crate) fn resolve(&self, service: &ServiceRef) -> Result<(String, u16), Unavailable> {
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
