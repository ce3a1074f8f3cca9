//! One change as all watchers share it, and how a selector sees it.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use bytes::{BufMut, Bytes, BytesMut};

use super::{
    forms::FormId,
    index::Term,
    object::{CacheEntry, Object},
    sync::Mutex,
};
use crate::Revision;

/// The type of a watch event about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// The object is new to the watcher.
    Added,
    /// The object changed.
    Modified,
    /// The object is gone, or no longer selected.
    Deleted,
}

impl EventType {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            EventType::Added => "ADDED",
            EventType::Modified => "MODIFIED",
            EventType::Deleted => "DELETED",
        }
    }
}

/// Selects objects: label and field selectors. Pure; called often.
pub trait Filter: Send + Sync + 'static {
    /// Whether the object is selected.
    fn matches(&self, object: &Object) -> bool;

    /// What all selected objects have: an index may know who has it.
    fn terms(&self) -> Vec<Term> {
        Vec::new()
    }
}

/// Selects everything.
pub struct Everything;

impl Filter for Everything {
    fn matches(&self, _: &Object) -> bool {
        true
    }
}

impl<F: Fn(&Object) -> bool + Send + Sync + 'static> Filter for F {
    fn matches(&self, object: &Object) -> bool {
        self(object)
    }
}

type Frames = Vec<(FormId, EventType, Bytes)>;

/// One change of one key.
pub struct Change {
    pub(super) revision: Revision,
    pub(super) at: Instant,
    pub(super) key: Arc<str>,
    pub(super) current: Option<CacheEntry>,
    pub(super) previous: Option<CacheEntry>,
    /// The previous object with this change's revision: what DELETED shows.
    departed: OnceLock<Arc<Object>>,
    /// Encoded watch frames, one for all watchers that want the same; `None` once the change is no longer hot.
    frames: Mutex<Option<Frames>>,
}

impl Change {
    pub(super) fn new(
        revision: Revision,
        at: Instant,
        key: Arc<str>,
        current: Option<CacheEntry>,
        previous: Option<CacheEntry>,
    ) -> Self {
        Change { revision, at, key, current, previous, departed: OnceLock::new(), frames: Mutex::new(Some(Vec::new())) }
    }

    /// How a watcher sees it whose selection is `selects`: entering is ADDED, leaving is DELETED with the last selected
    /// state at the new revision. A value that cannot be decoded is nothing that can be selected.
    pub(super) fn seen_by(&self, selects: impl Fn(&Object) -> bool) -> Option<(EventType, Arc<Object>)> {
        let object =
            |entry: &Option<CacheEntry>| entry.as_ref().and_then(CacheEntry::object).filter(|o| selects(o)).cloned();
        match (object(&self.previous), object(&self.current)) {
            (None, None) => None,
            (None, Some(new)) => Some((EventType::Added, new)),
            (Some(_), Some(new)) => Some((EventType::Modified, new)),
            (Some(old), None) => Some((EventType::Deleted, self.departed(&old))),
        }
    }

    fn departed(&self, old: &Object) -> Arc<Object> {
        self.departed.get_or_init(|| Arc::new(old.at_revision(self.revision))).clone()
    }

    /// The watch frame in a form, encoded once for all watchers while the change is hot. Errors are not kept.
    pub(super) fn frame<E>(
        &self,
        form: FormId,
        kind: EventType,
        encode: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        // The lock is held while encoding: whoever comes meanwhile wants just that frame.
        let mut frames = self.frames.lock();
        let Some(frames) = &mut *frames else {
            drop(frames);
            return encode();
        };
        if let Some((_, _, frame)) = frames.iter().find(|(f, k, _)| (*f, *k) == (form, kind)) {
            return Ok(frame.clone());
        }
        let frame = encode()?;
        frames.push((form, kind, frame.clone()));
        Ok(frame)
    }

    /// Drops the encoded frames: few watchers are so far behind, they encode anew.
    pub(super) fn cool(&self) {
        *self.frames.lock() = None;
    }

    /// Bytes that only the window keeps alive: the previous object, and its copy that a DELETED shows.
    pub(super) fn weight(&self) -> usize {
        let copies = if self.current.is_some() { 1 } else { 2 };
        copies * self.previous.as_ref().map_or(0, CacheEntry::size)
    }

