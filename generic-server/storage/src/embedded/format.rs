//! The store's tables and records on disk.
//!
//! History is two append-only tables keyed by revision, so that a write touches only their right edges: `log` says what
//! each revision did, `values` holds the value it wrote. The index from keys to revisions lives in memory and is
//! rebuilt from `log` at start. Both carry checksums: damage is found when a record is read. What the tables do not yet
//! have is in the journal (see [`super::frame`]).

use redb::TableDefinition;

use crate::{Error, Revision};

/// The format this version writes, and the newest that it reads. Format 1 had no journal; in format 2 records did not say
/// when they were written.
pub(crate) const VERSION: u32 = 3;

/// Revision → record (see [`Record`]).
pub(crate) const LOG: TableDefinition<'static, u64, &'static [u8]> = TableDefinition::new("log");
/// Revision → the value written at it, and its checksum.
pub(crate) const VALUES: TableDefinition<'static, u64, &'static [u8]> = TableDefinition::new("values");
/// Numbers about the store as a whole, by the names below.
pub(crate) const STATE: TableDefinition<'static, &'static str, u64> = TableDefinition::new("state");

/// In [`STATE`]: the format's version.
pub(crate) const STATE_FORMAT: &str = "format";
/// In [`STATE`]: the oldest revision that can be read.
pub(crate) const STATE_OLDEST: &str = "oldest";
/// In [`STATE`]: revisions up to this one may have been given out, though the log does not show them.
pub(crate) const STATE_FLOOR: &str = "floor";

/// In [`STATE`]: the tables have all revisions up to this one.
pub(crate) const STATE_APPLIED: &str = "applied";
/// In [`STATE`]: the number that the journal's frames carry; not there until the store has a journal.
pub(crate) const STATE_JOURNAL: &str = "journal";

const DELETE: u8 = 1;
const TTL: u8 = 2;
const WRITTEN: u8 = 4;
const HEAD: usize = 1 + 8 + 8 + 4;
/// Bytes of a checksum.
pub(crate) const SUM: usize = 4;

/// When a key expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lifetime {
    /// The store's clock when the key was written, in ms.
    pub(crate) written: u64,
    /// How long it lives from then, in ms.
    pub(crate) ttl: u64,
}

impl Lifetime {
    /// The store's clock, in ms, when the key expires.
    pub(crate) fn deadline(&self) -> u64 {
        self.written.saturating_add(self.ttl)
    }
}

/// What one revision did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) key: &'a str,
    pub(crate) delete: bool,
    pub(crate) create_revision: Revision,
    /// The revision that wrote the key before; 0 if none did.
    pub(crate) previous: Revision,
    pub(crate) value_len: u32,
    /// The store's clock when it was written, in ms; 0: not known, since an older version wrote it.
    pub(crate) written: u64,
    pub(crate) lifetime: Option<Lifetime>,
}

impl<'a> Record<'a> {
    /// Writes the record's bytes into `out`, which it clears first.
    pub(crate) fn encode(&self, revision: Revision, out: &mut Vec<u8>) {
        out.clear();
        let flags = [(self.delete, DELETE), (self.lifetime.is_some(), TTL), (self.written != 0, WRITTEN)];
        out.push(flags.iter().filter(|(set, _)| *set).fold(0, |all, (_, flag)| all | flag));
        out.extend_from_slice(&self.create_revision.to_le_bytes());
        out.extend_from_slice(&self.previous.to_le_bytes());
        out.extend_from_slice(&self.value_len.to_le_bytes());
        if self.written != 0 {
            out.extend_from_slice(&self.written.to_le_bytes());
        }
        if let Some(lifetime) = self.lifetime {
            out.extend_from_slice(&lifetime.written.to_le_bytes());
            out.extend_from_slice(&lifetime.ttl.to_le_bytes());
        }
        out.extend_from_slice(self.key.as_bytes());
        let sum = record_sum(revision, out);
        out.extend_from_slice(&sum.to_le_bytes());
    }

