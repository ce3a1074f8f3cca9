//! What is left of devices that are given back.

use std::collections::HashSet;

use machinery::Value;

use super::identity::DeviceId;

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
