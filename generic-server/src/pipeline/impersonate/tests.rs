//! Who may become whom, and what is said about it.

use std::sync::Mutex;

use async_trait::async_trait;
use machinery::{
    Str,
    request::{Query, RequestInfo, resolve},
};

use super::*;
use auth::{Attributes, Decision};

/// Allows what it was told, and notes what it is asked: `verb resource[/subresource] [namespace/]name`.
struct Allow {
    allowed: Vec<&'static str>,
    asked: Mutex<Vec<String>>,
}

#[async_trait]
impl Authorizer for Allow {
    async fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let info = attributes.info;
        let mut text = format!("{} ", info.verb_name());
        if info.is_resource {
            text += &info.resource;
            if !info.group.is_empty() {
                text += &format!(".{}", info.group);
            }
            if !info.subresource.is_empty() {
                text += &format!("/{}", info.subresource);
            }
            text += " ";
            if !info.namespace.is_empty() {
                text += &format!("{}/", info.namespace);
            }
            text += &info.name;
        } else {
            text += &info.path;
        }
        let decision =
            if self.allowed.contains(&text.as_str()) { Decision::allow("") } else { Decision::no_opinion("because") };
        self.asked.lock().expect("not poisoned").push(text);
        decision
    }
}

fn user(name: &str, groups: &[&str]) -> User {
    User { name: name.into(), groups: groups.iter().copied().map(Str::from).collect(), ..User::default() }
}

fn pods() -> RequestInfo {
    resolve("GET", "/api/v1/namespaces/n/pods", &Query::default())
}

