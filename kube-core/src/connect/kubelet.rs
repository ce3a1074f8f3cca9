//! Finds the address of a node's kubelet.

use std::sync::Arc;

use generic_server::registry::Lister;
use machinery::{
    Str, Value,
    meta::{gvk::GroupResource, status::Status},
};
use outbound::HttpsClient;

use super::target::authority;

/// The port that kubelets listen on, where a node does not say another one.
const PORT: i64 = 10250;

/// How to find kubelets, and how to talk to them.
pub(super) struct Kubelets {
    pub(super) nodes: Arc<Lister>,
    pub(super) client: HttpsClient,
    /// For clients that ask not to check the kubelet's certificate.
    pub(super) unchecked: HttpsClient,
    pub(super) address_types: Vec<Str>,
}

/// A kubelet's address.
#[derive(Debug, PartialEq)]
pub(super) struct Kubelet {
    pub(super) host: String,
    pub(super) port: String,
    /// It says that it speaks WebSocket as this server would (the feature ExtendWebSocketsToKubelet).
    pub(super) has_websockets: bool,
}

impl Kubelet {
    /// Host and port, as in a URL.
    pub(super) fn authority(&self) -> String {
        authority(&self.host, &self.port)
    }
}

impl Kubelets {
    /// The kubelet of a node, for a request about this resource.
    ///
    /// # Errors
    /// 404 if there is no such node, as if it were one of the resource: upstream names what the request is about. 500 if it
    /// has no address.
    pub(super) async fn find(&self, node: &str, resource: &GroupResource) -> Result<Kubelet, Status> {
        let node = match self.nodes.get_value("", node).await {
            Err(status) if status.is_not_found() => return Err(Status::not_found(resource, node)),
            found => found?,
        };
        let host = self.host(&node)?.to_owned();
        let port = node.at(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"]).and_then(Value::as_i64);
        let port = port.filter(|port| *port > 0).unwrap_or(PORT);
        let declared = node.at(&["status", "declaredFeatures"]).and_then(Value::as_array).unwrap_or_default();
        let has_websockets = declared.iter().any(|feature| feature.as_str() == Some("ExtendWebSocketsToKubelet"));
        Ok(Kubelet { host, port: port.to_string(), has_websockets })
    }

    fn host<'a>(&self, node: &'a Value) -> Result<&'a str, Status> {
        preferred(node, &self.address_types).map_err(Status::unknown_error)
    }
}

/// The best of a node's addresses.
fn preferred<'a>(node: &'a Value, types: &[Str]) -> Result<&'a str, String> {
    let addresses = node.at(&["status", "addresses"]).and_then(Value::as_array).unwrap_or_default();
    let part = |address: &'a Value, key: &str| address.str_at(&[key]).unwrap_or_default();
    types
        .iter()
        .find_map(|kind| addresses.iter().find(|address| part(address, "type") == *kind))
        .map(|address| part(address, "address"))
        .ok_or_else(|| {
            let known: Vec<String> =
                addresses.iter().map(|a| format!("{{{} {}}}", part(a, "type"), part(a, "address"))).collect();
            format!("no preferred addresses found; known addresses: [{}]", known.join(" "))
        })
}

#[cfg(test)]
mod tests {
    use machinery::{array, object};

    use super::*;

    #[test]
    fn the_types_say_which_address_is_best() {
        let address = |kind: &str, address: &str| object! { "type" => kind, "address" => address };
        let addresses = array![address("InternalIP", "192.0.2.1"), address("Hostname", "n")];
        let node = object! { "status" => object! { "addresses" => addresses } };
        let types = |types: &[&'static str]| types.iter().copied().map(Str::new_static).collect::<Vec<_>>();
        assert_eq!(preferred(&node, &types(&["Hostname", "InternalIP"])), Ok("n"));
        assert_eq!(preferred(&node, &types(&["ExternalIP", "InternalIP"])), Ok("192.0.2.1"));
        let none = "no preferred addresses found; known addresses: [{InternalIP 192.0.2.1} {Hostname n}]";
        assert_eq!(preferred(&node, &types(&["ExternalDNS"])), Err(none.to_owned()));
    }
}
