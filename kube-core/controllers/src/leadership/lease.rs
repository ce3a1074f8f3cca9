//! A lease as it is seen: held as long as it changes often enough, by this server's own clock.

use std::time::Duration;

use machinery::{
    Str, Value,
    codec::json,
    meta::{TimeForm, Timestamp, status::Status},
    object,
};
use storage::cache::Object;
use tokio::time::Instant;

use super::{DURATION, NAMESPACE, OWN};
use crate::{client::Client, kinds::collection};

/// A lease that was read.
pub(super) struct Lease {
    pub(super) value: Value,
    pub(super) revision: u64,
}

impl Lease {
    pub(super) fn read(object: &Object) -> Option<Self> {
        Some(Lease { value: json::decode(object.bytes()).ok()?, revision: object.revision() })
    }

    fn holder(&self) -> &str {
        self.value.str_at(&["spec", "holderIdentity"]).unwrap_or_default()
    }

    fn duration(&self) -> i64 {
        self.value.at(&["spec", "leaseDurationSeconds"]).and_then(Value::as_i64).unwrap_or(0).max(0)
    }

    /// Whether it has run out by what it says itself. Clocks differ, so that is believed of one that nobody renews.
    fn is_past(&self, clock: Timestamp) -> bool {
        let renewed = self.value.str_at(&["spec", "renewTime"]);
        let renewed = renewed.and_then(|text| Timestamp::parse(text, TimeForm::Micros).ok());
        renewed.is_none_or(|renewed| renewed.seconds().saturating_add(self.duration()) < clock.seconds())
    }
}

/// A lease as it was seen last.
#[derive(Default)]
pub(super) struct Seen {
    holder: Str,
    revision: u64,
    until: Option<Instant>,
}

impl Seen {
    /// Notes the lease as it is now.
    pub(super) fn look(&mut self, lease: Option<&Lease>, now: Instant, clock: Timestamp) {
        let Some(lease) = lease else {
            *self = Seen::default();
            return;
        };
        if lease.revision == self.revision {
            return;
        }
        let is_first = self.revision == 0;
        let free = lease.holder().is_empty() || is_first && lease.is_past(clock);
        let duration = Duration::from_secs(lease.duration().unsigned_abs());
        let until = now.checked_add(duration).filter(|_| !free);
        *self = Seen { holder: lease.holder().into(), revision: lease.revision, until };
    }

    /// Until when it is held if nobody renews it.
    pub(super) fn held_until(&self) -> Option<Instant> {
        self.until
    }

    pub(super) fn holder(&self) -> &str {
        &self.holder
    }
}

/// Takes the servers' lease, or renews it, unless it has changed since it was read.
pub(super) async fn acquire(client: &Client, current: Option<&Value>, identity: &str) -> Result<(), Status> {
    let leases = collection("coordination.k8s.io", "v1", "leases", NAMESPACE);
    let now = Timestamp::now().text(TimeForm::Micros);
    let renewed = |mut lease: Value| {
        let holder = lease.str_at(&["spec", "holderIdentity"]).unwrap_or_default();
        if holder != identity {
            let taken =
                lease.at(&["spec", "leaseTransitions"]).and_then(Value::as_i64).map_or(0, |n| n.saturating_add(1));
            lease.set(&["spec", "leaseTransitions"], taken);
            lease.set(&["spec", "acquireTime"], now.as_str());
            lease.set(&["spec", "holderIdentity"], identity);
        }
        lease.set(&["spec", "leaseDurationSeconds"], DURATION.as_secs() as i64);
        lease.set(&["spec", "renewTime"], now.as_str());
        lease
    };
    match current {
        Some(current) => client.update(&format!("{leases}/{OWN}"), &renewed(current.clone())).await,
        None => {
            let lease = object! {
                "kind" => "Lease", "apiVersion" => "coordination.k8s.io/v1",
                "metadata" => object! { "name" => OWN, "namespace" => NAMESPACE },
            };
            client.create(&leases, &renewed(lease)).await
        }
    }
    .map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(revision: u64, renewed: i64) -> Lease {
        let renewed = Timestamp::new(renewed, 0).text(TimeForm::Micros);
        let spec = object! { "holderIdentity" => "kcm", "leaseDurationSeconds" => 15, "renewTime" => renewed };
        Lease { value: object! { "spec" => spec }, revision }
    }

    #[test]
    fn one_that_is_left_over_is_not_held_and_one_that_changes_is() {
        let (mut seen, now, clock) = (Seen::default(), Instant::now(), Timestamp::new(1_000, 0));
        seen.look(Some(&lease(1, 900)), now, clock);
        assert_eq!(seen.held_until(), None, "it has run out before anybody looked");
        seen.look(Some(&lease(2, 910)), now, clock);
        assert!(seen.held_until().is_some(), "its holder's clock is slow");
        seen.look(None, now, clock);
        assert_eq!(seen.held_until(), None);
        seen.look(Some(&lease(1, 990)), now, clock);
        assert_eq!(seen.held_until(), Some(now + Duration::from_secs(15)));
        assert_eq!(seen.holder(), "kcm");
    }
}
