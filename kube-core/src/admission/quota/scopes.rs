//! Scopes: which objects a quota is about.

use machinery::{Str, Value, meta::Meta};

use crate::core::pods::qos_class;

/// One of a quota's scopes; all of them must hold.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub(super) name: Str,
    operator: Str,
    values: Vec<Str>,
}

impl Scope {
    /// The scopes of a quota's spec.
    pub(super) fn all_of(spec: &Value) -> Vec<Scope> {
        let named = spec.get("scopes").and_then(Value::as_array).unwrap_or_default();
        let selected = spec.at(&["scopeSelector", "matchExpressions"]).and_then(Value::as_array).unwrap_or_default();
        let named = named.iter().map(|name| Scope {
            name: name.as_str().unwrap_or_default().into(),
            operator: Str::new_static("Exists"),
            values: Vec::new(),
        });
        named.chain(selected.iter().map(Scope::read)).collect()
    }

    /// A requirement (`scopeName`, `operator`, `values`).
    pub(super) fn read(requirement: &Value) -> Scope {
        let text = |member: &str| Str::from(requirement.str_at(&[member]).unwrap_or_default());
        let values = requirement.get("values").and_then(Value::as_array).unwrap_or_default();
        Scope {
            name: text("scopeName"),
            operator: text("operator"),
            values: values.iter().filter_map(|value| value.as_shared_str().cloned()).collect(),
        }
    }

    /// Whether a pod is in the scope.
    pub(super) fn holds_pod(&self, pod: &Value) -> bool {
        match self.name.as_str() {
            "Terminating" => ends_by_itself(pod),
            "NotTerminating" => !ends_by_itself(pod),
            "BestEffort" => is_best_effort(pod),
            "NotBestEffort" => !is_best_effort(pod),
            "PriorityClass" => self.selects(pod.str_at(&["spec", "priorityClassName"]).filter(|name| !name.is_empty())),
            "CrossNamespacePodAffinity" => looks_into_other_namespaces(pod),
            _ => false,
        }
    }

    /// Whether a claim to storage is in the scope.
    pub(super) fn holds_claim(&self, claim: &Value) -> bool {
        if self.name != "VolumeAttributesClass" {
            return false;
        }
        let classes: Vec<&str> = attributes_classes(claim).collect();
        match classes.as_slice() {
            [] => self.selects(None),
            classes => classes.iter().any(|class| self.selects(Some(class))),
        }
    }

    fn selects(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|v| v == value);
        match self.operator.as_str() {
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "In" => value.is_some_and(listed),
            "NotIn" => !value.is_some_and(listed),
            _ => false,
        }
    }
}

/// As upstream prints it in refusals.
impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{{{} {} [{}]}}", self.name, self.operator, self.values.join(" "))
    }
}

/// The classes that a claim names, has, and changes to.
fn attributes_classes(claim: &Value) -> impl Iterator<Item = &str> {
    let places: [&[&str]; 3] = [
        &["spec", "volumeAttributesClassName"],
        &["status", "currentVolumeAttributesClassName"],
        &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
    ];
    places.into_iter().filter_map(|place| claim.str_at(place)).filter(|name| !name.is_empty())
}

fn ends_by_itself(pod: &Value) -> bool {
    pod.at(&["spec", "activeDeadlineSeconds"]).and_then(Value::as_i64).is_some_and(|seconds| seconds >= 0)
}

fn is_best_effort(pod: &Value) -> bool {
    match pod.str_at(&["status", "qosClass"]).filter(|class| !class.is_empty()) {
        Some(class) => class == "BestEffort",
        None => qos_class(pod.get("spec").unwrap_or(&Value::Null)) == "BestEffort",
    }
}

/// Whether the pod's place depends on pods of namespaces that it names.
fn looks_into_other_namespaces(pod: &Value) -> bool {
    let crosses = |term: &Value| {
        term.get("namespaces").and_then(Value::as_array).is_some_and(|names| !names.is_empty())
            || term.get("namespaceSelector").is_some_and(|selector| !selector.is_null())
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let terms =
            |list: &str| pod.at(&["spec", "affinity", kind, list]).and_then(Value::as_array).unwrap_or_default().iter();
        terms("requiredDuringSchedulingIgnoredDuringExecution").any(crosses)
            || terms("preferredDuringSchedulingIgnoredDuringExecution")
                .any(|weighted| weighted.get("podAffinityTerm").is_some_and(crosses))
    })
}

