//! The clock that keys expire by.

use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

/// Milliseconds that only rise: the wall clock as it was at start, moved on by the time since the machine was started, which
/// goes on while it sleeps. A wall clock that jumps while the store is open changes nothing; one that was set back between
/// two runs neither keeps keys for longer than their TTL nor makes time stand still, because the clock starts no earlier
/// than the newest stored write.
#[derive(Debug)]
pub(crate) struct Clock {
    start: u64,
    started: Duration,
    uptime: fn() -> Duration,
}

impl Clock {
    /// A clock that starts at `wall`, but not before `newest` (ms).
    pub(crate) fn new(wall: SystemTime, newest: u64) -> Clock {
        Clock::with(uptime, wall, newest)
    }

    fn with(uptime: fn() -> Duration, wall: SystemTime, newest: u64) -> Clock {
        let wall = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis() as u64;
        Clock { start: wall.max(newest), started: uptime(), uptime }
    }

    /// Now, in ms.
    pub(crate) fn now(&self) -> u64 {
        self.start + (self.uptime)().saturating_sub(self.started).as_millis() as u64
    }

    /// How long until `deadline`.
    pub(crate) fn until(&self, deadline: u64) -> Duration {
        Duration::from_millis(deadline.saturating_sub(self.now()))
    }
}

/// How long ago the machine was started, with the time that it has slept.
fn uptime() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    static SECONDS: AtomicU64 = AtomicU64::new(1000);

    #[test]
    fn time_goes_on_while_the_machine_sleeps() {
        let uptime = || Duration::from_secs(SECONDS.load(Ordering::Relaxed));
        let clock = Clock::with(uptime, SystemTime::UNIX_EPOCH + Duration::from_secs(50), 0);
        let deadline = clock.now() + 3_600_000;
        assert_eq!((clock.now(), clock.until(deadline)), (50_000, Duration::from_secs(3600)));
        SECONDS.fetch_add(7200, Ordering::Relaxed);
        assert_eq!((clock.now(), clock.until(deadline)), (7_250_000, Duration::ZERO));
    }

    #[test]
    fn uptime_is_the_kernels_which_counts_sleep() {
        // The first number of /proc/uptime is the clock of boot time (proc(5)), rounded down to hundredths.
        let told = || {
            let text = std::fs::read_to_string("/proc/uptime").unwrap();
            Duration::from_secs_f64(text.split_once(' ').unwrap().0.parse().unwrap())
        };
        let (before, found, after) = (told(), uptime(), told());
        assert!(before <= found && found <= after + Duration::from_millis(10), "{before:?} {found:?} {after:?}");
    }
}
