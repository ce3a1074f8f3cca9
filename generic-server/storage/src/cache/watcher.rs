//! One watch: the initial state if wanted, then changes as the selection sees them, bookmarks in between.

use std::{
    collections::VecDeque,
    future::Future,
    hash::{BuildHasher, RandomState},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::Stream;
use machinery::Str;
use tokio::time::{Instant, Sleep};

use super::{
    change::{Change, EventType, Filter, WatchEvent},
    index::Term,
    object::{CacheEntry, Object},
    reader::{Cache, CacheError, ReadAt},
    snapshot::Snapshot,
    window::{self, Found, Seat},
};
use crate::Revision;

/// Changes or entries taken at once.
const BATCH: usize = 64;
/// Batches without anything selected before others get their turn.
const TURN: usize = 16;
/// A watch from now that finds the cache filled anew meanwhile starts over so many times.
const RETRIES: u32 = 3;
/// The last bookmark goes out so long before the end, as upstream.
const BEFORE_THE_END: Duration = Duration::from_secs(2);

/// Which part of the resource a watch is about; narrower ones are not woken by what happens elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All of it.
    All,
    /// One namespace.
    Namespace(Str),
    /// One object by name (and namespace, if the resource has them).
    Object {
        /// Its namespace.
        namespace: Option<Str>,
        /// Its name.
        name: Str,
    },
    /// Objects whose selectable field number `field` has this value. Worth it if the field is indexed.
    Field {
        /// Position in [`super::Decoded::fields`].
        field: usize,
        /// The value.
        value: Str,
    },
}

/// Where a watch starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the changes after this revision.
    After(Revision),
    /// With the changes after now (sendInitialEvents=false without a resourceVersion).
    Now,
    /// With all selected objects as ADDED in key order, as a read at this would find them, then the changes since.
    Initial(ReadAt),
}

/// What a watch wants.
#[derive(Clone)]
pub struct WatchOptions {
    /// Which part of the resource.
    pub scope: Scope,
    /// Which objects in it; the scope need not be checked again.
    pub filter: Arc<dyn Filter>,
    /// Whether to send bookmarks.
    pub bookmarks: bool,
    /// Whether a bookmark marks the end of the initial events (watch-list).
    pub initial_events_end: bool,
    /// When the watch ends by itself.
    pub timeout: Option<Duration>,
}

/// Why a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchEnd {
    /// It was too slow and fell out of the window (upstream closes the connection; the next watch may be 410).
    #[error("too slow: the next event is no longer there")]
    Lagged,
    /// The cache had to be filled anew (upstream closes the connection; a watch from before then is 410).
    #[error("the watch cache was filled anew")]
    Relisted,
    /// The resource is gone or the server is stopping.
    #[error("the watch cache is stopped")]
    Stopped,
}

/// A stream of events. It ends with `None` after its timeout, or after one error.
///
/// Costs a few hundred bytes while it waits: events are shared, and read only when asked for.
pub struct Watcher {
    cache: Arc<Cache>,
    filter: Arc<dyn Filter>,
    seat: Seat,
    /// Changes up to here are not to be told (again).
    after: Revision,
    initial: Option<Box<Initial>>,
    batch: VecDeque<Arc<Change>>,
    bookmarks: bool,
    bookmark_due: bool,
    deadline: Option<Instant>,
    /// Sleeps until the next bookmark or the deadline; `None` if neither is wanted.
    timer: Option<Pin<Box<Sleep>>>,
    ended: bool,
}

/// The initial state that is still to be told.
struct Initial {
    snapshot: Snapshot,
    entries: VecDeque<Arc<Object>>,
    /// From which key on the snapshot has not been looked at; `None`: all of it has.
    from: Option<String>,
    end_bookmark: bool,
}

impl Cache {
    /// Opens a watch. Fails with [`CacheError::Expired`] if history since [`Start::After`] is gone; a revision still to
    /// come is no error, the watch is silent until then.
    pub async fn watch(self: &Arc<Self>, start: Start, options: WatchOptions) -> Result<Watcher, CacheError> {
        let scope = self.window_scope(options.scope);
        let (snapshot, after, seat) = self.take_seat(start, scope).await?;
        self.shared.counters.watchers.add(1);
        let initial = matches!(start, Start::Initial(_)).then(|| {
            let end_bookmark = options.initial_events_end && options.bookmarks;
            let mut initial = Initial { snapshot, entries: VecDeque::new(), from: None, end_bookmark };
            if !initial.take_indexed(&seat.log.scope, &*options.filter) {
                initial.from = Some(self.shared.prefix.clone());
            }
            Box::new(initial)
        });
        let mut watcher = Watcher {
            cache: self.clone(),
            filter: options.filter,
            seat,
            after,
            initial,
            batch: VecDeque::new(),
            bookmarks: options.bookmarks,
            bookmark_due: false,
            deadline: options.timeout.map(|timeout| Instant::now() + timeout),
            timer: None,
            ended: false,
        };
        watcher.set_timer();
        Ok(watcher)
    }

