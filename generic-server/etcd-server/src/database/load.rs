//! What a start reads: the store's log, of which the state in memory is made.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Instant,
};

use bytes::Bytes;
use storage::{Error, Event, Store as _, embedded::Embedded};

use crate::{
    key::{StoreKey, meta_key, parse_store_key},
    lease::Leases,
    record::Version,
    state::State,
};

/// Records read at once.
const CHUNK: usize = 4096;

/// The names of what is kept about the database as a whole.
pub(super) const COMPACTED: &str = "compacted";
const CLUSTER: &str = "cluster";
const MEMBER: &str = "member";
const ALARM: &str = "alarm.";

/// What was read.
pub(super) struct Loaded {
    pub(super) state: State,
    pub(super) leases: Leases,
    pub(super) alarms: BTreeSet<i32>,
    /// Keys of which compaction to a revision may drop something, in rising order of that.
    pub(super) superseded: VecDeque<(i64, Bytes)>,
    pub(super) cluster: u64,
    pub(super) member: u64,
}

/// The name under which an alarm is kept.
pub(super) fn alarm_name(alarm: i32) -> String {
    format!("{ALARM}{alarm}")
}

/// Reads the store's log. A new store gets the numbers that tell it from others.
pub(super) async fn load(store: &Arc<Embedded>) -> Result<Loaded, Error> {
    let (mut state, mut leases, mut meta) = (State::new(0), Leases::default(), HashMap::<String, Bytes>::new());
    let mut after = 0;
    loop {
        let part = store.log_after(after, CHUNK).await?;
        for event in &part.events {
            take(event, &mut state, &mut leases, &mut meta)?;
        }
        match part.last {
            Some(last) => after = last,
            None => break,
        }
    }
    let number = |name: &str| meta.get(name).and_then(|bytes| Some(u64::from_le_bytes(bytes[..].try_into().ok()?)));
    let (cluster, member) = match (number(CLUSTER), number(MEMBER)) {
        (Some(cluster), Some(member)) => (cluster, member),
        _ => name_store(store).await?,
    };
    state.position = store.revision().await?;
    let mut superseded: Vec<(i64, Bytes)> = state.superseded().collect();
    superseded.sort();
    let mut superseded = VecDeque::from(superseded);
    if let Some(compacted) = number(COMPACTED).map(|number| number as i64) {
        state.revision = state.revision.max(compacted);
        let gone = superseded.partition_point(|(revision, _)| *revision <= compacted);
        let position = state.compaction_position(compacted);
        state.compact(compacted, superseded.drain(..gone).map(|(_, key)| key));
        // The last run may have ended before it came to that.
        store.compact(position).await?;
    }
    for (key, version) in state.range(&crate::key::KeyRange::From(Bytes::new()), i64::MAX) {
        leases.attach(version.lease, key);
    }
    leases.restart(Instant::now());
    let alarms = meta.keys().filter_map(|name| name.strip_prefix(ALARM)?.parse().ok()).collect();
    Ok(Loaded { state, leases, alarms, superseded, cluster, member })
}

fn take(event: &Event, state: &mut State, leases: &mut Leases, meta: &mut HashMap<String, Bytes>) -> Result<(), Error> {
    let damaged = || Error::Corrupt(format!("{:?} of revision {} is no record of etcd's", event.key, event.revision));
    match (parse_store_key(&event.key).ok_or_else(damaged)?, &event.value) {
        (StoreKey::Key(key), Some(stored)) => {
            let (version, _) = Version::decode(event.revision, stored).ok_or_else(damaged)?;
            state.write(&key, version);
        }
        // What was deleted was told by the record before.
        (StoreKey::Key(_), None) => {}
        (StoreKey::Lease(id), Some(stored)) => {
            let ttl = stored[..].try_into().map(i64::from_le_bytes).map_err(|_| damaged())?;
            leases.add(id, ttl, Instant::now());
        }
        (StoreKey::Lease(id), None) => leases.remove(id),
        (StoreKey::Meta(name), Some(stored)) => drop(meta.insert(name, stored.clone())),
        (StoreKey::Meta(name), None) => drop(meta.remove(&name)),
    }
    Ok(())
}

/// Gives a new store the numbers of its cluster and its member.
async fn name_store(store: &Embedded) -> Result<(u64, u64), Error> {
    let (cluster, member) = uuid::Uuid::new_v4().as_u64_pair();
    let write = |name, number: u64| (meta_key(name), Some(Bytes::copy_from_slice(&number.to_le_bytes())));
    store.write_all(vec![write(CLUSTER, cluster), write(MEMBER, member)]).await?;
    Ok((cluster, member))
}
