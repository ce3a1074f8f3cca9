//! The one writer: a thread that drains the queue, puts all it found into the journal with one sync, feeds the sinks, and
//! then answers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{
    Shared,
    batch::{Batch, Change, Planned, Write, Writes},
    checkpoint::Checkpoints,
    copy::Copied,
    index::Found,
    journal::Journal,
    queue::Weigh,
    read::{Past, changes},
    restore::{Content, Restored},
    room,
    snapshot::Freeze,
    together,
    trouble::Part,
};
use crate::{
    Error, Revision,
    watchers::{Watcher, Watchers},
};

/// The most writes, and (beyond the first) bytes of keys and values, in one frame of the journal.
const MOST_WRITES: usize = 1024;
pub(crate) const MOST_BYTES: usize = 2 << 20;
/// The most keys expired beside the writes of one frame.
const MOST_EXPIRED: usize = 128;
/// How long relaxed writes may be lost by a crash.
const RELAXED: Duration = Duration::from_millis(100);
/// How many revisions the relaxed mode sets aside at once, so that a crash makes it use none twice.
const SET_ASIDE: Revision = 1_000_000;
/// The longest that the first of a batch waits for the others; and which part of the time that writing takes.
const GATHER: Duration = Duration::from_micros(300);
const GATHER_PART: u32 = 8;
/// How often the clock of expiry is looked at: sleeping threads do not count the time that the machine sleeps.
const CLOCK_CHECK: Duration = Duration::from_secs(10);
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
    /// To bring everything to a snapshot's content.
    Restore { content: Box<Content>, answer: oneshot::Sender<Result<Restored, Error>> },
    /// To write more at once than a frame of the journal holds.
    WriteWhole { writes: Writes, answer: oneshot::Sender<Result<Revision, Error>> },
    /// To tell what the database is like now, with all that was answered.
    Freeze(Freeze),
    /// To copy the database, so that its file takes no more room than it needs.
    Defragment(oneshot::Sender<Result<(), Error>>),
    /// To go on in a copy of the database.
    Adopt(Result<Copied, Error>),
    /// To look at what the checkpoint thread has done.
    Checked,
    /// To end.
    Stop(oneshot::Sender<()>),
}

impl Weigh for Request {
    fn bytes(&self) -> usize {
        match self {
            Request::Write(write) => write.key.len() + put_size(write),
            Request::WriteWhole { writes, .. } => together::size(writes),
            _ => 0,
        }
    }
}

