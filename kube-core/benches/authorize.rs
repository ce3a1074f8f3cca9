//! What RBAC costs a request: a get that the last of a user's 200 bindings allows, among 10,000; and the one after a role
//! changed.

use std::{hint::black_box, sync::Arc};

use auth::{Attributes, Authorizer as _, User};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use machinery::{
    Str, Value,
    request::{RequestInfo, resource_info},
};

#[path = "../tests/granted/mod.rs"]
mod granted;

use granted::{Granted, binding, role};

/// 10,000 bindings, 50 in each of 200 namespaces; of those 200 are alice's: `together` all of one namespace, which has 200
/// more then, or else one of each.
fn objects(together: bool) -> Vec<Value> {
    let mut objects = Vec::new();
    for namespace in 0..200 {
        let place = format!("n{namespace}");
        for number in 0..50 {
            let name = format!("r{number}");
            objects.push(role(Some(&place), &name, &["get", "list"], "apps", &["deployments"]));
            let mine = !together && number == 49;
            let subject = if mine { "User/alice".to_owned() } else { format!("User/u{namespace}-{number}") };
            objects.push(binding(Some(&place), &name, &format!("Role/{name}"), &subject));
        }
    }
    for number in 0..if together { 200 } else { 0 } {
        let name = format!("s{number:03}");
        let verbs = if number == 199 { ["get", "list"] } else { ["watch", "list"] };
        objects.push(role(Some("n7"), &name, &verbs, "", &["pods", "services", "configmaps"]));
        objects.push(binding(Some("n7"), &name, &format!("Role/{name}"), "User/alice"));
    }
    if !together {
        objects.push(role(Some("n7"), "r49", &["get", "list"], "", &["pods"]));
        let is_other = |object: &Value| {
            let text = |member| object.str_at(&["metadata", member]);
            object.str_at(&["kind"]) == Some("Role") && (text("namespace"), text("name")) == (Some("n7"), Some("r49"))
        };
        let other = objects.iter().position(is_other).expect("the first of the two");
        objects.remove(other);
    }
    objects
}

fn authorize(c: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let groups = ["dev", "qa", "system:authenticated"].map(Str::from).to_vec();
    let user = User { name: "alice".into(), groups, ..User::default() };
    let info = RequestInfo { namespace: "n7".into(), name: "p".into(), ..resource_info("get", "", "v1", "pods") };
    for (name, together) in [("200 bindings in 200 namespaces", false), ("200 bindings in one namespace", true)] {
        let granted = runtime.block_on(Granted::start(&objects(together)));
        let ask = || runtime.block_on(granted.rbac.authorize(&Attributes { user: &user, info: &info }));
        assert!(ask().is_allowed(), "the index is made");
        c.bench_function(&format!("authorize, {name}"), |b| b.iter(|| black_box(ask())));
        let roles = Arc::clone(&granted.registries[2]);
        let mut round = 0_u32;
        let change = || {
            round += 1;
            let name = format!("changed{round}");
            let added = role(Some("n3"), &name, &["get"], "", &["pods"]);
            runtime.block_on(roles.create_as_server(added)).expect("created");
        };
        let mut change = change;
        c.bench_function(&format!("authorize after a role changed, {name}"), |b| {
            b.iter_batched(&mut change, |()| black_box(ask()), BatchSize::PerIteration);
        });
    }
}

criterion_group!(benches, authorize);
criterion_main!(benches);
