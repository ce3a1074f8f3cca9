//! Roles and bindings count for the question after the write, whatever was written before.

mod granted;

use auth::{Attributes, Authorizer as _, Decision, User};
use granted::{Granted, binding, role};
use machinery::{
    Str,
    request::{RequestInfo, resource_info},
};

impl Granted {
    /// What alice of the group dev is told who lists a resource in the namespace `n`.
    async fn list(&self, resource: &str) -> Decision {
        let groups = vec![Str::from("dev"), Str::from("system:authenticated")];
        let user = User { name: "alice".into(), groups, ..User::default() };
        let info = RequestInfo { namespace: "n".into(), ..resource_info("list", "", "v1", resource) };
        self.rbac.authorize(&Attributes { user: &user, info: &info }).await
    }
}

const CLUSTER_ROLES: usize = 0;
const ROLES: usize = 2;
const ROLE_BINDINGS: usize = 3;

#[tokio::test]
async fn every_write_counts_for_the_next_question() {
    let reader = role(None, "reader", &["list"], "", &["pods"]);
    let granted = Granted::start(&[reader]).await;
    let nothing = Decision::no_opinion("");
    assert_eq!(granted.list("pods").await, nothing);

    let write = async |at: usize, object| granted.registries[at].create_as_server(object).await.expect("created");
    let remove = async |at: usize, namespace: &str, name: &str| {
        granted.registries[at].delete_as_server(namespace, name).await.expect("deleted")
    };
    write(ROLE_BINDINGS, binding(Some("n"), "b", "ClusterRole/reader", "Group/dev")).await;
    let allowed = "RBAC: allowed by RoleBinding \"b/n\" of ClusterRole \"reader\" to Group \"dev\"";
    assert_eq!(granted.list("pods").await, Decision::allow(allowed));
    assert_eq!(granted.list("secrets").await, nothing);

    let more = role(None, "reader", &["list"], "", &["pods", "secrets"]);
    granted.registries[CLUSTER_ROLES].edit("", "reader", "", |_| Ok(more.clone())).await.expect("edited");
    assert_eq!(granted.list("secrets").await, Decision::allow(allowed));

    // Of two bindings the first by name is told.
    write(ROLE_BINDINGS, binding(Some("n"), "a", "Role/own", "User/alice")).await;
    write(ROLE_BINDINGS, binding(Some("m"), "a", "Role/own", "User/alice")).await;
    let missing = "RBAC: role.rbac.authorization.k8s.io \"own\" not found";
    assert_eq!(granted.list("services").await, Decision::no_opinion(missing));
    write(ROLES, role(Some("n"), "own", &["*"], "", &["services", "pods"])).await;
    let own = "RBAC: allowed by RoleBinding \"a/n\" of Role \"own\" to User \"alice\"";
    assert_eq!(granted.list("services").await, Decision::allow(own));
    assert_eq!(granted.list("pods").await, Decision::allow(own));

    remove(ROLES, "n", "own").await;
    assert_eq!(granted.list("services").await, Decision::no_opinion(missing));
    assert_eq!(granted.list("pods").await, Decision::allow(allowed));
    remove(ROLE_BINDINGS, "n", "a").await;
    assert_eq!(granted.list("services").await, nothing);
    remove(ROLE_BINDINGS, "n", "b").await;
    assert_eq!(granted.list("pods").await, nothing);
}

#[tokio::test]
async fn roles_that_come_and_go_leave_nothing_behind() {
    let granted = Granted::start(&[]).await;
    for round in 0..1100 {
        let name = format!("r{round}");
        let granting = binding(Some("n"), &name, &format!("Role/{name}"), "User/alice");
        granted.registries[ROLES]
            .create_as_server(role(Some("n"), &name, &["list"], "", &["pods"]))
            .await
            .expect("created");
        granted.registries[ROLE_BINDINGS].create_as_server(granting).await.expect("created");
        assert!(granted.list("pods").await.is_allowed(), "{round}");
        granted.registries[ROLES].delete_as_server("n", &name).await.expect("deleted");
        granted.registries[ROLE_BINDINGS].delete_as_server("n", &name).await.expect("deleted");
        assert_eq!(granted.list("pods").await, Decision::no_opinion(""), "{round}");
    }
}
