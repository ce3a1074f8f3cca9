//! What the rules of one part of a pod need to know of the rest.

use machinery::Value;

use crate::validation::Field;

/// The lists of containers, in the order in which rules for all of them go.
pub(in crate::core::pods) const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The surroundings of a rule.
pub(super) struct Scope<'a> {
    /// The spec.
    pub(in crate::core::pods) spec: &'a Value,
    /// The spec before this update. What was wrong then and is refused only since may stay.
    old: Option<&'a Value>,
    /// The pod's metadata. None: the spec is a template's.
    metadata: Option<&'a Value>,
    /// The volumes without faults, by name.
    volumes: Vec<(&'a str, &'a Value)>,
    /// The names of the resource claims, in order.
    claims: Vec<&'a str>,
}

impl<'a> Scope<'a> {
    pub(in crate::core::pods) fn new(spec: &'a Value, old: Option<&'a Value>, metadata: Option<&'a Value>) -> Self {
        let mut claims: Vec<&str> = list(spec, "resourceClaims").iter().map(name).filter(|n| !n.is_empty()).collect();
        claims.sort_unstable();
        claims.dedup();
        Scope { spec, old, metadata, volumes: Vec::new(), claims }
    }

    /// Whether the spec before had a fault, so that this one may have it.
    pub(in crate::core::pods) fn tolerates(&self, had: impl Fn(&Value) -> bool) -> bool {
        self.old.is_some_and(had)
    }

    /// Whether the spec is a pod's, and no template's.
    pub(in crate::core::pods) fn is_pod(&self) -> bool {
        self.metadata.is_some()
    }

    /// The pod's name; empty if it is not known yet.
    pub(in crate::core::pods) fn pod_name(&self) -> &'a str {
        self.metadata.map(name).unwrap_or_default()
    }

    /// Whether a kubelet made the pod from a file of its own.
    pub(in crate::core::pods) fn is_mirror(&self) -> bool {
        self.metadata.is_some_and(|m| m.at(&["annotations", super::annotations::MIRROR]).is_some())
    }

    /// Whether containers share the node's user namespace.
    pub(in crate::core::pods) fn host_users(&self) -> bool {
        self.spec.get("hostUsers").and_then(Value::as_bool) != Some(false)
    }

    /// Whether the spec shares one of the node's namespaces: `hostNetwork`, `hostPID`, `hostIPC`.
    pub(in crate::core::pods) fn shares(&self, namespace: &str) -> bool {
        is_true(self.spec, namespace)
    }

    /// Seconds that the pod has to end.
    pub(in crate::core::pods) fn grace_period(&self) -> Option<i64> {
        self.spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64)
    }

    /// Whether ended containers stay ended.
    pub(in crate::core::pods) fn never_restarts(&self) -> bool {
        text(self.spec, "restartPolicy") == "Never"
    }

    /// The operating system that the pod is for; none if it does not say.
    pub(in crate::core::pods) fn os(&self) -> Option<&'a str> {
        self.spec.get("os").filter(|os| !os.is_null()).map(name)
    }

    /// The names of the resource claims.
    pub(in crate::core::pods) fn claims(&self) -> &[&'a str] {
        &self.claims
    }

    /// Notes the volumes that have no faults.
    pub(in crate::core::pods) fn set_volumes(&mut self, mut volumes: Vec<(&'a str, &'a Value)>) {
        volumes.sort_unstable_by_key(|(name, _)| *name);
        self.volumes = volumes;
    }

    /// A volume without faults.
    pub(in crate::core::pods) fn volume(&self, name: &str) -> Option<&'a Value> {
        self.volumes.binary_search_by_key(&name, |(n, _)| n).ok().map(|i| self.volumes[i].1)
    }
}

/// The items of a list; none if it is absent.
pub(in crate::core::pods) fn list<'a>(holder: &'a Value, member: &str) -> &'a [Value] {
    holder.get(member).and_then(Value::as_array).unwrap_or_default()
}

/// A text; empty if it is absent.
pub(in crate::core::pods) fn text<'a>(holder: &'a Value, member: &str) -> &'a str {
    holder.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// The member `name`.
pub(in crate::core::pods) fn name(holder: &Value) -> &str {
    text(holder, "name")
}

/// Whether a member is there and true.
pub(in crate::core::pods) fn is_true(holder: &Value, member: &str) -> bool {
    holder.get(member).and_then(Value::as_bool) == Some(true)
}

/// Whether a member is there.
pub(in crate::core::pods) fn has(holder: &Value, member: &str) -> bool {
    holder.get(member).is_some_and(|v| !v.is_null())
}

/// Every container of a spec: those that go first, those that stay, those that came later.
pub(in crate::core::pods) fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    CONTAINERS.into_iter().flat_map(|member| list(spec, member))
}

/// Every container of a spec, with its place.
pub(in crate::core::pods) fn each_container(spec: &Field<'_>, mut rule: impl FnMut(&Field<'_>, &Value)) {
    for member in CONTAINERS {
        spec.at(member).each_item(|field, value| rule(&field, value));
    }
}