    async fn take_seat(&self, start: Start, scope: window::Scope) -> Result<(Snapshot, Revision, Seat), CacheError> {
        let read_at = match start {
            Start::After(_) => ReadAt::Any,
            Start::Now => ReadAt::Latest,
            Start::Initial(at) => at,
        };
        let mut tries = 0;
        loop {
            let snapshot = self.read_cached(read_at).await?;
            let after = match start {
                Start::After(revision) => revision,
                Start::Now | Start::Initial(_) => snapshot.revision(),
            };
            match self.shared.window.join(scope.clone(), after) {
                Ok(seat) => return Ok((snapshot, after, seat)),
                Err(Revision::MAX) => return Err(CacheError::Stopped),
                // The cache was filled anew after the read, which then is done again.
                Err(_) if !matches!(start, Start::After(_)) && tries < RETRIES => tries += 1,
                Err(oldest) => return Err(CacheError::Expired { asked: after, oldest }),
            }
        }
    }

    fn window_scope(&self, scope: Scope) -> window::Scope {
        let prefix = &self.shared.prefix;
        match scope {
            Scope::All => window::Scope::All,
            Scope::Namespace(namespace) => window::Scope::Parent(format!("{prefix}{namespace}/").into()),
            Scope::Object { namespace: Some(namespace), name } => {
                window::Scope::Key(format!("{prefix}{namespace}/{name}").into())
            }
            Scope::Object { namespace: None, name } => window::Scope::Key(format!("{prefix}{name}").into()),
            Scope::Field { field, value } => window::Scope::Field(field, value),
        }
    }
}

impl Watcher {
    /// The next event; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<WatchEvent, WatchEnd>> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<WatchEvent, WatchEnd>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        for _ in 0..TURN {
            if let Some(event) = self.next_initial() {
                return Poll::Ready(Some(Ok(event)));
            }
            if self.initial.is_some() {
                continue;
            }
            while let Some(change) = self.batch.pop_front() {
                if let Some(event) = self.event(change) {
                    return Poll::Ready(Some(Ok(event)));
                }
            }
            if self.poll_timer(cx) {
                self.ended = true;
                return Poll::Ready(None);
            }
            match self.read_more(cx) {
                More::Changes => {}
                More::Event(event) => return Poll::Ready(Some(Ok(event))),
                More::Nothing => return Poll::Pending,
                More::End(end) => {
                    self.ended = true;
                    return Poll::Ready(Some(Err(end)));
                }
            }
        }
        // Much that is not selected: let others run, then go on.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// The next of the initial events. Takes one batch of entries at most: `None` does not mean there are no more.
    fn next_initial(&mut self) -> Option<WatchEvent> {
        let initial = self.initial.as_mut()?;
        if initial.entries.is_empty() {
            initial.take(&self.seat.log.scope, &*self.filter);
        }
        if let Some(object) = initial.entries.pop_front() {
            self.cache.shared.counters.initial_events.add(1);
            return Some(WatchEvent::Object { kind: EventType::Added, object, change: None });
        }
        if initial.from.is_some() {
            return None;
        }
        let bookmark =
            initial.end_bookmark.then_some(WatchEvent::Bookmark { revision: self.after, initial_events_end: true });
        self.initial = None;
        bookmark
    }

    /// How the change looks to this watch.
    fn event(&mut self, change: Arc<Change>) -> Option<WatchEvent> {
        if change.revision <= self.after {
            return None;
        }
        self.after = change.revision;
        let (kind, object) = match &self.seat.log.scope {
            // The log has both what enters the field's value and what leaves it.
            window::Scope::Field(field, value) => change
                .seen_by(|object| object.fields().get(*field) == Some(value.as_str()) && self.filter.matches(object)),
            _ => change.seen_by(|object| self.filter.matches(object)),
        }?;
        Some(WatchEvent::Object { kind, object, change: Some(change) })
    }

    fn read_more(&mut self, cx: &mut Context<'_>) -> More {
        // What is complete now; a log read after this that has no more has told all of it.
        let complete = self.bookmark_due.then(|| self.cache.revision());
        match self.seat.read(BATCH, &mut self.batch) {
            Found::Read(0) => {}
            found => return self.found(found),
        }
        if let Some(complete) = complete.filter(|complete| *complete >= self.after) {
            self.bookmark_due = false;
            self.after = complete;
            return More::Event(WatchEvent::Bookmark { revision: complete, initial_events_end: false });
        }
        let found = self.seat.read_or_wait(BATCH, &mut self.batch, cx);
        self.found(found)
    }

    fn found(&self, found: Found) -> More {
        match found {
            Found::Read(0) => More::Nothing,
            Found::Read(_) => More::Changes,
            Found::Behind => {
                self.cache.shared.counters.lagged.add(1);
                More::End(WatchEnd::Lagged)
            }
            Found::Ended if self.cache.shared.window.floor() == Revision::MAX => More::End(WatchEnd::Stopped),
            Found::Ended => More::End(WatchEnd::Relisted),
        }
    }

    /// Whether the deadline has passed; notes that a bookmark is due.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> bool {
        while let Some(timer) = &mut self.timer {
            if timer.as_mut().poll(cx).is_pending() {
                return false;
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return true;
            }
            self.bookmark_due = true;
            self.set_timer();
        }
        false
    }

    fn set_timer(&mut self) {
        let now = Instant::now();
        let bookmark = self.bookmarks.then(|| {
            let every = self.cache.shared.options.bookmark_every;
            // Spread, so that watches opened together do not stay in step.
            let spread = every.mul_f64((RandomState::new().hash_one(now) % 1024) as f64 / 4096.0);
            let last = self.deadline.and_then(|d| d.checked_sub(BEFORE_THE_END)).filter(|last| *last > now);
            last.map_or(now + every + spread, |last| last.min(now + every + spread))
        });
        let Some(next) = [bookmark, self.deadline].into_iter().flatten().min() else { return };
        match &mut self.timer {
            Some(timer) => timer.as_mut().reset(next),
            none => *none = Some(Box::pin(tokio::time::sleep_until(next))),
        }
    }
}

