//! exec, attach, port-forward and logs, between clients and a kubelet that speaks SPDY.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::Stdio,
};

use integration_tests::{Kubelet, Server, WebSocket, free_port, own_address, with_each_kubectl};
use serde_json::{Value, json};

const POD: &str = "/api/v1/namespaces/default/pods/p";
const V5: &str = "v5.channel.k8s.io";
const SUCCESS: &str = r#"{"metadata":{},"status":"Success"}"#;

/// Makes a node that the kubelet is of, and a pod on it.
fn with_pod(server: &Server, kubelet: u16) {
    server.kubectl(&["create", "serviceaccount", "default"]);
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet}},
        },
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i", "stdin": true}]},
    });
    assert_eq!(server.request("POST", "/api/v1/nodes", Some(&node)).status, 201);
    assert_eq!(server.request("POST", "/api/v1/namespaces/default/pods", Some(&pod)).status, 201);
    let running = json!({"status": {"phase": "Running", "podIPs": [{"ip": "127.0.0.1"}], "podIP": "127.0.0.1"}});
    assert_eq!(server.request("PATCH", &format!("{POD}/status"), Some(&running)).status, 200);
}

fn started(arguments: &[&str]) -> (Server, Kubelet) {
    let (mut server, kubelet) = (Server::prepare(), Kubelet::default());
    server.set_arguments(arguments);
    server.run();
    with_pod(&server, kubelet.port());
    (server, kubelet)
}

/// The path of a command with these arguments, and with these streams.
fn exec(command: &[&str], streams: &str) -> String {
    let escaped = |word: &str| word.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let words: String = command.iter().map(|word| format!("command={}&", escaped(word))).collect();
    format!("{POD}/exec?{words}{streams}")
}

fn run(server: &Server, command: &[&str], streams: &str) -> (Vec<Vec<u8>>, Value) {
    let mut socket = WebSocket::open(server.port(), &exec(command, streams), V5).expect("a WebSocket");
    let channels = socket.channels();
    let status = serde_json::from_slice(&channels[3]).expect("a Status");
    (channels, status)
}

/// What is counted of this name and with these labels.
fn counted(server: &Server, series: &str) -> u64 {
    let metrics = server.request("GET", "/metrics", None).text();
    let line = metrics.lines().find_map(|line| line.strip_prefix(series)).unwrap_or("0");
    line.trim().parse().expect("a number")
}

/// Waits until so much is counted: a stream is counted once it is gone, and its client knows of that before.
fn comes_to(server: &Server, series: &str, expect: u64) {
    while counted(server, series) < expect {
        std::thread::yield_now();
    }
    assert_eq!(counted(server, series), expect, "{series}");
}

#[test]
fn commands_are_translated_to_spdy() {
    let (server, kubelet) = started(&[]);
    let mut socket = WebSocket::open(server.port(), &exec(&["cat"], "stdin=true&stdout=true"), &format!("x, {V5}"))
        .expect("a WebSocket");
    assert_eq!(socket.protocol.as_deref(), Some(V5));
    assert_eq!(socket.frame(), Some((2, vec![1])), "the client is told that it is connected");
    socket.send(b"\x00hello ");
    socket.send_frame(0x02, b"\x00wor").expect("sent");
    socket.send_frame(0x80, b"ld").expect("sent");
    socket.send(b"\xff\x00");
    let channels = socket.channels();
    assert_eq!((channels[1].as_slice(), channels[3].as_slice()), (&b"hello world"[..], SUCCESS.as_bytes()));
    let asked = kubelet.asked();
    let protocols = "v5.channel.k8s.io,v4.channel.k8s.io,v3.channel.k8s.io,v2.channel.k8s.io,channel.k8s.io";
    assert_eq!(asked, [format!("POST /exec/default/p/c?command=cat&input=1&output=1 {protocols}")]);

    let (channels, status) = run(&server, &["sh", "-c", "echo out; echo err >&2; exit 3"], "stdout=true&stderr=true");
    assert_eq!((channels[1].as_slice(), channels[2].as_slice()), (&b"out\n"[..], &b"err\n"[..]));
    let expect = json!({
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": "command terminated with non-zero exit code: command terminated with exit code 3",
        "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
    });
    assert_eq!(status, expect);

    let (_, status) = run(&server, &["refuse"], "stdout=true");
    let why = "unable to upgrade connection: no such container";
    let expect = json!({
        "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
        "message": format!("Internal error occurred: {why}"), "details": {"causes": [{"message": why}]},
    });
    assert_eq!(status, expect);
    let (channels, _) = run(&server, &["head", "-c", "20000000", "/dev/zero"], "stdout=true");
    assert_eq!(channels[1].len(), 20_000_000);
    comes_to(&server, "apiserver_stream_translator_requests_total{code=\"200\"}", 3);
    comes_to(&server, "apiserver_stream_translator_requests_total{code=\"500\"}", 1);
    let routed =
        "apiserver_websocket_streaming_requests_total{proxy_type=\"translated_at_apiserver\",subresource=\"exec\"}";
    assert_eq!(counted(&server, routed), 4);
}

