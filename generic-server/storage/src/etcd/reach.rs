//! Whether etcd can be reached, said once when it changes: every request would say the same.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use crate::Error;

/// A server that is lost for less than this is tried again in silence: another one may answer.
const SILENCE: Duration = Duration::from_secs(1);

/// What is known of the servers.
#[derive(Default)]
pub(super) struct Reach {
    /// Something has failed since the last answer; saves the lock when all is well.
    is_troubled: AtomicBool,
    trouble: Mutex<Option<Trouble>>,
}

struct Trouble {
    since: Instant,
    is_told: bool,
}

impl Reach {
    /// A server has answered. If it was said that none does: for how long none did.
    pub(super) fn answered(&self, now: Instant) -> Option<Duration> {
        if !self.is_troubled.load(Ordering::SeqCst) || !self.is_troubled.swap(false, Ordering::SeqCst) {
            return None;
        }
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take();
        trouble.filter(|trouble| trouble.is_told).map(|trouble| now - trouble.since)
    }

    /// A request that was begun at `begun` has failed. Whether that is to be told.
    pub(super) fn failed(&self, error: &Error, begun: Instant, now: Instant) -> bool {
        if !matches!(error, Error::Unavailable(_) | Error::Timeout(_)) {
            return false;
        }
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_troubled.store(true, Ordering::SeqCst);
        let trouble = trouble.get_or_insert(Trouble { since: begun, is_told: false });
        let tells = !trouble.is_told && now - trouble.since >= SILENCE;
        trouble.is_told |= tells;
        tells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_that_lasts_is_told_once_and_so_is_its_end() {
        let (reach, start) = (Reach::default(), Instant::now());
        let after = |millis| start + Duration::from_millis(millis);
        let lost = Error::Unavailable("connection refused".into());
        assert!(!reach.failed(&lost, start, after(1)), "it may be over in a moment");
        assert_eq!(reach.answered(after(2)), None, "and it was");
        assert!(!reach.failed(&lost, after(10), after(11)));
        assert!(!reach.failed(&lost, after(10), after(1_000)));
        assert!(reach.failed(&lost, after(1_000), after(1_010)));
        assert!(!reach.failed(&lost, after(1_000), after(60_000)), "once");
        assert_eq!(reach.answered(after(60_010)), Some(Duration::from_millis(60_000)));
        assert_eq!(reach.answered(after(60_020)), None, "once");
        let silent = Error::Timeout("no answer".into());
        assert!(reach.failed(&silent, after(70_000), after(80_000)), "it has lasted already");
        let conflict = Error::Conflict { current: None };
        assert!(!Reach::default().failed(&conflict, start, after(5_000)), "that is an answer");
    }
}