async fn attempt(
    impersonation: &Impersonation,
    allowed: &[&'static str],
    requestor: &User,
    info: &RequestInfo,
    wanted: &User,
) -> (Result<(Mode, User), Status>, Vec<String>) {
    let authorizer = Allow { allowed: allowed.to_vec(), asked: Mutex::default() };
    let outcome = impersonation.find(&authorizer, requestor, info, wanted).await;
    (outcome, authorizer.asked.into_inner().expect("not poisoned"))
}

fn impersonation(constrained: bool) -> Impersonation {
    Impersonation::new(constrained, &prometheus::Registry::new())
}

/// Alice, with what she is allowed, becomes somebody, in a mode and with groups.
async fn becomes(allowed: &[&'static str], wanted: User, mode: Mode, groups: &[&str]) {
    let (outcome, _) = attempt(&impersonation(true), allowed, &user("alice", &[]), &pods(), &wanted).await;
    let (found, actual) = outcome.expect("allowed");
    assert_eq!(found, mode, "{}", wanted.name);
    assert_eq!(actual.groups, groups, "{}", wanted.name);
    assert_eq!(actual.name, wanted.name);
}

#[tokio::test]
async fn every_mode_needs_the_right_to_be_somebody_and_to_do_this_as_somebody() {
    let authenticated = "system:authenticated";
    becomes(
        &["impersonate-on:user-info:list pods n/", "impersonate:user-info users.authentication.k8s.io bob"],
        user("bob", &[]),
        Mode::UserInfo,
        &[authenticated],
    )
    .await;
    let account = user("system:serviceaccount:n:robot", &[]);
    becomes(
        &[
            "impersonate-on:serviceaccount:list pods n/",
            "impersonate:serviceaccount serviceaccounts.authentication.k8s.io n/robot",
        ],
        account.clone(),
        Mode::ServiceAccount,
        &["system:serviceaccounts", "system:serviceaccounts:n", authenticated],
    )
    .await;
    becomes(
        &["impersonate serviceaccounts n/robot"],
        account,
        Mode::Legacy,
        &["system:serviceaccounts", "system:serviceaccounts:n", authenticated],
    )
    .await;
    let node = user("system:node:n1", &[]);
    becomes(
        &["impersonate-on:arbitrary-node:list pods n/", "impersonate:arbitrary-node nodes.authentication.k8s.io n1"],
        node.clone(),
        Mode::ArbitraryNode,
        &["system:nodes", authenticated],
    )
    .await;
    // The verb that allows everything knows nothing of nodes.
    becomes(&["impersonate users system:node:n1"], node, Mode::Legacy, &[authenticated]).await;
    becomes(
        &["impersonate users system:anonymous"],
        user("system:anonymous", &[]),
        Mode::Legacy,
        &["system:unauthenticated"],
    )
    .await;
}

#[tokio::test]
async fn a_service_account_becomes_the_node_that_its_token_is_bound_to() {
    let bound = |node: &str| User {
        extra: vec![("authentication.kubernetes.io/node-name".into(), vec![node.into()])],
        ..user("system:serviceaccount:n:agent", &[])
    };
    let allowed =
        ["impersonate-on:associated-node:list pods n/", "impersonate:associated-node nodes.authentication.k8s.io *"];
    let (wanted, info) = (user("system:node:n1", &[]), pods());
    let (outcome, _) = attempt(&impersonation(true), &allowed, &bound("n1"), &info, &wanted).await;
    let (mode, actual) = outcome.expect("its own node");
    assert_eq!((mode, actual.groups[0].as_str()), (Mode::AssociatedNode, "system:nodes"));
    let (outcome, asked) = attempt(&impersonation(true), &allowed, &bound("n2"), &info, &wanted).await;
    assert!(outcome.is_err() && !asked.iter().any(|asked| asked.contains("associated-node")), "another's node");
    let user = User { name: "alice".into(), ..bound("n1") };
    assert!(attempt(&impersonation(true), &allowed, &user, &info, &wanted).await.0.is_err(), "no service account");
}

#[tokio::test]
async fn names_that_only_look_like_a_service_accounts_are_users() {
    for name in ["system:serviceaccount:default:A", "system:serviceaccount:default:a:b", "system:serviceaccount::"] {
        let wanted = user(name, &[]);
        let (_, asked) = attempt(&impersonation(true), &[], &user("alice", &[]), &pods(), &wanted).await;
        assert_eq!(asked, ["impersonate-on:user-info:list pods n/".to_owned(), format!("impersonate users {name}")]);
    }
}

#[tokio::test]
async fn a_refusal_is_about_the_request_and_the_first_mode_that_fits() {
    let modes = impersonation(true);
    let refusal = async |modes: &Impersonation, allowed: &[&'static str], info: &RequestInfo, wanted: &User| {
        let (outcome, _) = attempt(modes, allowed, &user("alice", &[]), info, wanted).await;
        outcome.expect_err("refused").message
    };
    let on_pods = "pods is forbidden: User \"alice\" cannot impersonate-on:user-info:list resource \"pods\" in API group \
                   \"\" in the namespace \"n\": because";
    assert_eq!(refusal(&modes, &[], &pods(), &user("bob", &[])).await, on_pods);
    let path = resolve("GET", "/healthz", &Query::default());
    let on_path = "forbidden: User \"alice\" cannot impersonate-on:user-info:get path \"/healthz\": because";
    assert_eq!(refusal(&modes, &[], &path, &user("bob", &[])).await, on_path);
    let allowed = ["impersonate-on:user-info:list pods n/", "impersonate:user-info users.authentication.k8s.io bob"];
    let masters = "groups.authentication.k8s.io \"system:masters\" is forbidden: User \"alice\" cannot \
                   impersonate:user-info resource \"groups\" in API group \"authentication.k8s.io\" at the cluster scope: \
                   impersonating the system:masters group is not allowed";
    assert_eq!(refusal(&modes, &allowed, &pods(), &user("bob", &["system:masters"])).await, masters);

    // Who came through by the old verb is told about that one from then on.
    let everything = ["impersonate users bob"];
    let (outcome, _) = attempt(&modes, &everything, &user("alice", &[]), &pods(), &user("bob", &[])).await;
    assert_eq!(outcome.expect("allowed").0, Mode::Legacy);
    let legacy = "users \"eve\" is forbidden: User \"alice\" cannot impersonate resource \"users\" in API group \"\" at \
                  the cluster scope: because";
    assert_eq!(refusal(&modes, &[], &pods(), &user("eve", &[])).await, legacy);
}

#[tokio::test]
async fn many_groups_and_extra_values_are_asked_for_at_once_first() {
    let mut wanted = user("bob", &["a", "b", "c", "d"]);
    wanted.uid = "7".into();
    wanted.extra = vec![("x.io/y".into(), vec!["1".into(), "2".into()])];
    let allowed = [
        "impersonate-on:user-info:list pods n/",
        "impersonate:user-info users.authentication.k8s.io bob",
        "impersonate:user-info uids.authentication.k8s.io 7",
        "impersonate:user-info groups.authentication.k8s.io *",
        "impersonate:user-info userextras.authentication.k8s.io/x.io/y 1",
        "impersonate:user-info userextras.authentication.k8s.io/x.io/y 2",
    ];
    let (outcome, asked) = attempt(&impersonation(true), &allowed, &user("alice", &[]), &pods(), &wanted).await;
    assert_eq!(outcome.expect("allowed").0, Mode::UserInfo);
    assert_eq!(asked, allowed);
    let (_, asked) = attempt(&impersonation(true), &allowed[1..], &user("alice", &[]), &pods(), &wanted).await;
    assert_eq!(asked, [allowed[0], "impersonate users bob"], "one right alone is none");
}

#[tokio::test]
async fn extra_keys_are_domains_in_the_narrow_modes() {
    let allowed = ["impersonate-on:user-info:list pods n/", "impersonate:user-info users.authentication.k8s.io bob"];
    let check = async |key: &str, value: &str, expect: &str| {
        let wanted = User { extra: vec![(key.into(), vec![value.into()])], ..user("bob", &[]) };
        let (outcome, _) = attempt(&impersonation(true), &allowed, &user("alice", &[]), &pods(), &wanted).await;
        let message = outcome.expect_err("refused").message;
        let start = "userextras.authentication.k8s.io is forbidden: User \"alice\" cannot impersonate:user-info resource \
                     \"userextras\" in API group \"authentication.k8s.io\" at the cluster scope: impersonating ";
        assert_eq!(message.strip_prefix(start), Some(expect), "{message}");
    };
    check("", "v", "the empty string key in extra is not allowed").await;
    check("x.io/y", "", "the empty string value in extra is not allowed").await;
    check("x.io/Y", "v", "a non-lowercase key in extra is not allowed: \"x.io/Y\"").await;
    let bare = "an invalid key in extra is not allowed: extra.key: Invalid value: \"scopes\": must be a domain-prefixed \
                path (such as \"acme.io/foo\")";
    check("scopes", "v", bare).await;
}

#[tokio::test]
async fn without_the_gate_only_the_old_verb_counts() {
    let allowed = ["impersonate users bob", "impersonate groups a", "impersonate uids.authentication.k8s.io 7"];
    let wanted = User { uid: "7".into(), ..user("bob", &["a"]) };
    let (outcome, asked) = attempt(&impersonation(false), &allowed, &user("alice", &[]), &pods(), &wanted).await;
    assert_eq!(outcome.expect("allowed").0, Mode::Legacy);
    assert_eq!(asked, allowed);
}
