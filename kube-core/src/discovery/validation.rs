//! Validates discovery.k8s.io/v1 EndpointSlices.

use generic_server::resource::WriteContext;
use machinery::{
    Value,
    meta::{
        FieldError, domains,
        ip::{self, Family, IpRules, family, parse_sloppy},
        names,
    },
};

use crate::validation::{Errors, Field, Seen};

const CANONICAL: IpRules = IpRules { sloppy: false, canonical: true, family: None };
const MOST_ENDPOINTS: usize = 1000;
const MOST_ADDRESSES: usize = 100;
const MOST_PORTS: usize = 20000;
const MOST_HINTS: usize = 8;

/// What is wrong with a slice.
pub(super) fn slice(_cx: &WriteContext<'_>, slice: &Field<'_>, errors: &mut Errors) {
    whole(slice, None, errors);
}

/// Endpoints that stay as they are were let pass before.
fn whole(slice: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    let kind = slice.at("addressType");
    kind.required_one_of(&["FQDN", "IPv4", "IPv6"], errors);
    let endpoints = slice.at("endpoints");
    let is_old = old.is_some_and(|old| endpoints.same(&old.at("endpoints")));
    if !is_old && is_short(&endpoints, MOST_ENDPOINTS, errors) {
        endpoints.each(|entry| endpoint(&entry, kind.text(), errors));
    }
    let all = slice.at("ports");
    if is_short(&all, MOST_PORTS, errors) {
        ports(&all, errors);
    }
}

/// What is wrong with an update of a slice.
pub(super) fn update(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    whole(new, Some(old), errors);
    new.at("addressType").immutable(&old.at("addressType"), errors);
}

/// Whether the list is of a length that is looked at.
fn is_short(list: &Field<'_>, most: usize, errors: &mut Errors) -> bool {
    if list.len() > most {
        errors.push(FieldError::too_many(list, list.len(), most));
    }
    list.len() <= most
}

fn endpoint(endpoint: &Field<'_>, kind: &str, errors: &mut Errors) {
    let all = endpoint.at("addresses");
    if all.is_empty() {
        all.required("must contain at least 1 address", errors);
    } else {
        is_short(&all, MOST_ADDRESSES, errors);
    }
    all.each(|address| match kind {
        "IPv4" => one_address(&address, &all, Family::V4, errors),
        "IPv6" => one_address(&address, &all, Family::V6, errors),
        "FQDN" => errors.extend(domains::fully_qualified_domain_name(address.text(), address.path())),
        _ => {}
    });
    let (node, host) = (endpoint.at("nodeName"), endpoint.at("hostname"));
    if node.is_set() {
        node.check(names::dns1123_subdomain, errors);
    }
    if host.is_set() {
        host.check(names::dns1123_label, errors);
    }
    let hints = endpoint.at("hints");
    hint_names(&hints.at("forZones"), names::label_value, errors);
    hint_names(&hints.at("forNodes"), names::dns1123_subdomain, errors);
}

fn one_address(address: &Field<'_>, all: &Field<'_>, wanted: Family, errors: &mut Errors) {
    let before = errors.len();
    address.check(|text| ip::ip(text, CANONICAL), errors);
    if errors.len() > before {
        return;
    }
    if parse_sloppy(address.text()).map(family) != Some(wanted) {
        let name = if wanted == Family::V4 { "IPv4" } else { "IPv6" };
        all.invalid_as(address.text(), format!("must be an {name} address"), errors);
    }
    address.check(ip::non_special_ip, errors);
}

fn hint_names(hints: &Field<'_>, rule: fn(&str) -> Vec<String>, errors: &mut Errors) {
    if !is_short(hints, MOST_HINTS, errors) {
        return;
    }
    let mut seen = Seen::default();
    hints.each_item(|hint, value| {
        let name = hint.at("name");
        if !seen.insert(value.str_at(&["name"]).unwrap_or_default()) {
            name.duplicate(errors);
        }
        name.check(rule, errors);
    });
}

fn ports(ports: &Field<'_>, errors: &mut Errors) {
    let mut seen = Seen::default();
    ports.each_item(|port, value| {
        let name = port.at("name");
        name.check_some(names::dns1123_label, errors);
        if !seen.insert(value.str_at(&["name"]).unwrap_or_default()) {
            name.duplicate_text(errors);
        }
        let protocol = port.at("protocol");
        if protocol.is_set() {
            protocol.one_of(&["SCTP", "TCP", "UDP"], errors);
        } else {
            protocol.required("", errors);
        }
        let application = port.at("appProtocol");
        if application.is_set() {
            application.check(names::qualified_name, errors);
        }
    });
}

/// Warnings for the author of a slice.
pub(super) fn warnings(slice: &Value, _old: Option<&Value>) -> Vec<String> {
    if slice.str_at(&["addressType"]) == Some("FQDN") {
        return vec!["spec.addressType: FQDN endpoints are deprecated".to_owned()];
    }
    Vec::new()
}
