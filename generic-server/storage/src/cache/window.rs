//! The window: recent changes in order, shared by all watchers.
//!
//! A watcher holds a position, not a queue. Those that watch one key, one namespace or one value of an indexed field read
//! from a side log of just these changes, so that other changes neither wake them nor make them fall behind. A side log
//! exists while somebody reads it.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    task::Context,
    time::{Duration, Instant},
};

use machinery::Str;

use super::{
    change::Change,
    object::CacheEntry,
    sync::{AtomicUsize, Ordering, RwLock},
    wait::WaitList,
};
use crate::Revision;

/// So many of the newest changes keep their encoded frames …
const HOT: usize = 256;
/// … as long as the frames do not take more bytes than this (in one form).
const HOT_BYTES: usize = 4 << 20;

/// How much history the window keeps.
#[derive(Clone, Copy, Debug)]
pub struct WindowLimits {
    /// Always so many changes, however old (but never more than `max_bytes` of them, save the last).
    pub min_changes: usize,
    /// Never more changes.
    pub max_changes: usize,
    /// Never more bytes of objects that only the window keeps alive.
    pub max_bytes: usize,
    /// Changes beyond `min_changes` are dropped at this age.
    pub max_age: Duration,
}

impl Default for WindowLimits {
    fn default() -> Self {
        WindowLimits {
            min_changes: 100,
            max_changes: 100 * 1024,
            max_bytes: 32 << 20,
            max_age: Duration::from_secs(180),
        }
    }
}

/// Which changes a log holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    All,
    /// Keys directly below this prefix, which ends in `/`.
    Parent(Arc<str>),
    Key(Arc<str>),
    /// The indexed field has this value before or after the change.
    Field(usize, Str),
}

impl Scope {
    /// Whether an entry belongs to it.
    pub(super) fn admits(&self, key: &str, entry: Option<&CacheEntry>) -> bool {
        match self {
            Scope::All => true,
            Scope::Parent(parent) => parent_of(key) == &**parent,
            Scope::Key(k) => key == &**k,
            Scope::Field(field, value) => {
                entry.and_then(CacheEntry::object).is_some_and(|o| o.fields().get(*field) == Some(value.as_str()))
            }
        }
    }

    fn admits_change(&self, change: &Change) -> bool {
        self.admits(&change.key, change.current.as_ref()) || self.admits(&change.key, change.previous.as_ref())
    }
}

/// The key up to and with its last `/`.
fn parent_of(key: &str) -> &str {
    &key[..key.rfind('/').map_or(0, |i| i + 1)]
}

/// Changes of one scope, and who waits for more.
pub(super) struct Log {
    pub(super) scope: Scope,
    changes: RwLock<Changes>,
    pub(super) waiters: WaitList,
    /// Watchers that read it; changed only under the window's lock.
    users: AtomicUsize,
}

/// Positions start here, so that a log can also be completed at its beginning.
const FIRST_POSITION: u64 = 1 << 48;

struct Changes {
    list: VecDeque<Arc<Change>>,
    /// The position of the first in `list`.
    first: u64,
    /// All changes after this revision are here, as far as the window has them.
    since: Revision,
    /// Nothing more will come: the window was started anew.
    ended: bool,
}

/// What a watcher finds at its position.
pub(super) enum Found {
    /// So many changes were read (0: wait).
    Read(usize),
    /// The position has fallen out of the window.
    Behind,
    /// The window was started anew.
    Ended,
}

impl Log {
    fn new(scope: Scope, since: Revision) -> Self {
        let changes = Changes { list: VecDeque::new(), first: FIRST_POSITION, since, ended: false };
        Log { scope, changes: RwLock::new(changes), waiters: WaitList::default(), users: AtomicUsize::new(0) }
    }

    /// Reads up to `limit` changes from `position` on, which moves along.
    fn read(&self, position: &mut u64, limit: usize, into: &mut VecDeque<Arc<Change>>) -> Found {
        let changes = self.changes.read();
        if *position < changes.first {
            return if changes.ended { Found::Ended } else { Found::Behind };
        }
        let from = (*position - changes.first) as usize;
        let before = into.len();
        into.extend(changes.list.range(from.min(changes.list.len())..).take(limit).cloned());
        let read = into.len() - before;
        *position += read as u64;
        if read == 0 && changes.ended { Found::Ended } else { Found::Read(read) }
    }

