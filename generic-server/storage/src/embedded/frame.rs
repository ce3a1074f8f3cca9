//! Frames: a batch of writes as the journal holds it.
//!
//! A frame begins on a block's edge and fills its last block with zeros, so that no write touches a block that holds what
//! was answered. It carries the store's own random number (no value that a client stores can pass for a frame, nor one of
//! another store), its segment's number, and up to which revision all before it was on the disk when it was written:
//! so damage in the middle is told from a last frame that was cut.

use std::sync::Arc;

use bytes::Bytes;

use super::{format::Record, pending::Entry};
use crate::Revision;

/// Frames begin at multiples of this: what disks and file systems write as one.
pub(crate) const BLOCK: usize = 4096;

const MAGIC: u32 = 0x4a62_756b;
/// Where the checksummed part begins.
const SUMMED: usize = 8;
const HEAD: usize = 56;

/// What a frame says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The store's number.
    pub(crate) store: u64,
    /// The segment's number: rising, in the order in which segments were begun.
    pub(crate) segment: u64,
    /// The revision of its first entry; the others follow without a gap.
    pub(crate) first: Revision,
    /// All frames up to this revision were on the disk before this one was written.
    pub(crate) durable: Revision,
    /// Revisions up to this one may have been given out.
    pub(crate) floor: Revision,
}

/// A frame that was read.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) head: Head,
    pub(crate) entries: Vec<Entry>,
    /// Its length with what fills its last block.
    pub(crate) size: usize,
}

/// Writes a frame into `out`, which it clears first.
pub(crate) fn encode<'a>(head: &Head, entries: impl Iterator<Item = &'a Entry>, out: &mut Vec<u8>) {
    out.clear();
    out.resize(HEAD, 0);
    let (mut record, mut count) = (Vec::with_capacity(256), 0_u32);
    for (entry, revision) in entries.zip(head.first..) {
        entry.record().encode(revision, &mut record);
        out.extend_from_slice(&(record.len() as u32).to_le_bytes());
        out.extend_from_slice(&record);
        if let Some((value, sum)) = &entry.value {
            out.extend_from_slice(&sum.to_le_bytes());
            out.extend_from_slice(value);
        }
        count += 1;
    }
    let numbers = [head.store, head.segment, head.first, head.durable, head.floor];
    out[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    let len = out.len() as u32;
    out[8..12].copy_from_slice(&len.to_le_bytes());
    out[12..16].copy_from_slice(&count.to_le_bytes());
    for (number, room) in numbers.iter().zip(out[16..HEAD].chunks_exact_mut(8)) {
        room.copy_from_slice(&number.to_le_bytes());
    }
    seal(out);
    out.resize(out.len().next_multiple_of(BLOCK), 0);
}

/// Puts a finished frame into another segment.
pub(crate) fn set_segment(frame: &mut [u8], segment: u64) {
    frame[24..32].copy_from_slice(&segment.to_le_bytes());
    seal(frame);
}

fn seal(frame: &mut [u8]) {
    let len = u32_at(frame, 8).expect("a frame has a head") as usize;
    let sum = crc32fast::hash(&frame[SUMMED..len]);
    frame[4..8].copy_from_slice(&sum.to_le_bytes());
}

/// Reads the head of the frame at the start of `bytes`; `None` if there is no whole one of this store.
pub(crate) fn decode_head(store: u64, bytes: &[u8]) -> Option<Head> {
    Some(parse_head(store, bytes)?.0)
}

/// Reads the frame at the start of `bytes`; `None` if there is no whole one of this store.
pub(crate) fn decode(store: u64, bytes: &Bytes) -> Option<Frame> {
    let (head, count, len) = parse_head(store, bytes)?;
    let mut at = HEAD;
    let mut entries = Vec::with_capacity(count.min(len / HEAD));
    let take = |at: &mut usize, size: usize| {
        let end = at.checked_add(size).filter(|end| *end <= len)?;
        Some(std::mem::replace(at, end)..end)
    };
    for index in 0..count {
        let size = u32_at(bytes, take(&mut at, 4)?.start)? as usize;
        let record = Record::decode(head.first + index as u64, &bytes[take(&mut at, size)?]).ok()?;
        let mut value = None;
        if !record.delete {
            let sum = u32_at(bytes, take(&mut at, 4)?.start)?;
            value = Some((bytes.slice(take(&mut at, record.value_len as usize)?), sum));
        }
        let Record { create_revision, previous, written, lifetime, .. } = record;
        entries.push(Entry { key: Arc::from(record.key), value, create_revision, previous, written, lifetime });
    }
    Some(Frame { head, entries, size: len.next_multiple_of(BLOCK) })
}

/// The head of a frame whose checksum holds, its entries' number, and its length.
fn parse_head(store: u64, bytes: &[u8]) -> Option<(Head, usize, usize)> {
    let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    if u32_at(bytes, 0)? != MAGIC || u64_at(16)? != store {
        return None;
    }
    let len = u32_at(bytes, 8)? as usize;
    let body = bytes.get(SUMMED..len)?;
    if len < HEAD || crc32fast::hash(body) != u32_at(bytes, 4)? {
        return None;
    }
    let head = Head { store, segment: u64_at(24)?, first: u64_at(32)?, durable: u64_at(40)?, floor: u64_at(48)? };
    Some((head, u32_at(bytes, 12)? as usize, len))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::embedded::format::{Lifetime, value_sum};

    /// An entry that sets or deletes a key.
    pub(crate) fn entry(key: &str, value: Option<&str>) -> Entry {
        let value = value.map(|value| (Bytes::from(value.to_owned()), value_sum(value.as_bytes())));
        Entry { key: key.into(), value, create_revision: 7, previous: 3, written: 2, lifetime: None }
    }

    fn told(entry: &Entry) -> String {
        format!("{entry:?}")
    }

    #[test]
    fn a_frame_reads_back_and_shows_any_flipped_bit() {
        let head = Head { store: 11, segment: 5, first: 9, durable: 8, floor: 1 };
        let lasting = Entry { lifetime: Some(Lifetime { written: 5, ttl: 9 }), ..entry("/c", Some("")) };
        let entries = [entry("/registry/pods/a", Some("value")), entry("/b", None), lasting];
        let mut bytes = Vec::new();
        encode(&head, entries.iter(), &mut bytes);
        assert_eq!(bytes.len(), BLOCK);
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        bytes.extend_from_slice(b"what follows");
        let whole = Bytes::from(bytes.clone());
        let frame = decode(11, &whole).unwrap();
        assert_eq!((frame.head, frame.size), (head, BLOCK));
        assert!(frame.entries.iter().map(told).eq(entries.iter().map(told)));
        assert!(decode(12, &whole).is_none(), "a frame of another store");
        assert!(decode(11, &whole.slice(..end - 1)).is_none(), "a frame that was cut");
        for bit in 0..end * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(11, &Bytes::from(bytes.clone())).is_none(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_long_frame_fills_whole_blocks() {
        let head = Head { store: 1, segment: 1, first: 2, durable: 1, floor: 1 };
        let mut bytes = Vec::new();
        encode(&head, [entry("/a", Some(&"x".repeat(BLOCK)))].iter(), &mut bytes);
        assert_eq!(bytes.len(), 2 * BLOCK);
        assert_eq!(decode(1, &Bytes::from(bytes)).unwrap().size, 2 * BLOCK);
    }
}
