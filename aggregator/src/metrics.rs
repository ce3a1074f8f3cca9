//! Which APIServices are not available, read when somebody looks.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use machinery::{Value, codec::json};
use prometheus::{
    IntCounterVec, IntGaugeVec, Opts,
    core::{Collector, Desc},
    proto::MetricFamily,
};
use storage::cache::Cache;

const NAME: &str = "aggregator_unavailable_apiservice";
const HELP: &str = "1 for each APIService that is not available, 0 for the others.";

/// How often an APIService ceased to be available, and why; one in a process.
static LOST: LazyLock<IntCounterVec> = LazyLock::new(|| {
    let opts = Opts::new("aggregator_unavailable_apiservice_total", "Times that an APIService became unavailable.");
    IntCounterVec::new(opts, &["name", "reason"]).expect("constant names are valid")
});

/// An APIService is not available any more.
pub(crate) fn lost(name: &str, reason: &str) {
    LOST.with_label_values(&[name, reason]).inc();
}

/// The availability of all APIServices.
pub struct Availability {
    services: Arc<Cache>,
    described: Desc,
}

impl Availability {
    /// Of the APIServices in this cache.
    pub fn new(services: Arc<Cache>) -> Self {
        let described = Desc::new(NAME.to_owned(), HELP.to_owned(), vec!["name".to_owned()], HashMap::new());
        Availability { services, described: described.expect("constant names are valid") }
    }
}

/// Whether a service says that it is not available. One of which nothing is known yet is not counted as such.
fn is_unavailable(service: &Value) -> bool {
    let conditions = service.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default();
    let mut available = conditions.iter().filter(|condition| condition.str_at(&["type"]) == Some("Available"));
    available.any(|condition| condition.str_at(&["status"]) == Some("False"))
}

impl Collector for Availability {
    fn desc(&self) -> Vec<&Desc> {
        let mut all = vec![&self.described];
        all.extend(LOST.desc());
        all
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let gauges = IntGaugeVec::new(Opts::new(NAME, HELP), &["name"]).expect("constant names are valid");
        let services = self.services.latest();
        for service in services.range(self.services.prefix(), None).filter_map(|entry| entry.object()) {
            let unavailable = json::decode(service.bytes()).is_ok_and(|value| is_unavailable(&value));
            gauges.with_label_values(&[service.name()]).set(unavailable.into());
        }
        let mut all = gauges.collect();
        all.extend(LOST.collect().into_iter().filter(|family| !family.get_metric().is_empty()));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_unavailable_that_says_so() {
        let check = |text: &str, expect: bool| {
            assert_eq!(is_unavailable(&json::decode(text.as_bytes()).expect("JSON")), expect, "{text}");
        };
        check(r#"{}"#, false);
        check(r#"{"status":{"conditions":[{"type":"Available","status":"True"}]}}"#, false);
        check(r#"{"status":{"conditions":[{"type":"Other","status":"False"}]}}"#, false);
        check(r#"{"status":{"conditions":[{"type":"Available","status":"False"}]}}"#, true);
    }
}
