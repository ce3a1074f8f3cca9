//! Validates networking.k8s.io/v1 Ingresses and IngressClasses.

use std::collections::HashSet;

use generic_server::resource::WriteContext;
use machinery::{
    Value,
    meta::{FieldError, domains, ip::parse_sloppy, names},
};

use crate::validation::{Errors, Field};

const CLASS: &str = "kubernetes.io/ingress.class";

/// What is wrong with a new ingress.
pub(super) fn create(_cx: &WriteContext<'_>, ingress: &Field<'_>, errors: &mut Errors) {
    spec(&ingress.at("spec"), None, errors);
    let metadata = ingress.at("metadata");
    let annotations = metadata.at("annotations");
    let annotation = annotations.key(CLASS);
    let spec = ingress.at("spec");
    let class = spec.at("ingressClassName");
    if annotation.is_set() && class.is_set() && annotation.text() != class.text() {
        let detail = "must match `ingressClassName` when both are specified";
        errors.push(FieldError::invalid(format!("annotations.{CLASS}"), annotation.text(), detail));
    }
}

/// What is wrong with an update.
pub(super) fn update(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    spec(&new.at("spec"), Some(old.value()), errors);
}

/// What is wrong with an update of the status.
pub(super) fn status(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let points = |object: &Value| object.at(&["status", "loadBalancer", "ingress"]).cloned().unwrap_or_default();
    let before = points(old.value());
    let old_ips: HashSet<&str> =
        before.as_array().unwrap_or_default().iter().filter_map(|point| point.str_at(&["ip"])).collect();
    let status = new.at("status");
    let balancer = status.at("loadBalancer");
    balancer.at("ingress").each(|point| {
        let (ip, host) = (point.at("ip"), point.at("hostname"));
        if !ip.is_empty() {
            ip.address_or_old(&old_ips, errors);
        }
        if !host.is_empty() {
            if parse_sloppy(host.text()).is_some() {
                host.invalid("must be a DNS name, not an IP address", errors);
            } else {
                host.check(names::dns1123_subdomain, errors);
            }
        }
    });
}

/// Warnings for the author of an ingress.
pub(super) fn warnings(ingress: &Value, old: Option<&Value>) -> Vec<String> {
    let is_there = |object: &Value| object.at(&["metadata", "annotations", CLASS]).is_some();
    if old.is_none() && is_there(ingress) {
        return vec![format!("annotation \"{CLASS}\" is deprecated, please use 'spec.ingressClassName' instead")];
    }
    Vec::new()
}

/// What is wrong with a name.
type NameCheck = fn(&str) -> Vec<String>;

fn spec(spec: &Field<'_>, old: Option<&Value>, errors: &mut Errors) {
    let (rules, backend_field) = (spec.at("rules"), spec.at("defaultBackend"));
    let relaxed = errors.has("RelaxedServiceNameValidation") || old.is_some_and(has_relaxed_names);
    let service_name: NameCheck = if relaxed { names::dns1123_label } else { names::dns1035_label };
    if rules.is_empty() && !backend_field.is_set() {
        spec.invalid_as(rules.value(), "either `defaultBackend` or `rules` must be specified", errors);
    }
    if backend_field.is_set() {
        backend(&backend_field, service_name, errors);
    }
    rules.each(|rule| {
        let host = rule.at("host");
        if !host.is_empty() {
            if parse_sloppy(host.text()).is_some() {
                host.invalid("must be a DNS name, not an IP address", errors);
            }
            host_name(&host, errors);
        }
        let http = rule.at("http");
        if http.is_set() {
            paths(&http.at("paths"), service_name, errors);
        }
    });
    let old_secrets = old.and_then(|o| o.at(&["spec", "tls"])).and_then(Value::as_array).unwrap_or_default();
    // What an object already had and was let pass stays.
    let any_secret = old_secrets.iter().any(|tls| {
        tls.str_at(&["secretName"]).is_some_and(|name| !name.is_empty() && !names::dns1123_subdomain(name).is_empty())
    });
    spec.at("tls").each(|tls| {
        tls.at("hosts").each(|host| host_name(&host, errors));
        let secret = tls.at("secretName");
        if !any_secret {
            secret.check_some(names::dns1123_subdomain, errors);
        }
    });
    let class = spec.at("ingressClassName");
    if class.is_set() {
        class.check(names::dns1123_subdomain, errors);
    }
}

