//! The roles and bindings that are always there.
//!
//! `policy.json` holds what v1.36 defines: an array with one object a role or binding, without what all have in common (see
//! [`object_of`]). An entry or a rule with a `gate` is there with that feature alone. What an administrator added to one of them stays; what is missing is put back at every start, unless the
//! annotation says that it should be left alone.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use generic_server::{
    features::Features,
    registry::Registry,
    tasks::{Task, TaskResult},
};
use machinery::{Str, Value, codec::json, meta::status::Status, object};

use super::authorizer::Rule;

const POLICY: &[u8] = include_bytes!("policy.json");

/// Whether a start may mend the object: `true` or `false`.
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// How many are written at once, so that they share commits.
const AT_ONCE: usize = 64;

/// Makes the roles and bindings where they are missing. `sources` are the registries of cluster roles, cluster role bindings,
/// roles and role bindings.
pub(crate) fn bootstrap_roles(sources: [Arc<Registry>; 4]) -> Task {
    Task::new("rbac/bootstrap-roles", move |cx| {
        let sources = sources.clone();
        async move {
            ensure_all(&sources).await?;
            cx.ready();
            Ok(())
        }
    })
    .after("start-system-namespaces-controller")
}

async fn ensure_all(sources: &[Arc<Registry>; 4]) -> TaskResult {
    for source in sources {
        source.cache().ready().await?;
    }
    let policy = json::decode(POLICY)?;
    let features = &sources[0].settings().features;
    let mut wanted: Vec<(Arc<Registry>, Value)> = Vec::new();
    for entry in policy.as_array().unwrap_or_default().iter().filter(|entry| is_wanted(entry, features)) {
        if let Some(registry) = sources.iter().find(|r| entry.str_at(&["kind"]) == Some(r.row.kind.as_str())) {
            wanted.push((registry.clone(), object_of(entry, features)));
        }
    }
    let mut writes = stream::iter(wanted).map(|(registry, wanted)| ensure(registry, wanted)).buffer_unordered(AT_ONCE);
    while writes.try_next().await?.is_some() {}
    Ok(())
}

/// Whether an entry or a rule is there with these features.
fn is_wanted(part: &Value, features: &Features) -> bool {
    part.str_at(&["gate"]).is_none_or(|gate| features.is_on(gate))
}

/// What all nodes may do alike: the rules of the role that was made for them.
pub(crate) fn node_rules(features: &Features) -> Vec<Rule> {
    let policy = json::decode(POLICY).expect("the policy is JSON: a test reads it");
    let is_theirs =
        |role: &&Value| role.str_at(&["kind"]) == Some("ClusterRole") && role.str_at(&["name"]) == Some("system:node");
    let role = policy.as_array().unwrap_or_default().iter().find(is_theirs);
    role.map(|role| Rule::all_of(&object_of(role, features))).unwrap_or_default()
}

/// The object that an entry of the policy stands for.
fn object_of(entry: &Value, features: &Features) -> Value {
    let mut labels = entry.get("labels").cloned().unwrap_or_else(Value::object);
    labels.make_object().insert("kubernetes.io/bootstrapping", "rbac-defaults");
    let mut metadata = object! {
        "name" => entry.get("name").cloned(), "labels" => labels, "annotations" => object! { AUTOUPDATE => "true" },
    };
    if let Some(namespace) = entry.get("namespace") {
        metadata.set(&["namespace"], namespace.clone());
    }
    let mut made = object! {
        "kind" => entry.get("kind").cloned(), "apiVersion" => "rbac.authorization.k8s.io/v1", "metadata" => metadata,
    };
    if let Some(rules) = entry.get("rules").and_then(Value::as_array) {
        let wanted = rules.iter().filter(|rule| is_wanted(rule, features)).cloned().map(|mut rule| {
            rule.remove_at(&["gate"]);
            rule
        });
        made.set(&["rules"], wanted.collect::<Value>());
    }
    for member in ["aggregationRule", "subjects", "roleRef"] {
        if let Some(value) = entry.get(member) {
            made.set(&[member], value.clone());
        }
    }
    made
}

async fn ensure(registry: Arc<Registry>, wanted: Value) -> Result<(), Status> {
    let text = |key: &str| Str::from(wanted.str_at(&["metadata", key]).unwrap_or_default());
    let (namespace, name) = (text("namespace"), text("name"));
    let key = registry.key(&namespace, &name);
    let found = registry.cache().latest().get(&key).and_then(|entry| entry.object().cloned());
    let Some(found) = found else {
        return match registry.create_as_server(wanted).await {
            Err(status) if !status.is_already_exists() => Err(status),
            _ => Ok(()), // made, or another server was faster
        };
    };
    let old = registry.decode(found.bytes())?;
    if old.get("roleRef") != wanted.get("roleRef") {
        // What a binding binds never changes: it is made anew.
        registry.delete_as_server(&namespace, &name).await?;
        return registry.create_as_server(wanted).await.map(|_| ());
    }
    if mended(&old, &wanted).is_none() {
        return Ok(());
    }
    let edit = |current: &Value| Ok(mended(current, &wanted).unwrap_or_else(|| current.clone()));
    registry.edit(&namespace, &name, "", edit).await.map(|_| ())
}

