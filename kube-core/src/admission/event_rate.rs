//! EventRateLimit: events come no faster than the server, their namespace, their author or what they are about may send them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
    time::Instant,
};

use async_trait::async_trait;
use generic_server::admission::{Admission, Attributes, Operation, Steps};
use machinery::{
    Value,
    meta::{field_error::FieldError, status::Status},
};

use super::{PluginConfigError, aggregated};

/// How many keys a limit remembers unless it says.
const CACHE_SIZE: usize = 4096;

/// By what events are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Server,
    Namespace,
    User,
    SourceAndObject,
}

const KINDS: [(&str, Kind); 4] = [
    ("Namespace", Kind::Namespace),
    ("Server", Kind::Server),
    ("SourceAndObject", Kind::SourceAndObject),
    ("User", Kind::User),
];

/// One limit, as it is configured.
#[derive(Clone, Debug)]
pub struct EventLimit {
    kind: Kind,
    per_second: f64,
    burst: f64,
    keys: usize,
}

impl EventLimit {
    /// Reads the limits.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn all_of(config: &Value) -> Result<Vec<Self>, PluginConfigError> {
        let kind = ("eventratelimit.admission.k8s.io/v1alpha1", "Configuration");
        super::expect_kind(config, &[kind], "eventratelimit.admission.k8s.io/v1alpha1 Configuration")?;
        let limits = config.get("limits").and_then(Value::as_array).unwrap_or_default();
        let mut faults = Vec::new();
        if limits.is_empty() {
            faults.push(FieldError::invalid("limits", Value::Null, "must not be empty"));
        }
        let read: Vec<_> = limits
            .iter()
            .enumerate()
            .filter_map(|(i, limit)| Self::of(limit, &format!("limits[{i}]"), &mut faults))
            .collect();
        if faults.is_empty() { Ok(read) } else { Err(PluginConfigError::Invalid(faults)) }
    }

    fn of(limit: &Value, path: &str, faults: &mut Vec<FieldError>) -> Option<Self> {
        let number = |member: &str| limit.get(member).and_then(Value::as_i64).unwrap_or_default();
        let name = limit.str_at(&["type"]).unwrap_or_default();
        let kind = KINDS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
        if kind.is_none() {
            faults.push(FieldError::not_supported(format!("{path}.type"), name, KINDS.map(|(known, _)| known)));
        }
        for member in ["burst", "qps"] {
            if number(member) <= 0 {
                faults.push(FieldError::invalid(format!("{path}.{member}"), number(member), "must be positive"));
            }
        }
        if kind != Some(Kind::Server) && number("cacheSize") < 0 {
            faults.push(FieldError::invalid(format!("{path}.cacheSize"), number("cacheSize"), "must not be negative"));
        }
        Some(EventLimit {
            kind: kind?,
            per_second: number("qps") as f64,
            burst: number("burst") as f64,
            keys: usize::try_from(number("cacheSize")).ok().filter(|keys| *keys > 0).unwrap_or(CACHE_SIZE),
        })
    }
}

/// The plugin.
pub(super) struct EventRate(Vec<(EventLimit, Mutex<Buckets>)>);

impl EventRate {
    pub(super) fn new(limits: &[EventLimit]) -> Self {
        EventRate(limits.iter().map(|limit| (limit.clone(), Mutex::default())).collect())
    }
}

#[async_trait]
impl Admission for EventRate {
    fn steps(&self) -> Steps {
        Steps::Validate
    }

    async fn validate(&self, a: &Attributes<'_>, event: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        let writes = matches!(a.operation, Operation::Create | Operation::Update);
        if !writes || a.dry_run || !a.is_of("", "events") {
            return Ok(());
        }
        let now = Instant::now();
        let mut reached = Vec::new();
        // Each limit counts the event, whether or not another one refuses it.
        for (limit, buckets) in &self.0 {
            let key = key(limit.kind, a, event);
            let mut buckets = buckets.lock().unwrap_or_else(PoisonError::into_inner);
            if !buckets.take(limit, &key, now) {
                let kind = KINDS.iter().find(|(_, kind)| *kind == limit.kind).map_or("", |(name, _)| name);
                reached.push(format!("limit reached on type {kind} for key {key}"));
            }
        }
        if reached.is_empty() { Ok(()) } else { Err(Status::too_many_requests_error(aggregated(reached))) }
    }
}

