//! `events.k8s.io/v1` to and from the core group's events: the same facts under other names.

use generic_server::resource::Conversion;
use machinery::{Map, Str, Value, object};

use crate::conversion::renamed;

/// Names that differ: in events.k8s.io, in the core group.
const NAMES: [(&str, &str); 7] = [
    ("deprecatedCount", "count"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedSource", "source"),
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
];

/// Texts that only the core group writes when they are empty.
const TEXTS: [&str; 2] = ["reportingComponent", "reportingInstance"];

/// The conversion. Each side gets the members that it always writes, also when they say nothing.
pub(super) struct Reshaped;

impl Conversion for Reshaped {
    fn from_storage(&self, object: Value) -> Value {
        let mut object = renamed(object, Str::new_static("events.k8s.io/v1"));
        let map = object.make_object();
        map.retain(|key, value| !(TEXTS.contains(&key) && value.as_str() == Some("")));
        for (served, stored) in NAMES {
            rename(map, stored, served);
        }
        for part in ["deprecatedSource", "regarding"] {
            fill(map, part, object! {});
        }
        for time in ["deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"] {
            fill(map, time, Value::Null);
        }
        object
    }

    fn to_storage(&self, object: Value) -> Value {
        let mut object = renamed(object, Str::new_static("v1"));
        let map = object.make_object();
        for (served, stored) in NAMES {
            rename(map, served, stored);
        }
        for part in ["source", "involvedObject"] {
            fill(map, part, object! {});
        }
        for time in ["firstTimestamp", "lastTimestamp", "eventTime"] {
            fill(map, time, Value::Null);
        }
        for text in TEXTS {
            fill(map, text, Value::String(Str::default()));
        }
        object
    }
}

fn rename(map: &mut Map, from: &str, to: &str) {
    if let Some(value) = map.remove(from) {
        map.insert(to, value);
    }
}

fn fill(map: &mut Map, key: &str, value: Value) {
    if !map.contains_key(key) {
        map.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_survives_the_way_there_and_back() {
        let new = object! {
            "apiVersion" => "events.k8s.io/v1",
            "kind" => "Event",
            "eventTime" => "2020-01-01T00:00:00.123456Z",
            "note" => "a note",
            "regarding" => object! { "kind" => "Pod" },
            "reportingController" => "example.test/ctl",
            "deprecatedSource" => object! {},
            "deprecatedFirstTimestamp" => Value::Null,
            "deprecatedLastTimestamp" => Value::Null,
        };
        let stored = Reshaped.to_storage(new.clone());
        assert_eq!(stored.str_at(&["message"]), Some("a note"));
        assert_eq!(stored.str_at(&["reportingComponent"]), Some("example.test/ctl"));
        assert_eq!(stored.str_at(&["reportingInstance"]), Some(""));
        assert_eq!(stored.get("firstTimestamp"), Some(&Value::Null));
        assert_eq!(Reshaped.from_storage(stored), new);
    }
}
