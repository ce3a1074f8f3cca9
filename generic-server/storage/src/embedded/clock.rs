//! The clock that keys expire by.

use std::time::{Duration, Instant, SystemTime};

/// Milliseconds that only rise: the wall clock as it was at start, moved on by the monotonic clock. A wall clock that
/// jumps while the store is open changes nothing; one that was set back between two runs neither keeps keys
/// for longer than their TTL nor makes time stand still, because the clock starts no earlier than the newest stored
/// write.
#[derive(Debug)]
pub(crate) struct Clock {
    start: u64,
    started: Instant,
}

impl Clock {
    /// A clock that starts at `wall`, but not before `newest` (ms).
    pub(crate) fn new(wall: SystemTime, newest: u64) -> Clock {
        let wall = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis() as u64;
        Clock { start: wall.max(newest), started: Instant::now() }
    }

    /// Now, in ms.
    pub(crate) fn now(&self) -> u64 {
        self.start + self.started.elapsed().as_millis() as u64
    }

    /// How long until `deadline`.
    pub(crate) fn until(&self, deadline: u64) -> Duration {
        Duration::from_millis(deadline.saturating_sub(self.now()))
    }
}
