//! Nobody grants what they do not hold: a check of every write of roles and bindings, as admission's last word on the object.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use auth::{Authorizer, User};
use generic_server::admission::{Admission, Attributes, Operation, Steps};
use machinery::request::{RequestInfo, resource_info};
use machinery::{
    Value,
    meta::{GroupResource, status::Status},
};

use super::{Rbac, RoleRef, Rule, rule::Texts};

const GROUP: &str = "rbac.authorization.k8s.io";

/// How many parts of rules are looked at before a role counts as more than anybody holds: a bound on what a request costs.
const MAX_PARTS: usize = 100_000;

/// How many rules that are not held a refusal names.
const MAX_NAMED: usize = 1_000;

/// The check.
pub(crate) struct NoEscalation {
    pub(crate) rbac: Arc<Rbac>,
    /// Who may `escalate` and `bind` is asked here.
    pub(crate) authorizer: Arc<dyn Authorizer>,
}

#[async_trait]
impl Admission for NoEscalation {
    fn steps(&self) -> Steps {
        Steps::Mutate
    }

    async fn mutate(&self, a: &Attributes<'_>, object: &mut Value, _: &mut Vec<String>) -> Result<(), Status> {
        let writes = matches!(a.operation, Operation::Create | Operation::Update);
        if a.row.group != GROUP || !writes || a.user.in_group(User::MASTERS) {
            return Ok(());
        }
        if a.old.is_some_and(|old| changes_owners_only(object, old)) {
            return Ok(());
        }
        match a.row.kind.as_str() {
            "Role" | "ClusterRole" => self.check_role(a, object).await,
            "RoleBinding" | "ClusterRoleBinding" => self.check_binding(a, object).await,
            _ => Ok(()),
        }
    }
}

impl NoEscalation {
    async fn check_role(&self, a: &Attributes<'_>, role: &Value) -> Result<(), Status> {
        if self.may(a, "escalate", a.namespace, &a.row.plural, a.name).await {
            return Ok(());
        }
        let aggregates = |role: &Value| role.at(&["aggregationRule"]).is_some_and(|rule| !rule.is_null());
        if a.row.kind == "ClusterRole"
            && (aggregates(role) || a.old.is_some_and(aggregates))
            && self.missing(a, &everything()).is_some()
        {
            return Err(refusal(a, "must have cluster-admin privileges to use the aggregationRule"));
        }
        self.check_rules(a, &Rule::all_of(role))
    }

    async fn check_binding(&self, a: &Attributes<'_>, binding: &Value) -> Result<(), Status> {
        let role = RoleRef::of_binding(binding, a.namespace);
        let resource = if role.namespace.is_some() { "roles" } else { "clusterroles" };
        if self.may(a, "bind", a.namespace, resource, &role.name).await {
            return Ok(());
        }
        match self.rbac.role(&role) {
            Some(rules) => self.check_rules(a, &rules),
            None => Err(Status::not_found(&group_resource(a), &role.name)),
        }
    }

    fn check_rules(&self, a: &Attributes<'_>, rules: &[Rule]) -> Result<(), Status> {
        match self.missing(a, rules) {
            Some(why) => Err(refusal(a, &why)),
            None => Ok(()),
        }
    }

    /// Whether the user may do this with a role.
    async fn may(&self, a: &Attributes<'_>, verb: &str, namespace: &str, resource: &str, name: &str) -> bool {
        let info = RequestInfo {
            namespace: namespace.into(),
            name: name.into(),
            ..resource_info(verb, GROUP, &a.row.version, resource)
        };
        let decision = self.authorizer.authorize(&auth::Attributes { user: a.user, info: &info }).await;
        decision.is_allowed()
    }

    /// What of these rules the user does not hold, in upstream's words; none if it holds them all.
    fn missing(&self, a: &Attributes<'_>, rules: &[Rule]) -> Option<String> {
        let held = self.rbac.held(a.user, a.namespace);
        let missing = uncovered(&held.rules, rules)?;
        let named: BTreeSet<String> = merge_verbs(missing).iter().map(ToString::to_string).collect();
        let named: Vec<String> = named.into_iter().collect();
        let unresolved = match held.errors.as_slice() {
            [] => String::new(),
            errors => format!("; resolution errors: [{}]", errors.join(", ")),
        };
        Some(format!(
            "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}{unresolved}",
            a.user.name.as_str(),
            Texts(&a.user.groups),
            named.join("\n")
        ))
    }
}

