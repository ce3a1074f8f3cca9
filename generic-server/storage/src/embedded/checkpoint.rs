//! Checkpoints: the database gets what the journal holds, many writes at once, on a thread of its own.
//!
//! One durable commit takes in the entries that are pending, and drops what compaction has forgotten. Writes go on
//! meanwhile; they wait only when both of the journal's segments are full of what the database does not yet have.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread::{Builder, JoinHandle},
    time::{Duration, Instant},
};

use redb::{Database, Durability, Table};

use super::{
    Shared,
    copy::Copied,
    disk::{failed, panic_text, sound},
    folder::{DATABASE, in_table, read_state},
    format::{LOG, STATE, STATE_APPLIED, STATE_FLOOR, STATE_OLDEST, SUM, VALUES, encode_value},
    journal::SEGMENT,
    pending::Entries,
    snapshot::Freeze,
    trouble::Part,
    writer::{Request, Writer},
};
use crate::{Error, Revision};

/// A checkpoint is due, at the latest, when this much was written to the journal: so the database has what is in one segment before the
/// other is full.
const DUE_BYTES: usize = SEGMENT / 2;
/// The most old records dropped at once; and while the index is locked for it.
const MOST_DROPPED: usize = 8192;
const DROPPED_AT_ONCE: usize = 256;
/// How long to leave a database alone that failed.
const PAUSE: Duration = Duration::from_millis(100);
/// After so many panics in a row the store ends, for it cannot be healed from within.
const MOST_PANICS: u32 = 5;
/// How often a commit of unknown outcome is tried.
const MOST_TRIES: u32 = 50;

/// What is to go into the database.
pub(crate) struct Checkpoint {
    pub(crate) entries: Entries,
    /// Revisions to be dropped.
    pub(crate) dropped: Vec<Revision>,
    /// It has all revisions up to this one then.
    pub(crate) upto: Revision,
    pub(crate) oldest: Revision,
    pub(crate) floor: Revision,
}

impl Checkpoint {
    /// Stores it durably. Returns how many bytes of records and values were dropped. May be done twice.
    pub(crate) fn store(&self, database: &Database) -> Result<u64, Error> {
        let mut write = database.begin_write().map_err(failed)?;
        // So that opening the store after a crash needs no walk through the file.
        write.set_quick_repair(true);
        write.set_durability(Durability::Immediate).map_err(failed)?;
        let mut freed = 0;
        {
            let mut state = write.open_table(STATE).map_err(failed)?;
            let numbers = [(STATE_APPLIED, self.upto), (STATE_OLDEST, self.oldest), (STATE_FLOOR, self.floor)];
            for (name, value) in numbers {
                state.insert(name, value).map_err(|error| in_table("state", error))?;
            }
            let mut log = write.open_table(LOG).map_err(failed)?;
            let mut values = write.open_table(VALUES).map_err(failed)?;
            let mut bytes = Vec::with_capacity(256);
            for (revision, entry) in &self.entries {
                entry.record().encode(*revision, &mut bytes);
                log.insert(revision, &*bytes).map_err(|error| in_table("log", error))?;
                if let Some((value, sum)) = &entry.value {
                    insert_value(&mut values, *revision, value, *sum)?;
                }
            }
            for revision in &self.dropped {
                if let Some(record) = log.remove(revision).map_err(|error| in_table("log", error))? {
                    freed += record.value().len() as u64;
                }
                if let Some(value) = values.remove(revision).map_err(|error| in_table("values", error))? {
                    freed += value.value().len() as u64;
                }
            }
        }
        write.commit().map_err(failed)?;
        Ok(freed)
    }

