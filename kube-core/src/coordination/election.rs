//! Who is to hold a lease, by what its candidates say of themselves: a pure function of the lease, the candidates and the
//! time. Nothing is remembered between steps.

use std::cmp::Ordering;

use machinery::{
    Str, Value,
    meta::{TimeForm, Timestamp, semver::Version},
    object,
};

/// The strategy that is Kubernetes' own: the oldest emulated version, then the oldest binary, then whoever came first.
pub(super) const OLDEST: &str = "OldestEmulationVersion";
/// How long a lease is good for that is given to a candidate, in seconds: the candidate renews it with its own duration.
const LEASE_SECONDS: i64 = 5;
/// How long candidates have to answer when they are asked whether they are there, in microseconds.
const ELECTION: i64 = 5_000_000;
/// How long a candidate is one without renewing itself, in microseconds.
const VALID: i64 = 30 * 60 * 1_000_000;

/// A candidate.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) name: Str,
    lease: Str,
    /// When it said that it is there, and when it was asked, in microseconds since 1970.
    renewed: Option<i64>,
    asked: Option<i64>,
    created: i64,
    emulated: Option<Version>,
    binary: Option<Version>,
    strategy: Str,
}

/// What is to be done for a lease.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Nothing, for now.
    Wait,
    /// To ask these candidates whether they are there.
    Ask(Vec<Str>),
    /// To have the lease say who holds it, or is to hold it next; with a strategy of somebody else's only that.
    Settle { strategy: Str, holder: Option<Str> },
}

fn micros(object: &Value, path: &[&str]) -> Option<i64> {
    let time = Timestamp::parse(object.str_at(path)?, TimeForm::Micros).ok()?;
    Some(time.seconds().saturating_mul(1_000_000).saturating_add(i64::from(time.nanos() / 1000)))
}

/// The present, in microseconds since 1970.
pub(super) fn now() -> i64 {
    let now = Timestamp::now();
    now.seconds().saturating_mul(1_000_000).saturating_add(i64::from(now.nanos() / 1000))
}

/// A time in microseconds, as leases write it.
pub(super) fn time(micros: i64) -> String {
    let nanos = u32::try_from(micros.rem_euclid(1_000_000) * 1000).unwrap_or(0);
    Timestamp::new(micros.div_euclid(1_000_000), nanos).text(TimeForm::Micros)
}

impl Candidate {
    /// Reads an object.
    pub(super) fn of(object: &Value) -> Self {
        let text = |member: &str| Str::from(object.str_at(&["spec", member]).unwrap_or_default());
        let version = |member: &str| Version::parse(object.str_at(&["spec", member]).unwrap_or_default()).ok();
        let created = object.str_at(&["metadata", "creationTimestamp"]).unwrap_or_default();
        Candidate {
            name: object.str_at(&["metadata", "name"]).unwrap_or_default().into(),
            lease: text("leaseName"),
            renewed: micros(object, &["spec", "renewTime"]),
            asked: micros(object, &["spec", "pingTime"]),
            created: Timestamp::parse(created, TimeForm::Seconds).map_or(0, Timestamp::seconds),
            emulated: version("emulationVersion"),
            binary: version("binaryVersion"),
            strategy: text("strategy"),
        }
    }

    /// The lease that it is a candidate for, in its namespace.
    pub(super) fn lease(&self) -> &Str {
        &self.lease
    }

    /// Whether it has not been heard of for too long.
    pub(super) fn has_expired(&self, now: i64) -> bool {
        self.renewed.is_none_or(|renewed| renewed.saturating_add(VALID) < now)
    }

    /// Whether it was asked and has not answered since.
    fn owes_answer(&self) -> bool {
        self.asked.is_some_and(|asked| self.renewed.is_some_and(|renewed| renewed < asked))
    }

    fn binary(&self) -> Version {
        self.binary.clone().unwrap_or_default()
    }

    /// Which of two is to be preferred: the lesser.
    fn compare(&self, other: &Candidate) -> Ordering {
        let version = |version: &Option<Version>| version.clone().unwrap_or_default();
        let emulated = version(&self.emulated).compare(&version(&other.emulated));
        emulated.then_with(|| self.binary().compare(&other.binary())).then_with(|| self.created.cmp(&other.created))
    }
}

