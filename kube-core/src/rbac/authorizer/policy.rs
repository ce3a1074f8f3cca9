//! Who may do what, as one immutable index of all roles and bindings.

use std::{collections::HashMap, sync::Arc};

use auth::User;
use generic_server::registry::Registry;
use machinery::{Str, Value};
use storage::cache::Snapshot;

use super::rule::Rule;

/// What a binding grants to one of its subjects.
pub(crate) struct Grant {
    role: RoleRef,
    /// Why it allows something, in upstream's words.
    pub(crate) reason: Str,
}

/// Names a role: a Role of a namespace, or a ClusterRole where the namespace is `None`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RoleRef {
    pub(crate) namespace: Option<Str>,
    pub(crate) name: Str,
}

impl RoleRef {
    /// The role that a binding names. `namespace`: the binding's.
    pub(crate) fn of_binding(binding: &Value, namespace: &str) -> Self {
        let name = Str::from(binding.str_at(&["roleRef", "name"]).unwrap_or_default());
        let of_namespace = binding.str_at(&["roleRef", "kind"]) == Some("Role");
        RoleRef { namespace: of_namespace.then(|| namespace.into()), name }
    }

    /// What a missing role is reported as.
    fn missing(&self) -> String {
        let kind = if self.namespace.is_some() { "role" } else { "clusterrole" };
        format!("{kind}.rbac.authorization.k8s.io {:?} not found", self.name.as_str())
    }
}

/// Who a grant is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Subject {
    User(Str),
    Group(Str),
}

type Grants = HashMap<Subject, Vec<Grant>>;

/// The states of the four resources that an index is made of: cluster roles, their bindings, roles, their bindings.
pub(crate) type States = [Snapshot; 4];

/// An index, and what it was made of.
pub(crate) struct Policy {
    states: States,
    roles: HashMap<RoleRef, Arc<[Rule]>>,
    cluster: Grants,
    namespaced: HashMap<Str, Grants>,
}

impl Policy {
    /// Whether the index shows these states.
    pub(crate) fn shows(&self, states: &States) -> bool {
        self.states.iter().zip(states).all(|(own, other)| own.shares(other))
    }

    /// Indexes states. What cannot be decoded grants nothing.
    pub(crate) fn new(registries: &[Arc<Registry>; 4], states: States) -> Self {
        let mut policy = Policy {
            states: states.clone(),
            roles: HashMap::new(),
            cluster: Grants::new(),
            namespaced: HashMap::new(),
        };
        for (registry, state) in registries.iter().zip(&states) {
            let binds = registry.row.kind.ends_with("Binding");
            for object in state.range(registry.prefix(), None).filter_map(|e| e.object()) {
                let Ok(value) = registry.decode(object.bytes()) else { continue };
                let namespace = registry.row.namespaced.then(|| Str::from(object.namespace().unwrap_or_default()));
                if binds {
                    policy.add_binding(&value, namespace);
                } else {
                    let role = RoleRef { namespace, name: object.name().into() };
                    policy.roles.insert(role, Rule::all_of(&value).into());
                }
            }
        }
        policy
    }

    fn add_binding(&mut self, binding: &Value, namespace: Option<Str>) {
        let own = namespace.clone().unwrap_or_default();
        let role = RoleRef::of_binding(binding, &own);
        let grants = match &namespace {
            None => &mut self.cluster,
            Some(namespace) => self.namespaced.entry(namespace.clone()).or_default(),
        };
        for subject in binding.get("subjects").and_then(Value::as_array).unwrap_or_default() {
            let Some((key, shown)) = subject_of(subject, &own) else { continue };
            let reason = reason(binding, namespace.as_deref(), &role, &shown);
            grants.entry(key).or_default().push(Grant { role: role.clone(), reason });
        }
    }

    /// What the user has been granted in a namespace: what holds everywhere comes first.
    pub(crate) fn grants<'a>(&'a self, user: &'a User, namespace: &str) -> impl Iterator<Item = &'a Grant> {
        let subjects = std::iter::once(Subject::User(user.name.clone()))
            .chain(user.groups.iter().map(|group| Subject::Group(group.clone())));
        let places: Vec<&Grants> = std::iter::once(&self.cluster)
            .chain(self.namespaced.get(namespace).filter(|_| !namespace.is_empty()))
            .collect();
        let subjects: Vec<Subject> = subjects.collect();
        places.into_iter().flat_map(move |grants| {
            subjects.clone().into_iter().filter_map(move |subject| grants.get(&subject)).flatten()
        })
    }

    /// The rules of the role that a grant names, or what is missing.
    pub(crate) fn rules(&self, grant: &Grant) -> Result<&[Rule], String> {
        self.role(&grant.role).ok_or_else(|| grant.role.missing())
    }

    /// The rules of a role, if there is one.
    pub(crate) fn role(&self, role: &RoleRef) -> Option<&[Rule]> {
        self.roles.get(role).map(AsRef::as_ref)
    }
}

/// A subject of a binding, and how reasons show it. A service account is the user that its tokens name.
fn subject_of(subject: &Value, namespace: &str) -> Option<(Subject, String)> {
    let kind = subject.str_at(&["kind"])?;
    let name = subject.str_at(&["name"]).unwrap_or_default();
    match kind {
        "User" => Some((Subject::User(name.into()), format!("User {name:?}"))),
        "Group" => Some((Subject::Group(name.into()), format!("Group {name:?}"))),
        "ServiceAccount" => {
            let namespace = subject.str_at(&["namespace"]).filter(|n| !n.is_empty()).unwrap_or(namespace);
            let user = Subject::User(format!("system:serviceaccount:{namespace}:{name}").into());
            let shown = format!("ServiceAccount {:?}", format!("{name}/{namespace}"));
            (!namespace.is_empty()).then_some((user, shown))
        }
        _ => None,
    }
}

fn reason(binding: &Value, namespace: Option<&str>, role: &RoleRef, subject: &str) -> Str {
    let name = binding.str_at(&["metadata", "name"]).unwrap_or_default();
    let binding = match namespace {
        None => format!("ClusterRoleBinding {name:?}"),
        Some(namespace) => format!("RoleBinding {:?}", format!("{name}/{namespace}")),
    };
    let kind = if role.namespace.is_some() { "Role" } else { "ClusterRole" };
    format!("RBAC: allowed by {binding} of {kind} {:?} to {subject}", role.name.as_str()).into()
}
