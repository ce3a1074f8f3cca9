//! Validates networking.k8s.io NetworkPolicies, IPAddresses and ServiceCIDRs.

use std::collections::HashSet;

use generic_server::resource::WriteContext;
use machinery::{
    Value,
    meta::{
        BadValue,
        ip::{self, Cidr, Family, IpRules, family},
        names,
    },
};

use crate::{
    core::pods::validation::internal,
    validation::{Errors, Field},
};

/// As it is written by whoever knows how.
const CANONICAL: IpRules = IpRules { sloppy: false, canonical: true, family: None };
const IMMUTABLE: &str = "field is immutable";

/// What is wrong with a policy.
pub(super) fn policy(_cx: &WriteContext<'_>, policy: &Field<'_>, errors: &mut Errors) {
    policy_spec(&policy.at("spec"), None, errors);
}

/// What is wrong with an update of a policy.
pub(super) fn policy_update(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    policy_spec(&new.at("spec"), Some(old.value()), errors);
}

/// Every network that a policy names.
fn networks(policy: &Value) -> Vec<String> {
    let mut out = Vec::new();
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        let rules = policy.at(&["spec", direction]).and_then(Value::as_array).unwrap_or_default();
        let peers = rules.iter().filter_map(|rule| rule.get(peers)?.as_array()).flatten();
        for block in peers.filter_map(|peer| peer.get("ipBlock")) {
            out.extend(block.str_at(&["cidr"]).map(str::to_owned));
            let except = block.get("except").and_then(Value::as_array).unwrap_or_default();
            out.extend(except.iter().filter_map(Value::as_str).map(str::to_owned));
        }
    }
    out
}

fn policy_spec(spec: &Field<'_>, old: Option<&Value>, errors: &mut Errors) {
    let old_networks = old.map(networks).unwrap_or_default();
    let old_networks: HashSet<&str> = old_networks.iter().map(String::as_str).collect();
    spec.at("podSelector").label_selector(errors);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        spec.at(direction).each(|rule| {
            rule.at("ports").each(|port| policy_port(&port, errors));
            rule.at(peers).each(|peer| policy_peer(&peer, &old_networks, errors));
        });
    }
    let types = spec.at("policyTypes");
    if types.len() > 2 {
        types.invalid("may not specify more than two policyTypes", errors);
        return;
    }
    types.each(|kind| kind.one_of(&["Ingress", "Egress"], errors));
}

fn policy_port(entry: &Field<'_>, errors: &mut Errors) {
    let protocol = entry.at("protocol");
    if protocol.is_set() {
        protocol.one_of(&["TCP", "UDP", "SCTP"], errors);
    }
    let (port, end) = (entry.at("port"), entry.at("endPort"));
    if !port.is_set() {
        if end.is_set() {
            end.invalid("may not be specified when `port` is not specified", errors);
        }
        return;
    }
    if port.value().as_str().is_some() {
        if end.is_set() {
            end.invalid("may not be specified when `port` is non-numeric", errors);
        }
        port.check(names::port_name, errors);
        return;
    }
    port.check_int(names::port_number, errors);
    if end.is_set() {
        if end.int_or_zero() < port.int_or_zero() {
            end.invalid_as(port.int_or_zero(), "must be greater than or equal to `port`", errors);
        }
        end.check_int(names::port_number, errors);
    }
}

fn policy_peer(peer: &Field<'_>, old_networks: &HashSet<&str>, errors: &mut Errors) {
    let mut peers = 0;
    for member in ["podSelector", "namespaceSelector"] {
        let selector = peer.at(member);
        if selector.is_set() {
            peers += 1;
            selector.label_selector(errors);
        }
    }
    let block = peer.at("ipBlock");
    if block.is_set() {
        peers += 1;
        ip_block(&block, old_networks, errors);
    }
    if peers == 0 {
        peer.required("must specify a peer", errors);
    } else if peers > 1 && block.is_set() {
        peer.forbidden("may not specify both ipBlock and another peer", errors);
    }
}

fn ip_block(block: &Field<'_>, old_networks: &HashSet<&str>, errors: &mut Errors) {
    let cidr = block.at("cidr");
    if !cidr.is_given(errors) {
        return;
    }
    let before = errors.len();
    cidr.network_or_old(old_networks, errors);
    if errors.len() > before {
        return;
    }
    let Some(network) = Cidr::parse_sloppy(cidr.text()) else { return };
    block.at("except").each(|except| {
        let before = errors.len();
        except.network_or_old(old_networks, errors);
        if errors.len() > before {
            return;
        }
        let Some(part) = Cidr::parse_sloppy(except.text()) else { return };
        if !network.contains(part.ip) || part.prefix <= network.prefix {
            except.invalid("must be a strict subset of `cidr`", errors);
        }
    });
}

