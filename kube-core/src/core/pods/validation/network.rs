//! Names and addresses of a pod, and how it finds those of others.

use machinery::meta::{
    field_error::FieldError,
    ip::{self, IpRules},
    names,
};

use super::scope::Scope;
use crate::validation::{Errors, Field};

/// What the C library's resolver takes.
const MAX_SERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_BYTES: usize = 2048;

/// An address, in the form that has been asked for since version 1.36.
pub(super) fn address(address: &Field<'_>, errors: &mut Errors) {
    address.check(|text| ip::ip(text, IpRules::default()), errors);
}

/// How names are resolved.
pub(super) fn dns(config: &Field<'_>, policy: &str, errors: &mut Errors) {
    let servers = config.at("nameservers");
    if policy == "None" {
        if !config.is_set() {
            return config.required("must provide `dnsConfig` when `dnsPolicy` is None", errors);
        }
        if servers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return servers.required(detail, errors);
        }
    }
    if !config.is_set() {
        return;
    }
    if servers.len() > MAX_SERVERS {
        servers.invalid(format!("must not have more than {MAX_SERVERS} nameservers"), errors);
    }
    servers.each(|server| address(&server, errors));
    searches(&config.at("searches"), errors);
    config.at("options").each(|option| {
        if option.at("name").is_empty() {
            option.required("must not be empty", errors);
        }
    });
}

fn searches(searches: &Field<'_>, errors: &mut Errors) {
    if searches.len() > MAX_SEARCHES {
        searches.invalid(format!("must not have more than {MAX_SEARCHES} search paths"), errors);
    }
    let mut bytes = searches.len().saturating_sub(1);
    searches.each(|search| bytes += search.text().len());
    if bytes > MAX_SEARCH_BYTES {
        let detail =
            format!("must not have more than {MAX_SEARCH_BYTES} characters (including spaces) in the search list");
        searches.invalid(detail, errors);
    }
    searches.each(|search| {
        if search.text() == "." {
            return;
        }
        let name = search.text().strip_suffix('.').unwrap_or(search.text());
        for message in names::dns1123_subdomain_with_underscore(name) {
            search.invalid_as(name, message, errors);
        }
    });
}

/// Lines of the pod's hosts file.
pub(super) fn host_aliases(aliases: &Field<'_>, errors: &mut Errors) {
    aliases.each(|alias| {
        address(&alias.at("ip"), errors);
        alias.at("hostnames").each(|name| name.check(names::dns1123_subdomain, errors));
    });
}

/// On the node's network, a container's port is the node's.
pub(super) fn host_network(spec: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    if !scope.shares("hostNetwork") {
        return;
    }
    spec.at("containers").each(|container| {
        container.at("ports").each(|port| {
            let (host, own) = (port.at("hostPort").int_or_zero(), port.at("containerPort").int_or_zero());
            if (scope.is_pod() || host != 0) && host != own {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                port.at("hostPort").invalid_as(host, detail, errors);
            }
        });
    });
}

/// The longest name that Linux gives a host.
const MAX_HOST_NAME: usize = 64;

/// A host name that overrides all others.
pub(super) fn host_name(spec: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let name = spec.at("hostnameOverride");
    if !name.is_set() {
        return;
    }
    if spec.at("setHostnameAsFQDN").is_true() {
        name.forbidden("may not be specified when setHostnameAsFQDN is true", errors);
    }
    if scope.shares("hostNetwork") {
        name.forbidden("may not be specified when hostNetwork is true", errors);
    }
    if name.text().len() > MAX_HOST_NAME {
        errors.push(FieldError::too_long(name, MAX_HOST_NAME));
    }
    name.check(names::dns1123_subdomain, errors);
}
