//! `resource.k8s.io/v1beta1` to and from v1: there a request for a device is the request itself, and what a device has is in a
//! part of its own.

use generic_server::resource::Conversion;
use machinery::{Map, Str, Value};

use crate::{
    conversion::renamed,
    defaults::{each, within},
};

/// The conversion of v1beta1.
pub(super) struct V1Beta1;

/// What a request says of the one kind of device that it is for.
const REQUEST: [&str; 7] =
    ["adminAccess", "allocationMode", "capacity", "count", "deviceClassName", "selectors", "tolerations"];

impl Conversion for V1Beta1 {
    fn from_storage(&self, object: Value) -> Value {
        let mut object = renamed(object, Str::new_static("resource.k8s.io/v1beta1"));
        each_request(&mut object, |request| {
            if let Some(Value::Object(exactly)) = request.remove("exactly") {
                request.extend(exactly.into_entries());
            }
            // Go writes it always.
            if !request.contains_key("deviceClassName") {
                request.insert("deviceClassName", "");
            }
        });
        each_device(&mut object, |device| {
            let name = device.remove("name");
            let basic = std::mem::take(device);
            name.into_iter().for_each(|name| drop(device.insert("name", name)));
            device.insert("basic", basic);
        });
        object
    }

    fn to_storage(&self, object: Value) -> Value {
        let mut object = renamed(object, Str::new_static("resource.k8s.io/v1"));
        each_request(&mut object, |request| {
            let mut exactly = Map::default();
            for name in REQUEST {
                let said = request.remove(name).filter(|value| !is_unsaid(name, value));
                said.into_iter().for_each(|value| drop(exactly.insert(name, value)));
            }
            if !exactly.is_empty() {
                if !exactly.contains_key("deviceClassName") {
                    exactly.insert("deviceClassName", "");
                }
                request.insert("exactly", exactly);
            }
        });
        each_device(&mut object, |device| {
            if let Some(Value::Object(basic)) = device.remove("basic") {
                device.extend(basic.into_entries());
            }
        });
        object
    }
}

/// Whether the member of a request holds what it holds when nothing is said. `adminAccess` tells false from nothing.
fn is_unsaid(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Int(number) => *number == 0 && name == "count",
        _ => false,
    }
}

/// The requests of a claim, or of a template of claims.
fn each_request(object: &mut Value, mut rule: impl FnMut(&mut Map)) {
    let mut of_spec = |spec: &mut Value| {
        within(spec, "devices", |devices| {
            each(devices, "requests", |request| request.as_object_mut().into_iter().for_each(&mut rule));
        });
    };
    match object.str_at(&["kind"]) {
        Some("ResourceClaim") => within(object, "spec", of_spec),
        Some("ResourceClaimTemplate") => within(object, "spec", |spec| within(spec, "spec", &mut of_spec)),
        _ => {}
    }
}

/// The devices of a slice.
fn each_device(object: &mut Value, mut rule: impl FnMut(&mut Map)) {
    if object.str_at(&["kind"]) == Some("ResourceSlice") {
        within(object, "spec", |spec| {
            each(spec, "devices", |device| device.as_object_mut().into_iter().for_each(&mut rule));
        });
    }
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn check(beta: &str, v1: &str) {
        let read = |version: &str, text: &str| {
            let mut object = json::decode(text.as_bytes()).expect("JSON");
            object.set(&["apiVersion"], format!("resource.k8s.io/{version}"));
            object
        };
        let (beta, v1) = (read("v1beta1", beta), read("v1", v1));
        assert_eq!(V1Beta1.to_storage(beta.clone()), v1);
        assert_eq!(V1Beta1.from_storage(v1), beta);
    }

    #[test]
    fn a_request_for_one_kind_of_device_is_a_part_in_v1() {
        check(
            r#"{"kind":"ResourceClaim","spec":{"devices":{"requests":[{"name":"r","deviceClassName":"c","count":2},{"name":"f","deviceClassName":"","firstAvailable":[{"name":"a","deviceClassName":"c"}]}]}}}"#,
            r#"{"kind":"ResourceClaim","spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"c","count":2}},{"name":"f","firstAvailable":[{"name":"a","deviceClassName":"c"}]}]}}}"#,
        );
        check(
            r#"{"kind":"ResourceClaimTemplate","spec":{"spec":{"devices":{"requests":[{"name":"r","deviceClassName":"c","adminAccess":false}]}}}}"#,
            r#"{"kind":"ResourceClaimTemplate","spec":{"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"c","adminAccess":false}}]}}}}"#,
        );
    }

    #[test]
    fn what_a_device_has_is_a_part_in_v1beta1() {
        check(
            r#"{"kind":"ResourceSlice","spec":{"devices":[{"name":"d","basic":{"nodeName":"n"}},{"name":"e","basic":{}}]}}"#,
            r#"{"kind":"ResourceSlice","spec":{"devices":[{"name":"d","nodeName":"n"},{"name":"e"}]}}"#,
        );
    }
}