/// The object with what it lacks; none if it lacks nothing or is to be left alone.
fn mended(current: &Value, wanted: &Value) -> Option<Value> {
    if current.str_at(&["metadata", "annotations", AUTOUPDATE]) == Some("false") {
        return None;
    }
    let mut mended = current.clone();
    for member in ["labels", "annotations"] {
        for (key, value) in wanted.at(&["metadata", member]).and_then(Value::as_object).into_iter().flatten() {
            if current.at(&["metadata", member, key]) != Some(value) {
                mended.set(&["metadata", member, key], value.clone());
            }
        }
    }
    append(&mut mended, wanted, &["subjects"], |own, subject| own.contains(subject));
    append(&mut mended, wanted, &["aggregationRule", "clusterRoleSelectors"], |own, selector| own.contains(selector));
    let held = Rule::all_of(current);
    append(&mut mended, wanted, &["rules"], |own, rule| own.contains(rule) || covers(&held, rule));
    (mended != *current).then_some(mended)
}

/// Adds the wanted items of a list that are not there yet.
fn append(object: &mut Value, wanted: &Value, path: &[&str], has: impl Fn(&[Value], &Value) -> bool) {
    let own = object.at(path).and_then(Value::as_array).unwrap_or_default();
    let items = wanted.at(path).and_then(Value::as_array).unwrap_or_default();
    let missing: Vec<Value> = items.iter().filter(|item| !has(own, item)).cloned().collect();
    if !missing.is_empty() {
        let all: Vec<Value> = own.iter().cloned().chain(missing).collect();
        object.set(path, all);
    }
}

fn covers(held: &[Rule], rule: &Value) -> bool {
    let wanted = Rule::all_of(&object! { "rules" => vec![rule.clone()] });
    wanted.iter().flat_map(Rule::parts).all(|part| held.iter().any(|own| own.covers(&part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, kind: &str) -> Value {
        let policy = json::decode(POLICY).expect("is JSON");
        let entries = policy.as_array().expect("is a list");
        let is_wanted = |e: &&Value| e.str_at(&["name"]) == Some(name) && e.str_at(&["kind"]) == Some(kind);
        object_of(entries.iter().find(is_wanted).expect("is there"), &Features::default())
    }

    #[test]
    fn what_is_for_a_feature_is_there_with_it() {
        let rules = |gates: &[&'static str]| node_rules(&gates.iter().copied().collect()).len();
        assert_eq!(rules(&["ClusterTrustBundle", "PodCertificateRequest"]), rules(&[]) + 2);
        let policy = json::decode(POLICY).expect("is JSON");
        let parts = policy.as_array().expect("is a list").iter();
        let parts = parts.flat_map(|e| e.get("rules").and_then(Value::as_array).unwrap_or_default().iter().chain([e]));
        for gate in parts.filter_map(|part| part.str_at(&["gate"])) {
            assert!(generic_server::features::gates::find(gate).is_some(), "{gate}");
        }
    }

    #[test]
    fn bindings_bind_roles_that_are_there() {
        let policy = json::decode(POLICY).expect("is JSON");
        let entries = policy.as_array().expect("is a list");
        let of = |entry: &Value, path: &[&str]| entry.str_at(path).unwrap_or_default().to_owned();
        let bindings: Vec<&Value> = entries.iter().filter(|e| e.get("roleRef").is_some()).collect();
        assert!(!bindings.is_empty());
        for binding in bindings {
            let (kind, name) = (of(binding, &["roleRef", "kind"]), of(binding, &["roleRef", "name"]));
            let is_bound = |e: &&Value| {
                of(e, &["kind"]) == kind
                    && of(e, &["name"]) == name
                    && (kind == "ClusterRole" || of(e, &["namespace"]) == of(binding, &["namespace"]))
            };
            assert!(entries.iter().any(|e| is_bound(&e)), "{kind} {name}");
        }
    }

    #[test]
    fn a_start_adds_what_is_missing_and_takes_nothing_away() {
        let wanted = entry("system:discovery", "ClusterRole");
        assert_eq!(mended(&wanted, &wanted), None);
        let own = object! { "verbs" => vec![Value::from("get")], "nonResourceURLs" => vec![Value::from("/own")] };
        let mut changed = wanted.clone();
        changed.set(&["rules"], vec![own.clone()]);
        let repaired = mended(&changed, &wanted).expect("is mended");
        let rules = repaired.get("rules").and_then(Value::as_array).expect("rules");
        assert_eq!(rules[0], own);
        assert_eq!(rules.len(), 2);
        changed.set(&["metadata", "annotations", AUTOUPDATE], "false");
        assert_eq!(mended(&changed, &wanted), None);
        let bound = entry("system:discovery", "ClusterRoleBinding");
        let mut unbound = bound.clone();
        unbound.set(&["subjects"], Vec::<Value>::new());
        assert_eq!(mended(&unbound, &bound), Some(bound.clone()));
    }
}
