//! What writes may not carry: members of features that are off, and what is left of devices that are given back.

use std::collections::HashSet;

use machinery::Value;

use super::identity::DeviceId;
use crate::defaults::{each, within};

/// The forms of attributes that hold several values.
const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];

/// What a device offers in place of a node's own resources.
const MAPPINGS: &str = "nodeAllocatableResourceMappings";

/// Takes from a slice what features that are off bring, unless the old one has it already.
pub(super) fn drop_disabled(new: &mut Value, old: Option<&Value>) {
    let lists = !old.is_some_and(|old| devices(old).iter().any(has_lists));
    let mappings = !old.is_some_and(|old| devices(old).iter().any(has_mappings));
    let found = devices(new).iter().any(|device| (lists && has_lists(device)) || (mappings && has_mappings(device)));
    if !found {
        return;
    }
    within(new, "spec", |spec| {
        each(spec, "devices", |device| {
            if mappings && let Some(device) = device.as_object_mut() {
                device.remove(MAPPINGS);
            }
            if lists && let Some(attributes) = device.get_mut("attributes").and_then(Value::as_object_mut) {
                for (_, attribute) in attributes.iter_mut() {
                    if let Some(attribute) = attribute.as_object_mut() {
                        LISTS.iter().for_each(|form| drop(attribute.remove(form)));
                    }
                }
            }
        });
    });
}

fn devices(slice: &Value) -> &[Value] {
    slice.at(&["spec", "devices"]).and_then(Value::as_array).unwrap_or_default()
}

fn has_lists(device: &Value) -> bool {
    let attributes = device.get("attributes").and_then(Value::as_object);
    let set = |attribute: &Value| LISTS.iter().any(|form| attribute.get(form).is_some_and(|v| !v.is_null()));
    attributes.is_some_and(|map| map.values().any(set))
}

fn has_mappings(device: &Value) -> bool {
    device.get(MAPPINGS).and_then(Value::as_object).is_some_and(|map| !map.is_empty())
}

/// Takes from a claim's status the reports of devices that an update gives back.
pub(super) fn drop_deallocated(new: &mut Value, old: &Value) {
    let kept: HashSet<DeviceId<'_>> = DeviceId::allocated(new).collect();
    let gone: HashSet<DeviceId<'_>> = DeviceId::allocated(old).filter(|id| !kept.contains(id)).collect();
    let reports = new.at(&["status", "devices"]).and_then(Value::as_array).unwrap_or_default();
    let stays = |report: &&Value| !gone.contains(&DeviceId::of(report));
    let left: Vec<Value> = reports.iter().filter(stays).cloned().collect();
    if left.is_empty() {
        new.remove_at(&["status", "devices"]);
    } else if left.len() < reports.len() {
        new.set(&["status", "devices"], Value::from(left));
    }
}

#[cfg(test)]
mod tests {
    use machinery::{array, object};

    use super::*;

    fn slice(device: Value) -> Value {
        object! { "spec" => object! { "devices" => array![device] } }
    }

    #[test]
    fn features_that_are_off_bring_nothing_new() {
        let lists = || object! { "attributes" => object! { "a" => object! { "ints" => array![1, 2] } } };
        let empty = || object! { "attributes" => object! { "a" => object! {} } };
        let check = |device: Value, old: Option<Value>, expect: Value| {
            let mut new = slice(device);
            drop_disabled(&mut new, old.map(slice).as_ref());
            assert_eq!(new, slice(expect));
        };
        check(lists(), None, empty());
        check(lists(), Some(empty()), empty());
        check(lists(), Some(lists()), lists());
        let mappings = || object! { MAPPINGS => object! { "cpu" => object! {} } };
        check(mappings(), None, object! {});
        check(mappings(), Some(mappings()), mappings());
        check(object! { "attributes" => object! { "a" => object! { "int" => 1 } } }, None, {
            object! { "attributes" => object! { "a" => object! { "int" => 1 } } }
        });
    }

    #[test]
    fn a_device_that_is_given_back_is_no_longer_reported() {
        let device = |name: &str| object! { "driver" => "d", "pool" => "p", "device" => name };
        let claim = |results: Option<Value>, devices: Option<Value>| {
            let mut status = object! {};
            if let Some(results) = results {
                status.set(&["allocation"], object! { "devices" => object! { "results" => results } });
            }
            if let Some(devices) = devices {
                status.set(&["devices"], devices);
            }
            object! { "status" => status }
        };
        let both = || Some(array![device("a"), device("b")]);
        let old = claim(both(), both());
        let mut new = claim(Some(array![device("a")]), both());
        drop_deallocated(&mut new, &old);
        assert_eq!(new, claim(Some(array![device("a")]), Some(array![device("a")])));
        let mut new = claim(None, both());
        drop_deallocated(&mut new, &old);
        assert_eq!(new, claim(None, None));
    }
}