    /// The position of the first change after `revision`.
    fn position_after(&self, revision: Revision) -> u64 {
        let changes = self.changes.read();
        changes.first + changes.list.partition_point(|c| c.revision <= revision) as u64
    }

    /// Completes a side log with what `main` has after `revision`.
    fn complete(&self, main: &Changes, revision: Revision) {
        let mut changes = self.changes.write();
        // What comes after the newest is appended when it comes.
        let revision = main.list.back().map_or(main.since, |newest| newest.revision).min(revision);
        if revision >= changes.since {
            return;
        }
        let range = |revision| main.list.partition_point(|c| c.revision <= revision);
        let missing = main.list.range(range(revision)..range(changes.since));
        for change in missing.rev().filter(|c| self.scope.admits_change(c)) {
            changes.list.push_front(change.clone());
            changes.first -= 1;
        }
        changes.since = revision;
    }

    fn append(&self, change: &Arc<Change>) {
        self.changes.write().list.push_back(change.clone());
    }

    /// Drops changes up to `revision`.
    fn trim(&self, revision: Revision) {
        let mut changes = self.changes.write();
        while changes.list.front().is_some_and(|c| c.revision <= revision) {
            changes.list.pop_front();
            changes.first += 1;
        }
    }

    fn end(&self) {
        let mut changes = self.changes.write();
        changes.first += changes.list.len() as u64;
        changes.list.clear();
        changes.ended = true;
    }
}

/// The logs that exist now.
struct Logs {
    main: Arc<Log>,
    by_parent: HashMap<Arc<str>, Arc<Log>>,
    by_key: HashMap<Arc<str>, Arc<Log>>,
    by_field: HashMap<usize, HashMap<Str, Arc<Log>>>,
    /// All changes after this revision are here.
    floor: Revision,
    /// [`Change::weight`] of all in `main`.
    weight: usize,
    /// How many of the newest keep their frames, and how large these are.
    hot: usize,
    hot_bytes: usize,
}

impl Logs {
    fn new(floor: Revision) -> Self {
        Logs {
            main: Arc::new(Log::new(Scope::All, floor)),
            by_parent: HashMap::new(),
            by_key: HashMap::new(),
            by_field: HashMap::new(),
            floor,
            weight: 0,
            hot: 0,
            hot_bytes: 0,
        }
    }

    fn has_side_logs(&self) -> bool {
        !(self.by_parent.is_empty() && self.by_key.is_empty() && self.by_field.is_empty())
    }

    fn side_log(&self, scope: &Scope) -> Option<&Arc<Log>> {
        match scope {
            Scope::All => Some(&self.main),
            Scope::Parent(parent) => self.by_parent.get(parent),
            Scope::Key(key) => self.by_key.get(key),
            Scope::Field(field, value) => self.by_field.get(field)?.get(value),
        }
    }

    fn insert(&mut self, log: Arc<Log>) {
        match log.scope.clone() {
            Scope::All => self.main = log,
            Scope::Parent(parent) => drop(self.by_parent.insert(parent, log)),
            Scope::Key(key) => drop(self.by_key.insert(key, log)),
            Scope::Field(field, value) => drop(self.by_field.entry(field).or_default().insert(value, log)),
        }
    }

