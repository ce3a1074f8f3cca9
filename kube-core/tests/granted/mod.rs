//! The RBAC authorizer over roles and bindings in memory.

use std::sync::Arc;

use generic_server::{
    admission::{Admission, Chain},
    registry::{Backing, Listers, Registries, Registry, RegistrySettings, StoredForm},
    resource::Resource,
};
use kube_core::rbac::Rbac;
use machinery::Value;
use storage::{Expect, Memory, Store};

/// The authorizer, and the registries that it reads: of cluster roles, their bindings, roles, their bindings.
pub(crate) struct Granted {
    pub(crate) rbac: Arc<Rbac>,
    pub(crate) registries: [Arc<Registry>; 4],
}

const GROUP: &str = "rbac.authorization.k8s.io";
const PLURALS: [&str; 4] = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"];

impl Granted {
    pub(crate) async fn start(objects: &[Value]) -> Self {
        let rows: Vec<Resource> = kube_core::resources().into_iter().filter(|row| row.group == GROUP).collect();
        let store = Memory::new();
        for object in objects {
            let row = rows.iter().find(|row| object.str_at(&["kind"]) == Some(&*row.kind)).expect("one of the group");
            let text = |member| object.str_at(&["metadata", member]);
            let place = text("namespace").map_or_else(String::new, |namespace| format!("{namespace}/"));
            let key = format!("/registry/{}/{place}{}", row.storage_path, text("name").expect("it has a name"));
            let bytes = StoredForm::new(row, &[]).encode(object);
            store.put(&key, bytes, Expect::Absent, None).await.expect("the write succeeds");
        }
        let backing =
            Backing { store, encryption: None, root: "/registry".into(), settings: RegistrySettings::default() };
        let listers = Listers::start(&rows, &backing);
        let admission: Arc<dyn Admission> = Arc::new(Chain::default());
        let all = Registries::new(&listers, &admission);
        let registries = PLURALS.map(|plural| all.of(GROUP, plural).clone());
        for registry in &registries {
            registry.ready().await.expect("the cache is filled");
        }
        Granted { rbac: Arc::new(Rbac::new(&listers)), registries }
    }
}

/// A role of a namespace, or a cluster role, that allows verbs on resources of one group.
pub(crate) fn role(namespace: Option<&str>, name: &str, verbs: &[&str], group: &str, resources: &[&str]) -> Value {
    let texts = |texts: &[&str]| texts.iter().map(|text| Value::from(*text)).collect::<Vec<_>>();
    let rule = machinery::object! {
        "verbs" => texts(verbs), "apiGroups" => texts(&[group]), "resources" => texts(resources),
    };
    let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
    let mut role = object(kind, namespace, name);
    role.set(&["rules"], vec![rule]);
    role
}

/// A binding of a role to a user or group; `role` begins with its kind: `Role/reader`.
pub(crate) fn binding(namespace: Option<&str>, name: &str, role: &str, subject: &str) -> Value {
    let (role_kind, role_name) = role.split_once('/').expect("kind and name");
    let (subject_kind, subject_name) = subject.split_once('/').expect("kind and name");
    let kind = if namespace.is_some() { "RoleBinding" } else { "ClusterRoleBinding" };
    let mut binding = object(kind, namespace, name);
    let reference = |kind: &str, name: &str| {
        machinery::object! { "apiGroup" => GROUP, "kind" => kind, "name" => name }
    };
    binding.set(&["roleRef"], reference(role_kind, role_name));
    binding.set(&["subjects"], vec![reference(subject_kind, subject_name)]);
    binding
}

fn object(kind: &str, namespace: Option<&str>, name: &str) -> Value {
    let mut metadata = machinery::object! { "name" => name };
    if let Some(namespace) = namespace {
        metadata.set(&["namespace"], namespace);
    }
    machinery::object! { "apiVersion" => format!("{GROUP}/v1"), "kind" => kind, "metadata" => metadata }
}
