//! The modes of impersonation: whom each is for, and what a user must be allowed in it.

use std::{future::Future, pin::Pin, time::Instant};

use machinery::{
    Str,
    meta::{domains::domain_prefixed_path, go_text::quote, status::Status},
};

use super::metrics::ImpersonationMetrics;
use auth::refusal_of;
use auth::{Attributes, Authorizer, User, node_of_name, service_account_of_name};
use machinery::request::{RequestInfo, Verb, resource_info};

const AUTHENTICATION: &str = "authentication.k8s.io";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const NODE_KEYS: &str = "authentication.kubernetes.io/associated-node-keys";
/// From so many groups or extra values on, it is first asked whether all of them are allowed.
const MANY: usize = 4;

/// A way to be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// A service account becomes the node that its token is bound to.
    AssociatedNode,
    /// Any node.
    ArbitraryNode,
    /// A service account.
    ServiceAccount,
    /// A user that is neither, with groups, uid and extra.
    UserInfo,
    /// Anybody, for every request.
    Legacy,
}

impl Mode {
    /// In the order in which they are tried.
    pub(super) const ALL: [Mode; 5] =
        [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Legacy];

    /// As verbs and metrics name it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::AssociatedNode => "associated-node",
            Mode::ArbitraryNode => "arbitrary-node",
            Mode::ServiceAccount => "serviceaccount",
            Mode::UserInfo => "user-info",
            Mode::Legacy => "legacy",
        }
    }

    /// The verb that allows it, as events show it; empty for the one that allows everything.
    pub(super) fn constraint(self) -> &'static str {
        match self {
            Mode::AssociatedNode => "impersonate:associated-node",
            Mode::ArbitraryNode => "impersonate:arbitrary-node",
            Mode::ServiceAccount => "impersonate:serviceaccount",
            Mode::UserInfo => "impersonate:user-info",
            Mode::Legacy => "",
        }
    }

    /// Whether somebody can be impersonated in this mode.
    pub(super) fn fits(self, wanted: &User, requestor: &User) -> bool {
        let name_alone = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let (node, account) = (node_of_name(&wanted.name), service_account_of_name(&wanted.name));
        match self {
            Mode::AssociatedNode => name_alone && node.is_some_and(|node| is_on(requestor, node)),
            Mode::ArbitraryNode => name_alone && node.is_some(),
            Mode::ServiceAccount => name_alone && account.is_some(),
            Mode::UserInfo => node.is_none() && account.is_none(),
            Mode::Legacy => true,
        }
    }

    fn is_constrained(self) -> bool {
        self != Mode::Legacy
    }

    fn verb(self) -> String {
        if self.is_constrained() { format!("impersonate:{}", self.name()) } else { "impersonate".to_owned() }
    }
}

/// Whether the user is a service account whose token is bound to the node.
fn is_on(user: &User, node: &str) -> bool {
    let bound = user.extra.iter().find(|(key, _)| key == NODE_NAME).map(|(_, values)| values.as_slice());
    service_account_of_name(&user.name).is_some() && matches!(bound, Some([name]) if name == node)
}

/// One mode, tried for one request.
pub(super) struct Attempt<'a> {
    pub(super) mode: Mode,
    pub(super) authorizer: &'a dyn Authorizer,
    pub(super) metrics: &'a ImpersonationMetrics,
    pub(super) requestor: &'a User,
    pub(super) info: &'a RequestInfo,
    pub(super) wanted: &'a User,
    /// Whether the uid is judged after groups and extra, as it was before there were modes.
    pub(super) uid_last: bool,
}

