//! Which ports of nodes are taken: one object in the store for the whole range, a bitmap, changed by compare-and-swap. Its
//! form is upstream's, so that both kinds of servers can share a store.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;
use generic_server::registry::Backing;
use machinery::{
    Value,
    codec::{json, protobuf},
    meta::Status,
    object,
};
use storage::{Error as StoreError, Expect, Revision, Store};

use super::addresses::random;

/// How often a change is tried on a newer state.
const MAX_ATTEMPTS: usize = 256;

/// Why a port could not be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PortError {
    /// None is left.
    #[error("range is full")]
    Full,
    /// Somebody has it.
    #[error("provided port is already allocated")]
    Taken,
    /// It is no port of the range.
    #[error("provided port is not in the valid range. The range of valid ports is {0}-{1}")]
    Outside(u16, u16),
}

/// The ports of the range and which of them are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PortSet {
    first: u16,
    last: u16,
    taken: Vec<bool>,
}

impl PortSet {
    pub(super) fn new((first, last): (u16, u16)) -> Self {
        PortSet { first, last, taken: vec![false; usize::from(last - first) + 1] }
    }

    fn slot(&self, port: i64) -> Result<usize, PortError> {
        let port = u16::try_from(port).ok().filter(|p| (self.first..=self.last).contains(p));
        port.map(|p| usize::from(p - self.first)).ok_or(PortError::Outside(self.first, self.last))
    }

    pub(super) fn take(&mut self, port: i64) -> Result<(), PortError> {
        let slot = self.slot(port)?;
        if std::mem::replace(&mut self.taken[slot], true) { Err(PortError::Taken) } else { Ok(()) }
    }

    /// Whether the port is taken.
    pub(super) fn has(&self, port: i64) -> bool {
        self.slot(port).is_ok_and(|slot| self.taken[slot])
    }

    /// Ports that are not in the range were never taken.
    pub(super) fn give_back(&mut self, port: i64) {
        if let Ok(slot) = self.slot(port) {
            self.taken[slot] = false;
        }
    }

    fn take_next(&mut self, random: u64) -> Result<i64, PortError> {
        let size = self.taken.len();
        let middle = set_aside(size);
        let upper = around(middle, size, random);
        let mut slots = upper.chain(around(0, middle, random));
        let slot = slots.find(|slot| !self.taken[*slot]).ok_or(PortError::Full)?;
        self.taken[slot] = true;
        Ok(i64::from(self.first) + i64::try_from(slot).unwrap_or(i64::MAX))
    }

    /// The ports that are taken.
    pub(super) fn ports(&self) -> impl Iterator<Item = i64> {
        let taken = self.taken.iter().zip(i64::from(self.first)..);
        taken.filter(|(taken, _)| **taken).map(|(_, port)| port)
    }

    /// The bits as one big-endian number, the lowest bit for the first port, without leading zeros.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0u8; self.taken.len().div_ceil(8)];
        for slot in self.taken.iter().enumerate().filter_map(|(slot, taken)| taken.then_some(slot)) {
            bytes[slot / 8] |= 1 << (slot % 8);
        }
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        bytes.reverse();
        bytes
    }

    /// Takes the ports of a range that begins at `first`; those that are not in this one are forgotten.
    fn take_all(&mut self, first: u16, bytes: &[u8]) {
        for (at, byte) in bytes.iter().rev().enumerate() {
            for bit in (0..8).filter(|bit| byte & (1 << bit) != 0) {
                if let Ok(offset) = i64::try_from(at * 8 + bit) {
                    let _ = self.take(i64::from(first) + offset);
                }
            }
        }
    }
}

/// How many ports at the start are left to those who ask for a certain one, as long as there are others.
fn set_aside(size: usize) -> usize {
    const LEAST: usize = 16;
    const MOST: usize = 128;
    const SHARE: usize = 32;
    if size <= LEAST { 0 } else { (size / SHARE).clamp(LEAST, MOST) }
}

