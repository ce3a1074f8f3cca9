//! Validates v1 Endpoints.

use std::collections::HashSet;

use generic_server::resource::WriteContext;
use machinery::{
    Value,
    meta::{ip, names},
};

use crate::validation::{Errors, Field};

const LISTS: [&str; 2] = ["addresses", "notReadyAddresses"];

/// What is wrong with new endpoints.
pub(super) fn create(_cx: &WriteContext<'_>, endpoints: &Field<'_>, errors: &mut Errors) {
    subsets(&endpoints.at("subsets"), &HashSet::new(), errors);
}

/// What is wrong with an update. Subsets that stay as they are were let pass before.
pub(super) fn update(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (now, before) = (new.at("subsets"), old.at("subsets"));
    if !now.same(&before) {
        let known = LISTS.iter().flat_map(|list| {
            let lists = before.items().iter().filter_map(|subset| subset.get(list)?.as_array());
            lists.flatten().filter_map(|address| address.str_at(&["ip"])).collect::<Vec<_>>()
        });
        subsets(&now, &known.collect::<HashSet<_>>(), errors);
    }
}

fn subsets(subsets: &Field<'_>, known: &HashSet<&str>, errors: &mut Errors) {
    subsets.each(|subset| {
        if LISTS.iter().all(|list| subset.at(list).is_empty()) {
            subset.required("must specify `addresses` or `notReadyAddresses`", errors);
        }
        for list in LISTS {
            subset.at(list).each(|entry| address(&entry, known, errors));
        }
        let ports = subset.at("ports");
        ports.each(|entry| port(&entry, ports.len() > 1, errors));
    });
}

fn address(address: &Field<'_>, known: &HashSet<&str>, errors: &mut Errors) {
    let ip = address.at("ip");
    ip.address_or_old(known, errors);
    address.at("hostname").check_some(names::dns1123_label, errors);
    let node = address.at("nodeName");
    if node.is_set() {
        node.check(names::dns1123_subdomain, errors);
    }
    ip.check(ip::non_special_ip, errors);
}

fn port(port: &Field<'_>, needs_name: bool, errors: &mut Errors) {
    let name = port.at("name");
    if needs_name && name.is_empty() {
        name.required("", errors);
    }
    name.check_some(names::dns1123_label, errors);
    port.at("port").check_int(names::port_number, errors);
    port.at("protocol").required_one_of(&["SCTP", "TCP", "UDP"], errors);
    let protocol = port.at("appProtocol");
    if protocol.is_set() {
        protocol.check(names::qualified_name, errors);
    }
}

/// Warnings for the author of endpoints, unless that is the controller, which writes no odd ones.
pub(super) fn warnings(endpoints: &Value, _old: Option<&Value>) -> Vec<String> {
    let manager = endpoints.str_at(&["metadata", "labels", "endpoints.kubernetes.io/managed-by"]);
    if manager == Some("endpoint-controller") {
        return Vec::new();
    }
    let mut out = Vec::new();
    let subsets = endpoints.get("subsets").and_then(Value::as_array).unwrap_or_default();
    for (i, subset) in subsets.iter().enumerate() {
        for list in LISTS {
            let addresses = subset.get(list).and_then(Value::as_array).unwrap_or_default();
            for (j, ip) in addresses.iter().enumerate().filter_map(|(j, a)| Some((j, a.str_at(&["ip"])?))) {
                out.extend(ip::ip_warning(format!("subsets[{i}].{list}[{j}].ip"), ip));
            }
        }
    }
    out
}
