//! Role-based access control: the authorizer that asks roles and bindings.
//!
//! It reads the same caches as every request, so that a binding counts for the next request after the one that made it. The
//! index over them is mended by the first request that finds another state.

mod escalation;
mod policy;
mod rule;

use std::sync::{Arc, Mutex};

use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use auth::{Attributes, Authorizer, Decision, NonResourceRule, ResourceRule, User, UserRules, aggregate};
use generic_server::registry::{Lister, Listers};

pub(crate) use escalation::{NoEscalation, same_but_for_owners};
pub(crate) use policy::RoleRef;
use policy::{Policy, States};
pub(crate) use rule::Rule;

/// The authorizer of `--authorization-mode=RBAC`.
pub struct Rbac {
    /// Of cluster roles, cluster role bindings, roles and role bindings.
    sources: [Arc<Lister>; 4],
    policy: ArcSwapOption<Policy>,
    /// Held while an index is made or mended, so that it is done once.
    making: Mutex<()>,
}

/// Rules that apply to somebody, and what could not be resolved.
pub(crate) struct Held {
    pub(crate) rules: Vec<Rule>,
    pub(crate) errors: Vec<String>,
}

impl Rbac {
    /// Reads the roles and bindings of a server.
    pub fn new(listers: &Listers) -> Self {
        Rbac { sources: super::sources(listers), policy: ArcSwapOption::empty(), making: Mutex::default() }
    }

    /// The index of the latest state.
    fn policy(&self) -> Arc<Policy> {
        let sources = &self.sources;
        let states: States = sources.each_ref().map(|registry| registry.cache().latest());
        if let Some(policy) = self.policy.load_full().filter(|policy| policy.shows(&states)) {
            return policy;
        }
        let _making = self.making.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let states: States = sources.each_ref().map(|registry| registry.cache().latest());
        if let Some(policy) = self.policy.load_full().filter(|policy| policy.shows(&states)) {
            return policy;
        }
        let policy = match self.policy.load_full() {
            Some(policy) => policy.mended(sources, states),
            None => Policy::new(sources, states),
        };
        let policy = Arc::new(policy);
        self.policy.store(Some(policy.clone()));
        policy
    }

    /// All rules that apply to a user in a namespace.
    pub(crate) fn held(&self, user: &User, namespace: &str) -> Held {
        let mut held = Held { rules: Vec::new(), errors: Vec::new() };
        let policy = self.policy();
        for grant in policy.grants(user, namespace) {
            match policy.rules(grant) {
                Ok(rules) => held.rules.extend_from_slice(rules),
                Err(missing) => held.errors.push(missing),
            }
        }
        held
    }

    /// The rules of a role, if there is one.
    pub(crate) fn role(&self, role: &RoleRef) -> Option<Vec<Rule>> {
        self.policy().role(role).map(<[Rule]>::to_vec)
    }

    fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        let policy = self.policy();
        match policy.decide(attributes.user, attributes.info) {
            Ok(grant) => Decision::allow(grant.reason.clone()),
            Err(missing) => {
                let reason = aggregate(&missing).map(|missing| format!("RBAC: {missing}"));
                Decision::no_opinion(reason.unwrap_or_default())
            }
        }
    }
}

#[async_trait]
impl Authorizer for Rbac {
    async fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        self.decide(attributes)
    }

    async fn rules_of(&self, user: &User, namespace: &str) -> UserRules {
        let held = self.held(user, namespace);
        let mut rules = UserRules { errors: held.errors, ..UserRules::default() };
        for rule in held.rules {
            if !rule.resources.is_empty() {
                rules.resource.push(ResourceRule {
                    verbs: rule.verbs.clone(),
                    api_groups: rule.groups,
                    resources: rule.resources,
                    resource_names: rule.names,
                });
            }
            if !rule.paths.is_empty() {
                rules.non_resource.push(NonResourceRule { verbs: rule.verbs, urls: rule.paths });
            }
        }
        rules
    }
}