    /// Stores it in the open database, and forgets it in memory. After a failure the database is opened anew: it takes
    /// no more otherwise.
    fn settle(self, shared: &Shared) -> Result<u64, Error> {
        // The journal is written over once the database has what it holds: this database, also after a loss of power.
        shared.folder.sync()?;
        if shared.engine().is_none() {
            shared.reopen()?;
        }
        let stored = {
            let engine = shared.engine();
            let database = engine.as_ref().ok_or_else(|| shared.trouble())?;
            sound("store.redb", || self.store(database))
        };
        match stored {
            Ok(freed) => {
                // Freed outside of the lock.
                let entries = shared.pending_mut().settled();
                shared.set_applied(self.upto);
                drop((entries, self.entries));
                Ok(freed)
            }
            Err(error) => {
                tracing::error!(%error, "the database could not take what the journal holds; it is opened anew");
                // Tells why it fails by itself.
                let _ = shared.reopen();
                Err(error)
            }
        }
    }
}

fn insert_value(
    values: &mut Table<'_, u64, &'static [u8]>,
    revision: Revision,
    value: &[u8],
    sum: u32,
) -> Result<(), Error> {
    let told = |error| in_table("values", error);
    let mut room = values.insert_reserve(revision, value.len() + SUM).map_err(told)?;
    encode_value(revision, value, sum, room.as_mut());
    Ok(())
}

enum Task {
    /// To bring it into the database, and then to tell those who want the database as it is then.
    Settle(Checkpoint, Vec<Freeze>),
    Adopt(Copied),
}

enum Done {
    Settled(Result<u64, Error>),
    Adopted(Result<(), Error>),
    Panicked(Error),
}

impl Task {
    fn act(self, shared: &Shared) -> Done {
        match self {
            Task::Settle(checkpoint, freezes) => {
                let upto = checkpoint.upto;
                let settled = checkpoint.settle(shared);
                for freeze in freezes {
                    match &settled {
                        Ok(_) => freeze.act(shared, upto),
                        Err(error) => freeze.refuse(error.clone()),
                    }
                }
                Done::Settled(settled)
            }
            Task::Adopt(copied) => Done::Adopted(copied.adopt(shared)),
        }
    }

    /// Acts; after a panic the database is opened anew, for what it was at is not known.
    fn act_safely(self, shared: &Shared) -> Done {
        catch_unwind(AssertUnwindSafe(|| self.act(shared))).unwrap_or_else(|panic| {
            let why = panic_text(&*panic).unwrap_or("of an unknown kind");
            let error = Error::Unavailable(format!("the thread that writes the database panicked: {why}"));
            tracing::error!(%error, "the database is opened anew");
            // It tells why it fails by itself, and is tried again before the next checkpoint.
            let _ = sound(DATABASE, || shared.reopen());
            Done::Panicked(error)
        })
    }
}

/// The thread, as the writer has it.
pub(crate) struct Checkpoints {
    tasks: Option<mpsc::Sender<Task>>,
    done: mpsc::Receiver<Done>,
    thread: Option<JoinHandle<()>>,
    busy: bool,
    /// How long after a write one is due; and when the next is.
    after: Duration,
    due_at: Option<Instant>,
    /// The database failed: leave it alone until then.
    retry_at: Option<Instant>,
    /// Records that memory has forgotten and the database has not; and whether the task at hand drops them.
    unswept: Vec<Revision>,
    sweeping: bool,
    /// A copy is being made; nothing may be dropped meanwhile, or the copy would keep it.
    copying: bool,
    /// A finished copy.
    copied: Option<Copied>,
    /// How many tasks in a row have panicked.
    panics: u32,
}

impl Checkpoints {
    /// Starts the thread.
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<Checkpoints, Error> {
        let ((tasks, taken), (tell, done)) = (mpsc::channel::<Task>(), mpsc::channel());
        let (shared, after) = (shared.clone(), shared.options.checkpoint_after);
        let work = move || {
            for task in taken {
                // The writer may have ended, and then nobody waits.
                let _ = tell.send(task.act_safely(&shared));
                let _ = shared.queue.push_now(Request::Checked);
            }
        };
        let thread = Builder::new().name("storage-settle".into()).spawn(work);
        let thread = thread.map_err(|error| Error::Unavailable(format!("no checkpoint thread: {error}")))?;
        Ok(Checkpoints {
            tasks: Some(tasks),
            done,
            thread: Some(thread),
            busy: false,
            after,
            due_at: None,
            retry_at: None,
            unswept: Vec::new(),
            sweeping: false,
            copying: false,
            copied: None,
            panics: 0,
        })
    }

