//! A client that does not read its watch: it is ended in the end, and costs nobody else anything.

use integration_tests::{Server, Watch};
use serde_json::{Value, json};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
/// So many events of this size are more than what is kept for a watcher that falls behind (32 MiB).
const EVENTS: usize = 400;
const SIZE: usize = 150_000;

#[test]
fn a_watcher_that_does_not_read_is_ended_and_neither_delays_others_nor_fills_the_memory() {
    let server = Server::start();
    let map = |n: usize| json!({"metadata": {"name": "c"}, "data": {"n": n.to_string(), "k": "x".repeat(SIZE)}});
    assert_eq!(server.request("POST", CONFIGMAPS, Some(&map(0))).status, 201);
    let open = |query: &str| Watch::open(server.port(), &format!("{CONFIGMAPS}?watch=1{query}")).expect("a watch");
    // Each has another scope, so that all kinds of watches are among them.
    let others = ["", "&fieldSelector=metadata.name%3Dc", "&allowWatchBookmarks=true"];
    let mut others: Vec<Watch> = others.iter().map(|query| open(query)).collect();
    let mut slow = [open(""), open("&fieldSelector=metadata.name%3Dc")];
    let begun = server.resident_kib();
    let mut most = begun;
    for n in 0..=EVENTS {
        if n > 0 {
            assert_eq!(server.request("PUT", &format!("{CONFIGMAPS}/c"), Some(&map(n))).status, 200);
        }
        // The next write waits until all that read have this one.
        for watch in &mut others {
            let event = watch.next_event().unwrap_or_else(|| panic!("event {n}\n{}", server.log()));
            assert_eq!(event["object"]["data"]["n"], n.to_string());
        }
        most = most.max(server.resident_kib());
    }
    let grown = (most - begun) >> 10;
    // The window's 32 MiB, what the store has not put away yet, and what an unoptimised allocator leaves over.
    assert!(grown < 160, "{grown} MiB more, {} MiB of events", (EVENTS * SIZE) >> 20);
    for watch in &mut slow {
        let mut seen = 0;
        while let Some(event) = watch.next_event() {
            assert_eq!(event["object"]["data"]["n"], seen.to_string(), "nothing is left out before the end");
            seen += 1;
        }
        assert!(seen < EVENTS, "it was ended: {seen}");
    }
    // Whoever was ended goes on from what it has seen, or hears that this is gone.
    let listed: Value = server.request("GET", CONFIGMAPS, None).json();
    let version = listed["metadata"]["resourceVersion"].as_str().expect("a version");
    let mut again = open(&format!("&resourceVersion={version}"));
    assert_eq!(server.request("PUT", &format!("{CONFIGMAPS}/c"), Some(&map(7))).status, 200);
    assert_eq!(again.next_event().expect("an event")["type"], "MODIFIED");
}
