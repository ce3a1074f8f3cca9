//! Evaluators of quota usage: each kind of object by its rules, the others as so many objects.

use std::collections::BTreeSet;

use generic_server::admission::{Attributes, Operation};
use machinery::{
    Str, Value,
    meta::{Quantity, Timestamp, quantity::Format},
};

use super::{pods, scopes, scopes::Scope};
use crate::core::pods::Amounts;

/// More devices than a claim can ever get.
const MOST_DEVICES: i64 = 32;
/// Entries for devices of a class end so.
const DEVICES: &str = ".deviceclass.resource.k8s.io/devices";
/// Entries for the storage of a class have this between the class and the resource.
const STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";

/// What is never counted: it is not stored, or there is too much of it.
const IGNORED: [(&str, &str); 8] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// Resources that quotas have an older name for.
const ALIASES: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];

/// Counts the objects of a resource.
#[derive(Clone, Debug)]
pub(super) enum Evaluator {
    Pods,
    Services,
    /// Claims to storage.
    Claims,
    /// Claims to devices.
    DeviceClaims,
    /// Any other objects, by these names.
    Objects(Vec<Str>),
}

impl Evaluator {
    /// Who counts what is written; none if nothing is to be counted.
    pub(super) fn of(a: &Attributes<'_>) -> Option<Evaluator> {
        let (group, plural) = (a.row.group.as_str(), a.row.plural.as_str());
        if IGNORED.contains(&(group, plural)) {
            return None;
        }
        let creates = a.operation == Operation::Create;
        let whole = a.subresource.is_empty();
        match (group, plural) {
            ("", "pods") => ((creates && whole) || (!creates && a.subresource == "resize")).then_some(Evaluator::Pods),
            ("", "services") => whole.then_some(Evaluator::Services),
            ("", "persistentvolumeclaims") => {
                (whole || (!creates && a.subresource == "status")).then_some(Evaluator::Claims)
            }
            ("resource.k8s.io", "resourceclaims") => whole.then_some(Evaluator::DeviceClaims),
            _ if creates && whole => Some(Evaluator::objects(group, plural)),
            _ => None,
        }
    }

    /// Who counts the objects of a resource that are there.
    pub(super) fn of_resource(group: &str, plural: &str) -> Option<Evaluator> {
        match (group, plural) {
            known if IGNORED.contains(&known) => None,
            ("", "pods") => Some(Evaluator::Pods),
            ("", "services") => Some(Evaluator::Services),
            ("", "persistentvolumeclaims") => Some(Evaluator::Claims),
            ("resource.k8s.io", "resourceclaims") => Some(Evaluator::DeviceClaims),
            _ => Some(Evaluator::objects(group, plural)),
        }
    }

    fn objects(group: &str, plural: &str) -> Evaluator {
        let mut names = vec![count_of(group, plural)];
        if group.is_empty() && ALIASES.contains(&plural) {
            names.push(plural.into());
        }
        Evaluator::Objects(names)
    }

    /// Whether a quota's entry is one that this counts.
    pub(super) fn counts(&self, name: &str) -> bool {
        match self {
            Evaluator::Pods => pods::counts(name),
            Evaluator::Services => {
                matches!(name, "count/services" | "services" | "services.nodeports" | "services.loadbalancers")
            }
            Evaluator::Claims => {
                matches!(name, "count/persistentvolumeclaims" | "persistentvolumeclaims" | "requests.storage")
                    || ["persistentvolumeclaims", "requests.storage"]
                        .iter()
                        .any(|resource| name.strip_suffix(resource).is_some_and(|class| class.ends_with(STORAGE_CLASS)))
            }
            Evaluator::DeviceClaims => name == "count/resourceclaims.resource.k8s.io" || name.ends_with(DEVICES),
            Evaluator::Objects(names) => names.iter().any(|own| own == name),
        }
    }

    /// Whether an object is in a quota's scope.
    pub(super) fn in_scope(&self, scope: &Scope, object: &Value) -> bool {
        match self {
            Evaluator::Pods => scope.holds_pod(object),
            Evaluator::Claims => scope.holds_claim(object),
            Evaluator::Services | Evaluator::DeviceClaims | Evaluator::Objects(_) => false,
        }
    }

