//! The one writer: a thread that drains the queue, makes one durable commit for all it found, feeds the sinks, and
//! then answers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use redb::ReadableDatabase;
use tokio::sync::oneshot;

use super::{
    Shared,
    batch::{Batch, Change, Write},
    copy::Copied,
    disk::{failed, sound},
    folder::{Loaded, load},
    format::{STATE_FLOOR, STATE_OLDEST},
    index::Found,
    queue::Weigh,
    read::{Values, changes, last},
    room,
};
use crate::{
    Error, Revision,
    watchers::{Watcher, Watchers},
};

/// The most writes, and bytes of values, in one commit.
const MOST_WRITES: usize = 1024;
const MOST_BYTES: usize = 8 << 20;
/// The most old records dropped, and keys expired, beside the writes of one commit.
const MOST_DROPPED: usize = 256;
/// How long relaxed writes may be lost by a crash.
const RELAXED: Duration = Duration::from_millis(100);
/// How many revisions the relaxed mode sets aside at once, so that a crash makes it use none twice.
const SET_ASIDE: Revision = 1_000_000;
/// The longest that the first of a batch waits for the others; and which part of a commit's time.
const GATHER: Duration = Duration::from_micros(300);
const GATHER_PART: u32 = 8;
/// How long to leave a failed disk alone.
const PAUSE: Duration = Duration::from_millis(100);

/// What the writer is asked.
pub(crate) enum Request {
    /// To write.
    Write(Write),
    /// To open a watch that has had everything up to its revision.
    Watch { prefix: String, watcher: Watcher, answer: oneshot::Sender<Result<(), Error>> },
    /// To tell all watches how far they are.
    Progress,
    /// To forget what is older.
    Compact { revision: Revision, answer: oneshot::Sender<Result<(), Error>> },
    /// To go on in a copy of the database.
    Adopt(Result<Copied, Error>),
    /// To end.
    Stop(oneshot::Sender<()>),
}

impl Weigh for Request {
    fn bytes(&self) -> usize {
        match self {
            Request::Write(Write { key, change: Change::Put { value, .. }, .. }) => key.len() + value.len(),
            _ => 0,
        }
    }
}

