//! Which services select a pod, without asking each of them.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use machinery::{Str, codec::json, json::scan};
use storage::cache::{Labels, Object};

use super::pod;
use crate::{objects::Key, workqueue::Queue};

/// The services that select pods. Each is found by one of the labels that it asks for.
#[derive(Default)]
pub(super) struct Selecting(Mutex<HashMap<Str, Namespace>>);

type Label = (Str, Str);

#[derive(Default)]
struct Namespace {
    services: HashMap<Str, Vec<Label>>,
    by_first: HashMap<Label, HashSet<Str>>,
}

impl Selecting {
    /// Takes note of a service that has changed.
    pub(super) fn service_changed(&self, old: Option<&Arc<Object>>, new: Option<&Arc<Object>>) {
        let Some(service) = new.or(old) else { return };
        let labels = new.map(|service| selector_of(service)).unwrap_or_default();
        self.set(service.namespace().unwrap_or_default(), service.name(), labels);
    }

    fn set(&self, namespace: &str, name: &str, labels: Vec<Label>) {
        let mut namespaces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = namespaces.entry(namespace.into()).or_default();
        if let Some(first) = known.services.remove(name).as_ref().and_then(|labels| labels.first()) {
            let names = known.by_first.get_mut(first);
            if names.is_some_and(|names| names.remove(name) && names.is_empty()) {
                known.by_first.remove(first);
            }
        }
        if let Some(first) = labels.first() {
            known.by_first.entry(first.clone()).or_default().insert(name.into());
            known.services.insert(name.into(), labels);
        } else if known.services.is_empty() {
            namespaces.remove(namespace);
        }
    }

    /// The services that select what has these labels.
    fn of(&self, namespace: &str, labels: &Labels) -> HashSet<Str> {
        let namespaces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = namespaces.get(namespace) else { return HashSet::new() };
        let candidates = labels.iter().filter_map(|(key, value)| known.by_first.get(&(key.into(), value.into())));
        let selects = |name: &&Str| {
            let mut wanted = known.services.get(*name).into_iter().flatten();
            wanted.all(|(key, value)| labels.get(key) == Some(value.as_str()))
        };
        candidates.flatten().filter(selects).cloned().collect()
    }

    /// Queues the services whose endpoints a change of a pod may change.
    pub(super) fn pod_changed(&self, old: Option<&Arc<Object>>, new: Option<&Arc<Object>>, queue: &Queue<Key>) {
        let Some(namespace) = new.or(old).and_then(|pod| pod.namespace()) else { return };
        let of = |pod: Option<&Arc<Object>>| pod.map(|pod| self.of(namespace, pod.labels())).unwrap_or_default();
        let (before, after) = (of(old), of(new));
        if before.is_empty() && after.is_empty() {
            return;
        }
        let differs = match (old, new) {
            (Some(old), Some(new)) => pod::differs(old, new),
            _ => true,
        };
        for name in before.union(&after).filter(|name| differs || before.contains(*name) != after.contains(*name)) {
            queue.add(Key { namespace: namespace.into(), name: name.clone() });
        }
    }
}

fn selector_of(service: &Object) -> Vec<Label> {
    let selector = scan::field(service.bytes(), &["spec", "selector"]).and_then(|text| json::decode(text).ok());
    let selector = selector.as_ref().and_then(|selector| selector.as_object());
    let labels = selector.into_iter().flat_map(|labels| labels.iter());
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_shared_str()?.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_found_by_all_of_their_labels() {
        let labels =
            |labels: &[(&str, &str)]| labels.iter().map(|(k, v)| (Str::from(*k), Str::from(*v))).collect::<Vec<_>>();
        let selecting = Selecting::default();
        let check = |pod: &[(&str, &str)], expect: &[&str]| {
            let found = selecting.of("n", &pod.iter().copied().collect());
            assert_eq!(found, expect.iter().map(|name| Str::from(*name)).collect(), "{pod:?}");
        };
        selecting.set("n", "a", labels(&[("app", "x")]));
        selecting.set("n", "b", labels(&[("app", "x"), ("tier", "web")]));
        selecting.set("n", "none", labels(&[]));
        selecting.set("other", "c", labels(&[("app", "x")]));
        check(&[("app", "x")], &["a"]);
        check(&[("app", "x"), ("tier", "web"), ("more", "")], &["a", "b"]);
        check(&[("tier", "web")], &[]);
        check(&[], &[]);
        selecting.set("n", "a", labels(&[("app", "y")]));
        check(&[("app", "x"), ("tier", "web")], &["b"]);
        selecting.set("n", "a", labels(&[]));
        selecting.set("n", "b", labels(&[]));
        check(&[("app", "y")], &[]);
        assert_eq!(selecting.0.lock().expect("nobody panicked").len(), 1, "empty namespaces are forgotten");
    }
}
