//! Leases for keys that expire: shared by keys of nearly the same end, since each costs etcd as much as a key.

use std::{collections::HashMap, time::Duration};

use tokio::{sync::Mutex, time::Instant};

use super::Shared;
use crate::{Error, tally::LEASE_KEYS};

/// A lease may be used for new keys for this part of its TTL, and at most for as long as the options say.
const REUSE_PART: u32 = 20;
/// How many keys a lease may have: all go in one transaction in the end.
const MOST_KEYS: usize = 1000;

/// The leases in use, by TTL in seconds.
#[derive(Default)]
pub(super) struct Leases(Mutex<HashMap<u64, Lease>>);

struct Lease {
    id: i64,
    /// Takes keys until then.
    until: Instant,
    keys: usize,
}

impl Leases {
    /// A lease that ends no earlier than `ttl` from now, and not much later.
    pub(super) async fn take(&self, shared: &Shared, ttl: Duration) -> Result<i64, Error> {
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        let mut leases = self.0.lock().await;
        let now = Instant::now();
        leases.retain(|_, lease| {
            let goes_on = lease.until > now && lease.keys < MOST_KEYS;
            if !goes_on {
                LEASE_KEYS.note(lease.keys as f64);
            }
            goes_on
        });
        if let Some(lease) = leases.get_mut(&seconds) {
            lease.keys += 1;
            return Ok(lease.id);
        }
        let reuse = Duration::from_secs(shared.options.lease_reuse.min(ttl / REUSE_PART).as_secs());
        let granted = shared.call(true, || {
            let (mut client, ttl) = (shared.client.lease_client(), seconds + reuse.as_secs());
            async move { client.grant(ttl as i64, None).await }
        });
        let id = granted.await?.id();
        if reuse.is_zero() {
            LEASE_KEYS.note(1.0);
        } else {
            leases.insert(seconds, Lease { id, until: now + reuse, keys: 1 });
        }
        Ok(id)
    }
}
