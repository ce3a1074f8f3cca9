//! One API server at a time does what is to be done once in a cluster: whoever holds a lease, and renews it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use generic_server::registry::Registry;
use machinery::{Str, Value, meta::Status, object};

use super::election::{now, time};

const NAMESPACE: &str = "kube-system";
/// No server asks more often than this, whatever it was told.
const SHORTEST_RETRY: Duration = Duration::from_millis(100);

/// How leadership goes on and ends.
#[derive(Clone, Copy, Debug)]
pub struct Timers {
    /// How long a lease is good for that is not renewed.
    pub duration: Duration,
    /// How long a leader tries to renew it before it gives up.
    pub deadline: Duration,
    /// How often leaders renew, and others look.
    pub retry: Duration,
}

impl Default for Timers {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Timers { duration: seconds(15), deadline: seconds(10), retry: seconds(2) }
    }
}

/// One server's part in it.
pub(super) struct Leadership {
    pub(super) leases: Arc<Registry>,
    /// The name of the lease.
    pub(super) name: &'static str,
    /// What this server is called.
    pub(super) identity: Str,
    pub(super) timers: Timers,
    /// The lease as it was last seen, and since when it is so: other servers' clocks say nothing.
    seen: Option<(Value, Instant)>,
    /// When this server last renewed it.
    renewed: Option<Instant>,
}

impl Leadership {
    pub(super) fn new(leases: Arc<Registry>, name: &'static str, identity: Str, timers: Timers) -> Self {
        let timers = Timers { retry: timers.retry.max(SHORTEST_RETRY), ..timers };
        Leadership { leases, name, identity, timers, seen: None, renewed: None }
    }

    /// Takes or renews the lease, if it may be. Answers whether this server leads.
    pub(super) async fn holds(&mut self) -> bool {
        match self.acquire().await {
            Ok(true) => self.renewed = Some(Instant::now()),
            Ok(false) => self.renewed = None,
            Err(status) => tracing::debug!(lease = self.name, error = %status.message, "cannot renew the lease"),
        }
        self.renewed.is_some_and(|renewed| renewed.elapsed() < self.timers.deadline)
    }

    /// Gives the lease back, so that others need not wait.
    pub(super) async fn release(&mut self) {
        if self.renewed.take().is_none() {
            return;
        }
        let place = (NAMESPACE, self.name, "");
        let edit = |lease: &Value| {
            let mut lease = lease.clone();
            if lease.str_at(&["spec", "holderIdentity"]) == Some(&*self.identity) {
                lease.set(&["spec", "holderIdentity"], "");
                lease.set(&["spec", "leaseDurationSeconds"], 1);
            }
            Ok(lease)
        };
        if let Err(status) = self.leases.edit_as(self.name, place, edit).await {
            tracing::debug!(lease = self.name, error = %status.message, "cannot release the lease");
        }
    }

    async fn acquire(&mut self) -> Result<bool, Status> {
        let found = match self.leases.get_value(NAMESPACE, self.name).await {
            Ok(found) => found,
            Err(status) if status.is_not_found() => return self.create().await,
            Err(status) => return Err(status),
        };
        let spec = found.get("spec").cloned().unwrap_or_default();
        if self.seen.as_ref().is_none_or(|(seen, _)| *seen != spec) {
            self.seen = Some((spec.clone(), Instant::now()));
        }
        let since = self.seen.as_ref().map(|(_, since)| since.elapsed()).unwrap_or_default();
        if !may_take(&spec, &self.identity, since) {
            return Ok(false);
        }
        // Only as it was looked at: somebody else may be faster.
        let edit = |lease: &Value| match lease.get("spec").cloned().unwrap_or_default() == spec {
            true => Ok(self.taken(lease.clone())),
            false => Err(Status::conflict(&self.leases.group_resource(), self.name, "the lease has changed")),
        };
        match self.leases.edit_as(self.name, (NAMESPACE, self.name, ""), edit).await {
            Ok(_) => Ok(true),
            Err(status) if status.code == 409 => Ok(false),
            Err(status) => Err(status),
        }
    }

    async fn create(&self) -> Result<bool, Status> {
        let lease = object! {
            "kind" => "Lease", "apiVersion" => "coordination.k8s.io/v1",
            "metadata" => object! { "name" => self.name, "namespace" => NAMESPACE },
        };
        match self.leases.create_as(self.name, self.taken(lease)).await {
            Ok(_) => Ok(true),
            Err(status) if status.is_already_exists() => Ok(false),
            Err(status) => Err(status),
        }
    }

    /// The lease in this server's hands.
    fn taken(&self, mut lease: Value) -> Value {
        let now = time(now());
        if lease.str_at(&["spec", "holderIdentity"]) != Some(&*self.identity) {
            let before = lease.at(&["spec", "leaseTransitions"]).and_then(Value::as_i64);
            lease.set(&["spec", "leaseTransitions"], before.map_or(0, |count| count + 1));
            lease.set(&["spec", "holderIdentity"], self.identity.clone());
            lease.set(&["spec", "acquireTime"], now.as_str());
        }
        let seconds = i64::try_from(self.timers.duration.as_secs()).unwrap_or(i64::MAX);
        lease.set(&["spec", "leaseDurationSeconds"], seconds);
        lease.set(&["spec", "renewTime"], now);
        lease
    }
}

/// Whether a lease is this server's, or nobody's: it has no holder, or has not changed for as long as it is good.
fn may_take(spec: &Value, identity: &str, unchanged: Duration) -> bool {
    let holder = spec.str_at(&["holderIdentity"]).unwrap_or_default();
    let seconds = spec.get("leaseDurationSeconds").and_then(Value::as_i64).unwrap_or(0);
    let good = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    holder.is_empty() || holder == identity || unchanged > good
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_taken_from_whoever_does_not_renew_it() {
        let check = |holder: &str, unchanged: u64, expect: bool| {
            let spec = object! { "holderIdentity" => holder, "leaseDurationSeconds" => 15 };
            assert_eq!(may_take(&spec, "me", Duration::from_secs(unchanged)), expect, "{holder} {unchanged}");
        };
        check("", 0, true);
        check("me", 0, true);
        check("other", 15, false);
        check("other", 16, true);
    }
}
