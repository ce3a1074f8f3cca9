//! The ports of endpoints: pods in which a service's ports are the same make a group, and so do slices.

use std::collections::HashMap;

use machinery::{Map, Str, Value, object};

use super::{go_hash, pod::Pod, service::Service, text};

/// What slices are grouped by.
pub(super) type PortKey = String;

/// Puts ports into the order in which they are written, and tells their group.
pub(super) fn order(ports: &mut [Value]) -> PortKey {
    ports.sort_by_cached_key(|port| go_hash::hash(&go_hash::slice_port(port)));
    ports.iter().map(go_hash::slice_port).collect::<Vec<_>>().join("\n")
}

/// The ports of all groups of a service together are so many at most: with named ports each pod may have others.
const MAX_PORTS: usize = 100_000;

/// Something of each group of pods, in the order in which they are met.
pub(super) struct Groups<T> {
    /// The number that each port of the service has there; none where it has none.
    known: HashMap<Vec<Option<i64>>, usize>,
    groups: Vec<T>,
    ports: usize,
}

impl<T> Default for Groups<T> {
    fn default() -> Self {
        Groups { known: HashMap::new(), groups: Vec::new(), ports: 0 }
    }
}

impl<T: Default> Groups<T> {
    /// That of a pod's group; none if there would be too many ports.
    pub(super) fn of(&mut self, service: &Service, pod: &Pod) -> Option<&mut T> {
        let numbers = pod.ports(service);
        let at = match self.known.get(&numbers) {
            Some(at) => *at,
            None => {
                self.ports += numbers.len();
                if self.ports > MAX_PORTS {
                    return None;
                }
                self.groups.push(T::default());
                self.known.insert(numbers, self.groups.len() - 1);
                self.groups.len() - 1
            }
        };
        self.groups.get_mut(at)
    }

    /// Each with the numbers of its ports.
    pub(super) fn all(self) -> impl Iterator<Item = (Vec<Option<i64>>, T)> {
        let mut numbers: Vec<Vec<Option<i64>>> = self.groups.iter().map(|_| Vec::new()).collect();
        self.known.into_iter().for_each(|(of, at)| numbers[at] = of);
        numbers.into_iter().zip(self.groups)
    }
}

/// The ports of slices of a group of pods.
pub(super) fn of_slice(service: &Service, numbers: &[Option<i64>]) -> Vec<Value> {
    let port = |(port, number): (&Value, &Option<i64>)| {
        Some(slice_port(text(port, &["name"]), (*number)?, text(port, &["protocol"]), port.get("appProtocol")))
    };
    service.ports().iter().zip(numbers).filter_map(port).collect()
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