    /// Bytes that the record and its value take in the tables.
    pub(crate) fn stored(&self) -> u64 {
        let times = if self.written != 0 { 8 } else { 0 } + if self.lifetime.is_some() { 16 } else { 0 };
        let value = if self.delete { 0 } else { self.value_len as usize + SUM };
        (HEAD + times + self.key.len() + SUM + value) as u64
    }

    /// Reads a record; fails with [`Error::Corrupt`].
    pub(crate) fn decode(revision: Revision, bytes: &'a [u8]) -> Result<Record<'a>, Error> {
        Self::parse(revision, bytes)
            .ok_or_else(|| Error::Corrupt(format!("table log: the record of revision {revision} is damaged")))
    }

    fn parse(revision: Revision, bytes: &'a [u8]) -> Option<Record<'a>> {
        let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(SUM)?)?;
        if u32::from_le_bytes(sum.try_into().ok()?) != record_sum(revision, body) {
            return None;
        }
        let (head, mut rest) = body.split_at_checked(HEAD)?;
        let u64_at = |bytes: &[u8], at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let u32_at = |bytes: &[u8], at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let mut written = 0;
        if head[0] & WRITTEN != 0 {
            written = u64_at(rest, 0)?;
            rest = &rest[8..];
        }
        let mut lifetime = None;
        if head[0] & TTL != 0 {
            lifetime = Some(Lifetime { written: u64_at(rest, 0)?, ttl: u64_at(rest, 8)? });
            rest = &rest[16..];
        }
        Some(Record {
            key: std::str::from_utf8(rest).ok()?,
            delete: head[0] & DELETE != 0,
            create_revision: u64_at(head, 1)?,
            previous: u64_at(head, 9)?,
            value_len: u32_at(head, 17)?,
            written,
            lifetime,
        })
    }
}

/// A value's checksum, apart from its place.
pub(crate) fn value_sum(value: &[u8]) -> u32 {
    crc32fast::hash(value)
}

/// Writes a value and its checksum into `out`, which has room for exactly these.
pub(crate) fn encode_value(revision: Revision, value: &[u8], sum: u32, out: &mut [u8]) {
    let (body, tail) = out.split_at_mut(value.len());
    body.copy_from_slice(value);
    tail.copy_from_slice(&(sum ^ fold(revision)).to_le_bytes());
}

/// Reads a value; fails with [`Error::Corrupt`].
pub(crate) fn decode_value(revision: Revision, bytes: &[u8]) -> Result<&[u8], Error> {
    let parts = bytes.len().checked_sub(SUM).map(|len| bytes.split_at(len));
    match parts {
        Some((value, sum)) if sum == (value_sum(value) ^ fold(revision)).to_le_bytes() => Ok(value),
        _ => Err(Error::Corrupt(format!("table values: the value of revision {revision} is damaged"))),
    }
}

fn record_sum(revision: Revision, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(fold(revision));
    hasher.update(body);
    hasher.finalize()
}

/// Ties a checksum to its revision, so that a record or value in another's place is seen.
fn fold(revision: Revision) -> u32 {
    revision as u32 ^ (revision >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back_and_shows_any_flipped_bit() {
        let check = |record: Record<'_>| {
            let mut bytes = Vec::new();
            record.encode(7, &mut bytes);
            assert_eq!(Record::decode(7, &bytes).unwrap(), record);
            assert!(record.delete || record.stored() == (bytes.len() + record.value_len as usize + SUM) as u64);
            assert!(Record::decode(8, &bytes).is_err(), "a record in another revision's place");
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(Record::decode(7, &bytes).is_err(), "bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            for len in 0..bytes.len() {
                assert!(Record::decode(7, &bytes[..len]).is_err(), "length {len}");
            }
        };
        let lifetime = Some(Lifetime { written: 5, ttl: 3_600_000 });
        check(Record {
            key: "/registry/pods/a/b",
            delete: false,
            create_revision: 3,
            previous: 6,
            value_len: 1400,
            written: 9,
            lifetime,
        });
        let deleted = Record {
            key: "/é",
            delete: true,
            create_revision: 3,
            previous: 0,
            value_len: 0,
            written: 0,
            lifetime: None,
        };
        check(deleted);
        check(Record { written: 7, ..deleted });
        check(Record { lifetime, delete: false, ..deleted });
    }
}