/// Whether a pod is neither done nor overdue to be gone: of one that is, only the object counts.
pub(super) fn is_alive(pod: &Value, now: i64) -> bool {
    if matches!(pod.str_at(&["status", "phase"]), Some("Failed" | "Succeeded")) {
        return false;
    }
    let meta = Meta::of(pod);
    let gone_at = meta
        .deletion_timestamp()
        .and_then(|at| machinery::meta::Timestamp::parse(at, machinery::meta::TimeForm::Seconds).ok())
        .zip(meta.deletion_grace_period_seconds())
        .map(|(at, grace)| at.seconds().saturating_add(grace));
    gone_at.is_none_or(|at| now <= at)
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn value(text: &str) -> Value {
        json::decode(text.as_bytes()).expect("valid JSON")
    }

    fn scope(text: &str) -> Scope {
        Scope::read(&value(text))
    }

    #[test]
    fn pods_are_in_scopes_by_what_they_are() {
        let check = |scope_text: &str, pod: &str, expect: bool| {
            assert_eq!(scope(scope_text).holds_pod(&value(pod)), expect, "{scope_text} {pod}");
        };
        let exists = |name: &str| format!(r#"{{"scopeName":"{name}","operator":"Exists"}}"#);
        let ends = r#"{"spec":{"activeDeadlineSeconds":0}}"#;
        check(&exists("Terminating"), ends, true);
        check(&exists("NotTerminating"), ends, false);
        check(&exists("BestEffort"), r#"{"spec":{"containers":[{}]}}"#, true);
        check(&exists("NotBestEffort"), r#"{"status":{"qosClass":"Burstable"}}"#, true);
        let gold = r#"{"spec":{"priorityClassName":"gold"}}"#;
        check(&exists("PriorityClass"), gold, true);
        check(&exists("PriorityClass"), "{}", false);
        check(r#"{"scopeName":"PriorityClass","operator":"In","values":["gold"]}"#, gold, true);
        check(r#"{"scopeName":"PriorityClass","operator":"NotIn","values":["gold"]}"#, "{}", true);
        check(r#"{"scopeName":"PriorityClass","operator":"NotIn","values":["gold"]}"#, gold, false);
        check(r#"{"scopeName":"PriorityClass","operator":"DoesNotExist"}"#, "{}", true);
        let term = r#"{"requiredDuringSchedulingIgnoredDuringExecution":[{"namespaceSelector":{}}]}"#;
        check(
            &exists("CrossNamespacePodAffinity"),
            &format!(r#"{{"spec":{{"affinity":{{"podAffinity":{term}}}}}}}"#),
            true,
        );
        let weighted = r#"{"preferredDuringSchedulingIgnoredDuringExecution":[{"podAffinityTerm":{"namespaces":[]}}]}"#;
        check(
            &exists("CrossNamespacePodAffinity"),
            &format!(r#"{{"spec":{{"affinity":{{"podAntiAffinity":{weighted}}}}}}}"#),
            false,
        );
        check(&exists("VolumeAttributesClass"), "{}", false);
    }

    #[test]
    fn claims_are_in_a_scope_by_any_of_their_classes() {
        let check = |scope_text: &str, claim: &str, expect: bool| {
            assert_eq!(scope(scope_text).holds_claim(&value(claim)), expect, "{scope_text} {claim}");
        };
        let of_gold = r#"{"scopeName":"VolumeAttributesClass","operator":"In","values":["gold"]}"#;
        check(of_gold, r#"{"spec":{"volumeAttributesClassName":"gold"}}"#, true);
        check(of_gold, r#"{"status":{"modifyVolumeStatus":{"targetVolumeAttributesClassName":"gold"}}}"#, true);
        check(of_gold, "{}", false);
        check(r#"{"scopeName":"VolumeAttributesClass","operator":"NotIn","values":["gold"]}"#, "{}", true);
        check(r#"{"scopeName":"BestEffort","operator":"Exists"}"#, "{}", false);
    }

    #[test]
    fn of_pods_that_are_done_only_the_object_counts() {
        let check = |pod: &str, expect: bool| assert_eq!(is_alive(&value(pod), 1_000_000_000), expect, "{pod}");
        check("{}", true);
        check(r#"{"status":{"phase":"Succeeded"}}"#, false);
        let deleted =
            |at: &str| format!(r#"{{"metadata":{{"deletionTimestamp":"{at}","deletionGracePeriodSeconds":30}}}}"#);
        check(&deleted("2001-09-09T01:46:10Z"), true); // thirty seconds before now
        check(&deleted("2001-09-09T01:46:09Z"), false);
    }
}
