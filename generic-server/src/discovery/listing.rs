//! Documents that list all groups. There may be thousands of them, which change one by one: such a document is put together
//! of blocks of some dozens, and a change makes one block anew. Where blocks end follows from the names of the groups, so
//! that a group more or less moves no other block, and every server of the same groups has the same blocks.

use std::{collections::HashMap, sync::Arc};

use aws_lc_rs::digest::{self, Digest};
use machinery::{Str, Value};

use super::document::etag;
use crate::body::Piece;

/// A block ends at about one in so many segments.
const ABOUT: u32 = 32;
/// More segments are in no block.
const MOST: usize = 128;

/// What a listing says of one thing, without the comma before it.
#[derive(Debug)]
pub(super) struct Segment {
    text: Vec<u8>,
    /// Whether a block ends behind it.
    ends: bool,
}

impl Segment {
    /// What is said of `name`.
    pub(super) fn new(name: &str, text: Vec<u8>) -> Arc<Self> {
        // FNV-1a
        let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        Arc::new(Segment { text, ends: (hash >> 8) % ABOUT == 0 })
    }
}

/// Some segments, written.
#[derive(Debug)]
struct Block {
    /// Whether others come before it.
    follows: bool,
    segments: Vec<Arc<Segment>>,
    piece: Arc<Piece>,
    hash: Digest,
}

impl Block {
    fn new(follows: bool, segments: Vec<Arc<Segment>>) -> Self {
        let mut text = Vec::with_capacity(segments.iter().map(|segment| segment.text.len() + 1).sum());
        for (n, segment) in segments.iter().enumerate() {
            if follows || n > 0 {
                text.push(b',');
            }
            text.extend_from_slice(&segment.text);
        }
        let hash = digest::digest(&digest::SHA512, &text);
        Block { follows, segments, piece: Piece::plain(text), hash }
    }

    fn is(&self, follows: bool, segments: &[Arc<Segment>]) -> bool {
        let same = |(a, b): (&Arc<Segment>, &Arc<Segment>)| Arc::ptr_eq(a, b);
        self.follows == follows && self.segments.len() == segments.len() && self.segments.iter().zip(segments).all(same)
    }
}

/// A document that lists things.
#[derive(Debug)]
pub struct Listing {
    head: Arc<Piece>,
    blocks: Vec<Arc<Block>>,
    tail: Arc<Piece>,
    etag: Str,
}

impl Listing {
    /// `head`, the segments, `tail`. Blocks that were in the listing `before` are taken from it.
    pub(super) fn new<'a>(
        (head, tail): (&'static str, &'static str),
        segments: impl Iterator<Item = &'a Arc<Segment>>,
        before: Option<&Listing>,
    ) -> Self {
        let key = |segments: &[Arc<Segment>]| segments.first().map(Arc::as_ptr);
        let known = before.into_iter().flat_map(|before| &before.blocks);
        let known: HashMap<_, &Arc<Block>> = known.map(|block| (key(&block.segments), block)).collect();
        let mut blocks: Vec<Arc<Block>> = Vec::new();
        let mut push = |run: &mut Vec<Arc<Segment>>| {
            let follows = !blocks.is_empty();
            let block = known.get(&key(run)).filter(|block| block.is(follows, run));
            let run = std::mem::take(run);
            blocks.push(block.map_or_else(|| Arc::new(Block::new(follows, run)), |block| Arc::clone(block)));
        };
        let mut run = Vec::with_capacity(MOST);
        for segment in segments {
            run.push(segment.clone());
            if segment.ends || run.len() == MOST {
                push(&mut run);
            }
        }
        if !run.is_empty() {
            push(&mut run);
        }
        let mut context = digest::Context::new(&digest::SHA512);
        context.update(head.as_bytes());
        blocks.iter().for_each(|block| context.update(block.hash.as_ref()));
        let etag = etag(&context.finish()).into();
        let [head, tail] = [head, tail].map(|text| Piece::plain(text.as_bytes()));
        Listing { head, blocks, tail, etag }
    }

    /// The document as JSON, with the newline that ends every JSON answer.
    pub fn json(&self) -> Vec<Arc<Piece>> {
        let blocks = self.blocks.iter().map(|block| block.piece.clone());
        std::iter::once(self.head.clone()).chain(blocks).chain(std::iter::once(self.tail.clone())).collect()
    }

    /// The ETag: a hash of what is listed, quoted.
    pub fn etag(&self) -> &Str {
        &self.etag
    }

    /// The document.
    pub fn value(&self) -> Value {
        let text: Vec<u8> = self.json().iter().flat_map(|piece| piece.text()).collect();
        machinery::codec::json::decode(&text).expect("this server has written it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(names: impl Iterator<Item = usize>) -> Vec<Arc<Segment>> {
        names.map(|n| Segment::new(&format!("group-{n}"), format!("{{\"name\":{n}}}").into_bytes())).collect()
    }

    fn listing(segments: &[Arc<Segment>], before: Option<&Listing>) -> Listing {
        Listing::new(("{\"items\":[", "]}\n"), segments.iter(), before)
    }

    #[test]
    fn a_change_makes_one_block_anew_and_the_text_is_that_of_all() {
        let all = segments(0..2000);
        let whole = listing(&all, None);
        assert!(whole.blocks.len() > 30, "{}", whole.blocks.len());
        assert_eq!(whole.value().get("items").and_then(Value::as_array).map(<[Value]>::len), Some(2000));
        let check = |change: &dyn Fn(&mut Vec<Arc<Segment>>)| {
            let mut others = all.clone();
            change(&mut others);
            let next = listing(&others, Some(&whole));
            let anew = next.blocks.iter().filter(|block| !whole.blocks.iter().any(|known| Arc::ptr_eq(known, block)));
            assert!(anew.count() <= 2);
            assert_eq!(next.value(), listing(&others, None).value());
            assert_eq!(next.etag(), listing(&others, None).etag());
            assert_ne!(next.etag(), whole.etag());
        };
        check(&|all| drop(all.remove(1000)));
        check(&|all| all.insert(777, segments(5000..5001).remove(0)));
        check(&|all| drop(all.pop()));
        check(&|all| all.swap(1500, 1501));
        assert_eq!(listing(&segments(0..2000), None).etag(), whole.etag(), "elsewhere too");
    }

    #[test]
    fn none_are_an_empty_list() {
        assert_eq!(listing(&[], None).value().get("items"), Some(&machinery::array![]));
    }
}
