//! Whoever sends the largest documents holds up nobody else.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use integration_tests::{Server, send};

const CLIENTS: usize = 16;

/// Bytes of a document. A debug build takes a second or more for one: together they hold the processors long enough for
/// the answers that are counted.
const SIZE: usize = 512 << 10;

/// A config map with as many keys as fit, each of which somebody owns from then on.
fn many_keys(client: usize) -> String {
    let data: Vec<String> = (0..SIZE / 12).map(|i| format!(r#""k{i}":"""#)).collect();
    let metadata = format!(r#"{{"name":"keys-{client}"}}"#);
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{metadata},"data":{{{}}}}}"#, data.join(","))
}

/// One with as many finalizers as fit, none of which is one.
fn many_errors(client: usize) -> String {
    let finalizers = vec![r#""_""#; SIZE / 4];
    let metadata = format!(r#"{{"name":"errors-{client}","finalizers":[{}]}}"#, finalizers.join(","));
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{metadata}}}"#)
}

#[test]
fn others_are_answered_while_the_largest_documents_are_handled() {
    let server = Server::start();
    let port = server.port();
    let open = AtomicUsize::new(CLIENTS);
    let (mut answers, mut slowest) = (0, Duration::ZERO);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let open = &open;
            scope.spawn(move || {
                let (document, expect) = match client % 2 {
                    0 => (many_keys(client), 201),
                    _ => (many_errors(client), 422),
                };
                let path = "/api/v1/namespaces/default/configmaps";
                let reply = send(port, "POST", path, "application/json", document.as_bytes());
                open.fetch_sub(1, Ordering::SeqCst);
                assert_eq!(reply.expect("an answer").status, expect);
            });
        }
        while open.load(Ordering::SeqCst) > 0 {
            let since = Instant::now();
            let reply = send(port, "GET", "/healthz", "", b"").expect("an answer");
            assert_eq!(reply.text(), "ok");
            slowest = slowest.max(since.elapsed());
            answers += 1;
        }
    });
    // For who looks at it; what is asserted does not depend on the machine's speed.
    println!("{answers} answers, the slowest after {slowest:?}");
    assert!(answers > 6 * CLIENTS, "{answers} answers while {CLIENTS} documents were handled");
}