#[test]
fn terminals_are_attached_and_resized() {
    let (server, kubelet) = started(&[]);
    let path = format!("{POD}/attach?stdin=true&stdout=true&tty=true");
    let mut socket = WebSocket::open(server.port(), &path, V5).expect("a WebSocket");
    socket.send(b"\x00typed");
    socket.send(b"\xff\x00");
    assert_eq!(socket.channels()[1], b"typed");
    assert!(kubelet.asked()[0].starts_with("POST /attach/default/p/c?input=1&output=1&tty=1 "));
    let mut socket =
        WebSocket::open(server.port(), &exec(&["sizes"], "stdout=true&tty=true"), V5).expect("a WebSocket");
    socket.send(b"\x04{\"Width\":80,\"Height\":24}");
    socket.send(b"\x04{\"Width\":0,\"Height\":0}");
    let sizes = socket.channels().swap_remove(1);
    assert_eq!(String::from_utf8_lossy(&sizes), "{\"Width\":80,\"Height\":24}\n{\"Width\":0,\"Height\":0}\n");
}

#[test]
fn what_is_no_websocket_is_told_so() {
    let (server, _kubelet) = started(&[]);
    let path = exec(&["cat"], "stdout=true");
    let protocol = format!("Sec-WebSocket-Protocol: {V5}\r\n");
    let refused = WebSocket::open_as(server.port(), &format!("POST {path}"), &protocol).err();
    assert_eq!(refused, Some((405, "bad method".to_owned())));
    let missing = WebSocket::open(server.port(), &path.replace("/p/", "/q/"), V5).err().expect("no such pod");
    assert_eq!((missing.0, missing.1.contains(r#"pods \"q\" not found"#)), (404, true));
    assert_eq!(counted(&server, "apiserver_stream_translator_requests_total{code=\"400\"}"), 1);

    let gone = Server::start();
    with_pod(&gone, free_port());
    let (_, status) = run(&gone, &["cat"], "stdout=true");
    let message = status["message"].as_str().expect("a message");
    let expect = "Internal error occurred: error sending request: Post \"https://127.0.0.1:";
    assert!(message.starts_with(expect) && message.ends_with("connect: connection refused"), "{message}");
}

#[test]
fn older_protocols_are_the_kubelets() {
    let (server, kubelet) = started(&[]);
    let path = exec(&["cat"], "stdin=true&stdout=true");
    let mut socket = WebSocket::open(server.port(), &path, "v4.channel.k8s.io").expect("a WebSocket");
    socket.send(b"\x00hello");
    assert_eq!(socket.frame(), Some((2, b"\x01hello".to_vec())));
    drop(socket);
    assert_eq!(kubelet.asked(), ["GET /exec/default/p/c?command=cat&input=1&output=1"]);
    assert_eq!(counted(&server, "apiserver_stream_translator_requests_total{code=\"200\"}"), 0);
}

#[test]
fn the_gates_say_who_speaks_websocket() {
    let (server, kubelet) =
        started(&["--feature-gates=TranslateStreamCloseWebsocketRequests=false,PortForwardWebsockets=false"]);
    let command = exec(&["cat"], "stdout=true");
    let forward = format!("{POD}/portforward");
    let tunnel = "SPDY/3.1+portforward.k8s.io";
    for (path, protocol) in [(&command, V5), (&forward, tunnel)] {
        assert_eq!(WebSocket::open(server.port(), path, protocol).err().map(|(status, _)| status), Some(403));
    }
    let asked = kubelet.asked();
    assert!(asked.iter().all(|line| line.starts_with("GET /")), "{asked:?}");

    let declared = json!({"status": {"declaredFeatures": ["ExtendWebSocketsToKubelet"]}});
    for (gate, passes) in [("true", true), ("false", false)] {
        let (server, kubelet) = started(&[&format!("--feature-gates=ExtendWebSocketsToKubelet={gate}")]);
        assert_eq!(server.request("PATCH", "/api/v1/nodes/n/status", Some(&declared)).status, 200);
        let opened = WebSocket::open(server.port(), &command, V5).map(|mut socket| socket.channels());
        assert_eq!(opened.is_err(), passes, "this kubelet says more than is true");
        assert_eq!(kubelet.asked()[0].starts_with("GET "), passes);
        let who = if passes { "proxied_to_kubelet" } else { "translated_at_apiserver" };
        let routed =
            format!("apiserver_websocket_streaming_requests_total{{proxy_type=\"{who}\",subresource=\"exec\"}}");
        assert_eq!(counted(&server, &routed), 1);
    }
}

#[test]
fn ports_are_forwarded_through_a_tunnel() {
    let (server, kubelet) = started(&[]);
    let path = format!("{POD}/portforward?ports=80");
    let tunnel = "SPDY/3.1+portforward.k8s.io";
    let mut socket = WebSocket::open(server.port(), &path, tunnel).expect("a WebSocket");
    assert_eq!(socket.protocol.as_deref(), Some(tunnel));
    assert_eq!(kubelet.asked(), ["POST /portForward/default/p?port=80 portforward.k8s.io"]);
    // A ping of SPDY, in two messages; the kubelet answers it.
    let ping = [0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1];
    socket.send(&ping[..5]);
    socket.send(&ping[5..]);
    let mut answer = Vec::new();
    while answer.len() < ping.len() {
        let (kind, bytes) = socket.frame().expect("an answer");
        assert_eq!(kind, 2);
        answer.extend(bytes);
    }
    assert_eq!(answer, ping);
    socket.send_frame(0x88, &[3, 232]).expect("sent");
    let last = std::iter::from_fn(|| socket.frame()).last();
    assert_eq!(last, Some((8, vec![3, 232])));
    assert_eq!(counted(&server, "apiserver_stream_tunnel_requests_total{code=\"101\"}"), 1);

    let other = WebSocket::open(server.port(), &path, "SPDY/3.1+other.k8s.io").err().expect("no such protocol");
    assert_eq!(other, (403, "unable to upgrade: unable to negotiate protocol".to_owned()));
    assert_eq!(counted(&server, "apiserver_stream_tunnel_requests_total{code=\"403\"}"), 1);
    let post =
        WebSocket::open_as(server.port(), &format!("POST {path}"), &format!("Sec-WebSocket-Protocol: {tunnel}\r\n"));
    assert_eq!(post.err(), Some((405, "Method Not Allowed\n".to_owned())));
}

#[test]
fn logs_are_sent_to_websockets() {
    let (server, _kubelet) = started(&[]);
    let read = |path: &str, protocols: &str| {
        let mut socket = WebSocket::open(server.port(), path, protocols)?;
        let frames: Vec<(u8, Vec<u8>)> = std::iter::from_fn(|| socket.frame()).collect();
        let text = frames.iter().filter(|(kind, _)| *kind != 8).flat_map(|(_, bytes)| bytes.clone());
        Ok::<_, (u16, String)>((frames[0].clone(), String::from_utf8(text.collect()).expect("text")))
    };
    let log = format!("{POD}/log");
    let lines = "one line\nanother line\n";
    assert_eq!(read(&log, ""), Ok(((2, Vec::new()), lines.to_owned())));
    assert_eq!(read(&log, "binary.k8s.io"), Ok(((2, Vec::new()), lines.to_owned())));
    let encoded = "b25lIGxpbmUKYW5vdGhlciBsaW5lCg==".to_owned();
    assert_eq!(read(&log, "base64.binary.k8s.io"), Ok(((1, Vec::new()), encoded)));
    assert_eq!(read(&log, V5), Err((403, String::new())));
    let followed: String = (1..=5).map(|i| format!("line {i}\n")).collect();
    assert_eq!(read(&format!("{log}?follow=true"), "binary.k8s.io"), Ok(((2, Vec::new()), followed)));
}

#[test]
fn a_stream_is_limited_to_what_a_connection_may_carry() {
    let (server, _kubelet) = started(&["--max-connection-bytes-per-sec=100000"]);
    let start = std::time::Instant::now();
    let (channels, _) = run(&server, &["head", "-c", "100000", "/dev/zero"], "stdout=true");
    assert_eq!(channels[1].len(), 100_000);
    // However slow the machine is, it is no faster: a tenth of a second's bytes may go at once.
    assert!(start.elapsed().as_millis() >= 800, "{:?}", start.elapsed());
}

#[test]
fn clients_that_vanish_and_break_the_protocol_leave_nothing_behind() {
    let (server, kubelet) = started(&[]);
    for bytes in
        [&b"\xff\xff"[..], &[0x82, 1, 0], &[0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]]
    {
        let mut socket = WebSocket::open(server.port(), &exec(&["cat"], "stdin=true"), V5).expect("a WebSocket");
        assert_eq!(socket.frame(), Some((2, vec![3])));
        socket.send_raw(bytes).expect("sent");
        assert_eq!(std::iter::from_fn(|| socket.frame()).filter(|(kind, _)| *kind != 8).count(), 0, "{bytes:?}");
    }
    for _ in 0..20 {
        let mut socket = WebSocket::open(server.port(), &exec(&["cat"], "stdin=true&stdout=true"), V5).expect("opened");
        socket.send(b"\x00x");
        assert_eq!(socket.frame(), Some((2, vec![1])));
    }
    let (_, status) = run(&server, &["true"], "stdout=true");
    assert_eq!(status["status"], "Success");
    // Their commands ended with what they typed; each is counted once it has.
    comes_to(&server, "apiserver_stream_translator_requests_total{code=\"200\"}", 24);
    assert_eq!(kubelet.asked().len(), 24);
}

#[test]
fn tunnels_are_recorded_when_they_are_gone() {
    let (mut server, kubelet) = (Server::prepare(), Kubelet::default());
    let (policy, log) = (server.dir().join("policy.yaml"), server.dir().join("audit.log"));
    std::fs::write(&policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
        .expect("written");
    server.set_arguments(&[
        &format!("--audit-policy-file={}", policy.display()),
        &format!("--audit-log-path={}", log.display()),
    ]);
    server.run();
    with_pod(&server, kubelet.port());
    let path = exec(&["cat"], "stdin=true");
    let stages = || -> Vec<(Value, Value)> {
        let log = std::fs::read_to_string(&log).expect("a log");
        let events = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("an event"));
        let own = events.filter(|event| event["requestURI"] == path);
        own.map(|event| (event["stage"].clone(), event["responseStatus"]["code"].clone())).collect()
    };
    let mut socket = WebSocket::open(server.port(), &path, V5).expect("a WebSocket");
    assert_eq!(socket.frame(), Some((2, vec![3])));
    let started = [(json!("RequestReceived"), Value::Null), (json!("ResponseStarted"), json!(101))];
    assert_eq!(stages(), started);
    socket.send(b"\xff\x00");
    assert_eq!(socket.channels()[3], SUCCESS.as_bytes());
    while stages().len() < 3 {
        std::thread::yield_now();
    }
    assert_eq!(stages()[2], (json!("ResponseComplete"), json!(101)));
}

/// A server of this machine that sends back what it gets, with a word before it.
fn echo() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut text = String::new();
            let _ = stream.read_to_string(&mut text).and_then(|_| stream.write_all(format!("echo {text}").as_bytes()));
        }
    });
    port
}

