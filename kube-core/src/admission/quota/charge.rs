//! One write against the quotas of its namespace.

use std::collections::BTreeSet;

use generic_server::admission::{Attributes, Operation};
use machinery::{
    Str, Value,
    meta::{GroupResource, Meta, Quantity, status::Status},
};

use super::{LimitedResource, Quota, evaluator::Evaluator, scopes::Scope};
use crate::core::pods::{Amounts, add};

/// What may be used only under a quota that covers it.
pub(super) struct Limited {
    resource: GroupResource,
    contains: Vec<Str>,
    scopes: Vec<Scope>,
}

impl Limited {
    pub(super) fn new(limited: &LimitedResource) -> Self {
        Limited {
            resource: GroupResource::new(limited.group.clone(), limited.resource.clone()),
            contains: limited.contains.clone(),
            scopes: limited.scopes.iter().map(Scope::read).collect(),
        }
    }
}

/// A write that asks for its share. It holds all that is needed to decide, whatever becomes of the request.
pub(super) struct Ask {
    evaluator: Evaluator,
    resource: GroupResource,
    name: Str,
    object: Value,
    /// What was there before, if this is an update.
    old: Option<Value>,
    pub(super) dry_run: bool,
}

impl Ask {
    pub(super) fn new(a: &Attributes<'_>, evaluator: Evaluator, object: &Value) -> Self {
        Ask {
            evaluator,
            resource: GroupResource::new(a.row.group.clone(), a.row.plural.clone()),
            name: if a.name.is_empty() { Meta::of(object).name().into() } else { a.name.into() },
            object: object.clone(),
            old: a.old.filter(|_| a.operation == Operation::Update).cloned(),
            dry_run: a.dry_run,
        }
    }

    fn forbidden(&self, why: impl std::fmt::Display) -> Status {
        Status::forbidden(&self.resource, &self.name, why)
    }

    /// What the write would change: for each quota that it changes, its place in `quotas` and its usage from then on.
    ///
    /// # Errors
    /// What the client hears if a quota does not suffice, is not counted yet, or wants amounts that are not named.
    pub(super) fn charge(&self, quotas: &[Quota], limited: &[Limited]) -> Result<Vec<(usize, Amounts)>, Status> {
        let matching = self.matching(quotas)?;
        let usage = self.evaluator.usage(&self.object);
        let negative: Vec<&str> = usage.iter().filter(|(_, q)| q.sign() < 0).map(|(name, _)| name.as_str()).collect();
        if !negative.is_empty() {
            let why = format!("quota usage is negative for resource(s): {}", negative.join(","));
            return Err(self.forbidden(why));
        }
        let mut more = usage.clone();
        if let Some(old) = &self.old {
            let before = self.evaluator.usage(old);
            more.iter_mut().for_each(|(name, amount)| amount.sub(before.get(name).unwrap_or(&Quantity::default())));
        }
        more.retain(|_, amount| amount.sign() > 0);
        if more.is_empty() {
            return Ok(Vec::new());
        }
        self.check_limited(quotas, &matching, &usage, limited)?;
        let mut changes = Vec::new();
        for at in matching {
            let quota = &quotas[at];
            let share: Amounts = more.iter().filter(|(name, _)| quota.hard.contains_key(*name)).map(cloned).collect();
            let mut used = quota.used.clone();
            add(&mut used, &share);
            self.check_fits(quota, &share, &used)?;
            if !share.is_empty() {
                changes.push((at, used));
            }
        }
        Ok(changes)
    }

