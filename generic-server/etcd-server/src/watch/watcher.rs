//! One watcher: what it wants to be told, and how far it is.

use bytes::Bytes;

use crate::{
    key::KeyRange,
    proto::{Event, WatchCreateRequest, watch_create_request::FilterType},
    window::is_delete,
};

/// See the module.
pub(super) struct Watcher {
    pub(super) range: KeyRange,
    puts: bool,
    deletes: bool,
    previous: bool,
    /// Responses are cut in parts.
    pub(super) fragments: bool,
    /// It wants to be told how far it is.
    pub(super) progress: bool,
    /// It has not been told anything since it was last looked at.
    pub(super) quiet: bool,
    /// Changes from this revision on are for it.
    pub(super) next: i64,
    /// It is behind the others of its stream.
    pub(super) lags: bool,
}

impl Watcher {
    /// What a request asks for, when the newest revision is this one.
    pub(super) fn new(request: &WatchCreateRequest, revision: i64) -> Watcher {
        // No key at all is the first one that there can be.
        let key = if request.key.is_empty() { Bytes::from_static(b"\0") } else { request.key.clone() };
        let without = |filter: FilterType| request.filters.contains(&(filter as i32));
        Watcher {
            range: KeyRange::of(&key, &request.range_end),
            puts: !without(FilterType::Noput),
            deletes: !without(FilterType::Nodelete),
            previous: request.prev_kv,
            fragments: request.fragment,
            progress: request.progress_notify,
            quiet: false,
            next: if request.start_revision == 0 { revision + 1 } else { request.start_revision },
            lags: false,
        }
    }

    /// The event as it is told to this watcher; `None` if it is not for it.
    pub(super) fn picks(&self, event: &Event) -> Option<Event> {
        let wanted = if is_delete(event) { self.deletes } else { self.puts };
        let key = event.kv.as_ref().map(|kv| &kv.key[..])?;
        if !wanted || !self.range.contains(key) {
            return None;
        }
        let prev_kv = event.prev_kv.clone().filter(|_| self.previous);
        Some(Event { r#type: event.r#type, kv: event.kv.clone(), prev_kv })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{KeyValue, event::EventType};

    fn event(key: &'static str, r#type: EventType) -> Event {
        let kv = || Some(KeyValue { key: key.into(), ..KeyValue::default() });
        Event { r#type: r#type as i32, kv: kv(), prev_kv: kv() }
    }

    #[test]
    fn a_watcher_is_told_what_it_asked_for() {
        let request = WatchCreateRequest { key: "a".into(), range_end: "c".into(), ..WatchCreateRequest::default() };
        let check = |request: &WatchCreateRequest, expect: [bool; 3]| {
            let watcher = Watcher::new(request, 7);
            let events = [event("b", EventType::Put), event("b", EventType::Delete), event("c", EventType::Put)];
            assert_eq!(events.each_ref().map(|event| watcher.picks(event).is_some()), expect, "{request:?}");
            assert!(
                events.iter().filter_map(|event| watcher.picks(event)).all(|e| e.prev_kv.is_some() == request.prev_kv)
            );
        };
        check(&request, [true, true, false]);
        check(&WatchCreateRequest { prev_kv: true, ..request.clone() }, [true, true, false]);
        check(&WatchCreateRequest { filters: vec![0], ..request.clone() }, [false, true, false]);
        check(&WatchCreateRequest { filters: vec![1], ..request.clone() }, [true, false, false]);
        check(&WatchCreateRequest { filters: vec![0, 1], ..request.clone() }, [false; 3]);
        check(&WatchCreateRequest { key: "".into(), range_end: "\0".into(), ..request.clone() }, [true; 3]);
        check(&WatchCreateRequest { range_end: "".into(), ..request.clone() }, [false; 3]);
        assert_eq!(Watcher::new(&request, 7).next, 8);
        assert_eq!(Watcher::new(&WatchCreateRequest { start_revision: 3, ..request }, 7).next, 3);
    }
}