#[test]
fn kubectl_streams_over_websockets_and_over_spdy() {
    with_each_kubectl(|server| {
        let kubelet = Kubelet::default();
        with_pod(&server, kubelet.port());
        let echo = echo();
        for speaks in ["true", "false"] {
            let kubectl = |arguments: &[&str], input: &str| {
                let mut command = server.kubectl_command(arguments);
                command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", speaks).env("KUBECTL_PORT_FORWARD_WEBSOCKETS", speaks);
                let mut child = command
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .expect("kubectl starts");
                child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("written");
                let output = child.wait_with_output().expect("kubectl ends");
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                (output.status.code(), text(&output.stdout), text(&output.stderr))
            };
            let ended = kubectl(&["exec", "p", "--", "sh", "-c", "echo out; echo err >&2; exit 42"], "");
            assert_eq!((ended.0, ended.1.as_str()), (Some(42), "out\n"), "{speaks}: {}", ended.2);
            assert!(ended.2.contains("err\n") && ended.2.contains("exit code 42"), "{}", ended.2);
            let typed = "a line\n".repeat(20_000);
            assert_eq!(kubectl(&["exec", "-i", "p", "--", "cat"], &typed).1, typed);
            assert_eq!(kubectl(&["attach", "-i", "p"], "typed\n").1, "typed\n");
            copied(&server, |arguments: &[&str]| kubectl(arguments, ""));
            assert_eq!(kubectl(&["logs", "-f", "p"], "").1.lines().last(), Some("line 5"));
            forwarded(&server, speaks, echo);
        }
        let asked = kubelet.asked();
        assert!(asked.iter().any(|line| line.starts_with("POST /exec") && line.contains("v5.channel")), "{asked:?}");
    });
}

