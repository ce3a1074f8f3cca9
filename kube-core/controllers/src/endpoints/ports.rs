//! The ports of EndpointSlices: slices with the same ports make a group.

use machinery::{Map, Str, Value, object};

use super::{go_hash, pod::Pod, service::Service, text};

/// What slices are grouped by.
pub(super) type PortKey = String;

/// Puts ports into the order in which they are written, and tells their group.
pub(super) fn order(ports: &mut [Value]) -> PortKey {
    ports.sort_by_cached_key(|port| go_hash::hash(&go_hash::slice_port(port)));
    ports.iter().map(go_hash::slice_port).collect::<Vec<_>>().join("\n")
}

/// The ports of a pod's endpoint in a service.
pub(super) fn of_pod(service: &Service, pod: &Pod) -> Vec<Value> {
    let port = |port: &Value| {
        let number = pod.port(port)?;
        Some(slice_port(text(port, &["name"]), number, text(port, &["protocol"]), port.get("appProtocol")))
    };
    service.ports().iter().filter_map(port).collect()
}

/// A port of a slice.
pub(super) fn slice_port(name: &str, number: i64, protocol: &str, app: Option<&Value>) -> Value {
    with_app(object! { "name" => name, "port" => number, "protocol" => protocol }, app)
}

/// A port of Endpoints.
pub(super) fn endpoint_port(port: &Value, number: i64) -> Value {
    let mut members = Map::new();
    if let Some(name) = port.get("name").filter(|name| name.as_str().is_some_and(|name| !name.is_empty())) {
        members.insert(Str::new_static("name"), name.clone());
    }
    members.insert(Str::new_static("port"), number);
    members.insert(Str::new_static("protocol"), text(port, &["protocol"]));
    with_app(members.into(), port.get("appProtocol"))
}

fn with_app(mut port: Value, app: Option<&Value>) -> Value {
    if let Some(app) = app.filter(|app| !app.is_null()) {
        port.set(&["appProtocol"], app.clone());
    }
    port
}