/// Warnings for the author of a policy.
pub(super) fn policy_warnings(policy: &Value, _old: Option<&Value>) -> Vec<String> {
    let mut out = Vec::new();
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        let rules = policy.at(&["spec", direction]).and_then(Value::as_array).unwrap_or_default();
        for (i, rule) in rules.iter().enumerate() {
            let peers_of = rule.get(peers).and_then(Value::as_array).unwrap_or_default();
            for (j, block) in peers_of.iter().enumerate().filter_map(|(j, peer)| Some((j, peer.get("ipBlock")?))) {
                let place = format!("spec.{direction}[{i}].{peers}[{j}].ipBlock");
                if let Some(cidr) = block.str_at(&["cidr"]) {
                    out.extend(ip::cidr_warnings(format!("{place}.cidr"), cidr));
                }
                let except = block.get("except").and_then(Value::as_array).unwrap_or_default();
                for (k, cidr) in except.iter().filter_map(Value::as_str).enumerate() {
                    out.extend(ip::cidr_warnings(format!("{place}.except[{k}]"), cidr));
                }
            }
        }
    }
    out
}

/// The name of an address is the address.
pub(super) fn address_name(name: &str, _prefix: bool) -> Vec<String> {
    ip::ip(name, CANONICAL)
}

/// What is wrong with an address.
pub(super) fn address(_cx: &WriteContext<'_>, address: &Field<'_>, errors: &mut Errors) {
    let spec = address.at("spec");
    let parent = spec.at("parentRef");
    if !parent.is_set() {
        return parent.required("", errors);
    }
    parent.at("group").check_some(names::dns1123_subdomain, errors);
    for member in ["resource", "name"] {
        let field = parent.at(member);
        if field.is_given(errors) {
            field.check(names::path_segment_name, errors);
        }
    }
    parent.at("namespace").check_some(names::path_segment_name, errors);
}

/// What is wrong with an update of an address.
pub(super) fn address_update(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (spec, before) = (new.at("spec"), old.at("spec"));
    let (parent, old_parent) = (spec.at("parentRef"), before.at("parentRef"));
    if !parent.same(&old_parent) {
        parent.invalid_as(internal::shown("*ParentReference", parent.value()), IMMUTABLE, errors);
    }
}

/// What is wrong with a range.
pub(super) fn range(_cx: &WriteContext<'_>, range: &Field<'_>, errors: &mut Errors) {
    let spec = range.at("spec");
    let cidrs = spec.at("cidrs");
    let texts = cidrs.texts();
    let families: Vec<Option<Family>> =
        texts.iter().map(|text| Cidr::parse_sloppy(text).map(|cidr| family(cidr.ip))).collect();
    match texts.len() {
        0 => return cidrs.required("at least one CIDR required", errors),
        1 => {}
        2 => {
            if families[0].is_some() && families[0] == families[1] {
                let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
                return cidrs.invalid(detail, errors);
            }
        }
        _ => {
            let shown = BadValue::verbatim(format!(r#"{{"CIDRs":{}}}"#, BadValue::from(cidrs.value())));
            return cidrs.invalid_as(shown, "may only hold up to 2 values", errors);
        }
    }
    cidrs.each(|cidr| cidr.check(|text| ip::cidr(text, CANONICAL), errors));
}

/// What is wrong with an update of a range: it may gain a second family, and nothing else.
pub(super) fn range_update(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (spec, before) = (new.at("spec"), old.at("spec"));
    let (cidrs, old_cidrs) = (spec.at("cidrs"), before.at("cidrs"));
    match (old_cidrs.len(), cidrs.len()) {
        (then, now) if then == now => {
            for i in 0..now {
                if cidrs.index(i).value() != old_cidrs.index(i).value() {
                    cidrs.index(i).invalid(IMMUTABLE, errors);
                }
            }
        }
        (1, 2) => {
            if cidrs.index(0).value() != old_cidrs.index(0).value() {
                cidrs.index(0).invalid(IMMUTABLE, errors);
            }
            range(_cx, new, errors);
        }
        _ if cidrs.is_empty() => cidrs.invalid_as(Value::from(Vec::<Value>::new()), IMMUTABLE, errors),
        _ => cidrs.invalid(IMMUTABLE, errors),
    }
}