    /// Refuses an object that does not say what it needs of what a quota bounds.
    pub(super) fn check_named(&self, bounded: &BTreeSet<&Str>, object: &Value) -> Result<(), String> {
        match self {
            Evaluator::Pods => pods::check_named(bounded, object),
            _ => Ok(()),
        }
    }

    /// What an object uses.
    pub(super) fn usage(&self, object: &Value) -> Amounts {
        match self {
            Evaluator::Pods => {
                let mut usage = Amounts::new();
                if scopes::is_alive(object, Timestamp::now().seconds()) {
                    usage = pods::usage(object);
                }
                usage.insert(Str::new_static("count/pods"), one());
                usage
            }
            Evaluator::Services => service(object),
            Evaluator::Claims => claim(object),
            Evaluator::DeviceClaims => device_claim(object),
            Evaluator::Objects(names) => names.iter().map(|name| (name.clone(), one())).collect(),
        }
    }
}

fn count_of(group: &str, plural: &str) -> Str {
    if group.is_empty() { format!("count/{plural}").into() } else { format!("count/{plural}.{group}").into() }
}

fn one() -> Quantity {
    number(1)
}

fn number(value: i64) -> Quantity {
    Quantity::new(value, Format::DecimalSI)
}

/// A service, its load balancer, and the node ports that it has or will be given.
fn service(service: &Value) -> Amounts {
    let ports = service.at(&["spec", "ports"]).and_then(Value::as_array).unwrap_or_default();
    let kind = service.str_at(&["spec", "type"]).unwrap_or_default();
    let chosen = |port: &&Value| port.get("nodePort").and_then(Value::as_i64).is_some_and(|port| port != 0);
    let gives_none = service.at(&["spec", "allocateLoadBalancerNodePorts"]).and_then(Value::as_bool) == Some(false);
    let node_ports = match kind {
        "LoadBalancer" if gives_none => ports.iter().filter(chosen).count(),
        "NodePort" | "LoadBalancer" => ports.len(),
        _ => 0,
    };
    Amounts::from([
        (Str::new_static("count/services"), one()),
        (Str::new_static("services"), one()),
        (Str::new_static("services.loadbalancers"), number(i64::from(kind == "LoadBalancer"))),
        (Str::new_static("services.nodeports"), number(i64::try_from(node_ports).unwrap_or(i64::MAX))),
    ])
}

/// A claim to storage, in all and of its class.
fn claim(claim: &Value) -> Amounts {
    let annotated = claim.str_at(&["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"]);
    let class = annotated.or_else(|| claim.str_at(&["spec", "storageClassName"])).unwrap_or_default();
    let mut usage = Amounts::from([
        (Str::new_static("count/persistentvolumeclaims"), one()),
        (Str::new_static("persistentvolumeclaims"), one()),
    ]);
    if !class.is_empty() {
        usage.insert(format!("{class}{STORAGE_CLASS}persistentvolumeclaims").into(), one());
    }
    let amount = |place: &[&str]| claim.at(place).and_then(|amount| Quantity::from_value(amount).ok());
    if let Some(mut storage) = amount(&["spec", "resources", "requests", "storage"]) {
        // What is given may be more than what is asked for, while a claim that was to grow shrinks back.
        if let Some(given) = amount(&["status", "allocatedResources", "storage"]).filter(|given| *given > storage) {
            storage = given;
        }
        let mut whole = storage.clone();
        if !whole.round_up(0) {
            storage = whole;
        }
        if !class.is_empty() {
            usage.insert(format!("{class}{STORAGE_CLASS}requests.storage").into(), storage.clone());
        }
        usage.insert(Str::new_static("requests.storage"), storage);
    }
    usage
}