    /// Bytes of a frame, roughly.
    pub(super) fn frame_size(&self) -> usize {
        self.current.as_ref().or(self.previous.as_ref()).map_or(0, CacheEntry::size)
    }
}

/// What a watcher receives.
#[derive(Clone)]
pub enum WatchEvent {
    /// Something about an object.
    Object {
        /// What.
        kind: EventType,
        /// The object to show; its revision is the event's resourceVersion.
        object: Arc<Object>,
        /// The change behind it, which shares encoded frames; `None` for the initial state.
        change: Option<Arc<Change>>,
    },
    /// Nothing selected is outstanding up to this revision.
    Bookmark {
        /// The revision.
        revision: Revision,
        /// Whether it ends the initial events (annotation `k8s.io/initial-events-end`).
        initial_events_end: bool,
    },
}

impl WatchEvent {
    /// The event's resourceVersion.
    pub fn revision(&self) -> Revision {
        match self {
            WatchEvent::Object { object, .. } => object.revision(),
            WatchEvent::Bookmark { revision, .. } => *revision,
        }
    }

    /// What a modified object was before.
    pub fn previous(&self) -> Option<&Arc<Object>> {
        match self {
            WatchEvent::Object { change: Some(change), .. } => change.previous.as_ref().and_then(CacheEntry::object),
            WatchEvent::Object { .. } | WatchEvent::Bookmark { .. } => None,
        }
    }

    /// The event as one sees it to whom the object was there `before`, or is `now`: for selections that no [`Filter`] can
    /// make. `None` if it is none to him.
    pub fn entering_or_leaving(self, before: bool, now: bool) -> Option<WatchEvent> {
        let WatchEvent::Object { kind: EventType::Modified, object, change } = self else { return now.then_some(self) };
        let (kind, object) = match (before, now) {
            (false, false) => return None,
            (true, true) => (EventType::Modified, object),
            (false, true) => (EventType::Added, object),
            (true, false) => {
                let change = change.as_ref()?;
                let previous = change.previous.as_ref().and_then(CacheEntry::object)?;
                (EventType::Deleted, change.departed(previous))
            }
        };
        Some(WatchEvent::Object { kind, object, change })
    }

    /// The JSON frame `{"type":…,"object":…}` and a newline, encoded once for all watchers. A bookmark's object is the
    /// server's to make: `bookmark` is called for it with the revision and whether it ends the initial events.
    pub fn json_frame(&self, bookmark: impl FnOnce(Revision, bool) -> Bytes) -> Bytes {
        match self {
            WatchEvent::Bookmark { revision, initial_events_end } => {
                json_frame("BOOKMARK", &bookmark(*revision, *initial_events_end))
            }
            WatchEvent::Object { kind, object, change } => {
                let encode = || Ok::<_, std::convert::Infallible>(json_frame(kind.as_str(), object.bytes()));
                let frame = match change {
                    Some(change) => change.frame(FormId::JSON, *kind, encode),
                    None => encode(),
                };
                match frame {
                    Ok(frame) => frame,
                    Err(never) => match never {},
                }
            }
        }
    }

    /// The frame in another form: `encode` is called with the type and the object unless another watcher's call has
    /// left the frame; `None` for a bookmark.
    pub fn frame<E>(
        &self,
        form: FormId,
        encode: impl FnOnce(EventType, &Arc<Object>) -> Result<Bytes, E>,
    ) -> Option<Result<Bytes, E>> {
        match self {
            WatchEvent::Bookmark { .. } => None,
            WatchEvent::Object { kind, object, change: Some(change) } => {
                Some(change.frame(form, *kind, || encode(*kind, object)))
            }
            WatchEvent::Object { kind, object, change: None } => Some(encode(*kind, object)),
        }
    }
}

fn json_frame(kind: &str, object: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(object.len() + kind.len() + 24);
    frame.put_slice(br#"{"type":""#);
    frame.put_slice(kind.as_bytes());
    frame.put_slice(br#"","object":"#);
    frame.put_slice(object);
    frame.put_slice(b"}\n");
    frame.freeze()
}

impl std::fmt::Debug for WatchEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WatchEvent::Object { kind, object, .. } => write!(f, "{} {object:?}", kind.as_str()),
            WatchEvent::Bookmark { revision, initial_events_end: true } => write!(f, "BOOKMARK {revision} (initial)"),
            WatchEvent::Bookmark { revision, .. } => write!(f, "BOOKMARK {revision}"),
        }
    }
}