    /// The quotas that bound something that the object uses, by their places.
    fn matching(&self, quotas: &[Quota]) -> Result<Vec<usize>, Status> {
        let mut matching = Vec::new();
        for (at, quota) in quotas.iter().enumerate() {
            let bounded: BTreeSet<&Str> = quota.hard.keys().filter(|name| self.evaluator.counts(name)).collect();
            if bounded.is_empty() || !quota.scopes.iter().all(|s| self.evaluator.in_scope(s, &self.object)) {
                continue;
            }
            self.evaluator
                .check_named(&bounded, &self.object)
                .map_err(|why| self.forbidden(format!("failed quota: {}: {why}", quota.name)))?;
            if bounded.iter().any(|name| !quota.used.contains_key(*name)) {
                let names: Vec<&str> = bounded.iter().map(|name| name.as_str()).collect();
                let why = format!("status unknown for quota: {}, resources: {}", quota.name, names.join(","));
                return Err(self.forbidden(why));
            }
            matching.push(at);
        }
        Ok(matching)
    }

    /// Refuses what is limited and not covered by a quota.
    fn check_limited(
        &self,
        quotas: &[Quota],
        matching: &[usize],
        usage: &Amounts,
        limited: &[Limited],
    ) -> Result<(), Status> {
        let covered = |name: &Str| matching.iter().any(|at| quotas[*at].hard.contains_key(name));
        let is_limited = |name: &Str| {
            let of_this = limited.iter().filter(|limited| limited.resource == self.resource);
            of_this.flat_map(|limited| &limited.contains).any(|part| name.contains(part.as_str()))
        };
        let uncovered: Vec<&str> = usage
            .iter()
            .filter(|(name, amount)| amount.sign() > 0 && is_limited(name) && !covered(name))
            .map(|(name, _)| name.as_str())
            .collect();
        if !uncovered.is_empty() {
            return Err(self.forbidden(format!("insufficient quota to consume: {}", uncovered.join(","))));
        }
        let in_scope = |scope: &&Scope| self.evaluator.in_scope(scope, &self.object);
        let uncovered: Vec<String> = limited
            .iter()
            .flat_map(|limited| &limited.scopes)
            .filter(in_scope)
            .filter(|scope| !quotas.iter().flat_map(|q| &q.scopes).filter(in_scope).any(|s| s.name == scope.name))
            .map(ToString::to_string)
            .collect();
        if !uncovered.is_empty() {
            let why = format!("insufficient quota to match these scopes: [{}]", uncovered.join(" "));
            return Err(Status::unknown_error(why));
        }
        Ok(())
    }

    fn check_fits(&self, quota: &Quota, share: &Amounts, used: &Amounts) -> Result<(), Status> {
        let exceeded: Vec<&Str> = share.keys().filter(|name| used.get(*name) > quota.hard.get(*name)).collect();
        if exceeded.is_empty() {
            return Ok(());
        }
        let shown = |amounts: &Amounts| {
            let amounts = exceeded.iter().filter_map(|name| Some(format!("{name}={}", amounts.get(*name)?)));
            amounts.collect::<Vec<_>>().join(",")
        };
        Err(self.forbidden(format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            quota.name,
            shown(share),
            shown(&quota.used),
            shown(&quota.hard)
        )))
    }
}