    /// A copy is being made.
    pub(crate) fn copy_begins(&mut self) {
        self.copying = true;
    }

    /// A copy was made (to be adopted next), or not.
    pub(crate) fn copy_ended(&mut self, copied: Option<Copied>) {
        self.copying = copied.is_some();
        self.copied = copied;
    }

    /// Something was written: it is due in a while.
    pub(crate) fn expect(&mut self) {
        if self.due_at.is_none() {
            self.due_at = Some(Instant::now() + self.after);
        }
    }

    /// Ends the thread, which finishes what it is at.
    pub(crate) fn end(&mut self) {
        drop(self.tasks.take());
        if let Some(thread) = self.thread.take() {
            // If it panicked, that was told.
            let _ = thread.join();
        }
    }

    fn give(&mut self, task: Task) {
        self.busy = self.tasks.as_ref().is_some_and(|tasks| tasks.send(task).is_ok());
    }

    fn take(&mut self, done: Done) -> Result<u64, Error> {
        self.busy = false;
        if !matches!(done, Done::Settled(_)) {
            // If a copy was what it was at, the next one is made anew.
            self.copying = self.copied.is_some();
        }
        self.panics = if let Done::Panicked(_) = done { self.panics + 1 } else { 0 };
        let taken = match done {
            Done::Settled(settled) => settled.inspect(|_| {
                if self.sweeping {
                    self.unswept.clear();
                }
            }),
            Done::Adopted(adopted) => adopted.map(|()| 0),
            Done::Panicked(error) => Err(error),
        };
        self.retry_at = taken.is_err().then(|| Instant::now() + PAUSE);
        if self.retry_at.is_some() {
            self.due_at = self.retry_at;
        }
        taken
    }

    /// Why the store cannot go on.
    pub(crate) fn fatal(&self) -> Option<Error> {
        (self.panics >= MOST_PANICS).then(|| Error::Unavailable("the database panics again and again".into()))
    }

    /// Whether it is at work, or a copy is being made.
    pub(crate) fn is_idle(&self) -> bool {
        !self.busy && !self.copying
    }

    /// When it next wants to be looked at; `garbage`: memory has something to drop.
    pub(crate) fn next(&self, garbage: bool) -> Option<Instant> {
        if self.busy {
            return None;
        }
        let sweep = (garbage || !self.unswept.is_empty()) && !self.copying;
        let now = (self.copied.is_some() || sweep).then(Instant::now);
        // What failed is tried again, not before its time.
        now.or(self.due_at).map(|due| self.retry_at.map_or(due, |retry| due.max(retry)))
    }
}

impl Writer {
    /// Starts what the database is due, and takes note of what has become of the last.
    pub(crate) fn check_database(&mut self) {
        if let Ok(done) = self.checkpoints.done.try_recv() {
            // A failure is told by the store's health, and it is tried again.
            let _ = self.note(done);
        }
        let garbage = self.shared.index().has_garbage();
        let due = self.checkpoints.next(garbage).is_some_and(|at| at <= Instant::now());
        let full =
            !self.checkpoints.busy && self.checkpoints.retry_at.is_none() && self.journal.written_bytes() >= DUE_BYTES;
        if self.checkpoints.retry_at.is_some() {
            self.freezing.drain(..).for_each(|freeze| freeze.refuse(self.shared.trouble()));
        }
        let asked = !self.checkpoints.busy && !self.freezing.is_empty();
        if due || full || asked {
            match self.checkpoints.copied.take() {
                Some(copied) => self.checkpoints.give(Task::Adopt(copied)),
                None => self.start_checkpoint(),
            }
        }
    }

    /// Brings all that was answered into the database, and waits for it.
    pub(crate) fn settle_all(&mut self) -> Result<(), Error> {
        while self.checkpoints.busy || self.shared.applied() < self.shared.index().revision {
            self.wait_for_checkpoint()?;
        }
        Ok(())
    }

