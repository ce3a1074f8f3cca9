//! Who waits for the next change: a slot for each watcher, so that one that leaves takes its waker along.

use std::task::Waker;

use super::sync::{AtomicUsize, Mutex, Ordering};

/// A list of waiting tasks.
///
/// Nobody is forgotten if a waiter registers first and then looks once more at what it waits for, and who changes that
/// wakes afterwards.
#[derive(Default)]
pub(super) struct WaitList {
    slots: Mutex<Slots>,
    /// Slots with a waker; a hint that saves the lock when nobody waits.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct Slots {
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl WaitList {
    /// A slot for a new waiter.
    pub(super) fn join(&self) -> usize {
        let mut slots = self.slots.lock();
        slots.free.pop().unwrap_or_else(|| {
            slots.wakers.push(None);
            slots.wakers.len() - 1
        })
    }

    /// Gives a slot back.
    pub(super) fn leave(&self, slot: usize) {
        let mut slots = self.slots.lock();
        if slots.wakers[slot].take().is_some() {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        slots.free.push(slot);
    }

    /// Wakes `waker` at the next change.
    pub(super) fn register(&self, slot: usize, waker: &Waker) {
        let mut slots = self.slots.lock();
        match &mut slots.wakers[slot] {
            Some(old) => old.clone_from(waker),
            empty => {
                *empty = Some(waker.clone());
                self.waiting.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Wakes all that wait; answers how many.
    pub(super) fn wake(&self) -> usize {
        if self.waiting() == 0 {
            return 0;
        }
        let woken: Vec<Waker> = {
            let mut slots = self.slots.lock();
            let woken: Vec<Waker> = slots.wakers.iter_mut().filter_map(Option::take).collect();
            self.waiting.fetch_sub(woken.len(), Ordering::SeqCst);
            woken
        };
        let count = woken.len();
        woken.into_iter().for_each(Waker::wake);
        count
    }
}
