//! An EndpointSlice while it is being computed, and the endpoints that are still to be placed.

use std::collections::HashMap;

use machinery::{
    Map, Str, Value,
    meta::{Meta, MetaMut, names},
    object,
};

use crate::endpoints::{TRIGGER_TIME, items, text};

pub(in crate::endpoints) const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub(in crate::endpoints) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// A slice, apart from its endpoints.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::endpoints) struct Slice {
    pub(in crate::endpoints) object: Value,
    pub(in crate::endpoints) endpoints: Vec<Value>,
}

impl Slice {
    /// One that is there.
    pub(in crate::endpoints) fn read(mut object: Value) -> Self {
        let endpoints = object.remove_at(&["endpoints"]);
        let endpoints = endpoints.as_ref().and_then(Value::as_array).unwrap_or_default().to_vec();
        Slice { object, endpoints }
    }

    /// One that is to be made.
    pub(in crate::endpoints) fn new(metadata: Value, address_type: &str, ports: Vec<Value>) -> Self {
        let object = object! {
            "kind" => "EndpointSlice", "apiVersion" => "discovery.k8s.io/v1",
            "metadata" => metadata, "addressType" => address_type, "ports" => ports,
        };
        Slice { object, endpoints: Vec::new() }
    }

    pub(in crate::endpoints) fn meta(&self) -> Meta<'_> {
        Meta::of(&self.object)
    }

    /// Empty if it is to be made.
    pub(in crate::endpoints) fn name(&self) -> &str {
        self.meta().name()
    }

    pub(in crate::endpoints) fn address_type(&self) -> &str {
        text(&self.object, &["addressType"])
    }

    pub(in crate::endpoints) fn ports(&self) -> &[Value] {
        items(&self.object, &["ports"])
    }

    pub(in crate::endpoints) fn set_labels(&mut self, labels: Map) {
        self.object.set(&["metadata", "labels"], labels);
    }

    /// Makes it the next state of a slice that would go.
    pub(in crate::endpoints) fn replace(&mut self, name: &str) {
        MetaMut::of(&mut self.object).set_name(name);
    }

    pub(super) fn set_trigger_time(&mut self, time: Option<&str>) {
        let mut meta = MetaMut::of(&mut self.object);
        match time {
            Some(time) => meta.set_annotation(TRIGGER_TIME, time),
            None => drop(meta.remove_annotation(TRIGGER_TIME)),
        }
    }

    /// What is sent.
    pub(in crate::endpoints) fn body(&self) -> Value {
        let mut body = self.object.clone();
        body.set(&["endpoints"], Value::from(self.endpoints.clone()));
        body
    }
}

/// The metadata of a new slice.
pub(in crate::endpoints) fn metadata(owner: (&str, Meta<'_>), labels: Map) -> Value {
    let (kind, meta) = owner;
    let reference = object! {
        "apiVersion" => "v1", "kind" => kind, "name" => meta.name(), "uid" => meta.uid(),
        "controller" => true, "blockOwnerDeletion" => true,
    };
    object! {
        "generateName" => prefix(meta.name()), "namespace" => meta.namespace(), "labels" => labels,
        "ownerReferences" => vec![reference],
    }
}

/// What the names of a service's slices begin with.
fn prefix(name: &str) -> String {
    let prefix = format!("{name}-");
    if names::name_is_dns_subdomain(&prefix, true).is_empty() { prefix } else { name.to_owned() }
}

/// Which endpoint it is, whatever its state.
fn key(endpoint: &Value) -> String {
    let mut addresses: Vec<&str> = items(endpoint, &["addresses"]).iter().filter_map(Value::as_str).collect();
    addresses.sort_unstable();
    let of = |path: &[&str]| text(endpoint, path);
    let (hostname, target) = (of(&["hostname"]), [of(&["targetRef", "namespace"]), of(&["targetRef", "name"])]);
    format!("{}\n{hostname}\n{}\n{}", addresses.join(","), target[0], target[1])
}

/// Whether two states of an endpoint are the same. Hints are looked at later, the versions of pods never.
pub(in crate::endpoints) fn same_state(a: &Value, b: &Value) -> bool {
    let equal = |path: &[&str]| {
        let of = |endpoint: &'_ Value| endpoint.at(path).filter(|value| !value.is_null()).cloned();
        of(a) == of(b)
    };
    let target = |endpoint: &Value| {
        let mut target = endpoint.get("targetRef").cloned().unwrap_or_default();
        target.remove_at(&["resourceVersion"]);
        target
    };
    let conditions = ["ready", "serving", "terminating"];
    equal(&["nodeName"])
        && equal(&["zone"])
        && conditions.iter().all(|condition| equal(&["conditions", condition]))
        && target(a).semantic_eq(&target(b))
}

/// Whether an endpoint is ready.
pub(super) fn is_ready(endpoint: &Value) -> bool {
    endpoint.at(&["conditions", "ready"]).and_then(Value::as_bool) == Some(true)
}

/// The endpoints that should be there and have no place yet, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(in crate::endpoints) struct Desired {
    endpoints: Vec<Option<Value>>,
    known: HashMap<String, usize>,
    left: usize,
    next: usize,
}

impl Desired {
    /// Adds one; of those that are the same one the last counts.
    pub(in crate::endpoints) fn insert(&mut self, endpoint: Value) {
        let key = key(&endpoint);
        match self.known.get(&key) {
            Some(at) => self.endpoints[*at] = Some(endpoint),
            None => {
                self.known.insert(key, self.endpoints.len());
                self.endpoints.push(Some(endpoint));
                self.left += 1;
            }
        }
    }

    pub(in crate::endpoints) fn len(&self) -> usize {
        self.left
    }

    /// The state that an endpoint should have.
    pub(in crate::endpoints) fn get(&self, endpoint: &Value) -> Option<&Value> {
        self.endpoints[*self.known.get(&key(endpoint))?].as_ref()
    }

    /// Takes the one that an endpoint should be.
    pub(super) fn take(&mut self, endpoint: &Value) -> Option<Value> {
        let taken = self.endpoints[*self.known.get(&key(endpoint))?].take();
        self.left -= usize::from(taken.is_some());
        taken
    }

    /// Moves as many into a slice as there is room for.
    pub(in crate::endpoints) fn fill(&mut self, slice: &mut Slice, max: usize) {
        while slice.endpoints.len() < max && self.next < self.endpoints.len() {
            if let Some(endpoint) = self.endpoints[self.next].take() {
                self.left -= 1;
                slice.endpoints.push(endpoint);
            }
            self.next += 1;
        }
    }
}

/// The labels of what a controller makes for something, and whether those that a slice has are others.
pub(super) fn labels(slice: Option<Meta<'_>>, service: Meta<'_>, has_ip: bool, manager: &str) -> (Map, bool) {
    let is_ours = |key: &str| matches!(key, SERVICE_NAME | MANAGED_BY | crate::endpoints::HEADLESS);
    let foreign = |meta: Meta<'_>| {
        let mut labels = meta.labels().cloned().unwrap_or_default();
        labels.retain(|key, _| !is_ours(key));
        labels
    };
    let mut labels = foreign(service);
    let differ = slice.is_some_and(|slice| foreign(slice) != labels);
    if !has_ip {
        labels.insert(Str::new_static(crate::endpoints::HEADLESS), "");
    }
    labels.insert(Str::new_static(SERVICE_NAME), service.name());
    labels.insert(Str::new_static(MANAGED_BY), manager);
    (labels, differ)
}