    fn remove(&mut self, scope: &Scope) {
        match scope {
            Scope::All => {}
            Scope::Parent(parent) => drop(self.by_parent.remove(parent)),
            Scope::Key(key) => drop(self.by_key.remove(key)),
            Scope::Field(field, value) => {
                if let Some(values) = self.by_field.get_mut(field) {
                    values.remove(value);
                    if values.is_empty() {
                        self.by_field.remove(field);
                    }
                }
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Log>> {
        let fields = self.by_field.values().flat_map(HashMap::values);
        std::iter::once(&self.main).chain(self.by_parent.values()).chain(self.by_key.values()).chain(fields)
    }

    /// The side logs that a change belongs to; one may come twice in a row.
    fn each_side_log(&self, change: &Change, mut visit: impl FnMut(&Arc<Log>)) {
        self.by_parent.get(parent_of(&change.key)).into_iter().for_each(&mut visit);
        self.by_key.get(&change.key).into_iter().for_each(&mut visit);
        for (field, values) in &self.by_field {
            let value = |e: &'_ Option<CacheEntry>| -> Option<Str> {
                e.as_ref().and_then(CacheEntry::object).and_then(|o| o.fields().get(*field)).map(Str::from)
            };
            let (old, new) = (value(&change.previous), value(&change.current));
            if old != new {
                old.and_then(|v| values.get(&v)).into_iter().for_each(&mut visit);
            }
            new.and_then(|v| values.get(&v)).into_iter().for_each(&mut visit);
        }
    }
}

impl Seat {
    /// Reads up to `limit` changes, without waiting.
    pub(super) fn read(&mut self, limit: usize, into: &mut VecDeque<Arc<Change>>) -> Found {
        self.log.read(&mut self.position, limit, into)
    }

    /// Reads; if there is nothing the task is woken at the next change.
    pub(super) fn read_or_wait(
        &mut self,
        limit: usize,
        into: &mut VecDeque<Arc<Change>>,
        cx: &mut Context<'_>,
    ) -> Found {
        self.log.waiters.register(self.slot, cx.waker());
        // After registering: what came before it woke nobody.
        self.read(limit, into)
    }
}

/// The window of one cache. Appended to from one place (the cache's writer), read by all watchers.
pub(super) struct Window {
    logs: RwLock<Logs>,
    limits: WindowLimits,
}

/// A reader's place in a log. Give it back with [`Window::leave`].
pub(super) struct Seat {
    pub(super) log: Arc<Log>,
    position: u64,
    slot: usize,
}

impl Window {
    pub(super) fn new(floor: Revision, limits: WindowLimits) -> Self {
        Window { logs: RwLock::new(Logs::new(floor)), limits }
    }

    /// Appends changes, oldest first, and drops what is too old or too much. Answers the logs that have news; wake their
    /// waiters once readers may see it.
    pub(super) fn append(&self, changes: &[Arc<Change>]) -> Vec<Arc<Log>> {
        let mut news = Vec::new();
        let mut guard = self.logs.write();
        let logs = &mut *guard;
        if logs.has_side_logs() {
            for change in changes {
                logs.each_side_log(change, |log| {
                    log.append(change);
                    if !news.iter().any(|l| Arc::ptr_eq(l, log)) {
                        news.push(log.clone());
                    }
                });
            }
        }
        news.push(logs.main.clone());
        {
            let mut main = logs.main.changes.write();
            for change in changes {
                logs.weight += change.weight();
                main.list.push_back(change.clone());
                (logs.hot, logs.hot_bytes) = (logs.hot + 1, logs.hot_bytes + change.frame_size());
                while logs.hot > HOT || (logs.hot > 1 && logs.hot_bytes > HOT_BYTES) {
                    let coolest = &main.list[main.list.len() - logs.hot];
                    coolest.cool();
                    (logs.hot, logs.hot_bytes) = (logs.hot - 1, logs.hot_bytes - coolest.frame_size());
                }
            }
        }
        let dropped = changes.last().map(|newest| self.drop_excess(logs, newest.at));
        drop(guard);
        // Freed where nobody waits for the lock.
        drop(dropped);
        news
    }

    /// Whether [`Self::age`] would drop something.
    pub(super) fn has_aged(&self, now: Instant) -> bool {
        let logs = self.logs.read();
        let main = logs.main.changes.read();
        self.excess(&main.list, logs.weight, now).is_some()
    }

    /// Drops what is too old by now, though nothing new has come.
    pub(super) fn age(&self, now: Instant) {
        let mut logs = self.logs.write();
        let dropped = self.drop_excess(&mut logs, now);
        let mut main = logs.main.changes.write();
        let len = main.list.len();
        main.list.shrink_to(2 * len);
        drop(main);
        drop(logs);
        drop(dropped);
    }

    /// Takes out what is too old or too much.
    fn drop_excess(&self, logs: &mut Logs, now: Instant) -> Vec<Arc<Change>> {
        let mut dropped = Vec::new();
        {
            let mut main = logs.main.changes.write();
            while let Some(oldest) = self.excess(&main.list, logs.weight, now) {
                while main.list.front().is_some_and(|c| c.revision <= oldest) {
                    let Some(change) = main.list.pop_front() else { break };
                    main.first += 1;
                    logs.weight -= change.weight();
                    if logs.hot > main.list.len() {
                        (logs.hot, logs.hot_bytes) = (logs.hot - 1, logs.hot_bytes - change.frame_size());
                    }
                    dropped.push(change);
                }
                logs.floor = main.list.front().map_or(oldest, |next| next.revision - 1).max(logs.floor);
            }
        }
        if logs.has_side_logs() {
            for change in &dropped {
                logs.each_side_log(change, |log| log.trim(change.revision));
            }
        }
        dropped
    }

    /// The revision of the oldest change if it has to go.
    fn excess(&self, list: &VecDeque<Arc<Change>>, weight: usize, now: Instant) -> Option<Revision> {
        let (oldest, newest) = (list.front()?, list.back()?);
        let aged = || now.saturating_duration_since(oldest.at) > self.limits.max_age;
        let too_many = list.len() > self.limits.max_changes
            || (weight > self.limits.max_bytes && list.len() > 1)
            || (list.len() > self.limits.min_changes && aged());
        // What the newest revision did stays together.
        (too_many && oldest.revision < newest.revision).then_some(oldest.revision)
    }

    /// A seat after `revision` in the log of `scope`; fails with the floor if history since then is gone.
    pub(super) fn join(&self, scope: Scope, revision: Revision) -> Result<Seat, Revision> {
        let mut logs = self.logs.write();
        if revision < logs.floor {
            return Err(logs.floor);
        }
        let log = match logs.side_log(&scope) {
            Some(log) => log.clone(),
            None => {
                let log = Arc::new(Log::new(scope, Revision::MAX));
                logs.insert(log.clone());
                log
            }
        };
        if log.scope != Scope::All {
            log.complete(&logs.main.changes.read(), revision);
        }
        log.users.fetch_add(1, Ordering::Relaxed);
        let (position, slot) = (log.position_after(revision), log.waiters.join());
        Ok(Seat { log, position, slot })
    }

    /// Gives a seat back; the last reader of a side log takes it along.
    pub(super) fn leave(&self, seat: &Seat) {
        seat.log.waiters.leave(seat.slot);
        let mut logs = self.logs.write();
        let last = seat.log.users.fetch_sub(1, Ordering::Relaxed) == 1;
        let scope = &seat.log.scope;
        if last && logs.side_log(scope).is_some_and(|log| Arc::ptr_eq(log, &seat.log)) {
            logs.remove(scope);
        }
    }

    /// How many readers a change of this entry would reach.
    pub(super) fn readers(&self, key: &str, entry: Option<&CacheEntry>) -> usize {
        let logs = self.logs.read();
        let users = |log: Option<&Arc<Log>>| log.map_or(0, |log| log.users.load(Ordering::Relaxed));
        let fields = logs.by_field.iter().map(|(field, values)| {
            let value = entry.and_then(CacheEntry::object).and_then(|object| object.fields().get(*field));
            users(value.and_then(|value| values.get(value)))
        });
        users(Some(&logs.main))
            + users(logs.by_parent.get(parent_of(key)))
            + users(logs.by_key.get(key))
            + fields.sum::<usize>()
    }

    /// Starts anew after `floor`: all readers find their log ended. Wake the answered logs.
    pub(super) fn reset(&self, floor: Revision) -> Vec<Arc<Log>> {
        let mut logs = self.logs.write();
        let old = std::mem::replace(&mut *logs, Logs::new(floor));
        old.all().for_each(|log| log.end());
        old.all().cloned().collect()
    }

    /// All changes after this revision are in the window.
    pub(super) fn floor(&self) -> Revision {
        self.logs.read().floor
    }

    /// The changes after `after` up to `upto`, newest first; `None` if some are gone.
    pub(super) fn backwards(&self, after: Revision, upto: Revision) -> Option<Vec<Arc<Change>>> {
        let logs = self.logs.read();
        if after < logs.floor {
            return None;
        }
        let main = logs.main.changes.read();
        let newest_first = main.list.iter().rev();
        Some(newest_first.skip_while(|c| c.revision > upto).take_while(|c| c.revision > after).cloned().collect())
    }

    /// Changes and bytes held, and the age of the oldest.
    pub(super) fn size(&self, now: Instant) -> (usize, usize, Duration) {
        let logs = self.logs.read();
        let main = logs.main.changes.read();
        let age = main.list.front().map_or(Duration::ZERO, |c| now.saturating_duration_since(c.at));
        (main.list.len(), logs.weight, age)
    }

    /// How many logs there are.
    #[cfg(all(test, not(feature = "shuttle")))]
    pub(super) fn logs(&self) -> usize {
        self.logs.read().all().count()
    }
}
