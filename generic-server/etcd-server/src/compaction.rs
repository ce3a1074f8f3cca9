//! `--auto-compaction-mode` and `--auto-compaction-retention`: history that is forgotten without a client's asking.
//!
//! Modes and their rhythm are etcd's. By revisions: every five minutes all but the last so many are forgotten. By time: revisions
//! are noted ten times a period (and ten times an hour, if that is shorter), and what was before the oldest note is forgotten,
//! once a period or hour.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{database::Database, error::Refusal};

/// How often the mode by revisions looks.
const INTERVAL: Duration = Duration::from_secs(5 * 60);
/// The longest time between two compactions by time; and how often a revision is noted in it.
const LONGEST: Duration = Duration::from_secs(3600);
const NOTES: u32 = 10;

/// What is to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// So many revisions.
    Revisions(u64),
    /// What was in so long.
    Time(Duration),
}

/// When what is forgotten: decides, and does nothing.
struct Plan {
    retention: Retention,
    /// Revisions by time, the oldest first, and how many of them.
    noted: VecDeque<i64>,
    most: usize,
    /// When the last compaction was, and how long after it the next one is due.
    done: Instant,
    due: Duration,
    last: i64,
}

impl Plan {
    fn new(retention: Retention, now: Instant) -> Plan {
        let due = match retention {
            Retention::Revisions(_) => INTERVAL,
            Retention::Time(period) => period,
        };
        let mut plan = Plan { retention, noted: VecDeque::new(), most: 0, done: now, due, last: 0 };
        plan.most = (due.as_nanos() / plan.pause().as_nanos().max(1)) as usize + 1;
        plan
    }

    /// How long after a look the next one is.
    fn pause(&self) -> Duration {
        match self.retention {
            Retention::Revisions(_) => INTERVAL,
            Retention::Time(period) => period.min(LONGEST) / NOTES,
        }
    }

    fn note(&mut self, revision: i64) {
        self.noted.push_back(revision);
        if self.noted.len() > self.most {
            self.noted.pop_front();
        }
    }

    /// What to compact to, if anything.
    fn compact(&self, now: Instant, revision: i64) -> Option<i64> {
        let to = match self.retention {
            Retention::Revisions(kept) => revision.saturating_sub_unsigned(kept),
            Retention::Time(_) if now - self.done < self.due => return None,
            Retention::Time(_) => *self.noted.front()?,
        };
        (to > 0 && to != self.last).then_some(to)
    }

    fn compacted(&mut self, now: Instant, to: i64) {
        (self.done, self.last) = (now, to);
        if let Retention::Time(period) = self.retention {
            self.due = period.min(LONGEST);
        }
    }
}

/// Compacts as it is due, until the server stops.
pub(crate) async fn run(database: Arc<Database>, retention: Retention, stop: CancellationToken) {
    let mut plan = Plan::new(retention, Instant::now());
    loop {
        plan.note(database.revision());
        let pause = tokio::time::sleep(plan.pause().max(Duration::from_millis(1)));
        if stop.run_until_cancelled(pause).await.is_none() {
            return;
        }
        let Some(to) = plan.compact(Instant::now(), database.revision()) else { continue };
        match database.compact(to).await {
            // Somebody else has compacted to more.
            Ok(_) | Err(Refusal::Compacted) => plan.compacted(Instant::now(), to),
            Err(error) => tracing::warn!(?error, to, "history could not be compacted; it is tried again"),
        }
    }
}

/// Why it cannot be said how much history to keep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RetentionError {
    /// There is no such mode.
    #[error("unknown auto-compaction-mode {0:?}")]
    Mode(String),
    /// It is neither a number nor a duration.
    #[error("error parsing CompactionRetention: time: invalid duration {0:?}")]
    Duration(String),
}

/// Reads the two flags, in etcd's words where they are wrong.
pub(crate) fn parse(
    mode: &str,
    retention: &str,
    duration: impl Fn(&str) -> Option<Duration>,
) -> Result<Option<Retention>, RetentionError> {
    if !matches!(mode, "periodic" | "revision") {
        return Err(RetentionError::Mode(mode.to_owned()));
    }
    let retention = match retention.parse::<u64>() {
        Ok(0) => return Ok(None),
        Ok(revisions) if mode == "revision" => Retention::Revisions(revisions),
        Ok(hours) => Retention::Time(Duration::from_secs(hours.saturating_mul(3600))),
        Err(_) => {
            let time = duration(retention);
            let time = time.ok_or_else(|| RetentionError::Duration(retention.to_owned()))?;
            match mode {
                // etcd takes the nanoseconds for a number.
                "revision" => Retention::Revisions(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
                _ => Retention::Time(time),
            }
        }
    };
    Ok(Some(retention).filter(|retention| *retention != Retention::Time(Duration::ZERO)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is compacted to at each look, when a revision is written every minute.
    fn compactions(retention: Retention, looks: usize) -> Vec<(u64, i64)> {
        let start = Instant::now();
        let (mut plan, mut now, mut done) = (Plan::new(retention, start), start, Vec::new());
        let revision = |now: Instant| (now - start).as_secs() as i64 / 60 + 1;
        for _ in 0..looks {
            plan.note(revision(now));
            now += plan.pause();
            if let Some(to) = plan.compact(now, revision(now)) {
                plan.compacted(now, to);
                done.push(((now - start).as_secs() / 60, to));
            }
        }
        done
    }

    #[test]
    fn what_is_kept_is_what_was_asked_for() {
        // A revision a minute: after the first period, what was a period ago.
        let minutes = |n: u64| Retention::Time(Duration::from_secs(n * 60));
        assert_eq!(compactions(minutes(60), 30), [(60, 1), (120, 55), (180, 115)]);
        assert_eq!(compactions(minutes(180), 40), [(180, 1), (240, 55)]);
        assert_eq!(compactions(Retention::Revisions(100), 24), [(100, 1), (105, 6), (110, 11), (115, 16), (120, 21)]);
        assert_eq!(compactions(Retention::Revisions(1000), 24), []);
    }

    #[test]
    fn flags_are_read_as_etcd_reads_them() {
        let parse = |mode: &str, retention: &str| {
            parse(mode, retention, |text| {
                text.strip_suffix('m')?.parse().ok().map(|m: u64| Duration::from_secs(60 * m))
            })
        };
        assert_eq!(parse("periodic", "0"), Ok(None));
        assert_eq!(parse("periodic", "0m"), Ok(None));
        assert_eq!(parse("periodic", "2"), Ok(Some(Retention::Time(Duration::from_secs(7200)))));
        assert_eq!(parse("periodic", "30m"), Ok(Some(Retention::Time(Duration::from_secs(1800)))));
        assert_eq!(parse("revision", "1000"), Ok(Some(Retention::Revisions(1000))));
        assert_eq!(parse("sometimes", "1").unwrap_err().to_string(), "unknown auto-compaction-mode \"sometimes\"");
        assert!(parse("periodic", "long").unwrap_err().to_string().starts_with("error parsing CompactionRetention"));
    }
}