/// The slots from `first` up to `end`, beginning with a random one.
fn around(first: usize, end: usize, random: u64) -> impl Iterator<Item = usize> {
    let size = end - first;
    let random = usize::try_from(random % u64::try_from(size.max(1)).unwrap_or(1)).unwrap_or(0);
    let start = first + random;
    (start..end).chain(first..start)
}

/// What one service does to the ports.
pub(crate) struct PortChange {
    set: PortSet,
    dry_run: bool,
    random: u64,
    /// Ports that were free and are the service's now.
    pub(crate) taken: Vec<i64>,
    /// Ports that it gives back once it is written.
    pub(crate) released: Vec<i64>,
}

impl PortChange {
    /// Takes this port.
    pub(crate) fn take(&mut self, port: i64) -> Result<(), PortError> {
        if self.dry_run {
            if self.set.has(port) || self.taken.contains(&port) {
                return Err(PortError::Taken);
            }
        } else {
            self.set.take(port)?;
        }
        self.taken.push(port);
        Ok(())
    }

    /// Takes any port. A dry run shows one that it does not look for.
    pub(crate) fn take_next(&mut self) -> Result<i64, PortError> {
        const SHOWN: i64 = 32768;
        let port = if self.dry_run {
            self.taken.iter().max().unwrap_or(&SHOWN) + 1
        } else {
            self.set.take_next(self.random)?
        };
        self.taken.push(port);
        Ok(port)
    }

    /// Gives the port back once the service is written.
    pub(crate) fn release(&mut self, port: i64) {
        self.released.push(port);
    }
}

/// The ports of nodes.
pub(crate) struct NodePorts {
    store: Arc<dyn Store>,
    key: String,
    range: (u16, u16),
}

impl NodePorts {
    pub(super) fn new(backing: &Backing, range: (u16, u16)) -> Self {
        NodePorts { store: backing.store.clone(), key: format!("{}/ranges/servicenodeports", backing.root), range }
    }

    /// The ports as the store has them, and its object's revision; whether the object is of another range than ours.
    async fn read(&self) -> Result<(PortSet, Option<Revision>, bool), Status> {
        let (found, _) = self.store.get(&self.key).await.map_err(unavailable)?;
        let mut set = PortSet::new(self.range);
        let Some(found) = found else { return Ok((set, None, true)) };
        let (range, bytes) = parse(&found.value).map_err(Status::internal_error)?;
        set.take_all(range.0, &bytes);
        Ok((set, Some(found.mod_revision), range != self.range))
    }

    async fn write(&self, set: &PortSet, revision: Option<Revision>) -> Result<(), StoreError> {
        let object = object! {
            "kind" => "RangeAllocation", "apiVersion" => "v1", "metadata" => object! {},
            "range" => format!("{}-{}", self.range.0, self.range.1),
            "data" => BASE64.encode(set.to_bytes()),
        };
        let expect = revision.map_or(Expect::Absent, Expect::Revision);
        self.store.put(&self.key, Bytes::from(json::encode(&object)), expect, None).await.map(|_| ())
    }

    /// Tries a change on the ports as they are, until nobody is faster. `change` is called anew for each state.
    pub(crate) async fn change<T>(
        &self,
        dry_run: bool,
        mut change: impl FnMut(&mut PortChange) -> Result<T, Status>,
    ) -> Result<(T, PortChange), Status> {
        for _ in 0..MAX_ATTEMPTS {
            let (set, revision, _) = self.read().await?;
            let random = random();
            let mut ports = PortChange { set, dry_run, random, taken: Vec::new(), released: Vec::new() };
            let done = change(&mut ports)?;
            if dry_run || ports.taken.is_empty() {
                return Ok((done, ports));
            }
            match self.write(&ports.set, revision).await {
                Ok(()) => return Ok((done, ports)),
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(unavailable(error)),
            }
        }
        Err(Status::service_unavailable("the node ports are changed too often"))
    }

    /// Gives ports back. What fails here, the repair finds.
    pub(crate) async fn give_back(&self, ports: &[i64]) {
        if ports.is_empty() {
            return;
        }
        let result = self.edit(|set| ports.iter().for_each(|port| set.give_back(*port))).await;
        if let Err(status) = result {
            tracing::warn!(?ports, error = status.message, "ports could not be given back");
        }
    }