/// A claim to devices: of each class the most that it can get.
fn device_claim(claim: &Value) -> Amounts {
    let mut usage = Amounts::from([(Str::new_static("count/resourceclaims.resource.k8s.io"), one())]);
    let mut charge = |class: &str, devices: Quantity| {
        let sum = usage.entry(format!("{class}{DEVICES}").into()).or_insert_with(|| number(0));
        sum.add(&devices);
    };
    for request in claim.at(&["spec", "devices", "requests"]).and_then(Value::as_array).unwrap_or_default() {
        let alternatives = request.get("firstAvailable").and_then(Value::as_array).unwrap_or_default();
        if alternatives.is_empty() {
            // Older versions have the members of `exactly` in the request itself.
            let exactly = request.get("exactly").unwrap_or(request);
            if let Some(class) = exactly.str_at(&["deviceClassName"]) {
                charge(class, devices(exactly));
            }
            continue;
        }
        let mut most = Amounts::new();
        for alternative in alternatives {
            let class = Str::from(alternative.str_at(&["deviceClassName"]).unwrap_or_default());
            let held = most.entry(class).or_insert_with(|| number(0));
            *held = devices(alternative).max(held.clone());
        }
        for (class, devices) in most {
            charge(&class, devices);
        }
    }
    usage
}

fn devices(request: &Value) -> Quantity {
    number(match request.str_at(&["allocationMode"]) {
        Some("ExactCount") => request.get("count").and_then(Value::as_i64).unwrap_or(0),
        Some("All") => MOST_DEVICES,
        _ => 0,
    })
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn check(evaluator: &Evaluator, object: &str, expect: &str) {
        let usage = evaluator.usage(&json::decode(object.as_bytes()).expect("valid JSON"));
        let shown: Vec<_> = usage.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        assert_eq!(shown.join(" "), expect);
    }

    #[test]
    fn services_use_ports_and_balancers_by_their_type() {
        let check = |spec: &str, balancers: i64, ports: i64| {
            let expect =
                format!("count/services=1 services=1 services.loadbalancers={balancers} services.nodeports={ports}");
            check(&Evaluator::Services, &format!(r#"{{"spec":{spec}}}"#), &expect);
        };
        let ports = r#""ports":[{"port":80},{"port":81,"nodePort":30000}]"#;
        check(&format!("{{{ports}}}"), 0, 0);
        check(&format!(r#"{{"type":"NodePort",{ports}}}"#), 0, 2);
        check(&format!(r#"{{"type":"LoadBalancer",{ports}}}"#), 1, 2);
        check(&format!(r#"{{"type":"LoadBalancer","allocateLoadBalancerNodePorts":false,{ports}}}"#), 1, 1);
    }

    #[test]
    fn claims_use_storage_of_their_class() {
        check(
            &Evaluator::Claims,
            r#"{"spec":{"storageClassName":"gold","resources":{"requests":{"storage":"1500m"}}}}"#,
            "count/persistentvolumeclaims=1 gold.storageclass.storage.k8s.io/persistentvolumeclaims=1 \
             gold.storageclass.storage.k8s.io/requests.storage=2 persistentvolumeclaims=1 requests.storage=2",
        );
        check(
            &Evaluator::Claims,
            r#"{"spec":{"resources":{"requests":{"storage":"1Gi"}}},"status":{"allocatedResources":{"storage":"2Gi"}}}"#,
            "count/persistentvolumeclaims=1 persistentvolumeclaims=1 requests.storage=2Gi",
        );
    }

    #[test]
    fn claims_to_devices_use_the_most_that_they_can_get() {
        check(
            &Evaluator::DeviceClaims,
            r#"{"spec":{"devices":{"requests":[
                {"exactly":{"deviceClassName":"gpu","allocationMode":"ExactCount","count":2}},
                {"deviceClassName":"nic","allocationMode":"All"},
                {"firstAvailable":[{"deviceClassName":"gpu","allocationMode":"ExactCount","count":1},
                    {"deviceClassName":"gpu","allocationMode":"ExactCount","count":4}]}]}}}"#,
            "count/resourceclaims.resource.k8s.io=1 gpu.deviceclass.resource.k8s.io/devices=6 \
             nic.deviceclass.resource.k8s.io/devices=32",
        );
    }

    #[test]
    fn other_objects_are_counted_by_their_resource() {
        let names = vec![count_of("apps", "deployments")];
        check(&Evaluator::Objects(names), "{}", "count/deployments.apps=1");
        let names = vec![count_of("", "secrets"), "secrets".into()];
        check(&Evaluator::Objects(names), "{}", "count/secrets=1 secrets=1");
    }
}