/// What reading on brought.
enum More {
    Changes,
    Event(WatchEvent),
    Nothing,
    End(WatchEnd),
}

impl Initial {
    /// Takes all selected objects, if an index knows them.
    fn take_indexed(&mut self, scope: &window::Scope, filter: &dyn Filter) -> bool {
        let mut terms = filter.terms();
        let prefix = match scope {
            window::Scope::Key(_) => return false,
            window::Scope::Parent(parent) => parent,
            window::Scope::All => "",
            window::Scope::Field(field, value) => {
                terms.push(Term::Field(*field, value.clone()));
                ""
            }
        };
        let Some(found) = self.snapshot.by_terms(&terms, prefix, None) else { return false };
        let selected = found.into_iter().filter(|o| terms.iter().all(|term| term.holds(o)) && filter.matches(o));
        self.entries.extend(selected.cloned());
        true
    }

    /// Takes the next batch of selected objects.
    fn take(&mut self, scope: &window::Scope, filter: &dyn Filter) {
        let Some(from) = self.from.take() else { return };
        let selects = |entry: &&CacheEntry| entry.object().is_some_and(|o| filter.matches(o));
        let last = match scope {
            window::Scope::Key(key) => {
                self.entries.extend(self.snapshot.get(key).filter(selects).and_then(CacheEntry::object).cloned());
                return;
            }
            scope => {
                let prefix = match scope {
                    window::Scope::Parent(parent) => &**parent,
                    _ => "",
                };
                let entries = self.snapshot.range(prefix, Some(&from));
                let objects = entries.map(|e| {
                    (e.key(), Some(e).filter(|e| scope.admits(e.key(), Some(e))).and_then(CacheEntry::object))
                });
                take(objects, filter, &mut self.entries)
            }
        };
        self.from = last.map(|key| format!("{key}\0"));
    }
}

/// Takes the selected of the next batch of objects; answers the last key if there may be more.
fn take<'a>(
    objects: impl Iterator<Item = (&'a Arc<str>, Option<&'a Arc<Object>>)>,
    filter: &dyn Filter,
    into: &mut VecDeque<Arc<Object>>,
) -> Option<Arc<str>> {
    let (mut last, mut seen) = (None, 0);
    for (key, object) in objects.take(BATCH) {
        into.extend(object.filter(|o| filter.matches(o)).cloned());
        (last, seen) = (Some(key), seen + 1);
    }
    last.filter(|_| seen == BATCH).cloned()
}

impl Stream for Watcher {
    type Item = Result<WatchEvent, WatchEnd>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_event(cx)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.cache.shared.window.leave(&self.seat);
        self.cache.shared.counters.watchers.sub(1);
    }
}