fn host_name(host: &Field<'_>, errors: &mut Errors) {
    if host.text().contains('*') {
        host.check(names::wildcard_dns1123_subdomain, errors);
    } else {
        host.check(names::dns1123_subdomain, errors);
    }
}

/// Whether an ingress has a backend whose name only the rule of today allows.
fn has_relaxed_names(ingress: &Value) -> bool {
    let is_relaxed = |backend: Option<&Value>| {
        let name = backend.and_then(|backend| backend.str_at(&["service", "name"]));
        name.is_some_and(|name| names::dns1123_label(name).is_empty() && !names::dns1035_label(name).is_empty())
    };
    let items = |value: &Value, path: &[&str]| value.at(path).and_then(Value::as_array).unwrap_or_default().to_vec();
    let rules = items(ingress, &["spec", "rules"]);
    let mut paths = rules.iter().flat_map(|rule| items(rule, &["http", "paths"]));
    is_relaxed(ingress.at(&["spec", "defaultBackend"])) || paths.any(|path| is_relaxed(path.get("backend")))
}

fn paths(paths: &Field<'_>, service_name: NameCheck, errors: &mut Errors) {
    if paths.is_empty() {
        paths.required("", errors);
    }
    paths.each(|path| {
        if path.at("pathType").is_set() {
            one_path(&path, errors);
            backend(&path.at("backend"), service_name, errors);
        } else {
            path.at("pathType").required("pathType must be specified", errors);
        }
    });
}

/// What a path may not have in it, and at its end.
const NOT_WITHIN: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const NOT_AT_THE_END: [&str; 2] = ["/..", "/."];

fn one_path(entry: &Field<'_>, errors: &mut Errors) {
    let (path, kind) = (entry.at("path"), entry.at("pathType"));
    let text = path.text();
    match kind.text() {
        "Exact" | "Prefix" => {
            if !text.starts_with('/') {
                path.invalid_text("must be an absolute path", errors);
            }
            if text.is_empty() {
                return;
            }
            for part in NOT_WITHIN.iter().filter(|part| text.contains(**part)) {
                path.invalid(format!("must not contain '{part}'"), errors);
            }
            for end in NOT_AT_THE_END.iter().filter(|end| text.ends_with(**end)) {
                path.invalid(format!("cannot end with '{end}'"), errors);
            }
        }
        "ImplementationSpecific" => {
            if !text.is_empty() && !text.starts_with('/') {
                path.invalid("must be an absolute path", errors);
            }
        }
        _ => kind.not_supported(&["Exact", "ImplementationSpecific", "Prefix"], errors),
    }
}

fn backend(backend: &Field<'_>, service_name: NameCheck, errors: &mut Errors) {
    let (service, resource) = (backend.at("service"), backend.at("resource"));
    match (service.is_set(), resource.is_set()) {
        (true, true) => backend.invalid_as("", "cannot set both resource and service backends", errors),
        (false, true) => {
            let group = resource.at("apiGroup");
            if group.is_set() {
                group.check(names::dns1123_subdomain, errors);
            }
            path_segments(&resource, errors);
        }
        (true, false) => service_backend(backend, &service, service_name, errors),
        (false, false) => backend.invalid_as("", "resource or service backend is required", errors),
    }
}

fn service_backend(backend: &Field<'_>, service: &Field<'_>, service_name: NameCheck, errors: &mut Errors) {
    let name = service.at("name");
    if name.is_given(errors) {
        name.check(service_name, errors);
    }
    let port = service.at("port");
    let (port_name, number) = (port.at("name"), port.at("number"));
    match (!port_name.is_empty(), number.int_or_zero() != 0) {
        (true, true) => backend.invalid_as("", "cannot set both port name & port number", errors),
        (true, false) => port_name.check(names::port_name, errors),
        (false, true) => number.check_int(names::port_number, errors),
        (false, false) => backend.required("port name or number is required", errors),
    }
}