/// kubectl cp in both directions; the container's files are this machine's.
fn copied(server: &Server, kubectl: impl Fn(&[&str]) -> (Option<i32>, String, String)) {
    let path = |name: &str| server.dir().join(name).display().to_string();
    std::fs::write(path("source"), vec![7; 3_000_000]).expect("written");
    std::fs::create_dir_all(path("container")).expect("made");
    let (code, _, error) = kubectl(&["cp", &path("source"), &format!("p:{}", path("container/there"))]);
    assert_eq!(code, Some(0), "{error}");
    let (code, _, error) = kubectl(&["cp", &format!("p:{}", path("container/there")), &path("back")]);
    assert_eq!(code, Some(0), "{error}");
    assert!(std::fs::read(path("back")).expect("a copy") == vec![7; 3_000_000]);
    std::fs::remove_file(path("back")).expect("removed");
}

/// kubectl port-forward, to a server of this machine, several times over one connection.
fn forwarded(server: &Server, speaks: &str, port: u16) {
    let mut child = server
        .kubectl_command(&["port-forward", "p", &format!(":{port}")])
        .env("KUBECTL_PORT_FORWARD_WEBSOCKETS", speaks)
        .stdout(Stdio::piped())
        .spawn()
        .expect("kubectl starts");
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    output.read_line(&mut line).expect("it says where it listens");
    let own: u16 = line
        .strip_prefix("Forwarding from 127.0.0.1:")
        .and_then(|rest| rest.split(' ').next())
        .and_then(|port| port.parse().ok())
        .unwrap_or_else(|| panic!("{line}"));
    for i in 0..3 {
        let mut stream = TcpStream::connect(("127.0.0.1", own)).expect("it listens");
        write!(stream, "{i}").expect("written");
        stream.shutdown(std::net::Shutdown::Write).expect("shut down");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert_eq!(answer, format!("echo {i}"));
    }
    child.kill().expect("killed");
    child.wait().expect("waited for");
}

