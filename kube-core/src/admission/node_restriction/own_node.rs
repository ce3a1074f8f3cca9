//! A kubelet's own node: labels and taints that steer pods, owners and the source of its configuration are not its to change.

use std::collections::BTreeSet;

use generic_server::admission::{Attributes, Operation};
use machinery::{Value, meta::Meta};

use super::{holds, named};

/// Labels of the project that kubelets may set on their node.
const OWN_LABELS: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// Whether a node may write this node.
pub(super) fn check(a: &Attributes<'_>, object: &Value, node: &str) -> Result<(), String> {
    let name = named(a, object);
    holds(name == node, format!("node {node:?} is not allowed to modify node {name:?}"))?;
    match (a.operation, a.old) {
        (Operation::Create, _) => check_new(object, node),
        (Operation::Update, Some(old)) => check_change(object, old, node),
        _ => Ok(()),
    }
}

/// What nodes read is found by what their spec names: naming more would let them read more.
fn config_source(node: &Value) -> Option<&Value> {
    node.at(&["spec", "configSource"]).filter(|source| !source.is_null())
}

fn check_new(new: &Value, node: &str) -> Result<(), String> {
    let why = format!("node {node:?} is not allowed to create pods with a non-nil configSource");
    holds(config_source(new).is_none(), why)?;
    let labels = forbidden_labels(new, None);
    holds(labels.is_empty(), format!("node {node:?} is not allowed to set the following labels: {labels}"))
}

fn check_change(new: &Value, old: &Value, node: &str) -> Result<(), String> {
    let not_allowed = |what: &str| format!("node {node:?} is not allowed to {what}");
    // Old kubelets drop what they do not know.
    let changed = config_source(new).is_some_and(|new| !config_source(old).is_some_and(|old| new.semantic_eq(old)));
    holds(!changed, not_allowed("update configSource to a new non-nil configSource"))?;
    let same = |path: &[&str]| {
        let part = |node: &Value| node.at(path).cloned().unwrap_or_default();
        part(new).semantic_eq(&part(old))
    };
    holds(same(&["spec", "taints"]), not_allowed("modify taints"))?;
    holds(same(&["metadata", "ownerReferences"]), not_allowed("modify ownerReferences"))?;
    let labels = forbidden_labels(new, Some(old));
    holds(labels.is_empty(), format!("is not allowed to modify labels: {labels}"))
}

/// The labels that differ and are not the kubelet's to set, as a list.
fn forbidden_labels(new: &Value, old: Option<&Value>) -> String {
    let labels = |node: &Value| Meta::of(node).labels().cloned().unwrap_or_default();
    let (new, old) = (labels(new), old.map(labels).unwrap_or_default());
    let keys: BTreeSet<&str> = new.keys().chain(old.keys()).map(|key| key.as_str()).collect();
    let changed = keys.into_iter().filter(|key| new.get(key) != old.get(key));
    changed.filter(|key| !is_kubelets(key)).collect::<Vec<_>>().join(", ")
}

/// Whether a kubelet may set the label on its node.
fn is_kubelets(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let within = |of: &str| domain == of || domain.strip_suffix(of).is_some_and(|rest| rest.ends_with('.'));
    if within("node-restriction.kubernetes.io") {
        return false;
    }
    let is_projects = within("kubernetes.io") || within("k8s.io");
    !is_projects || OWN_LABELS.contains(&label) || within("kubelet.kubernetes.io") || within("node.kubernetes.io")
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn value(text: &str) -> Value {
        json::decode(text.as_bytes()).expect("valid JSON")
    }

    #[test]
    fn labels_that_steer_pods_are_not_the_kubelets() {
        let check = |new: &str, old: Option<&str>, expect: &str| {
            let node = |labels: &str| value(&format!(r#"{{"metadata":{{"labels":{labels}}}}}"#));
            assert_eq!(forbidden_labels(&node(new), old.map(node).as_ref()), expect);
        };
        check(r#"{"foo":"bar","kubernetes.io/os":"linux","node.kubernetes.io/any":"x"}"#, None, "");
        check(r#"{"a.k8s.io/x":"","kubernetes.io/x":""}"#, None, "a.k8s.io/x, kubernetes.io/x");
        check(r#"{"x.node-restriction.kubernetes.io/a":""}"#, None, "x.node-restriction.kubernetes.io/a");
        check(r#"{"kubernetes.io/x":"1"}"#, Some(r#"{"kubernetes.io/x":"1"}"#), "");
        check("{}", Some(r#"{"kubernetes.io/x":"1"}"#), "kubernetes.io/x");
    }

    #[test]
    fn owners_taints_and_configuration_are_not_the_nodes_to_change() {
        let check = |new: &str, old: &str, expect: Result<(), &str>| {
            let found = check_change(&value(new), &value(old), "n");
            assert_eq!(found, expect.map_err(|what| format!("node \"n\" is not allowed to {what}")), "{new} {old}");
        };
        let owned = r#"{"metadata":{"ownerReferences":[{"kind":"Pod","name":"p","uid":"u"}]}}"#;
        check(owned, "{}", Err("modify ownerReferences"));
        check("{}", owned, Err("modify ownerReferences"));
        check(owned, owned, Ok(()));
        check(r#"{"metadata":{"ownerReferences":[]}}"#, "{}", Ok(()));
        let tainted = r#"{"spec":{"taints":[{"key":"k","effect":"NoExecute"}]}}"#;
        check("{}", tainted, Err("modify taints"));
        let configured = |name: &str| format!(r#"{{"spec":{{"configSource":{{"configMap":{{"name":"{name}"}}}}}}}}"#);
        let changed = "update configSource to a new non-nil configSource";
        check(&configured("a"), "{}", Err(changed));
        check(&configured("a"), &configured("b"), Err(changed));
        check(&configured("a"), &configured("a"), Ok(()));
        check("{}", &configured("a"), Ok(()));
        let why = "node \"n\" is not allowed to create pods with a non-nil configSource".to_owned();
        assert_eq!(check_new(&value(&configured("a")), "n"), Err(why));
    }
}
