//! The RBAC policy as one immutable index of all roles and bindings. Another state's index is this one, mended: its parts are
//! shared, and what is read anew are the objects by which the states differ.

use std::sync::Arc;

use auth::User;
use generic_server::registry::Lister;
use imbl::{HashMap, Vector};
use machinery::{Str, Value, request::RequestInfo};
use storage::cache::{CacheEntry, Snapshot};

use super::rule::{Asked, Role, Rule};

/// What a binding grants to one of its subjects.
#[derive(Clone)]
pub(crate) struct Grant {
    /// The binding's key: a subject's grants are in the order of these.
    binding: Arc<str>,
    role: RoleId,
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

/// A role's place.
type RoleId = usize;

/// A role that there is, or that a binding names.
#[derive(Clone)]
struct Known {
    name: Arc<RoleRef>,
    role: Option<Arc<Role>>,
}

/// The roles, at places that grants know: to follow a grant costs no search.
#[derive(Clone, Default)]
struct Roles {
    places: HashMap<Arc<RoleRef>, RoleId>,
    known: Vector<Known>,
    /// How many there are; the other places are of roles that are only named.
    present: usize,
}

impl Roles {
    fn place(&mut self, name: RoleRef) -> RoleId {
        if let Some(place) = self.places.get(&name) {
            return *place;
        }
        let (name, place) = (Arc::new(name), self.known.len());
        self.known.push_back(Known { name: name.clone(), role: None });
        self.places.insert(name, place);
        place
    }

    fn set(&mut self, name: RoleRef, role: Option<Role>) {
        let place = self.place(name);
        if let Some(known) = self.known.get_mut(place) {
            self.present -= usize::from(known.role.is_some());
            self.present += usize::from(role.is_some());
            known.role = role.map(Arc::new);
        }
    }

    fn get(&self, name: &RoleRef) -> Option<&Role> {
        self.known.get(*self.places.get(name)?)?.role.as_deref()
    }
}

/// What bindings of one place grant, by subject.
#[derive(Clone, Default)]
struct Grants {
    users: HashMap<Str, Arc<Vec<Grant>>>,
    groups: HashMap<Str, Arc<Vec<Grant>>>,
}

/// Who a grant is for.
#[derive(Debug, PartialEq, Eq)]
enum Subject {
    User(Str),
    Group(Str),
}

impl Grants {
    fn of(&mut self, subject: Subject) -> (&mut HashMap<Str, Arc<Vec<Grant>>>, Str) {
        match subject {
            Subject::User(name) => (&mut self.users, name),
            Subject::Group(name) => (&mut self.groups, name),
        }
    }

    fn add(&mut self, subject: Subject, grant: Grant) {
        let (map, name) = self.of(subject);
        let grants = Arc::make_mut(map.entry(name).or_default());
        let at = grants.partition_point(|known| known.binding <= grant.binding);
        grants.insert(at, grant);
    }

    /// Takes away what a binding grants to a subject.
    fn remove(&mut self, subject: Subject, binding: &str) {
        let (map, name) = self.of(subject);
        let Some(grants) = map.get_mut(&name) else { return };
        Arc::make_mut(grants).retain(|grant| &*grant.binding != binding);
        if grants.is_empty() {
            map.remove(&name);
        }
    }

    fn is_empty(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty()
    }

    /// The grants of a user: its own first, then those of its groups.
    fn held_by<'a, 'u>(&'a self, user: &'u User) -> impl Iterator<Item = &'a Grant> + use<'a, 'u> {
        let own = find(&self.users, &user.name);
        own.iter().chain(user.groups.iter().flat_map(|group| find(&self.groups, group)))
    }
}

fn find<'a>(map: &'a HashMap<Str, Arc<Vec<Grant>>>, name: &str) -> &'a [Grant] {
    map.get(name).map_or(&[], |grants| grants.as_slice())
}

/// The states of the four resources that an index is made of: cluster roles, their bindings, roles, their bindings.
pub(crate) type States = [Snapshot; 4];

/// An index, and what it was made of.
#[derive(Clone)]
pub(crate) struct Policy {
    states: States,
    roles: Roles,
    cluster: Grants,
    namespaced: HashMap<Str, Grants>,
}

/// Places of roles that are gone are kept until there are so many more than roles.
const SPARE_PLACES: usize = 1024;

impl Policy {
    /// Whether the index shows these states.
    pub(crate) fn shows(&self, states: &States) -> bool {
        self.states.iter().zip(states).all(|(own, other)| own.shares(other))
    }

    /// Indexes states. What cannot be decoded grants nothing.
    pub(crate) fn new(registries: &[Arc<Lister>; 4], states: States) -> Self {
        let mut policy = Policy {
            states: states.clone(),
            roles: Roles::default(),
            cluster: Grants::default(),
            namespaced: HashMap::default(),
        };
        for (registry, state) in registries.iter().zip(&states) {
            for entry in state.range(registry.prefix(), None) {
                policy.change(registry, None, Some(entry));
            }
        }
        policy
    }