    /// Changes which ports are taken, and writes that down if it or the range is new.
    pub(super) async fn edit(&self, mut edit: impl FnMut(&mut PortSet)) -> Result<(), Status> {
        for _ in 0..MAX_ATTEMPTS {
            let (before, revision, is_foreign) = self.read().await?;
            let mut set = before.clone();
            edit(&mut set);
            if set == before && !is_foreign {
                return Ok(());
            }
            match self.write(&set, revision).await {
                Ok(()) => return Ok(()),
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(unavailable(error)),
            }
        }
        Err(Status::service_unavailable("the node ports are changed too often"))
    }

    /// The ports as the store has them.
    pub(super) async fn taken(&self) -> Result<PortSet, Status> {
        self.read().await.map(|(set, ..)| set)
    }

    /// An empty set of the range.
    pub(super) fn empty(&self) -> PortSet {
        PortSet::new(self.range)
    }
}

fn unavailable(error: StoreError) -> Status {
    Status::service_unavailable(error.to_string())
}

/// The range and the bits of a stored object, JSON or protobuf.
fn parse(stored: &[u8]) -> Result<((u16, u16), Vec<u8>), String> {
    let object = if stored.starts_with(b"k8s\0") {
        protobuf::decode(stored).map_err(|e| e.to_string())?
    } else {
        json::decode(stored).map_err(|e| e.to_string())?
    };
    let text = object.str_at(&["range"]).unwrap_or_default();
    let range = text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    let range = range.ok_or_else(|| format!("the stored range of node ports is {text:?}"))?;
    let data = object.get("data").and_then(Value::as_str).unwrap_or_default();
    Ok((range, BASE64.decode(data).map_err(|e| e.to_string())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_one_big_endian_number() {
        let mut set = PortSet::new((30000, 32767));
        for port in [30000, 30009, 32705] {
            set.take(port).expect("free");
        }
        let bytes = set.to_bytes();
        assert_eq!((bytes.len(), bytes[0], bytes[337], bytes[338]), (339, 2, 2, 1));
        let mut read = PortSet::new((30000, 32767));
        read.take_all(30000, &bytes);
        assert_eq!(read, set);
        let mut narrower = PortSet::new((30009, 30020));
        narrower.take_all(30000, &bytes);
        assert_eq!(narrower.ports().collect::<Vec<_>>(), [30009]);
        assert_eq!(PortSet::new((1, 20)).to_bytes(), Vec::<u8>::new());
    }

    #[test]
    fn stored_forms_are_read() {
        let json = br#"{"kind":"RangeAllocation","apiVersion":"v1","range":"30000-32767","data":"Ag=="}"#;
        assert_eq!(parse(json), Ok(((30000, 32767), vec![2])));
        let object = object! {
            "kind" => "RangeAllocation", "apiVersion" => "v1", "range" => "30000-32767", "data" => "Ag==",
        };
        let bytes = protobuf::encode(&object).expect("a known kind");
        assert_eq!(parse(&bytes), Ok(((30000, 32767), vec![2])));
        assert!(parse(br#"{"range":"x"}"#).is_err());
    }

    #[test]
    fn ports_are_taken_once_and_the_lower_ones_last() {
        let mut set = PortSet::new((30000, 30031));
        assert_eq!(set.take(29999), Err(PortError::Outside(30000, 30031)));
        assert_eq!((set.take(30020), set.take(30020)), (Ok(()), Err(PortError::Taken)));
        let rest: Vec<i64> = std::iter::from_fn(|| set.take_next(5).ok()).collect();
        assert_eq!((rest.len(), rest[0]), (31, 30021));
        assert!(rest[15..].iter().all(|port| *port < 30016));
        assert_eq!(set.take_next(0), Err(PortError::Full));
        set.give_back(30003);
        assert_eq!(set.take_next(9), Ok(30003));
    }
}
