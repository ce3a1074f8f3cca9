//! Leases: which there are, what is attached to them, and when they expire.
//!
//! A lease lasts for its TTL after it was granted or kept alive. After a start every lease lasts for its whole TTL again, as
//! with etcd: nobody could keep one alive meanwhile.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use bytes::Bytes;

use crate::{error::Refusal, txn::Change};

/// The longest TTL, in seconds.
const LONGEST: i64 = 9_000_000_000;
/// The shortest TTL, in seconds: what etcd makes of its default election timeout.
const SHORTEST: i64 = 2;

#[derive(Debug)]
struct Lease {
    ttl: i64,
    expires: Instant,
    keys: BTreeSet<Bytes>,
}

/// What a lease is asked about.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Remaining {
    /// Whole seconds until it expires.
    pub(crate) ttl: i64,
    /// As it was granted.
    pub(crate) granted: i64,
    /// What is attached.
    pub(crate) keys: Vec<Bytes>,
}

/// All leases.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    by_id: BTreeMap<i64, Lease>,
    deadlines: BTreeSet<(Instant, i64)>,
}

/// The TTL that a lease gets which is asked for with this one.
pub(crate) fn granted_ttl(asked: i64) -> Result<i64, Refusal> {
    if asked > LONGEST { Err(Refusal::LeaseTtlTooLarge) } else { Ok(asked.max(SHORTEST)) }
}

impl Leases {
    /// Whether there is such a lease.
    pub(crate) fn has(&self, id: i64) -> bool {
        self.by_id.contains_key(&id)
    }

    /// All leases' numbers.
    pub(crate) fn ids(&self) -> Vec<i64> {
        self.by_id.keys().copied().collect()
    }

    /// A new lease, from `now` on.
    pub(crate) fn add(&mut self, id: i64, ttl: i64, now: Instant) {
        let expires = deadline(now, ttl);
        self.by_id.insert(id, Lease { ttl, expires, keys: BTreeSet::new() });
        self.deadlines.insert((expires, id));
    }

    /// Forgets a lease.
    pub(crate) fn remove(&mut self, id: i64) {
        if let Some(lease) = self.by_id.remove(&id) {
            self.deadlines.remove(&(lease.expires, id));
        }
    }

    /// A lease lasts anew from `now` on; its TTL, or `None` if it is not there or has expired.
    pub(crate) fn keep_alive(&mut self, id: i64, now: Instant) -> Option<i64> {
        let lease = self.by_id.get_mut(&id).filter(|lease| lease.expires > now)?;
        self.deadlines.remove(&(lease.expires, id));
        lease.expires = deadline(now, lease.ttl);
        self.deadlines.insert((lease.expires, id));
        Some(lease.ttl)
    }

    /// What is left of a lease.
    pub(crate) fn remaining(&self, id: i64, with_keys: bool, now: Instant) -> Option<Remaining> {
        let lease = self.by_id.get(&id)?;
        let left = lease.expires.saturating_duration_since(now);
        let keys = if with_keys { lease.keys.iter().cloned().collect() } else { Vec::new() };
        Some(Remaining { ttl: left.as_secs() as i64, granted: lease.ttl, keys })
    }

    /// What is attached to a lease; `None` if there is no such lease.
    pub(crate) fn keys(&self, id: i64) -> Option<Vec<Bytes>> {
        self.by_id.get(&id).map(|lease| lease.keys.iter().cloned().collect())
    }

    /// A key was written or deleted: it is attached to the lease of its last write.
    pub(crate) fn note(&mut self, change: &Change) {
        let before = change.previous.map_or(0, |previous| previous.lease);
        let after = change.version.lease;
        if before == after {
            return;
        }
        if let Some(lease) = self.by_id.get_mut(&before) {
            lease.keys.remove(&change.key);
        }
        self.attach(after, &change.key);
    }

    /// A key is attached to a lease.
    pub(crate) fn attach(&mut self, id: i64, key: &Bytes) {
        if let Some(lease) = self.by_id.get_mut(&id) {
            lease.keys.insert(key.clone());
        }
    }