fn cloned((name, amount): (&Str, &Quantity)) -> (Str, Quantity) {
    (name.clone(), amount.clone())
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn value(text: &str) -> Value {
        json::decode(text.as_bytes()).expect("valid JSON")
    }

    fn quota(name: &str, spec: &str, hard: &str, used: &str) -> Quota {
        Quota::read(&value(&format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{spec},"status":{{"hard":{hard},"used":{used}}}}}"#
        )))
    }

    fn ask(evaluator: Evaluator, object: &str, old: Option<&str>) -> Ask {
        let resource = GroupResource::new("", "pods");
        let (object, old) = (value(object), old.map(value));
        Ask { evaluator, resource, name: "x".into(), object, old, dry_run: false }
    }

    fn pod(cpu: &str) -> String {
        format!(r#"{{"spec":{{"containers":[{{"name":"c","resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]}}}}"#)
    }

    fn check(ask: &Ask, quotas: &[Quota], limited: &[Limited], expect: Result<&str, &str>) {
        let found = ask.charge(quotas, limited).map_err(|status| status.message);
        let shown = found.map(|changes| {
            let shown = changes.iter().map(|(at, used)| {
                let used: Vec<_> = used.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
                format!("{at}: {}", used.join(","))
            });
            shown.collect::<Vec<_>>().join("; ")
        });
        assert_eq!(shown, expect.map(str::to_owned).map_err(str::to_owned));
    }

    #[test]
    fn every_quota_that_matches_is_charged_or_refuses() {
        let quotas = [
            quota("a", "{}", r#"{"pods":"2","requests.cpu":"1"}"#, r#"{"pods":"1","requests.cpu":"600m"}"#),
            quota("b", r#"{"scopes":["BestEffort"]}"#, r#"{"pods":"0"}"#, r#"{"pods":"0"}"#),
            quota("c", "{}", r#"{"services":"0"}"#, r#"{"services":"0"}"#),
        ];
        check(&ask(Evaluator::Pods, &pod("400m"), None), &quotas, &[], Ok("0: pods=2,requests.cpu=1"));
        check(
            &ask(Evaluator::Pods, &pod("500m"), None),
            &quotas,
            &[],
            Err("pods \"x\" is forbidden: exceeded quota: a, requested: requests.cpu=500m, used: requests.cpu=600m, \
                 limited: requests.cpu=1"),
        );
        let resized = ask(Evaluator::Pods, &pod("500m"), Some(&pod("300m")));
        check(&resized, &quotas, &[], Ok("0: pods=1,requests.cpu=800m"));
        check(&ask(Evaluator::Pods, &pod("1"), Some(&pod("2"))), &quotas, &[], Ok(""));
        check(
            &ask(Evaluator::Pods, r#"{"spec":{"containers":[{"name":"c"}]}}"#, None),
            &quotas,
            &[],
            Err("pods \"x\" is forbidden: failed quota: a: must specify requests.cpu for: c"),
        );
    }

    #[test]
    fn a_quota_binds_when_it_is_counted() {
        let uncounted = [Quota::read(&value(r#"{"metadata":{"name":"q"},"spec":{"hard":{"pods":"0"}}}"#))];
        check(&ask(Evaluator::Pods, &pod("1"), None), &uncounted, &[], Ok(""));
        let half = [quota("q", "{}", r#"{"pods":"1","cpu":"1"}"#, r#"{"pods":"0"}"#)];
        let unknown = "pods \"x\" is forbidden: status unknown for quota: q, resources: cpu,pods";
        check(&ask(Evaluator::Pods, &pod("1"), None), &half, &[], Err(unknown));
    }

    #[test]
    fn what_is_limited_needs_a_quota_that_covers_it() {
        let limited = [Limited::new(&LimitedResource {
            group: "".into(),
            resource: "pods".into(),
            contains: vec!["cpu".into()],
            scopes: Vec::new(),
        })];
        let none = "pods \"x\" is forbidden: insufficient quota to consume: cpu,requests.cpu";
        check(&ask(Evaluator::Pods, &pod("1"), None), &[], &limited, Err(none));
        let covering = [quota("q", "{}", r#"{"cpu":"2","requests.cpu":"2"}"#, r#"{"cpu":"0","requests.cpu":"0"}"#)];
        check(&ask(Evaluator::Pods, &pod("1"), None), &covering, &limited, Ok("0: cpu=1,requests.cpu=1"));
        let scope = value(r#"{"scopeName":"PriorityClass","operator":"In","values":["high","top"]}"#);
        let limited = [Limited::new(&LimitedResource { scopes: vec![scope], ..LimitedResource::default() })];
        let high = r#"{"spec":{"priorityClassName":"high"}}"#;
        let none = "insufficient quota to match these scopes: [{PriorityClass In [high top]}]";
        check(&ask(Evaluator::Pods, high, None), &[], &limited, Err(none));
        check(&ask(Evaluator::Pods, &pod("1"), None), &[], &limited, Ok(""));
    }
}
