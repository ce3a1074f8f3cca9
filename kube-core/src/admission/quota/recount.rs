//! Counting anew what objects use of a quota: what the quota controller writes into its status.

use std::collections::BTreeSet;

use machinery::{
    Map, Value,
    meta::{GroupResource, Quantity, quantity::Format},
};

use super::{evaluator::Evaluator, scopes::Scope};
use crate::core::pods::{Amounts, add};

/// What is counted of one quota.
#[derive(Clone, Debug)]
pub struct Recount {
    scopes: Vec<Scope>,
    used: Amounts,
}

impl Recount {
    /// Nothing yet, of a quota with this spec: what it bounds is used not at all.
    pub fn new(spec: &Value) -> Self {
        let hard = spec.get("hard").and_then(Value::as_object);
        let zero = || Quantity::new(0, Format::DecimalSI);
        Recount {
            scopes: Scope::all_of(spec),
            used: hard.into_iter().flat_map(Map::keys).map(|name| (name.clone(), zero())).collect(),
        }
    }

    /// Whether objects of a resource are counted.
    pub fn counts(&self, group: &str, plural: &str) -> bool {
        let evaluator = Evaluator::of_resource(group, plural);
        evaluator.is_some_and(|evaluator| self.used.keys().any(|name| evaluator.counts(name)))
    }

    /// Counts an object of a resource.
    pub fn add(&mut self, group: &str, plural: &str, object: &Value) {
        let Some(evaluator) = Evaluator::of_resource(group, plural) else { return };
        if !self.scopes.iter().all(|scope| evaluator.in_scope(scope, object)) {
            return;
        }
        let mut usage = evaluator.usage(object);
        usage.retain(|name, _| self.used.contains_key(name));
        add(&mut self.used, &usage);
    }

    /// The sum, as `status.used` has it.
    pub fn used(&self) -> Value {
        self.used.iter().map(|(name, amount)| (name.clone(), Value::from(amount.text()))).collect::<Map>().into()
    }

    /// The resources whose objects such bounds count, beyond those that have rules of their own: `count/widgets.example.com`.
    pub fn counted_by_name<'a>(hard: impl Iterator<Item = &'a str>) -> BTreeSet<GroupResource> {
        let split = |name: &str| {
            let (plural, group) = name.split_once('.').unwrap_or((name, ""));
            GroupResource::new(group, plural)
        };
        hard.filter_map(|name| match name {
            "configmaps" | "replicationcontrollers" | "resourcequotas" | "secrets" => Some(split(name)),
            name => name.strip_prefix("count/").map(split),
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn value(text: &str) -> Value {
        json::decode(text.as_bytes()).expect("valid JSON")
    }

    #[test]
    fn what_is_bounded_is_summed_and_nothing_else() {
        let spec = value(r#"{"hard":{"pods":"5","requests.cpu":"2","count/widgets.example.com":"3","secrets":"1"}}"#);
        let mut count = Recount::new(&spec);
        assert!(count.counts("", "pods") && count.counts("example.com", "widgets") && count.counts("", "secrets"));
        assert!(!count.counts("", "services") && !count.counts("", "configmaps") && !count.counts("", "events"));
        let pod = value(r#"{"spec":{"containers":[{"resources":{"requests":{"cpu":"300m","memory":"1Gi"}}}]}}"#);
        count.add("", "pods", &pod);
        count.add("", "pods", &pod);
        count.add("", "pods", &value(r#"{"spec":{"containers":[{}]},"status":{"phase":"Succeeded"}}"#));
        count.add("example.com", "widgets", &value("{}"));
        let expect = value(r#"{"count/widgets.example.com":"1","pods":"2","requests.cpu":"600m","secrets":"0"}"#);
        assert_eq!(count.used(), expect);
    }

    #[test]
    fn objects_out_of_scope_are_not_counted() {
        let mut count = Recount::new(&value(r#"{"hard":{"pods":"5","count/secrets":"1"},"scopes":["BestEffort"]}"#));
        count.add("", "pods", &value(r#"{"spec":{"containers":[{}]}}"#));
        count.add("", "pods", &value(r#"{"spec":{"containers":[{"resources":{"requests":{"cpu":"1"}}}]}}"#));
        count.add("", "secrets", &value("{}"));
        assert_eq!(count.used(), value(r#"{"count/secrets":"0","pods":"1"}"#));
    }

    #[test]
    fn bounds_name_resources() {
        let names = ["count/widgets.example.com", "count/secrets", "secrets", "pods", "requests.cpu"];
        let found = Recount::counted_by_name(names.into_iter());
        let found: Vec<_> = found.iter().map(|of| format!("{}.{}", of.resource, of.group)).collect();
        assert_eq!(found, ["secrets.", "widgets.example.com"]);
    }
}