    /// When the next lease expires.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// A lease that has expired.
    pub(crate) fn expired(&self, now: Instant) -> Option<i64> {
        self.deadlines.first().filter(|(at, _)| *at <= now).map(|(_, id)| *id)
    }

    /// A lease that could not be revoked is tried again later.
    pub(crate) fn postpone(&mut self, id: i64, until: Instant) {
        if let Some(lease) = self.by_id.get_mut(&id) {
            self.deadlines.remove(&(lease.expires, id));
            lease.expires = until;
            self.deadlines.insert((until, id));
        }
    }

    /// All last for their whole TTL from `now` on.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.deadlines.clear();
        for (id, lease) in &mut self.by_id {
            lease.expires = deadline(now, lease.ttl);
            self.deadlines.insert((lease.expires, *id));
        }
    }
}

fn deadline(now: Instant, ttl: i64) -> Instant {
    let ttl = Duration::from_secs(u64::try_from(ttl).unwrap_or(0));
    // So far away that clocks do not reach it: a century will do.
    now.checked_add(ttl).unwrap_or_else(|| now + Duration::from_secs(100 * 365 * 24 * 3600))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Version;

    fn change(key: &'static str, before: i64, after: i64) -> Change {
        let version = |lease| Version { lease, create_revision: 1, ..Version::default() };
        let previous = (before >= 0).then(|| version(before));
        Change { key: Bytes::from(key), version: version(after), value: Bytes::new(), previous }
    }

    #[test]
    fn a_key_belongs_to_the_lease_of_its_last_write() {
        let (mut leases, now) = (Leases::default(), Instant::now());
        leases.add(1, 10, now);
        leases.add(2, 20, now);
        leases.note(&change("a", -1, 1));
        leases.note(&change("b", -1, 1));
        leases.note(&change("a", 1, 2));
        leases.note(&change("c", -1, 7));
        let keys = |leases: &Leases, id| leases.keys(id).map(|keys| keys.concat());
        assert_eq!(keys(&leases, 1), Some(b"b".to_vec()));
        assert_eq!(keys(&leases, 2), Some(b"a".to_vec()));
        assert_eq!(keys(&leases, 7), None);
        leases.note(&change("a", 2, 0));
        assert_eq!(keys(&leases, 2), Some(Vec::new()));
        assert_eq!(leases.ids(), [1, 2]);
    }

    #[test]
    fn a_lease_lasts_for_its_ttl_after_it_was_kept_alive() {
        let (mut leases, now) = (Leases::default(), Instant::now());
        let after = |seconds| now + Duration::from_secs(seconds);
        leases.add(1, 10, now);
        leases.add(2, 20, now);
        assert_eq!((leases.next(), leases.expired(after(9))), (Some(after(10)), None));
        assert_eq!(leases.keep_alive(1, after(9)), Some(10));
        assert_eq!(leases.expired(after(10)), None);
        let left = leases.remaining(1, true, after(12)).map(|left| (left.ttl, left.granted));
        assert_eq!(left, Some((7, 10)));
        assert_eq!(leases.expired(after(19)), Some(1));
        assert_eq!(leases.keep_alive(1, after(19)), None, "it has expired");
        leases.postpone(1, after(30));
        assert_eq!(leases.expired(after(20)), Some(2));
        leases.remove(2);
        assert_eq!((leases.keep_alive(2, now), leases.remaining(2, false, now)), (None, None));
        leases.restart(after(100));
        assert_eq!(leases.next(), Some(after(110)));
    }

    #[test]
    fn a_ttl_has_bounds() {
        assert_eq!(granted_ttl(0), Ok(2));
        assert_eq!(granted_ttl(-1), Ok(2));
        assert_eq!(granted_ttl(3600), Ok(3600));
        assert_eq!(granted_ttl(LONGEST), Ok(LONGEST));
        assert_eq!(granted_ttl(LONGEST + 1), Err(Refusal::LeaseTtlTooLarge));
        assert!(deadline(Instant::now(), i64::MAX) > Instant::now());
    }
}
