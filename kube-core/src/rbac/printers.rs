//! Table columns of bindings.

use machinery::Value;

use generic_server::printer::{AGE, Doc, NAME, Table, age, items, name, text};

/// Bindings in a namespace.
pub(super) const ROLE_BINDINGS: Table = Table::new(
    &[
        NAME,
        text(
            "Role",
            Doc::Text(
                "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. If the RoleRef \
                 cannot be resolved, the Authorizer must return an error.",
            ),
        ),
        AGE,
        text("Users", Doc::Text("Users in the roleBinding")).wide(),
        text("Groups", Doc::Text("Groups in the roleBinding")).wide(),
        text("ServiceAccounts", Doc::Text("ServiceAccounts in the roleBinding")).wide(),
    ],
    binding,
);

/// Bindings in the cluster.
pub(super) const CLUSTER_ROLE_BINDINGS: Table = Table::new(
    &[
        NAME,
        text(
            "Role",
            Doc::Text(
                "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the \
                 Authorizer must return an error.",
            ),
        ),
        AGE,
        text("Users", Doc::Text("Users in the clusterRoleBinding")).wide(),
        text("Groups", Doc::Text("Groups in the clusterRoleBinding")).wide(),
        text("ServiceAccounts", Doc::Text("ServiceAccounts in the clusterRoleBinding")).wide(),
    ],
    binding,
);

fn binding(binding: &Value, now: i64) -> Vec<Value> {
    let role = |part: &str| binding.str_at(&["roleRef", part]).unwrap_or_default();
    let subjects = |kind: &str| -> Value {
        let held = items(binding, &["subjects"]).iter().filter(|s| s.str_at(&["kind"]) == Some(kind));
        let texts = held.map(|subject| {
            let part = |name: &str| subject.str_at(&[name]).unwrap_or_default();
            if kind == "ServiceAccount" {
                format!("{}/{}", part("namespace"), part("name"))
            } else {
                part("name").to_owned()
            }
        });
        texts.collect::<Vec<_>>().join(", ").into()
    };
    vec![
        name(binding),
        format!("{}/{}", role("kind"), role("name")).into(),
        age(binding, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}
