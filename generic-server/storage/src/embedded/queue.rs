//! The bounded queue between the callers and the writer.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Semaphore;

use crate::Error;

/// How much may wait, in units of [`UNIT`] bytes: 16 MiB of values, or 16,384 small requests.
const ROOM: usize = 16 * 1024;
const UNIT: usize = 1024;

/// Something that has a size while it waits.
pub(crate) trait Weigh {
    /// Bytes it holds.
    fn bytes(&self) -> usize;
}

/// The queue. Callers wait for room in the order they came.
pub(crate) struct Queue<T> {
    waiting: Mutex<Waiting<T>>,
    ready: Condvar,
    room: Semaphore,
}

struct Waiting<T> {
    /// Each with the room it took.
    items: VecDeque<(T, u32)>,
    /// Wake the taker when there are so many.
    wanted: usize,
    closed: bool,
}

impl<T: Weigh> Queue<T> {
    pub(crate) fn new() -> Self {
        Queue {
            waiting: Mutex::new(Waiting { items: VecDeque::new(), wanted: 1, closed: false }),
            ready: Condvar::new(),
            room: Semaphore::new(ROOM),
        }
    }

    /// Adds an item when there is room for it.
    pub(crate) async fn push(&self, item: T) -> Result<(), Error> {
        let units = (1 + item.bytes() / UNIT).min(ROOM) as u32;
        let permit = self.room.acquire_many(units).await.map_err(|_| Error::Closed)?;
        self.add(item, units)?;
        permit.forget();
        Ok(())
    }

    /// Adds an item that must not wait for room.
    pub(crate) fn push_now(&self, item: T) -> Result<(), Error> {
        self.add(item, 0)
    }

    fn add(&self, item: T, units: u32) -> Result<(), Error> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(Error::Closed);
        }
        waiting.items.push_back((item, units));
        if waiting.items.len() == waiting.wanted {
            self.ready.notify_one();
        }
        Ok(())
    }

    /// Waits for an item up to `timeout` (`None`: for ever); and once there is one, up to the second time of `gather` for
    /// as many as its first.
    pub(crate) fn wait(&self, timeout: Option<Duration>, gather: (usize, Duration)) {
        if self.wait_for(1, timeout) && gather.0 > 1 {
            self.wait_for(gather.0, Some(gather.1));
        }
    }

    /// Waits for so many items; whether they are there.
    fn wait_for(&self, wanted: usize, timeout: Option<Duration>) -> bool {
        let mut waiting = self.lock();
        waiting.wanted = wanted;
        let few = |waiting: &mut Waiting<T>| waiting.items.len() < wanted;
        let mut waiting = match timeout {
            Some(timeout) => {
                let waited = self.ready.wait_timeout_while(waiting, timeout, few);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.ready.wait_while(waiting, few).unwrap_or_else(PoisonError::into_inner),
        };
        waiting.wanted = 1;
        waiting.items.len() >= wanted
    }

    /// Moves waiting items into `into`, at most `most` of them and (beyond the first) `bytes` in all.
    pub(crate) fn take(&self, into: &mut Vec<T>, most: usize, bytes: usize) {
        let mut waiting = self.lock();
        let (mut taken, mut room) = (0, 0);
        while into.len() < most {
            let size = waiting.items.front().map(|(item, _)| item.bytes());
            let fits = size.is_some_and(|size| taken == 0 || taken + size <= bytes);
            let Some((item, units)) = waiting.items.pop_front_if(|_| fits) else { break };
            taken += item.bytes();
            room += units as usize;
            into.push(item);
        }
        drop(waiting);
        self.room.add_permits(room);
    }

    /// Lets nothing more in; what waits can still be taken.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.room.close();
    }

    /// Whether it lets nothing more in.
    pub(crate) fn is_closed(&self) -> bool {
        self.room.is_closed()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    struct Item(usize);

    impl Weigh for Item {
        fn bytes(&self) -> usize {
            self.0
        }
    }

    #[tokio::test]
    async fn callers_wait_when_the_queue_is_full_and_go_on_when_it_drains() {
        let queue = Queue::new();
        for _ in 0..15 {
            queue.push(Item(1 << 20)).await.unwrap();
        }
        let mut wait = std::pin::pin!(queue.push(Item(1 << 20)));
        assert!(wait.as_mut().now_or_never().is_none(), "no room");
        queue.push_now(Item(0)).unwrap();
        let mut taken = Vec::new();
        queue.take(&mut taken, 100, 4 << 20);
        assert_eq!(taken.len(), 4);
        wait.await.unwrap();
        queue.close();
        assert!(queue.push(Item(0)).await.is_err());
        queue.take(&mut taken, 100, usize::MAX);
        assert_eq!(taken.len(), 17, "what was let in is not lost");
    }

    #[test]
    fn the_taker_gathers_as_many_as_it_may_expect_but_not_for_long() {
        let queue = Queue::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..3 {
                    queue.push_now(Item(1)).unwrap();
                    std::thread::yield_now();
                }
            });
            queue.wait(None, (3, Duration::from_secs(20)));
        });
        let mut taken = Vec::new();
        queue.take(&mut taken, 100, usize::MAX);
        assert_eq!(taken.len(), 3);
        queue.push_now(Item(1)).unwrap();
        queue.wait(None, (2, Duration::from_micros(10)));
        queue.wait(Some(Duration::ZERO), (1, Duration::ZERO));
        queue.take(&mut taken, 100, usize::MAX);
        assert_eq!(taken.len(), 4);
    }
}
