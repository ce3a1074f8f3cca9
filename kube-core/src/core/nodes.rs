//! Nodes.

use generic_server::resource::WriteContext;
use machinery::{Str, Value, array, meta::ip};

use super::nodes_validation;
use crate::{
    defaults::{is_empty, part, round},
    strategy::Rules,
};

/// The rules of nodes: a kubelet creates its node together with the status.
pub(super) const RULES: Rules = Rules {
    defaults,
    create,
    update,
    status_update,
    keeps_status: true,
    validate: nodes_validation::create,
    revalidate: Some(|cx, new, _, errors| nodes_validation::create(cx, new, errors)),
    validate_update: Some(nodes_validation::changes),
    validate_status: nodes_validation::changes,
    warn,
    ..Rules::STATUS
};

fn defaults(node: &mut Value) {
    let status = part(node, "status");
    round(status, "capacity");
    round(status, "allocatable");
    if is_empty(status.get("allocatable"))
        && let Some(capacity) = status.get("capacity").filter(|c| !is_empty(Some(c))).cloned()
    {
        status.set(&["allocatable"], capacity);
    }
    pod_cidrs(part(node, "spec"));
}

/// Warnings for the author of a node.
fn warn(node: &Value, _old: Option<&Value>) -> Vec<String> {
    let mut out = Vec::new();
    if node.str_at(&["spec", "externalID"]).is_some_and(|id| !id.is_empty()) {
        out.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    let cidrs = node.at(&["spec", "podCIDRs"]).and_then(Value::as_array).unwrap_or_default();
    let cidrs = cidrs.iter().filter_map(Value::as_str).enumerate();
    out.extend(cidrs.flat_map(|(i, cidr)| ip::cidr_warnings(format!("spec.podCIDRs[{i}]"), cidr)));
    out
}

/// Configuration of kubelets through the API is gone.
fn create(_cx: &WriteContext<'_>, node: &mut Value) {
    node.remove_at(&["spec", "configSource"]);
}

fn status_update(_cx: &WriteContext<'_>, new: &mut Value, old: &Value) {
    if old.at(&["status", "config"]).is_none() {
        new.remove_at(&["status", "config"]);
    }
}

fn update(_cx: &WriteContext<'_>, new: &mut Value, old: &Value) {
    if old.at(&["spec", "configSource"]).is_none() {
        new.remove_at(&["spec", "configSource"]);
    }
}

/// A single range and the list that begins with it. The single one wins, as older clients only set that.
fn pod_cidrs(spec: &mut Value) {
    let one = spec.str_at(&["podCIDR"]).filter(|s| !s.is_empty()).map(Str::from);
    let first = spec.get("podCIDRs").and_then(Value::as_array).and_then(|l| l.first()).and_then(Value::as_shared_str);
    match (one, first.cloned()) {
        (Some(one), first) if first.as_ref() != Some(&one) => spec.set(&["podCIDRs"], array![one]),
        (None, Some(first)) => spec.set(&["podCIDR"], first),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use machinery::object;

    use super::*;

    #[test]
    fn what_is_not_reserved_can_be_allocated() {
        let mut node = object! { "status" => object! { "capacity" => object! { "cpu" => "4" } } };
        defaults(&mut node);
        assert_eq!(node.str_at(&["status", "allocatable", "cpu"]), Some("4"));
    }

    #[test]
    fn one_range_and_the_list_of_ranges_agree() {
        let mut spec = object! { "podCIDR" => "10.1.0.0/24" };
        pod_cidrs(&mut spec);
        assert_eq!(spec.get("podCIDRs"), Some(&array!["10.1.0.0/24"]));
        let mut spec = object! { "podCIDRs" => array!["10.1.0.0/24", "fd00::/64"] };
        pod_cidrs(&mut spec);
        assert_eq!(spec.str_at(&["podCIDR"]), Some("10.1.0.0/24"));
    }
}
