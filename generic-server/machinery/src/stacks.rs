//! The stacks on which decoders gather what is not yet whole, kept by each thread for its next document.
//!
//! They are the only large blocks that reading takes for itself; taking and freeing such for every document costs the
//! allocator more than all the small ones (it tidies up whenever one is freed).

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use crate::{Str, Value};

/// The stacks of one decoder. Whatever is on them when they are dropped is dropped too.
#[derive(Default)]
pub(super) struct Stacks {
    /// Values that wait for others: the items of lists, the members of messages.
    pub(super) values: Vec<Value>,
    /// The members of objects.
    pub(super) members: Vec<(Str, Value)>,
}

/// Stacks on loan: they go back to the thread in the end.
pub(super) struct Lent(Stacks);

/// So many decoders work inside each other (JSON in a message), each with its own stacks.
const SPARE: usize = 2;

/// What is larger than this is not kept: a few kilobytes for each thread are enough for most objects.
const MAX_KEPT: usize = 256;

thread_local! {
    static STACKS: RefCell<Vec<Stacks>> = const { RefCell::new(Vec::new()) };
}

/// Empty stacks.
pub(super) fn borrow() -> Lent {
    let kept = STACKS.try_with(|stacks| stacks.borrow_mut().pop()).ok().flatten();
    Lent(kept.unwrap_or_else(|| Stacks { values: Vec::with_capacity(32), members: Vec::with_capacity(64) }))
}

impl Deref for Lent {
    type Target = Stacks;

    fn deref(&self) -> &Stacks {
        &self.0
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Stacks {
        &mut self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut stacks = std::mem::take(&mut self.0);
        if stacks.values.capacity() > MAX_KEPT || stacks.members.capacity() > MAX_KEPT {
            return;
        }
        stacks.values.clear();
        stacks.members.clear();
        // A thread that is ending keeps nothing any more.
        let _ = STACKS.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            if kept.len() < SPARE {
                kept.push(stacks);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_come_back_empty_and_not_too_large() {
        let mut first = borrow();
        first.values.push(Value::Int(1));
        first.members.push((Str::default(), Value::Null));
        let second = borrow();
        drop(first);
        drop(second);
        let (mut first, second) = (borrow(), borrow());
        assert!(first.values.is_empty() && first.members.is_empty() && second.values.is_empty());
        first.values.resize(MAX_KEPT * 4, Value::Null);
        drop(first);
        assert!(borrow().values.capacity() <= MAX_KEPT);
        drop(second);
    }
}