/// The kind and the name of what is referred to are there, and could stand in a path.
fn path_segments(reference: &Field<'_>, errors: &mut Errors) {
    for member in ["kind", "name"] {
        let field = reference.at(member);
        if field.is_given(errors) {
            field.check(names::path_segment_name, errors);
        }
    }
}

/// What is wrong with a class.
pub(super) fn class(_cx: &WriteContext<'_>, class: &Field<'_>, errors: &mut Errors) {
    class_spec(&class.at("spec"), errors);
}

/// What is wrong with an update of a class.
pub(super) fn class_update(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (spec, before) = (new.at("spec"), old.at("spec"));
    let controller = spec.at("controller");
    if !controller.same(&before.at("controller")) {
        controller.invalid_as(controller.text(), "field is immutable", errors);
    }
    class_spec(&spec, errors);
}

fn class_spec(spec: &Field<'_>, errors: &mut Errors) {
    let controller = spec.at("controller");
    if controller.text().len() > 250 {
        errors.push(FieldError::too_long(controller, 250));
    }
    errors.extend(domains::domain_prefixed_path(controller.text(), controller.path()));
    let parameters = spec.at("parameters");
    if !parameters.is_set() {
        return;
    }
    let group = parameters.at("apiGroup");
    if group.is_set() {
        group.check(names::dns1123_subdomain, errors);
    }
    path_segments(&parameters, errors);
    let (scope, namespace) = (parameters.at("scope"), parameters.at("namespace"));
    if !scope.is_set() {
        scope.required("", errors);
        return;
    }
    scope.one_of(&["Cluster", "Namespace"], errors);
    match scope.text() {
        "Namespace" if !namespace.is_set() => {
            namespace.required("`parameters.scope` is set to 'Namespace'", errors);
        }
        "Namespace" => namespace.check(names::dns1123_label, errors),
        "Cluster" if namespace.is_set() => {
            namespace.forbidden("`parameters.scope` is set to 'Cluster'", errors);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use machinery::{array, object};

    use super::*;

    fn check(spec_value: Value, expect: &[&str]) {
        let object = object! { "spec" => spec_value };
        let mut errors = Errors::default();
        let root = Field::root(&object);
        spec(&root.at("spec"), None, &mut errors);
        let texts: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        assert_eq!(texts, expect);
    }

    #[test]
    fn an_ingress_leads_somewhere() {
        check(object! {}, &["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]);
        let none = object! { "rules" => array![] };
        check(none, &["spec: Invalid value: []: either `defaultBackend` or `rules` must be specified"]);
        let both = object! { "service" => object! { "name" => "s" }, "resource" => object! { "kind" => "K" } };
        check(
            object! { "defaultBackend" => both },
            &[r#"spec.defaultBackend: Invalid value: "": cannot set both resource and service backends"#],
        );
        let resource = object! { "apiGroup" => "", "kind" => "a/b", "name" => ".." };
        let group =
            FieldError::invalid("spec.defaultBackend.resource.apiGroup", "", names::dns1123_subdomain("").join(""));
        check(
            object! { "defaultBackend" => object! { "resource" => resource } },
            &[
                &group.to_string(),
                r#"spec.defaultBackend.resource.kind: Invalid value: "a/b": may not contain '/'"#,
                r#"spec.defaultBackend.resource.name: Invalid value: "..": may not be '..'"#,
            ],
        );
        let untyped = object! { "rules" => array![object! { "http" => object! { "paths" => array![object! {}] } }] };
        check(untyped, &["spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"]);
        let path = object! {
            "path" => "/a/..", "pathType" => "Exact",
            "backend" => object! { "service" => object! { "name" => "s", "port" => object! { "number" => 80 } } },
        };
        check(
            object! { "rules" => array![object! { "http" => object! { "paths" => array![path] } }] },
            &[r#"spec.rules[0].http.paths[0].path: Invalid value: "/a/..": cannot end with '/..'"#],
        );
    }
}