impl Attempt<'_> {
    /// The user that the request goes on as.
    ///
    /// # Errors
    /// The first thing that is not allowed.
    pub(super) async fn check(&self) -> Result<User, Status> {
        if self.mode.is_constrained() {
            self.authorize(&self.on_request()).await?;
        }
        self.authorize(&self.user_name()).await?;
        if !self.uid_last {
            self.uid().await?;
        }
        self.groups().await?;
        self.extra().await?;
        if self.uid_last {
            self.uid().await?;
        }
        Ok(self.actual_user())
    }

    /// The request itself, as it is asked for by somebody who impersonates.
    fn on_request(&self) -> RequestInfo {
        let verb = format!("impersonate-on:{}:{}", self.mode.name(), self.info.verb_name());
        RequestInfo { verb: Verb::Other, method: verb.into(), ..self.info.clone() }
    }

    fn attributes(&self, group: &str, resource: &str, name: &str) -> RequestInfo {
        RequestInfo { name: name.into(), ..resource_info(&self.mode.verb(), group, "v1", resource) }
    }

    /// Users and groups stand in another API group in the narrow modes.
    fn group_of_names(&self) -> &'static str {
        if self.mode.is_constrained() { AUTHENTICATION } else { "" }
    }

    fn user_name(&self) -> RequestInfo {
        let attributes = |resource, name| self.attributes(self.group_of_names(), resource, name);
        let name = &self.wanted.name;
        if let Some((namespace, name)) = service_account_of_name(name) {
            return RequestInfo { namespace: namespace.into(), ..attributes("serviceaccounts", name) };
        }
        match node_of_name(name).filter(|_| self.mode.is_constrained()) {
            // It was seen to that the node is the requestor's own: what must be allowed is the same for all nodes.
            Some(_) if self.mode == Mode::AssociatedNode => attributes("nodes", "*"),
            Some(node) => attributes("nodes", node),
            None => attributes("users", name),
        }
    }

    async fn uid(&self) -> Result<(), Status> {
        if self.wanted.uid.is_empty() {
            return Ok(());
        }
        self.authorize(&self.attributes(AUTHENTICATION, "uids", &self.wanted.uid)).await
    }

    async fn groups(&self) -> Result<(), Status> {
        let groups = &self.wanted.groups;
        let attributes = |name| self.attributes(self.group_of_names(), "groups", name);
        if self.mode.is_constrained() {
            if groups.iter().any(|group| group.is_empty()) {
                return Err(self.refusal(&attributes(""), "impersonating the empty string group is not allowed"));
            }
            if groups.iter().any(|group| group == User::MASTERS) {
                let why = format!("impersonating the {} group is not allowed", User::MASTERS);
                return Err(self.refusal(&attributes(User::MASTERS), &why));
            }
            if groups.len() >= MANY && self.authorize(&attributes("*")).await.is_ok() {
                return Ok(());
            }
        }
        for group in groups {
            self.authorize(&attributes(group)).await?;
        }
        Ok(())
    }

    async fn extra(&self) -> Result<(), Status> {
        let extra = &self.wanted.extra;
        let attributes = |key: &str, value| {
            let attributes = self.attributes(AUTHENTICATION, "userextras", value);
            RequestInfo { subresource: key.into(), ..attributes }
        };
        if self.mode.is_constrained() {
            extra.iter().try_for_each(|(key, values)| valid_extra(key, values)).map_err(|why| {
                let attributes = self.attributes(AUTHENTICATION, "userextras", "");
                self.refusal(&attributes, &why)
            })?;
            let values: usize = extra.iter().map(|(_, values)| values.len()).sum();
            if values >= MANY && self.authorize(&attributes("*", "*")).await.is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for value in values {
                self.authorize(&attributes(key, value)).await?;
            }
        }
        Ok(())
    }

    /// Boxed: what an authorizer needs is not to be part of the future of every request.
    fn authorize<'f>(&'f self, info: &'f RequestInfo) -> Pin<Box<dyn Future<Output = Result<(), Status>> + Send + 'f>> {
        Box::pin(async move {
            let started = Instant::now();
            let anonymized = (self.mode == Mode::AssociatedNode).then(|| without_node(self.requestor));
            let user = anonymized.as_ref().unwrap_or(self.requestor);
            let decision = self.authorizer.authorize(&Attributes { user, info }).await;
            self.metrics.authorized(self.mode, decision.is_allowed(), started.elapsed());
            if decision.is_allowed() { Ok(()) } else { Err(self.refusal(info, &decision.reason)) }
        })
    }

    fn refusal(&self, info: &RequestInfo, reason: &str) -> Status {
        refusal_of(info, self.requestor, reason)
    }

    /// The user with the groups that go without saying.
    fn actual_user(&self) -> User {
        let mut user = self.wanted.clone();
        if self.mode.is_constrained() && node_of_name(&user.name).is_some() {
            user.groups = vec!["system:nodes".into()];
        }
        if let (Some((namespace, _)), true) = (service_account_of_name(&user.name), user.groups.is_empty()) {
            let own = format!("system:serviceaccounts:{namespace}");
            user.groups = vec!["system:serviceaccounts".into(), own.into()];
        }
        if user.name != User::ANONYMOUS {
            return user.authenticated();
        }
        if !user.in_group("system:unauthenticated") {
            user.groups.push("system:unauthenticated".into());
        }
        user
    }
}

/// The user as authorizers see it who becomes its own node: alike on all nodes.
fn without_node(user: &User) -> User {
    let mut keys: Vec<Str> = user.extra.iter().map(|(key, _)| key.clone()).collect();
    keys.sort();
    User { extra: vec![(Str::new_static(NODE_KEYS), keys)], ..user.clone() }
}

fn valid_extra(key: &str, values: &[Str]) -> Result<(), String> {
    let holds =
        |holds: bool, why: &str| if holds { Ok(()) } else { Err(format!("impersonating {why} is not allowed")) };
    holds(!key.is_empty(), "the empty string key in extra")?;
    let faults = domain_prefixed_path(key, "extra.key");
    if !faults.is_empty() {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        let faults = if faults.len() == 1 { faults[0].clone() } else { format!("[{}]", faults.join(", ")) };
        return Err(format!("impersonating an invalid key in extra is not allowed: {faults}"));
    }
    if key.chars().any(char::is_uppercase) {
        return Err(format!("impersonating a non-lowercase key in extra is not allowed: {}", quote(key)));
    }
    holds(!values.iter().any(|value| value.is_empty()), "the empty string value in extra")
}
