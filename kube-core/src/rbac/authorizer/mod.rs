//! Role-based access control: the authoriser that asks roles and bindings.
//!
//! It reads the same caches as every request, so that a binding counts for the next request after the one that made it. The
//! index over them is mended by the first request that finds another state.

mod escalation;
mod policy;
mod rule;

use std::sync::{Arc, Mutex, OnceLock};

use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use auth::{Attributes, Authorizer, Decision, NonResourceRule, ResourceRule, User, UserRules, aggregate};
use generic_server::registry::Registry;

pub(crate) use escalation::{NoEscalation, same_but_for_owners};
pub(crate) use policy::RoleRef;
use policy::{Policy, States};
pub(crate) use rule::Rule;

/// The authoriser of `--authorization-mode=RBAC`.
#[derive(Default)]
pub struct Rbac {
    sources: OnceLock<[Arc<Registry>; 4]>,
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
    /// Names the registries of cluster roles, cluster role bindings, roles and role bindings, once they are there.
    pub fn attach(&self, sources: [Arc<Registry>; 4]) {
        let _ = self.sources.set(sources); // a second server in one process would bring its own authoriser
    }

    /// The index of the latest state; none before the registries are there.
    fn policy(&self) -> Option<Arc<Policy>> {
        let sources = self.sources.get()?;
        let states: States = sources.each_ref().map(|registry| registry.cache().latest());
        if let Some(policy) = self.policy.load_full().filter(|policy| policy.shows(&states)) {
            return Some(policy);
        }
        let _making = self.making.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let states: States = sources.each_ref().map(|registry| registry.cache().latest());
        if let Some(policy) = self.policy.load_full().filter(|policy| policy.shows(&states)) {
            return Some(policy);
        }
        let policy = match self.policy.load_full() {
            Some(policy) => policy.mended(sources, states),
            None => Policy::new(sources, states),
        };
        let policy = Arc::new(policy);
        self.policy.store(Some(policy.clone()));
        Some(policy)
    }

    /// All rules that apply to a user in a namespace.
    pub(crate) fn held(&self, user: &User, namespace: &str) -> Held {
        let mut held = Held { rules: Vec::new(), errors: Vec::new() };
        let Some(policy) = self.policy() else { return held };
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
        self.policy()?.role(role).map(<[Rule]>::to_vec)
    }

    fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        let Some(policy) = self.policy() else { return Decision::no_opinion("") };
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