/// See the module.
pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) journal: Journal,
    pub(crate) checkpoints: Checkpoints,
    watchers: Watchers,
    /// The revision at the last tick of the compaction; the next one compacts to it.
    mark: Revision,
    compact_at: Option<Instant>,
    /// Revisions up to this one are set aside (relaxed mode).
    pub(crate) floor: Revision,
    /// Writes since the last sync must be on disk by then.
    sync_at: Option<Instant>,
    check_size_at: Option<Instant>,
    /// The journal failed, and takes no more until the database has all that was answered.
    renew: bool,
    /// The disk failed: leave it alone until then.
    retry_at: Option<Instant>,
    /// There is no room to give room back with, as was told.
    pub(crate) cramped: bool,
    /// Who waits for the next checkpoint, to read the database as it is then.
    pub(crate) freezing: Vec<Freeze>,
    /// Who waits for the next copy.
    pub(crate) defragmenting: Vec<oneshot::Sender<Result<(), Error>>>,
    /// Why it cannot go on.
    pub(crate) fatal: Option<Error>,
    /// How many writes are worth waiting for, and how long: callers that were answered together come back almost together.
    gather: (usize, Duration),
    stopped: Vec<oneshot::Sender<()>>,
    stopping: bool,
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, journal: Journal, checkpoints: Checkpoints, floor: Revision) -> Writer {
        let interval = shared.options.compaction_interval;
        let (mark, check) = (shared.index().revision, shared.options.copy_check);
        Writer {
            mark,
            compact_at: (!interval.is_zero()).then(|| Instant::now() + interval),
            floor,
            shared,
            journal,
            checkpoints,
            watchers: Watchers::default(),
            sync_at: None,
            check_size_at: Some(Instant::now() + check),
            renew: false,
            retry_at: None,
            cramped: false,
            freezing: Vec::new(),
            defragmenting: Vec::new(),
            fatal: None,
            gather: (1, Duration::ZERO),
            stopped: Vec::new(),
            stopping: false,
        }
    }

    /// Brings what the journal held at start into the database. A disk that is full at present keeps nobody from reading.
    pub(crate) fn begin(&mut self) -> Result<(), Error> {
        match self.shared.folder.sync().and_then(|()| self.settle_all()) {
            Err(error @ (Error::NoSpace(_) | Error::Unavailable(_))) => {
                tracing::error!(%error, "nothing can be written until the database has what the journal holds");
                self.shared.troubles.set(Part::Journal, error);
                self.renew = true;
                self.retry_at = Some(Instant::now());
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Works until it is told to stop.
    pub(crate) fn run(mut self) {
        let mut requests = Vec::new();
        while !self.stopping {
            self.shared.queue.wait(self.patience(), self.gather);
            self.shared.queue.take(&mut requests, MOST_WRITES, MOST_BYTES);
            self.turn(&mut requests);
            self.fatal = self.fatal.take().or_else(|| self.checkpoints.fatal());
            if self.fatal.is_some() {
                // The next start reads the journal, which has all that was answered.
                return;
            }
        }
        self.finish(requests);
    }

    /// How long it may sleep when nobody asks for anything.
    fn patience(&self) -> Option<Duration> {
        let now = Instant::now();
        let index = self.shared.index();
        let checkpoint = self.checkpoints.next(index.has_garbage());
        let timers = [self.compact_at, self.sync_at, self.check_size_at, self.retry_at, checkpoint];
        let timers = timers.into_iter().flatten().map(|at| at.saturating_duration_since(now));
        let mut expiry = index.next_deadline().map(|deadline| self.shared.clock.until(deadline).min(CLOCK_CHECK));
        if let Some(retry_at) = self.retry_at {
            expiry = expiry.map(|wait| wait.max(retry_at.saturating_duration_since(now)));
        }
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
        if !self.freezing.is_empty() {
            self.check_database();
        }
        self.defragment_if_asked();
    }

    fn act(&mut self, request: Request) {
        match request {
            Request::Watch { prefix, watcher, answer } => {
                let result = self.watch(prefix, watcher);
                let _ = answer.send(result);
            }
            Request::Progress => self.watchers.progress(self.shared.delivered()),
            Request::Restore { content, answer } => {
                let result = self.restore(&content);
                let _ = answer.send(result);
            }
            Request::WriteWhole { writes, answer } => {
                let result = self.write_whole(writes);
                let _ = answer.send(result);
            }
            Request::Freeze(freeze) => self.freezing.push(freeze),
            Request::Defragment(answer) => self.defragmenting.push(answer),
            Request::Adopt(copied) => self.adopt(copied),
            // Every turn looks.
            Request::Checked => {}
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
            // The mark is never in the future.
            let _ = self.compact_mark().map(|mark| self.compact(mark));
        }
        if self.check_size_at.is_some_and(|at| at <= now) {
            self.check_size_at = Some(now + self.shared.options.copy_check);
            self.start_copy_if_wasteful();
        }
        self.check_database();
    }

    /// What history may be forgotten before; `None`: nothing.
    fn compact_mark(&mut self) -> Option<Revision> {
        let history = self.shared.options.history;
        if history.is_zero() {
            return Some(std::mem::replace(&mut self.mark, self.shared.index().revision));
        }
        let since = self.shared.clock.now().saturating_sub(history.as_millis() as u64);
        // An error says that less is kept, or that the disk cannot be read now.
        self.shared.revision_at(since).ok()
    }

    fn compact(&mut self, revision: Revision) -> Result<(), Error> {
        let mut index = self.shared.index_mut();
        if revision > index.revision {
            return Err(Error::FutureRevision { asked: revision, current: index.revision });
        }
        if revision > index.oldest {
            index.oldest = revision;
            self.checkpoints.expect();
        }
        Ok(())
    }

    /// Does the writes, and what else is due in the journal.
    fn write(&mut self, mut writes: Vec<Write>) -> Result<(), Error> {
        if let Err(error) = self.usable() {
            answer_all(writes.into_iter().map(|write| write.answer), &error);
            return Err(error);
        }
        self.refuse_without_room(&mut writes);
        let now = self.shared.clock.now();
        let (mut batch, expired) = (Batch::default(), self.take_due(now));
        batch.decide(&self.shared.index(), now, &expired, writes);
        let begun = Instant::now();
        if let Err(error) = self.log(&batch.planned) {
            self.shared.index_mut().put_back(expired, now + PAUSE.as_millis() as u64);
            let planned = batch.planned.into_iter().filter_map(|planned| planned.answer);
            answer_all(planned.chain(batch.refused.into_iter().map(|refused| refused.answer)), &error);
            return Err(error);
        }
        if !batch.planned.is_empty() {
            let callers = batch.planned.iter().filter(|planned| planned.answer.is_some()).count();
            self.gather = (callers * 3 / 4, GATHER.min(begun.elapsed() / GATHER_PART));
            self.logged(&batch);
        }
        self.answer(batch);
        Ok(())
    }

    /// What has expired.
    fn take_due(&mut self, now: u64) -> Vec<Found> {
        match self.shared.index().next_deadline() {
            Some(deadline) if deadline <= now => {}
            _ => return Vec::new(),
        }
        self.shared.index_mut().take_expired(now, MOST_EXPIRED)
    }

    /// Puts writes into the journal, and on the disk unless that may wait.
    fn log(&mut self, planned: &[Planned]) -> Result<(), Error> {
        let mut must_sync = !self.shared.options.relaxed || self.sync_at.is_some_and(|at| at <= Instant::now());
        if let (Some(first), Some(last)) = (planned.first(), planned.last()) {
            if self.shared.options.relaxed && last.revision + SET_ASIDE / 2 > self.floor {
                self.floor = last.revision + SET_ASIDE;
                must_sync = true;
            }
            self.journal.encode(first.revision, self.floor, planned.iter().map(|planned| &planned.entry));
            while !self.journal.make_room(self.shared.applied()).map_err(|error| self.journal_failed(error))? {
                self.wait_for_checkpoint()?;
            }
            self.journal.write(last.revision).map_err(|error| self.journal_failed(error))?;
        }
        if must_sync && self.journal.is_dirty() {
            self.journal.sync().map_err(|error| self.journal_failed(error))?;
        }
        self.sync_at = match (self.journal.is_dirty(), self.sync_at) {
            (true, Some(at)) => Some(at),
            (true, None) => Some(Instant::now() + RELAXED),
            (false, _) => None,
        };
        Ok(())
    }

    /// What became of the last write is unknown: it counts as failed, and what it left counts no more once the journal
    /// has been renewed.
    fn journal_failed(&mut self, error: Error) -> Error {
        tracing::error!(%error, "the journal could not be written");
        self.renew = true;
        self.sync_at = None;
        self.retry_at = Some(Instant::now() + PAUSE);
        self.shared.troubles.set(Part::Journal, error.clone());
        error
    }

    /// Whether writes can be taken. After a failure of the journal: goes on in another part of it, but not too often.
    pub(crate) fn usable(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        if self.retry_at.is_none() && self.shared.engine().is_none() {
            // A checkpoint opens it again.
            self.retry_at = Some(now + PAUSE);
        }
        if self.retry_at.is_some_and(|at| at > now) {
            return Err(self.shared.trouble());
        }
        self.retry_at = None;
        if self.renew {
            self.renew_journal().inspect_err(|_| self.retry_at = Some(now + PAUSE))?;
            self.shared.troubles.clear(Part::Journal);
        }
        Ok(())
    }

    fn renew_journal(&mut self) -> Result<(), Error> {
        self.shared.folder.sync()?;
        self.settle_all()?;
        let revision = self.shared.index().revision;
        self.journal.renew(revision, self.floor).map_err(|error| self.journal_failed(error))?;
        self.renew = false;
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
        self.shared.troubles.set(Part::Room, error.clone());
        answer_all(puts.into_iter().map(|write| write.answer), &error);
    }

    /// After writing to the journal: memory follows.
    fn logged(&mut self, batch: &Batch) {
        let mut pending = self.shared.pending_mut();
        for planned in &batch.planned {
            pending.insert(planned.revision, planned.entry.clone());
        }
        drop(pending);
        self.checkpoints.expect();
        self.publish(batch);
    }

    /// What was written is seen by reads, then the sinks are fed.
    pub(crate) fn publish(&mut self, batch: &Batch) {
        let events = batch.events(&mut Past::new(&self.shared));
        let mut index = self.shared.index_mut();
        for planned in &batch.planned {
            index.apply(planned.revision, &planned.entry.record(), planned.entry.key.clone());
        }
        let revision = index.revision;
        drop(index);
        self.shared.troubles.clear(Part::Room);
        self.watchers.feed(&events);
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
        let mut past = Past::new(&self.shared);
        for refused in batch.refused {
            let current =
                refused.current.map(|found| past.read(|values| values.key_value(found.clone()).map(Box::new)));
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
            let missed = self.shared.reading(|| {
                let view = self.shared.view()?;
                changes(&view, &prefix, watcher.after, usize::MAX, |key| self.shared.key(key))
            })?;
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
        self.floor = self.floor.min(self.shared.index().revision);
        let renewed = if self.renew { self.renew_journal() } else { Ok(()) };
        if let Err(error) = renewed.and_then(|()| self.settle_last()) {
            tracing::warn!(%error, "the next start has to read the journal");
        }
        self.checkpoints.end();
        self.shared.release();
        for answer in std::mem::take(&mut self.stopped) {
            let _ = answer.send(());
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let panicked = std::thread::panicking().then(|| Error::Unavailable("the writer panicked".into()));
        let ended = self.fatal.take().or(panicked);
        if let Some(error) = &ended {
            tracing::error!(%error, "the store has ended");
            self.shared.troubles.set(Part::Store, error.clone());
        }
        // Nobody waits for a writer that is gone, even if a panic ended it.
        self.shared.queue.close();
        let mut requests = Vec::new();
        self.shared.queue.take(&mut requests, usize::MAX, usize::MAX);
        self.watchers.close(&Error::Closed);
        self.checkpoints.end();
        self.shared.release();
        drop(requests);
        // Told last: whoever hears of it may open the folder.
        if ended.is_some() {
            self.shared.ended.send_replace(ended);
        }
    }
}

fn put_size(write: &Write) -> usize {
    match &write.change {
        Change::Put { value, then, .. } => {
            value.len().max(1) + then.iter().map(|(value, _)| value.len()).sum::<usize>()
        }
        Change::Delete { .. } => 0,
        Change::All(writes) => together::size(writes),
    }
}

fn answer_all(answers: impl Iterator<Item = oneshot::Sender<Result<Revision, Error>>>, error: &Error) {
    for answer in answers {
        let _ = answer.send(Err(error.clone()));
    }
}
