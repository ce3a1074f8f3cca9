//! What is malformed gets its clear error, and the server goes on.

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Command,
};

use integration_tests::{Server, binary, free_port, raw, send};

#[test]
fn malformed_requests_are_refused_and_the_server_goes_on() {
    let server = Server::start();
    let port = server.port();
    let path = "/api/v1/namespaces/default/configmaps";
    let check = |content_type: &str, body: &[u8], status: u16, text: &str| {
        let reply = send(port, "POST", path, content_type, body).expect("an answer");
        let message = reply.json()["message"].as_str().unwrap_or_default().to_owned();
        assert_eq!(reply.status, status, "{message}");
        assert!(message.contains(text), "{message}");
    };
    check("application/json", b"{\"metadata\":", 400, "unexpected end of JSON input");
    check("application/json", b"[1]", 400, "cannot unmarshal array");
    check("application/json", &[b'['; 100_000], 400, "exceeded max depth");
    check("application/yaml", b"a: [1", 400, "yaml");
    check("application/json", b"{\"metadata\":{\"name\":\"A B\"}}", 422, "RFC 1123");
    check("text/plain", b"x", 415, "unknown format");
    check("application/json", &vec![b' '; (3 << 20) + 1], 413, "limit is 3145728");
    let get = |path: &str| send(port, "GET", path, "", b"").expect("an answer");
    assert_eq!(get("/api/v1/namespaces/default/configmaps/%zz").status, 400);
    assert_eq!(get("/api/v1/namespaces/default/configmaps?limit=x").status, 400);
    assert_eq!(get("/api/v1/namespaces/default/configmaps?labelSelector=a%3Db%3Dc").status, 400);
    assert_eq!(get("/nosuch").text(), "404 page not found\n");
    // Bytes that belong escaped into a target, and are not: Go's server takes them.
    let raw_get = |target: &[u8]| {
        let head = b" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admintoken\r\nConnection: close\r\n\r\n";
        raw(port, &[b"GET ", target, head].concat()).expect("an answer")
    };
    let missing = raw_get(b"/api/v1/namespaces/a<b>`");
    assert_eq!((missing.status, &missing.json()["message"]), (404, &"namespaces \"a<b>`\" not found".into()));
    let selector = raw_get(b"/api/v1/namespaces?labelSelector=<\"").json()["message"].to_string();
    assert!(selector.contains("found '<'"), "{selector}");
    assert_eq!(raw_get(b"/healthz#x").status, 404, "a target has no fragment");
    assert_eq!(raw_get(b"/api/v1/namespaces/default?x=\xff\xe4").status, 200);
    assert_eq!(raw(port, b"NONSENSE\r\n\r\n").map_or(400, |r| r.status), 400);

    let mut plain = TcpStream::connect(("127.0.0.1", port)).expect("connects");
    plain.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").expect("written");
    let mut answer = String::new();
    plain.read_to_string(&mut answer).expect("read");
    assert!(answer.contains("Client sent an HTTP request to an HTTPS server."), "{answer}");
    let mut garbage = TcpStream::connect(("127.0.0.1", port)).expect("connects");
    garbage.write_all(&[0x16, 3, 1, 0xff, 0xff, 0, 1, 2, 3]).expect("written");
    drop(garbage);

    assert_eq!(get("/readyz").text(), "ok");
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[test]
fn an_operators_mistakes_are_one_line_and_an_exit_code() {
    let server = Server::start();
    let elsewhere = tempfile::tempdir().expect("a folder");
    let check = |arguments: &[String], text: &str| {
        let output = Command::new(binary()).args(arguments).current_dir(elsewhere.path()).output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        let lines: Vec<&str> = error.lines().filter(|l| l.starts_with("Error: ")).collect();
        assert_eq!(lines.len(), 1, "{error}");
        assert!(lines[0].contains(text), "{error}");
    };
    let port = || format!("--secure-port={}", free_port());
    let data = |path: &std::path::Path| format!("--data-dir={}", path.display());
    check(&["--nosuch".into()], "unknown flag: --nosuch");
    check(&["--secure-port=x".into()], "secure-port");
    check(&[port(), data(&server.data())], "in use by another process");
    check(&[format!("--secure-port={}", server.port()), data(&elsewhere.path().join("a"))], "cannot listen");
    let file = elsewhere.path().join("file");
    std::fs::write(&file, "x").expect("written");
    check(&[port(), data(&file)], "file");
    assert_eq!(server.request("GET", "/readyz", None).text(), "ok");
}