    /// The index of other states.
    pub(crate) fn mended(&self, registries: &[Arc<Lister>; 4], states: States) -> Self {
        let mut policy = self.clone();
        for (at, registry) in registries.iter().enumerate() {
            self.states[at].changes(&states[at], |old, new| policy.change(registry, old, new));
        }
        if policy.roles.known.len() > 2 * policy.roles.present + SPARE_PLACES {
            return Policy::new(registries, states);
        }
        Policy { states, ..policy }
    }

    /// Takes in that an object is another one now.
    fn change(&mut self, registry: &Lister, old: Option<&CacheEntry>, new: Option<&CacheEntry>) {
        let read = |entry: Option<&CacheEntry>| {
            let object = entry?.object()?;
            let namespace = registry.row.namespaced.then(|| Str::from(object.namespace().unwrap_or_default()));
            Some((object.key().clone(), namespace, Str::from(object.name()), registry.decode(object.bytes()).ok()?))
        };
        let (old, new) = (read(old), read(new));
        if registry.row.kind.ends_with("Binding") {
            if let Some((key, namespace, _, binding)) = old {
                self.remove_binding(&key, namespace, &binding);
            }
            if let Some((key, namespace, _, binding)) = new {
                self.add_binding(&key, namespace, &binding);
            }
            return;
        }
        if let Some((_, namespace, name, _)) = old.filter(|_| new.is_none()) {
            self.roles.set(RoleRef { namespace, name }, None);
        }
        if let Some((_, namespace, name, role)) = new {
            self.roles.set(RoleRef { namespace, name }, Some(Role::new(Rule::all_of(&role))));
        }
    }

    fn add_binding(&mut self, key: &Arc<str>, namespace: Option<Str>, binding: &Value) {
        let own = namespace.clone().unwrap_or_default();
        let name = RoleRef::of_binding(binding, &own);
        let subjects: Vec<(Subject, Str)> = subjects_of(binding, &own)
            .map(|(subject, shown)| (subject, reason(binding, namespace.as_deref(), &name, &shown)))
            .collect();
        let role = self.roles.place(name);
        let grants = match namespace {
            None => &mut self.cluster,
            Some(namespace) => self.namespaced.entry(namespace).or_default(),
        };
        for (subject, reason) in subjects {
            grants.add(subject, Grant { binding: key.clone(), role, reason });
        }
    }

    fn remove_binding(&mut self, key: &str, namespace: Option<Str>, binding: &Value) {
        let own = namespace.clone().unwrap_or_default();
        let grants = match &namespace {
            None => Some(&mut self.cluster),
            Some(namespace) => self.namespaced.get_mut(namespace),
        };
        let Some(grants) = grants else { return };
        for (subject, _) in subjects_of(binding, &own) {
            grants.remove(subject, key);
        }
        if let Some(namespace) = namespace.filter(|_| grants.is_empty()) {
            self.namespaced.remove(&namespace);
        }
    }

    /// What the user has been granted in a namespace: what holds everywhere comes first.
    pub(crate) fn grants<'a, 'u>(
        &'a self,
        user: &'u User,
        namespace: &str,
    ) -> impl Iterator<Item = &'a Grant> + use<'a, 'u> {
        let local = self.namespaced.get(namespace).filter(|_| !namespace.is_empty());
        self.cluster.held_by(user).chain(local.into_iter().flat_map(move |grants| grants.held_by(user)))
    }

    /// Whether the role that a grant names allows what is asked, or what is missing.
    pub(crate) fn allows(&self, grant: &Grant, asked: &Asked<'_>) -> Result<bool, String> {
        match self.roles.known.get(grant.role) {
            Some(Known { role: Some(role), .. }) => Ok(role.allows(asked)),
            Some(Known { name, .. }) => Err(name.missing()),
            None => Ok(false),
        }
    }

    /// The rules of the role that a grant names, or what is missing.
    pub(crate) fn rules(&self, grant: &Grant) -> Result<&[Rule], String> {
        match self.roles.known.get(grant.role) {
            Some(Known { role: Some(role), .. }) => Ok(role.rules()),
            Some(Known { name, .. }) => Err(name.missing()),
            None => Ok(&[]),
        }
    }

    /// The rules of a role, if there is one.
    pub(crate) fn role(&self, role: &RoleRef) -> Option<&[Rule]> {
        self.roles.get(role).map(Role::rules)
    }

    /// The grants of a user that allow what is asked, and what is missing of those before the first.
    pub(crate) fn decide(&self, user: &User, info: &RequestInfo) -> Result<&Grant, Vec<String>> {
        let namespace = if info.is_resource { info.namespace.as_str() } else { "" };
        let asked = Asked::new(info);
        let mut missing = Vec::new();
        for grant in self.grants(user, namespace) {
            match self.allows(grant, &asked) {
                Ok(true) => return Ok(grant),
                Ok(false) => {}
                Err(error) => missing.push(error),
            }
        }
        Err(missing)
    }
}

/// The subjects of a binding of a namespace, and how reasons show each.
fn subjects_of<'a>(binding: &'a Value, namespace: &'a str) -> impl Iterator<Item = (Subject, String)> + 'a {
    let subjects = binding.get("subjects").and_then(Value::as_array).unwrap_or_default();
    subjects.iter().filter_map(move |subject| subject_of(subject, namespace))
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
