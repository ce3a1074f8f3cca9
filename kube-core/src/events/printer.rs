//! Table columns of events.

use generic_server::printer::{Doc, NAME, Table, int, name, since, text, text_at};
use machinery::Value;

/// Events, of both groups.
pub(crate) const EVENTS: Table = Table::new(
    &[
        text("Last Seen", Doc::Of("core.v1.Event", "lastTimestamp")),
        text("Type", Doc::Of("core.v1.Event", "type")),
        text("Reason", Doc::Of("core.v1.Event", "reason")),
        text("Object", Doc::Of("core.v1.Event", "involvedObject")),
        text("Subobject", Doc::Text(SUBOBJECT)).wide(),
        text("Source", Doc::Of("core.v1.Event", "source")).wide(),
        text("Message", Doc::Of("core.v1.Event", "message")),
        text("First Seen", Doc::Of("core.v1.Event", "firstTimestamp")).wide(),
        text("Count", Doc::Of("core.v1.Event", "count")).wide(),
        NAME.wide(),
    ],
    event,
);

const SUBOBJECT: &str = "If referring to a piece of an object instead of an entire object, this string should contain a valid \
    JSON/Go field access statement, such as desiredState.manifest.containers[2]. For example, if the object reference is to a \
    container within a pod, this would take on a value like: \"spec.containers{name}\" (where \"name\" refers to the name of \
    the container that triggered the event) or if no container name is specified \"spec.containers[2]\" (container with index \
    2 in this pod). This syntax is chosen only to have some well-defined way of referencing a part of an object.";

/// An event in either group's words.
fn event(event: &Value, now: i64) -> Vec<Value> {
    let first_of = |paths: [&[&str]; 2]| {
        paths.into_iter().filter_map(|p| event.str_at(p)).find(|t| !t.is_empty()).unwrap_or_default()
    };
    let time = |paths: [&[&str]; 2]| paths.into_iter().find_map(|p| event.str_at(p));
    let first = time([&["firstTimestamp"], &["deprecatedFirstTimestamp"]]).or(event.str_at(&["eventTime"]));
    let mut last = time([&["lastTimestamp"], &["deprecatedLastTimestamp"]]).or(first);
    let mut seen = int(event, &["count"]).max(int(event, &["deprecatedCount"]));
    if event.get("series").is_some_and(|s| !s.is_null()) {
        last = event.str_at(&["series", "lastObservedTime"]);
        seen = int(event, &["series", "count"]);
    } else if seen == 0 {
        seen = 1;
    }
    let kind = first_of([&["involvedObject", "kind"], &["regarding", "kind"]]).to_lowercase();
    let object = first_of([&["involvedObject", "name"], &["regarding", "name"]]);
    let target = if object.is_empty() { kind } else { format!("{kind}/{object}") };
    vec![
        since(last, now).into(),
        text_at(event, &["type"]),
        text_at(event, &["reason"]),
        target.into(),
        first_of([&["involvedObject", "fieldPath"], &["regarding", "fieldPath"]]).into(),
        source(event).into(),
        first_of([&["message"], &["note"]]).trim().into(),
        since(first, now).into(),
        Value::Int(seen),
        name(event),
    ]
}

fn source(event: &Value) -> String {
    let first = |paths: [&[&str]; 4]| {
        paths.into_iter().filter_map(|p| event.str_at(p)).find(|t| !t.is_empty()).unwrap_or_default()
    };
    let component = first([
        &["source", "component"],
        &["deprecatedSource", "component"],
        &["reportingComponent"],
        &["reportingController"],
    ]);
    let host = first([&["source", "host"], &["deprecatedSource", "host"], &["reportingInstance"], &["none"]]);
    if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") }
}