/// The parts of rules that are not held; none if all are.
fn uncovered(held: &[Rule], rules: &[Rule]) -> Option<Vec<Rule>> {
    let mut missing = Vec::new();
    let mut looked_at = 0;
    for rule in rules {
        let plain = rule.paths.is_empty() || rule.resources.is_empty();
        if plain && held.iter().any(|own| own.covers(rule)) {
            continue;
        }
        if rule.count() > MAX_PARTS - looked_at {
            missing.push(rule.clone());
            missing.truncate(MAX_NAMED);
            continue;
        }
        looked_at += rule.count();
        missing.extend(rule.parts().into_iter().filter(|part| !held.iter().any(|own| own.covers(part))));
        missing.truncate(MAX_NAMED);
    }
    (!missing.is_empty()).then_some(missing)
}

/// Rules about the same resources become one with all their verbs.
fn merge_verbs(rules: Vec<Rule>) -> Vec<Rule> {
    let mut merged: Vec<Rule> = Vec::new();
    for rule in rules {
        match merged.iter_mut().find(|other| other.differs_in_verbs_only(&rule)) {
            Some(other) => {
                other.verbs.extend(rule.verbs.into_iter().filter(|v| !other.verbs.contains(v)).collect::<Vec<_>>())
            }
            None => merged.push(rule),
        }
    }
    merged
}

/// Full authority, which an aggregated role needs.
fn everything() -> [Rule; 2] {
    let all = || vec!["*".into()];
    [
        Rule { verbs: all(), groups: all(), resources: all(), ..Rule::default() },
        Rule { verbs: all(), paths: all(), ..Rule::default() },
    ]
}

/// Whether an update takes away owners or finalizers and does nothing else: what the garbage collector does.
fn changes_owners_only(new: &Value, old: &Value) -> bool {
    let unlike = |member: &str| new.at(&["metadata", member]) != old.at(&["metadata", member]);
    (unlike("ownerReferences") || unlike("finalizers")) && same_but_for_owners(new, old)
}

/// Whether objects differ in nothing but what the garbage collector writes.
pub(crate) fn same_but_for_owners(new: &Value, old: &Value) -> bool {
    let rest = |object: &Value| {
        let mut object = object.clone();
        for member in ["ownerReferences", "finalizers", "managedFields", "resourceVersion"] {
            object.remove_at(&["metadata", member]);
        }
        object
    };
    rest(new).semantic_eq(&rest(old))
}

fn group_resource(a: &Attributes<'_>) -> GroupResource {
    GroupResource::new(a.row.group.clone(), a.row.plural.clone())
}

fn refusal(a: &Attributes<'_>, why: &str) -> Status {
    Status::forbidden(&group_resource(a), a.name, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &[&str], groups: &[&str], resources: &[&str]) -> Rule {
        let texts = |items: &[&str]| items.iter().map(|i| (*i).into()).collect();
        Rule { verbs: texts(verbs), groups: texts(groups), resources: texts(resources), ..Rule::default() }
    }

    fn check(held: &[Rule], granted: &[Rule], expect: &[&str]) {
        let missing = uncovered(held, granted).map(merge_verbs).unwrap_or_default();
        assert_eq!(missing.iter().map(ToString::to_string).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn what_is_not_held_is_named() {
        let pods = rule(&["get", "list"], &[""], &["pods"]);
        check(std::slice::from_ref(&pods), std::slice::from_ref(&pods), &[]);
        check(
            std::slice::from_ref(&pods),
            &[rule(&["get", "delete", "patch"], &[""], &["pods"])],
            &[r#"{APIGroups:[""], Resources:["pods"], Verbs:["delete" "patch"]}"#],
        );
        check(&[rule(&["*"], &["*"], &["*"])], std::slice::from_ref(&pods), &[]);
        // Two rules together hold what none of them does alone.
        let both = [rule(&["get"], &[""], &["pods"]), rule(&["list"], &[""], &["pods"])];
        check(&both, &[pods], &[]);
    }

    #[test]
    fn a_rule_with_very_many_parts_is_not_taken_apart() {
        let many: Vec<String> = (0..1000).map(|i| format!("r{i}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let bomb = rule(&many, &many, &many);
        assert_eq!(uncovered(&[], std::slice::from_ref(&bomb)).map(|missing| missing.len()), Some(1));
        assert!(uncovered(&[rule(&["*"], &["*"], &["*"])], &[bomb]).is_none());
    }
}