    /// Like [`Self::settle_all`], and leaves nothing to be done at the next start.
    pub(crate) fn settle_last(&mut self) -> Result<(), Error> {
        self.settle_all()?;
        if self.checkpoints.due_at.is_some() || !self.checkpoints.unswept.is_empty() || self.shared.options.relaxed {
            self.wait_for_checkpoint()?;
        }
        Ok(())
    }

    /// Waits until the database has taken in something; not while it is left alone after a failure.
    pub(crate) fn wait_for_checkpoint(&mut self) -> Result<(), Error> {
        if !self.checkpoints.busy {
            if self.checkpoints.retry_at.is_some_and(|at| at > Instant::now()) {
                return Err(self.shared.trouble());
            }
            self.start_checkpoint();
        }
        let ended = || Error::Unavailable("the checkpoint thread ended".into());
        let done = self.checkpoints.done.recv().map_err(|_| ended())?;
        self.note(done)
    }

    /// Brings entries into the database that are not in the journal, all or none of them, once all before them is there.
    ///
    /// A commit of which it is not known whether it was done is done again until it is known; if that cannot be found out
    /// the store ends, for either answer could be wrong.
    pub(crate) fn commit_whole(&mut self, entries: Entries) -> Result<(), Error> {
        let upto = entries.get_max().map_or(0, |(last, _)| *last);
        let oldest = self.shared.index().oldest;
        self.floor = self.floor.max(upto);
        for _ in 0..MOST_TRIES {
            self.checkpoints.sweeping = false;
            let (entries, floor) = (entries.clone(), self.floor);
            let checkpoint = Checkpoint { entries, dropped: Vec::new(), upto, oldest, floor };
            self.checkpoints.give(Task::Settle(checkpoint, Vec::new()));
            let Err(error) = self.wait_for_checkpoint() else { return Ok(()) };
            let applied = self.shared.begin_read().and_then(|read| Ok(read_state(&read)?.applied));
            if applied.is_ok_and(|applied| applied < upto) {
                return Err(error);
            }
            std::thread::sleep(PAUSE);
        }
        let error = Error::Unavailable("whether the database has what was to be restored cannot be found out".into());
        self.fatal = Some(error.clone());
        Err(error)
    }

    fn note(&mut self, done: Done) -> Result<(), Error> {
        let settled = matches!(done, Done::Settled(_));
        let taken = self.checkpoints.take(done);
        if !settled {
            self.defragmented(&taken.clone().map(drop));
        }
        match &taken {
            Ok(freed) => {
                let mut index = self.shared.index_mut();
                index.stored = index.stored.saturating_sub(*freed);
                drop(index);
                self.shared.troubles.clear(Part::Database);
            }
            Err(error) => self.shared.troubles.set(Part::Database, error.clone()),
        }
        taken.map(drop)
    }

    fn start_checkpoint(&mut self) {
        let entries = self.shared.pending_mut().settle();
        let revision = self.shared.index().revision;
        let upto = entries.get_max().map_or(revision, |(last, _)| *last);
        if self.checkpoints.unswept.is_empty() && !self.checkpoints.copying {
            while self.checkpoints.unswept.len() < MOST_DROPPED {
                let dropped = self.shared.index_mut().drop_garbage(DROPPED_AT_ONCE, upto);
                if dropped.is_empty() {
                    break;
                }
                self.checkpoints.unswept.extend(dropped);
            }
        }
        self.checkpoints.sweeping = !self.checkpoints.copying;
        let dropped = if self.checkpoints.sweeping { self.checkpoints.unswept.clone() } else { Vec::new() };
        let oldest = self.shared.index().oldest;
        self.checkpoints.due_at = None;
        self.journal.forget_written();
        let checkpoint = Checkpoint { entries, dropped, upto, oldest, floor: self.floor };
        self.checkpoints.give(Task::Settle(checkpoint, std::mem::take(&mut self.freezing)));
    }
}
