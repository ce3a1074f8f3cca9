//! Watches by the older paths, and the form of their events.

use integration_tests::{Server, Watch};

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