/// A server of this machine, at an address that pods may have, that answers with this document.
fn page(head: &'static str, document: &'static str) -> (String, u16) {
    let address = own_address();
    let listener = TcpListener::bind((address.as_str(), 0)).expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(stream.try_clone().expect("a handle")).lines().map_while(Result::ok);
            let asked: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
            let body = if document.is_empty() { asked.join("\n").to_ascii_lowercase() } else { document.to_owned() };
            let length = body.len();
            let answer = format!("HTTP/1.1 {head}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}");
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (address, port)
}

#[test]
fn pages_of_pods_lead_back_to_them() {
    let server = Server::start();
    with_pod(&server, free_port());
    let html = "200 OK\r\nContent-Type: text/html; charset=utf-8\r\nSet-Cookie: a=b; Path=/\r\n";
    let ask = |head: &'static str, document: &'static str, path: &str| {
        let (address, port) = page(head, document);
        let at = json!({"status": {"podIPs": [{"ip": address}], "podIP": address}});
        assert_eq!(server.request("PATCH", &format!("{POD}/status"), Some(&at)).status, 200);
        let base = format!("{POD}:{port}/proxy");
        let reply = server.request("GET", &format!("{base}{path}"), None);
        (base, reply)
    };
    let (base, reply) = ask(html, "<A HREF=/x>y</A><!-- <a href=/x> --><img src='z'>", "/");
    assert_eq!(reply.text(), format!("<a href=\"{base}/x\">y</A><!-- <a href=/x> --><img src=\"z\">"));
    let cookie = reply.headers.iter().find(|(name, _)| name == "set-cookie").map(|(_, value)| value.as_str());
    assert_eq!(cookie, Some("a=b; Path=/"));
    let plain = "200 OK\r\nContent-Type: text/plain\r\n";
    assert_eq!(ask(plain, "<A HREF=/x>", "/").1.text(), "<A HREF=/x>");
    let (base, reply) = ask("302 Found\r\nLocation: /login?x\r\n", "-", "/");
    let location = reply.headers.iter().find(|(name, _)| name == "location").map(|(_, value)| value.clone());
    assert_eq!((reply.status, location), (302, Some(format!("{base}/login?x"))));
    let (_, reply) = ask("302 Found\r\nLocation: %zz\r\n", "-", "/");
    assert_eq!(reply.status, 500);
    let (base, reply) = ask(plain, "", "/a/../b%2Fc?q=%2F");
    let asked = reply.text();
    assert!(asked.starts_with("get /b/c?q=%2f http/1.1\n"), "{asked}");
    for line in ["host: localhost".to_owned(), format!("x-forwarded-uri: {base}/b/c")] {
        assert!(asked.lines().any(|own| own == line), "{line}: {asked}");
    }
    assert!(!asked.contains("x-forwarded-host") && !asked.contains("authorization"), "{asked}");
}
