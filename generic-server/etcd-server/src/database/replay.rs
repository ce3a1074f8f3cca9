//! Changes of the past, for watches that begin there or have fallen behind.

use std::sync::Arc;

use storage::Event as StoreEvent;

use super::Shared;
use crate::{
    error::Refusal,
    key::{StoreKey, parse_store_key},
    proto::{Event, KeyValue, event::EventType},
    record::Version,
    state::State,
    txn::key_value,
    window::Group,
};

/// Records read at once, unless one revision has more.
const CHUNK: usize = 512;

/// Changes from a revision on.
#[derive(Debug)]
pub(crate) struct Replay {
    /// The changes, by revision.
    pub(crate) groups: Vec<Arc<Group>>,
    /// All changes before this revision are there.
    pub(crate) next: i64,
}

/// Reads the changes from a revision on, as far as they are read at once. Fails with [`Refusal::Compacted`].
pub(super) async fn replay(shared: &Arc<Shared>, from: i64) -> Result<Replay, Refusal> {
    let state = shared.state.load_full();
    if from < state.compacted {
        return Err(Refusal::Compacted);
    }
    if from > state.revision {
        return Ok(Replay { groups: Vec::new(), next: from });
    }
    if let Ok(groups) = shared.window.after(from - 1) {
        let next = groups.last().map_or(from, |last| last.revision + 1);
        return Ok(Replay { groups, next });
    }
    let Some(position) = state.position_of(from) else {
        return Ok(Replay { groups: Vec::new(), next: state.revision + 1 });
    };
    let mut most = CHUNK;
    loop {
        let part = shared.store.log_after(position - 1, most).await?;
        if from < shared.state.load().compacted {
            // Some of it may have been dropped while it was read.
            return Err(Refusal::Compacted);
        }
        let upto = part.last.unwrap_or(state.position);
        let mut groups = groups(shared, &state, part.events)?;
        groups.retain(|group| is_whole(&state, group.revision, upto));
        match groups.last().map(|last| last.revision + 1) {
            Some(next) => return Ok(Replay { groups: groups.into_iter().map(Arc::new).collect(), next }),
            None if upto >= state.position => return Ok(Replay { groups: Vec::new(), next: state.revision + 1 }),
            None => most *= 4,
        }
    }
}

/// Whether all of a revision was read, when all up to a position was.
fn is_whole(state: &State, revision: i64, upto: u64) -> bool {
    revision <= state.revision
        && (upto >= state.position || state.position_of(revision + 1).is_some_and(|next| next <= upto + 1))
}

fn groups(shared: &Shared, state: &State, events: Vec<StoreEvent>) -> Result<Vec<Group>, Refusal> {
    let mut groups: Vec<Group> = Vec::new();
    for stored in events {
        let (Some(StoreKey::Key(key)), Some(value)) = (parse_store_key(&stored.key), &stored.value) else { continue };
        let (version, value) = Version::decode(stored.revision, value).ok_or(Refusal::Corrupt)?;
        let previous = stored.previous.as_ref().and_then(|previous| Version::decode(0, &previous.value));
        let prev_kv = match previous.filter(|(version, _)| version.exists()) {
            // What the same revision wrote before is not what was there before it.
            Some((previous, _)) if previous.revision == version.revision => {
                shared.before(state, &key, version.revision)?
            }
            previous => previous.map(|(version, value)| key_value(key.clone(), &version, value)),
        };
        let event = event(key_value(key, &version, value), version.exists(), prev_kv);
        match groups.last_mut() {
            Some(group) if group.revision == version.revision => group.events.push(event),
            _ => groups.push(Group { revision: version.revision, events: vec![event] }),
        }
    }
    Ok(groups)
}

/// An event of a watch.
pub(super) fn event(kv: KeyValue, is_put: bool, prev_kv: Option<KeyValue>) -> Event {
    let r#type = if is_put { EventType::Put } else { EventType::Delete } as i32;
    // Of a key that is gone there is the revision that deleted it, and nothing else.
    let kv = if is_put { kv } else { KeyValue { key: kv.key, mod_revision: kv.mod_revision, ..KeyValue::default() } };
    Event { r#type, kv: Some(kv), prev_kv }
}
