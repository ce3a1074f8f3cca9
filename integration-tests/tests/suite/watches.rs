//! Watches by the older paths, and the form of their events.

use integration_tests::{Server, Watch, WebSocket};
use serde_json::Value;

#[test]
fn one_namespace_is_watched_by_its_path_and_an_event_is_a_line_even_for_who_wants_it_pretty() {
    let server = Server::start();
    for path in [
        "/api/v1/watch/namespaces/default?pretty=true",
        "/api/v1/namespaces?watch=true&pretty=true&fieldSelector=metadata.name%3Ddefault",
    ] {
        let mut watch = Watch::open(server.port(), path).expect("a watch");
        let event = watch.next_event().expect("the namespace there is");
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&"ADDED".into(), &"default".into()));
    }
}

#[test]
fn events_are_messages_of_websockets() {
    const ORIGIN: &str = "Origin: http://localhost\r\n";
    let server = Server::start();
    let open = |lines: &str| {
        let request = "GET /api/v1/namespaces?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Ddefault";
        WebSocket::open_as(server.port(), request, &format!("{ORIGIN}{lines}"))
    };
    let mut socket = open("Sec-WebSocket-Protocol: base64.binary.k8s.io\r\n").expect("a WebSocket");
    assert_eq!(socket.protocol.as_deref(), Some("base64.binary.k8s.io"));
    let (kind, event) = socket.frame().expect("an event");
    let event: Value = serde_json::from_slice(&event).expect("JSON");
    assert_eq!((kind, &event["type"], &event["object"]["metadata"]["name"]), (1, &"ADDED".into(), &"default".into()));
    // It is closed when the watch ends.
    assert_eq!(socket.frame(), Some((8, 1000u16.to_be_bytes().to_vec())));

    let mut socket = open("Accept: application/vnd.kubernetes.protobuf\r\n").expect("a WebSocket");
    let (kind, event) = socket.frame().expect("an event");
    assert_eq!((kind, &event[..7]), (2, &b"\n\x05ADDED"[..]));

    // What is wrong with the watch is told as ever; who comes from nowhere, or wants too much, is refused.
    let wrong = WebSocket::open_as(server.port(), "GET /api/v1/namespaces?watch=1&fieldSelector=x", ORIGIN);
    assert_eq!(wrong.err().map(|(status, _)| status), Some(400));
    let list = WebSocket::open_as(server.port(), "GET /api/v1/namespaces?fieldSelector=metadata.name%3Dx", ORIGIN);
    assert_eq!(list.err().map(|(status, _)| status), Some(200));
    let nowhere = WebSocket::open(server.port(), "/api/v1/namespaces?watch=1", "");
    assert_eq!(nowhere.err(), Some((403, String::new())));
    let several = open("Sec-WebSocket-Protocol: binary.k8s.io, base64.binary.k8s.io\r\n");
    assert_eq!(several.err(), Some((400, String::new())));
}