/// The next step of a lease. `lease` is as it is now; `candidates` are those for it, in order of their names, that have not
/// expired.
///
/// # Errors
/// Why nobody can be elected.
pub(super) fn step(now: i64, lease: Option<&Value>, candidates: &[Candidate]) -> Result<Step, String> {
    if candidates.is_empty() || !is_needed(now, lease, candidates)? {
        return Ok(Step::Wait);
    }
    let recent = |time: Option<i64>| time.is_some_and(|time| time.saturating_add(ELECTION) > now);
    let (mut waits, mut asked) = (false, Vec::new());
    for candidate in candidates {
        if recent(candidate.asked) && candidate.owes_answer() {
            waits = true;
        } else if recent(candidate.renewed) {
            continue;
        } else if candidate.asked.is_none_or(|asked| asked.saturating_add(ELECTION) < now && !candidate.owes_answer()) {
            asked.push(candidate.name.clone());
        }
    }
    if !asked.is_empty() {
        return Ok(Step::Ask(asked));
    }
    if waits {
        return Ok(Step::Wait);
    }
    let there: Vec<&Candidate> = candidates.iter().filter(|candidate| recent(candidate.renewed)).collect();
    if there.is_empty() {
        return Err("no available candidates".to_owned());
    }
    let strategy = strategy(&there)?;
    let holder = match strategy.as_str() {
        OLDEST => Some(oldest(&there).ok_or("no candidate has versions that can be compared")?.name.clone()),
        _ => None,
    };
    Ok(Step::Settle { strategy, holder })
}

/// Whether the lease has no holder, or one that is not the best, or the candidates have not been asked for long.
fn is_needed(now: i64, lease: Option<&Value>, candidates: &[Candidate]) -> Result<bool, String> {
    let Some(lease) = lease else { return Ok(true) };
    let holder = lease.str_at(&["spec", "holderIdentity"]).unwrap_or_default();
    let is_old = |candidate: &Candidate| candidate.renewed.is_some_and(|renewed| renewed + VALID / 2 < now);
    if has_run_out(now, lease) || holder.is_empty() || candidates.iter().any(is_old) {
        return Ok(true);
    }
    let all: Vec<&Candidate> = candidates.iter().collect();
    Ok(strategy(&all)? == OLDEST && oldest(&all).is_some_and(|best| best.name != *holder))
}

/// Whether a lease is held by nobody any more.
pub(super) fn has_run_out(now: i64, lease: &Value) -> bool {
    let seconds = lease.at(&["spec", "leaseDurationSeconds"]).and_then(Value::as_i64);
    match (micros(lease, &["spec", "renewTime"]), seconds) {
        (Some(renewed), Some(seconds)) => renewed.saturating_add(seconds.saturating_mul(1_000_000)) < now,
        _ => true,
    }
}

/// The strategy of the newest binary; those of one version must agree.
fn strategy(candidates: &[&Candidate]) -> Result<Str, String> {
    let [first, others @ ..] = candidates else { return Err("no candidates".to_owned()) };
    let mut best = *first;
    for candidate in others {
        match best.binary().compare(&candidate.binary()) {
            Ordering::Less => best = candidate,
            Ordering::Equal if candidate.strategy != best.strategy => {
                return Err(format!(
                    "candidates {:?}, {:?} at same binary version but received differing strategies {}, {}",
                    best.name.as_str(),
                    candidate.name.as_str(),
                    best.strategy,
                    candidate.strategy
                ));
            }
            Ordering::Equal | Ordering::Greater => {}
        }
    }
    Ok(best.strategy.clone())
}

fn oldest<'a>(candidates: &[&'a Candidate]) -> Option<&'a Candidate> {
    let valid = candidates.iter().filter(|candidate| candidate.emulated.is_some() && candidate.binary.is_some());
    valid.copied().reduce(|best, candidate| if best.compare(candidate).is_gt() { candidate } else { best })
}

/// The lease as it is to be once somebody was elected; nothing if it is so already.
pub(super) fn settled(now: i64, lease: &Value, strategy: &str, holder: Option<&str>) -> Option<Value> {
    let mut new = lease.clone();
    let current = lease.str_at(&["spec", "holderIdentity"]).unwrap_or_default();
    new.set(&["spec", "strategy"], strategy);
    match holder {
        Some(holder) if current.is_empty() || (has_run_out(now, lease) && current != holder) => {
            new.remove_at(&["spec", "preferredHolder"]);
            new.remove_at(&["spec", "acquireTime"]);
            hold(now, &mut new, holder);
        }
        Some(holder) if current != holder => new.set(&["spec", "preferredHolder"], holder),
        _ => {}
    }
    (new != *lease).then_some(new)
}

/// A lease that nobody had before.
pub(super) fn new_lease(now: i64, place: (&str, &str), strategy: &str, holder: Option<&str>) -> Value {
    let mut lease = object! {
        "kind" => "Lease", "apiVersion" => "coordination.k8s.io/v1",
        "metadata" => object! { "namespace" => place.0, "name" => place.1 },
        "spec" => object! { "strategy" => strategy, "leaseDurationSeconds" => LEASE_SECONDS, "renewTime" => time(now) },
    };
    if let Some(holder) = holder {
        hold(now, &mut lease, holder);
    }
    lease
}

fn hold(now: i64, lease: &mut Value, holder: &str) {
    lease.set(&["spec", "holderIdentity"], holder);
    lease.set(&["spec", "renewTime"], time(now));
    lease.set(&["spec", "leaseDurationSeconds"], LEASE_SECONDS);
}

#[cfg(test)]
mod tests;
