//! What the journal holds beyond the database, at start.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{
    frame::{Frame, Head},
    journal::{SEGMENTS, heads, walk},
    pending::Entry,
};
use crate::{Error, Revision};

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// The entries that the database does not have, without a gap.
    pub(crate) entries: BTreeMap<Revision, Entry>,
    /// The greatest number of a segment that was ever used.
    pub(crate) segment: u64,
    /// Revisions up to this one may have been given out.
    pub(crate) floor: Revision,
}

/// Reads a journal whose database has all up to `applied`.
///
/// It ends at the first frame that is not whole. That is the last one, which was being written and so not answered, unless
/// a frame is found anywhere that was written when more was on the disk: then what was answered is damaged, and
/// this fails with [`Error::Corrupt`].
pub(crate) fn recover(store: u64, contents: &[Bytes; 2], applied: Revision) -> Result<Recovered, Error> {
    let mut found = Recovered::default();
    let mut walks = [0, 1].map(|at| (at, walk(store, &contents[at])));
    let ends = walks.each_ref().map(|(_, (_, end))| *end);
    walks.sort_by_key(|(_, (frames, _))| frames.first().map(|frame| frame.head.segment));
    let mut last = applied;
    for Frame { head, entries, .. } in walks.into_iter().flat_map(|(_, (frames, _))| frames) {
        if head.first > last + 1 {
            break;
        }
        // A failed write may have left these revisions, which were given out again.
        found.entries.split_off(&head.first);
        found.floor = found.floor.max(head.floor);
        found.entries.extend((head.first..).zip(entries).filter(|(revision, _)| *revision > applied));
        last = found.entries.last_key_value().map_or(applied, |(revision, _)| *revision);
    }
    let heads =
        [0, 1].into_iter().flat_map(|at| heads(store, &contents[at]).map(move |(offset, head)| (at, offset, head)));
    let mut witness: Option<(usize, usize, Head)> = None;
    for (at, offset, head) in heads {
        found.segment = found.segment.max(head.segment);
        if head.durable > last && witness.is_none_or(|(.., before)| head.first < before.first) {
            witness = Some((at, offset, head));
        }
    }
    match witness {
        None => Ok(found),
        Some((at, offset, head)) => {
            // The first frame that is missed was before the witness: in its segment, or at the end of the one before.
            let at = if offset >= ends[at] { at } else { 1 - at };
            Err(Error::Corrupt(format!(
                "{}: the frame at byte {} is damaged: writes up to revision {} were answered, and those after {last} are \
                 missing",
                SEGMENTS[at], ends[at], head.durable
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::{
        frame::{BLOCK, encode, tests::entry},
        journal::SEGMENT,
    };

    const STORE: u64 = 77;

    /// A frame of a segment: its first revision, how many entries, and what was durable before.
    struct Written(u64, Revision, usize, Revision);

    fn segment(frames: &[Written]) -> Vec<u8> {
        let (mut content, mut frame) = (Vec::new(), Vec::new());
        for Written(segment, first, count, durable) in frames {
            let head = Head { store: STORE, segment: *segment, first: *first, durable: *durable, floor: 0 };
            let entries: Vec<_> = (0..*count).map(|n| entry(&format!("/{segment}/{first}/{n}"), Some("v"))).collect();
            encode(&head, entries.iter(), &mut frame);
            content.extend_from_slice(&frame);
        }
        content.resize(SEGMENT, 0);
        content
    }

    fn revisions(one: &[u8], two: &[u8], applied: Revision) -> Result<(Vec<Revision>, u64), Error> {
        let contents = [Bytes::copy_from_slice(one), Bytes::copy_from_slice(two)];
        recover(STORE, &contents, applied).map(|found| (found.entries.into_keys().collect(), found.segment))
    }

    fn damage(content: &mut [u8], block: usize) {
        content[block * BLOCK + 60] ^= 1;
    }

    #[test]
    fn what_the_database_lacks_is_found_in_order() {
        let older = segment(&[Written(4, 2, 2, 1), Written(4, 4, 1, 3)]);
        let newer = segment(&[Written(5, 5, 3, 4)]);
        let check = |applied, expect: &[Revision]| {
            for (one, two) in [(&older, &newer), (&newer, &older)] {
                assert_eq!(revisions(one, two, applied).unwrap(), (expect.to_vec(), 5), "{applied}");
            }
        };
        check(1, &[2, 3, 4, 5, 6, 7]);
        check(5, &[6, 7]);
        check(7, &[]);
        assert_eq!(revisions(&segment(&[]), &segment(&[]), 9).unwrap(), (vec![], 0));
    }

    #[test]
    fn a_cut_last_frame_was_not_answered_and_damage_before_it_is_refused() {
        let frames = [Written(4, 2, 2, 1), Written(4, 4, 1, 3), Written(4, 5, 1, 4)];
        let other = segment(&[]);
        let mut cut = segment(&frames);
        damage(&mut cut, 2);
        assert_eq!(revisions(&cut, &other, 1).unwrap().0, [2, 3, 4]);
        for block in [0, 1] {
            let mut bad = segment(&frames);
            damage(&mut bad, block);
            let error = revisions(&bad, &other, 1).unwrap_err().to_string();
            assert!(error.contains(&format!("store.journal.0: the frame at byte {}", block * BLOCK)), "{error}");
            // The database has what was in it.
            assert!(revisions(&bad, &other, 4).is_ok());
        }
        let mut bad = segment(&frames);
        damage(&mut bad, 2);
        let error = revisions(&segment(&[Written(5, 6, 1, 5)]), &bad, 1).unwrap_err().to_string();
        assert!(error.contains("store.journal.1: the frame at byte 8192"), "{error}");
    }

    #[test]
    fn what_a_failed_write_left_counts_no_more_once_its_revisions_were_given_out_again() {
        let failed = segment(&[Written(4, 2, 2, 1), Written(4, 4, 3, 3)]);
        let next = segment(&[Written(5, 4, 1, 3)]);
        let contents = [Bytes::from(failed.clone()), Bytes::from(next)];
        let found = recover(STORE, &contents, 3).unwrap();
        assert_eq!(found.entries.values().map(|entry| &*entry.key).collect::<Vec<_>>(), ["/5/4/0"]);
        assert_eq!(revisions(&failed, &segment(&[]), 3).unwrap().0, [4, 5, 6]);
        assert_eq!(
            revisions(&failed, &segment(&[Written(5, 4, 0, 3)]), 3).unwrap().0.len(),
            0,
            "a frame that only says so"
        );
    }

    #[test]
    fn frames_that_were_not_synced_may_be_lost_in_any_order() {
        let mut relaxed =
            segment(&[Written(4, 2, 1, 1), Written(4, 3, 1, 1), Written(4, 4, 1, 1), Written(4, 5, 1, 1)]);
        damage(&mut relaxed, 1);
        assert_eq!(revisions(&relaxed, &segment(&[]), 1).unwrap().0, [2]);
    }

    #[test]
    fn a_segments_old_frames_behind_its_new_ones_are_not_read() {
        let mut content = segment(&[Written(6, 9, 1, 8)]);
        let old = segment(&[Written(4, 2, 1, 1), Written(4, 3, 1, 2)]);
        content[BLOCK..2 * BLOCK].copy_from_slice(&old[BLOCK..2 * BLOCK]);
        assert_eq!(revisions(&content, &segment(&[]), 8).unwrap(), (vec![9], 6));
    }
}