fn key(kind: Kind, a: &Attributes<'_>, event: &Value) -> String {
    match kind {
        Kind::Server => String::new(),
        Kind::Namespace => a.namespace.to_owned(),
        Kind::User => a.user.name.to_string(),
        Kind::SourceAndObject => {
            let object = ["kind", "namespace", "name", "uid", "apiVersion"].map(|member| ["involvedObject", member]);
            let source = ["component", "host"].map(|member| ["source", member]);
            source.iter().chain(&object).map(|path| event.str_at(path).unwrap_or_default()).collect()
        }
    }
}

/// Token buckets by key; the one that was not used for the longest time makes room.
#[derive(Debug, Default)]
struct Buckets {
    by_key: HashMap<String, Bucket>,
    /// Keys by when they were last used.
    used: BTreeMap<u64, String>,
    clock: u64,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    since: Instant,
    used: u64,
}

impl Buckets {
    /// Takes a token, if there is one.
    fn take(&mut self, limit: &EventLimit, key: &str, now: Instant) -> bool {
        self.clock += 1;
        match self.by_key.get(key) {
            Some(bucket) => drop(self.used.remove(&bucket.used)),
            None => {
                let most = if limit.kind == Kind::Server { 1 } else { limit.keys };
                if self.by_key.len() >= most
                    && let Some((_, oldest)) = self.used.pop_first()
                {
                    self.by_key.remove(&oldest);
                }
                self.by_key.insert(key.to_owned(), Bucket { tokens: limit.burst, since: now, used: 0 });
            }
        }
        self.used.insert(self.clock, key.to_owned());
        let bucket = self.by_key.get_mut(key).expect("it was there, or was put there");
        bucket.used = self.clock;
        let elapsed = now.saturating_duration_since(bucket.since).as_secs_f64();
        bucket.tokens = (bucket.tokens + elapsed * limit.per_second).min(limit.burst);
        bucket.since = now;
        let has = bucket.tokens >= 1.0;
        if has {
            bucket.tokens -= 1.0;
        }
        has
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use machinery::codec::yaml;

    use super::*;

    fn read(text: &str) -> Result<Vec<EventLimit>, String> {
        let head = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\n";
        let config = yaml::decode(format!("{head}{text}").as_bytes()).expect("YAML");
        EventLimit::all_of(&config).map_err(|why| why.to_string())
    }

    #[test]
    fn a_bucket_fills_by_the_second_up_to_the_burst() {
        let limit = read("limits: [{type: Namespace, qps: 2, burst: 3}]").expect("a limit").remove(0);
        let (mut buckets, start) = (Buckets::default(), Instant::now());
        let mut take = |key: &str, millis: u64| buckets.take(&limit, key, start + Duration::from_millis(millis));
        assert_eq!([0, 0, 0, 0].map(|at| take("a", at)), [true, true, true, false]);
        assert!(take("b", 0), "another key");
        assert_eq!([400, 600, 600].map(|at| take("a", at)), [false, true, false]);
        assert_eq!([60_000; 4].map(|at| take("a", at)), [true, true, true, false]);
    }

    #[test]
    fn the_key_that_was_used_last_stays() {
        let limit = read("limits: [{type: User, qps: 1, burst: 1, cacheSize: 2}]").expect("a limit").remove(0);
        let (mut buckets, now) = (Buckets::default(), Instant::now());
        assert!(buckets.take(&limit, "a", now) && buckets.take(&limit, "b", now));
        assert!(!buckets.take(&limit, "a", now) && buckets.take(&limit, "c", now), "b makes room");
        assert!(!buckets.take(&limit, "a", now) && buckets.take(&limit, "b", now));
        assert_eq!((buckets.by_key.len(), buckets.used.len()), (2, 2));
    }

    #[test]
    fn limits_are_checked() {
        let faults = |text: &str| read(text).expect_err("faults");
        assert_eq!(faults("limits: []"), "limits: Invalid value: null: must not be empty");
        assert_eq!(
            faults("limits: [{type: Node, qps: 0, burst: -1, cacheSize: -1}]"),
            "[limits[0].type: Unsupported value: \"Node\": supported values: \"Namespace\", \"Server\", \
             \"SourceAndObject\", \"User\", limits[0].burst: Invalid value: -1: must be positive, limits[0].qps: Invalid \
             value: 0: must be positive, limits[0].cacheSize: Invalid value: -1: must not be negative]"
        );
        let other = yaml::decode(b"kind: Configuration").expect("YAML");
        assert!(EventLimit::all_of(&other).is_err());
    }
}