/// See the module.
pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    watchers: Watchers,
    /// Records that memory has forgotten and the disk has not.
    unswept: Vec<Revision>,
    /// `oldest` has moved since it was last stored.
    oldest_moved: bool,
    /// The revision at the last tick of the compaction; the next one compacts to it.
    mark: Revision,
    compact_at: Option<Instant>,
    /// The newest revision in the log; 0 if it is empty.
    last: Revision,
    /// Revisions up to this one are set aside (relaxed mode).
    floor: Revision,
    /// The log does not show all revisions that were given out: the floor must.
    raise_floor: bool,
    /// Writes since the last durable commit must be on disk by then.
    sync_at: Option<Instant>,
    check_size_at: Option<Instant>,
    /// A copy is being made; nothing may be dropped meanwhile, or the copy would keep it.
    pub(crate) copying: bool,
    /// The disk failed: leave it alone until then.
    retry_at: Option<Instant>,
    /// How many writes are worth waiting for, and how long: callers that were answered together come back almost together.
    gather: (usize, Duration),
    stopped: Vec<oneshot::Sender<()>>,
    stopping: bool,
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, last: Revision, floor: Revision) -> Writer {
        let interval = shared.options.compaction_interval;
        let (mark, check) = (shared.index().revision, shared.options.copy_check);
        Writer {
            mark,
            compact_at: (!interval.is_zero()).then(|| Instant::now() + interval),
            last,
            floor,
            raise_floor: false,
            shared,
            watchers: Watchers::default(),
            unswept: Vec::new(),
            oldest_moved: false,
            sync_at: None,
            check_size_at: Some(Instant::now() + check),
            copying: false,
            retry_at: None,
            gather: (1, Duration::ZERO),
            stopped: Vec::new(),
            stopping: false,
        }
    }

    /// Works until it is told to stop.
    pub(crate) fn run(mut self) {
        let mut requests = Vec::new();
        while !self.stopping {
            self.shared.queue.wait(self.patience(), self.gather);
            self.shared.queue.take(&mut requests, MOST_WRITES, MOST_BYTES);
            self.turn(&mut requests);
        }
        self.finish(requests);
    }

    /// How long it may sleep when nobody asks for anything.
    fn patience(&self) -> Option<Duration> {
        let now = Instant::now();
        if let Some(retry_at) = self.retry_at {
            return Some(retry_at.saturating_duration_since(now));
        }
        let index = self.shared.index();
        if !self.copying && (index.has_garbage() || !self.unswept.is_empty()) {
            return Some(Duration::ZERO);
        }
        let timers = [self.compact_at, self.sync_at, self.check_size_at];
        let timers = timers.into_iter().flatten().map(|at| at.saturating_duration_since(now));
        let expiry = index.next_deadline().map(|deadline| self.shared.clock.until(deadline));
        timers.chain(expiry).min()
    }

    fn turn(&mut self, requests: &mut Vec<Request>) {
        let (mut writes, mut compactions, mut rest) = (Vec::with_capacity(requests.len()), Vec::new(), Vec::new());
        for request in requests.drain(..) {
            match request {
                Request::Write(write) => writes.push(write),
                Request::Compact { revision, answer } => compactions.push((self.compact(revision), answer)),
                request => rest.push(request),
            }
        }
        self.tick();
        let outcome = self.write(writes);
        for (result, answer) in compactions {
            // Nobody waits any more: nothing to tell. The same below.
            let _ = answer.send(result.and(outcome.clone()));
        }
        for request in rest {
            self.act(request);
        }
    }

    fn act(&mut self, request: Request) {
        match request {
            Request::Watch { prefix, watcher, answer } => {
                let result = self.watch(prefix, watcher);
                let _ = answer.send(result);
            }
            Request::Progress => self.watchers.progress(self.shared.delivered()),
            Request::Adopt(copied) => self.adopt(copied),
            Request::Stop(answer) => {
                self.stopping = true;
                self.stopped.push(answer);
            }
            Request::Write(_) | Request::Compact { .. } => unreachable!("done before"),
        }
    }

    /// Starts what is due by time.
    fn tick(&mut self) {
        let now = Instant::now();
        if self.compact_at.is_some_and(|at| at <= now) {
            self.compact_at = Some(now + self.shared.options.compaction_interval);
            let mark = std::mem::replace(&mut self.mark, self.shared.index().revision);
            // The mark is never in the future.
            let _ = self.compact(mark);
        }
        if self.check_size_at.is_some_and(|at| at <= now) {
            self.check_size_at = Some(now + self.shared.options.copy_check);
            self.start_copy_if_wasteful();
        }
    }

    fn compact(&mut self, revision: Revision) -> Result<(), Error> {
        let mut index = self.shared.index_mut();
        if revision > index.revision {
            return Err(Error::FutureRevision { asked: revision, current: index.revision });
        }
        if revision > index.oldest {
            index.oldest = revision;
            self.oldest_moved = true;
        }
        Ok(())
    }

    /// Does the writes, and what else is due on the disk.
    fn write(&mut self, mut writes: Vec<Write>) -> Result<(), Error> {
        if let Err(error) = self.usable() {
            answer_all(writes.into_iter().map(|write| write.answer), &error);
            return Err(error);
        }
        self.refuse_without_room(&mut writes);
        let now = self.shared.clock.now();
        let (mut batch, expired) = (Batch::default(), self.take_due(now));
        batch.decide(&self.shared.index(), now, &expired, writes);
        self.add_upkeep(&mut batch);
        let durable = self.must_sync(&batch);
        if !batch.is_empty() || (durable && self.sync_at.is_some()) {
            let begun = Instant::now();
            let stored = self.store(&mut batch, durable);
            self.gather = (batch.planned.len() * 3 / 4, GATHER.min(begun.elapsed() / GATHER_PART));
            if let Err(error) = stored {
                self.shared.index_mut().put_back(expired, now + PAUSE.as_millis() as u64);
                let planned = batch.planned.into_iter().filter_map(|planned| planned.answer);
                answer_all(planned.chain(batch.refused.into_iter().map(|refused| refused.answer)), &error);
                return Err(error);
            }
            self.stored(&batch, durable);
        }
        self.answer(batch);
        Ok(())
    }

    /// What has expired, and nothing else while the disk is left alone.
    fn take_due(&mut self, now: u64) -> Vec<Found> {
        match self.shared.index().next_deadline() {
            Some(deadline) if deadline <= now => {}
            _ => return Vec::new(),
        }
        self.shared.index_mut().take_expired(now, MOST_DROPPED)
    }

    fn add_upkeep(&mut self, batch: &mut Batch) {
        if self.oldest_moved {
            batch.state.push((STATE_OLDEST, self.shared.index().oldest));
        }
        if !self.copying && self.unswept.is_empty() && self.shared.index().has_garbage() {
            self.unswept = self.shared.index_mut().drop_garbage(MOST_DROPPED);
        }
        if !self.copying {
            batch.dropped.clone_from(&self.unswept);
        }
        let last = batch.planned.last().map_or(self.shared.index().revision, |planned| planned.revision);
        if self.shared.options.relaxed && last + SET_ASIDE / 2 > self.floor {
            self.floor = last + SET_ASIDE;
            batch.state.push((STATE_FLOOR, self.floor));
        } else if self.raise_floor {
            batch.state.push((STATE_FLOOR, last.max(self.floor)));
        }
    }

    fn must_sync(&self, batch: &Batch) -> bool {
        let due = self.sync_at.is_some_and(|at| at <= Instant::now());
        !self.shared.options.relaxed || !batch.state.is_empty() || due
    }

    fn store(&mut self, batch: &mut Batch, durable: bool) -> Result<(), Error> {
        let stored = {
            let engine = self.shared.engine();
            let database = engine.as_ref().ok_or_else(|| self.shared.trouble())?;
            sound("store.redb", || batch.store(database, durable))
        };
        match stored {
            Ok(()) => Ok(()),
            Err(error) => self.recover(batch, error),
        }
    }

    /// After a failed commit the engine takes no more: opens it anew, and finds out whether the batch is on the disk.
    fn recover(&mut self, batch: &Batch, error: Error) -> Result<(), Error> {
        tracing::error!(%error, "a commit failed; the store is opened anew");
        self.shared.set_trouble(Some(error.clone()));
        let hoped = batch.planned.last().map(|planned| planned.revision);
        match self.reopen(hoped)? {
            true => Ok(()),
            false => Err(error),
        }
    }

    /// Opens the engine anew, and makes memory follow what the disk has. Whether that is all up to `hoped`.
    fn reopen(&mut self, hoped: Option<Revision>) -> Result<bool, Error> {
        self.retry_at = Some(Instant::now() + PAUSE);
        let known = self.last;
        let (on_disk, loaded) = self.shared.reopen(|database| {
            let on_disk = last(&database.begin_read().map_err(failed)?)?;
            if on_disk == known {
                return Ok((on_disk, None));
            }
            // What is read may be in the system's memory alone, if it was a sync that failed: another one tells.
            Batch::default().store(database, true)?;
            let loaded = if Some(on_disk) == hoped { None } else { Some(load(database)?) };
            Ok((on_disk, loaded))
        })?;
        if let Some(loaded) = loaded {
            self.start_over(loaded);
        }
        if hoped.is_some() && Some(on_disk) == hoped {
            self.retry_at = None;
            return Ok(true);
        }
        Ok(false)
    }

    /// The disk has not what memory has, since writes were lost that it did not yet have (relaxed mode), or since a batch
    /// is there that was told to have failed: memory and watches start anew. No revision is used again.
    fn start_over(&mut self, loaded: Loaded) {
        let mut index = self.shared.index_mut();
        let revision = index.revision.max(loaded.index.revision);
        *index = loaded.index;
        index.revision = revision;
        drop(index);
        self.last = loaded.last;
        self.raise_floor = true;
        self.unswept.clear();
        self.sync_at = None;
        self.watchers.close(&Error::Unavailable("the disk failed; the store has started over from what it has".into()));
        self.shared.deliver(revision);
    }

    /// Whether the engine is open; opens it anew after a failure, but not too often.
    fn usable(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        let Some(retry_at) = self.retry_at else { return Ok(()) };
        if retry_at > now {
            return Err(self.shared.trouble());
        }
        if self.shared.engine().is_none() {
            self.reopen(None)?;
        }
        self.retry_at = None;
        Ok(())
    }

    fn refuse_without_room(&mut self, writes: &mut Vec<Write>) {
        let bytes: usize = writes.iter().map(|write| write.key.len() + put_size(write)).sum();
        if bytes == 0 {
            return;
        }
        let Err(error) = room::check(&self.shared, bytes as u64) else { return };
        let (puts, others) = std::mem::take(writes).into_iter().partition::<Vec<_>, _>(|write| put_size(write) > 0);
        *writes = others;
        self.shared.set_trouble(Some(error.clone()));
        answer_all(puts.into_iter().map(|write| write.answer), &error);
    }

    /// After a commit: memory follows, then the sinks are fed.
    fn stored(&mut self, batch: &Batch, durable: bool) {
        self.oldest_moved = false;
        self.raise_floor = false;
        self.last = batch.planned.last().map_or(self.last, |planned| planned.revision);
        if !batch.dropped.is_empty() {
            self.unswept.clear();
        }
        self.sync_at = match (durable, self.sync_at) {
            (true, _) => None,
            (false, Some(at)) => Some(at),
            (false, None) => Some(Instant::now() + RELAXED),
        };
        let mut index = self.shared.index_mut();
        index.stored = index.stored.saturating_sub(batch.freed);
        if batch.planned.is_empty() {
            return;
        }
        for planned in &batch.planned {
            index.apply(planned.revision, &planned.record(), planned.key.clone());
        }
        let revision = index.revision;
        drop(index);
        self.shared.set_trouble(None);
        self.watchers.feed(&batch.events);
        self.shared.deliver(revision);
    }

    fn answer(&self, batch: Batch) {
        for planned in batch.planned {
            if let Some(answer) = planned.answer {
                let _ = answer.send(Ok(planned.revision));
            }
        }
        if batch.refused.is_empty() {
            return;
        }
        let read = self.shared.begin_read();
        let values = read.and_then(|read| Values::open(&read));
        for refused in batch.refused {
            let current = refused.current.map(|found| match &values {
                Ok(values) => values.key_value(found).map(Box::new),
                Err(error) => Err(error.clone()),
            });
            let error = current.transpose().map_or_else(|error| error, |current| Error::Conflict { current });
            let _ = refused.answer.send(Err(error));
        }
    }

    /// Opens a watch that has caught up almost: what it still misses is in the log.
    fn watch(&mut self, prefix: String, mut watcher: Watcher) -> Result<(), Error> {
        let delivered = self.shared.delivered();
        if watcher.after < delivered {
            let oldest = self.shared.index().oldest;
            if watcher.after + 1 < oldest {
                return Err(Error::Compacted { oldest });
            }
            let read = self.shared.begin_read()?;
            let missed = changes(&read, &prefix, watcher.after, usize::MAX, |key| self.shared.key(key))?;
            watcher.feed(&missed.events);
            watcher.after = delivered;
        }
        watcher.progress(delivered);
        self.watchers.add(prefix, watcher);
        Ok(())
    }

    fn finish(mut self, requests: Vec<Request>) {
        self.shared.queue.close();
        let mut requests = requests;
        self.shared.queue.take(&mut requests, usize::MAX, usize::MAX);
        self.turn(&mut requests);
        self.watchers.close(&Error::Closed);
        if self.shared.options.relaxed {
            let mut batch = Batch::default();
            batch.state.push((STATE_FLOOR, self.shared.index().revision));
            if let Err(error) = self.store(&mut batch, true) {
                tracing::error!(%error, "the last writes may not be on the disk");
            }
        }
        self.shared.release();
        for answer in std::mem::take(&mut self.stopped) {
            let _ = answer.send(());
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Nobody waits for a writer that is gone, even if a panic ended it.
        self.shared.queue.close();
        self.shared.queue.take(&mut Vec::new(), usize::MAX, usize::MAX);
        self.watchers.close(&Error::Closed);
        self.shared.release();
    }
}

fn put_size(write: &Write) -> usize {
    match &write.change {
        Change::Put { value, .. } => value.len().max(1),
        Change::Delete { .. } => 0,
    }
}

fn answer_all(answers: impl Iterator<Item = oneshot::Sender<Result<Revision, Error>>>, error: &Error) {
    for answer in answers {
        let _ = answer.send(Err(error.clone()));
    }
}
