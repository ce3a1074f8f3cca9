//! What happens on connections: strangers over HTTP/2, bodies that nobody reads, tokens of WebSockets, headers that are no
//! ASCII.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{
    body::Frame,
    client::conn::http2::{Connection, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use integration_tests::{Server, raw, tls_config};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

type Body = BoxBody<Bytes, Infallible>;
type Http2 = Connection<TokioIo<TlsStream<TcpStream>>, Body, TokioExecutor>;

/// A connection that has agreed on HTTP/2 and has not said a word of it.
async fn agreed_on_http2(server: &Server) -> TlsStream<TcpStream> {
    let mut config = tls_config();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let tcp = TcpStream::connect(("127.0.0.1", server.port())).await.expect("connects");
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, tcp).await.expect("a handshake")
}

async fn http2(server: &Server) -> (SendRequest<Body>, Http2) {
    let stream = agreed_on_http2(server).await;
    hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2")
}

fn request(method: Method, path: &str, token: &str, body: Body) -> Request<Body> {
    let request = Request::builder().method(method).uri(format!("https://localhost{path}"));
    let request = if token.is_empty() { request } else { request.header("authorization", format!("Bearer {token}")) };
    request.body(body).expect("a request")
}

fn nothing() -> Body {
    Full::new(Bytes::new()).boxed()
}

#[tokio::test]
async fn connections_of_strangers_end_with_their_answer_over_http2() {
    let server = Server::start();
    for (token, path, status) in [("nobody", "/version", 401), ("", "/version", 200), ("", "/api/v1/pods", 403)] {
        let (mut sender, connection) = http2(&server).await;
        let ended = tokio::spawn(connection);
        let response = sender.send_request(request(Method::GET, path, token, nothing())).await.expect("an answer");
        assert_eq!(response.status().as_u16(), status, "{path}");
        assert!(!response.headers().contains_key("connection"));
        response.into_body().collect().await.expect("a body");
        let _ = ended.await.expect("the connection ends"); // by a GOAWAY, whatever the client makes of it
    }
    let (mut sender, connection) = http2(&server).await;
    tokio::spawn(connection);
    for _ in 0..3 {
        let known = request(Method::GET, "/version", "admintoken", nothing());
        assert_eq!(sender.send_request(known).await.expect("an answer").status(), StatusCode::OK);
    }
}

/// An HTTP/2 frame (RFC 9113, 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

#[tokio::test]
async fn whoever_resets_one_request_after_the_other_is_sent_away_and_fills_no_log() {
    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    const SETTINGS: u8 = 4;
    const END_STREAM_AND_HEADERS: u8 = 5;
    const CANCEL: [u8; 4] = [0, 0, 0, 8];
    const ENHANCE_YOUR_CALM: [u8; 4] = [0, 0, 0, 11];
    let server = Server::start();
    let lines = server.log().lines().count();
    // GET https://a/ (RFC 7541: three indexed fields and a literal one).
    let headers = [0x82, 0x84, 0x87, 0x41, 0x01, b'a'];
    let mut flood = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(SETTINGS, 0, 0, &[])].concat();
    for stream in (1..2000).step_by(2) {
        flood.extend(frame(HEADERS, END_STREAM_AND_HEADERS, stream, &headers));
        flood.extend(frame(RST_STREAM, 0, stream, &CANCEL));
    }
    for _ in 0..20 {
        let (mut from, mut to) = tokio::io::split(agreed_on_http2(&server).await);
        // It is cut off before all of this is taken.
        let (_, answer) = tokio::join!(to.write_all(&flood), async {
            let mut answer = Vec::new();
            let _ = from.read_to_end(&mut answer).await;
            answer
        });
        assert!(answer.windows(4).any(|code| code == ENHANCE_YOUR_CALM), "{answer:?}");
    }
    let (mut sender, connection) = http2(&server).await;
    tokio::spawn(connection);
    let known = request(Method::GET, "/version", "admintoken", nothing());
    assert_eq!(sender.send_request(known).await.expect("an answer").status(), StatusCode::OK);
    assert_eq!(server.log().lines().count(), lines, "{}", server.log());
}

#[tokio::test]
async fn connections_of_strangers_stay_where_their_gate_is_off() {
    let mut server = Server::prepare();
    server.set_arguments(&["--feature-gates=UnauthenticatedHTTP2DOSMitigation=false"]);
    server.run();
    let (mut sender, connection) = http2(&server).await;
    tokio::spawn(connection);
    for _ in 0..3 {
        let unknown = request(Method::GET, "/version", "nobody", nothing());
        let answer = sender.send_request(unknown).await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
        answer.into_body().collect().await.expect("a body");
    }
}

/// A connection that has agreed on HTTP/1.1 and sends a head that has no end.
async fn endless_head(server: &Server) -> TlsStream<TcpStream> {
    let tcp = TcpStream::connect(("127.0.0.1", server.port())).await.expect("connects");
    let name = ServerName::try_from("localhost").expect("a name");
    let mut stream = TlsConnector::from(Arc::new(tls_config())).connect(name, tcp).await.expect("a handshake");
    let head = [b"GET / HTTP/1.1\r\nHost: a\r\nX: ".as_slice(), &[b'x'; 600 << 10]].concat();
    let _ = stream.write_all(&head).await; // it may be sent away before all of it is taken
    stream
}

#[tokio::test]
async fn what_silent_strangers_hold_is_bounded_and_others_are_served() {
    const MANY: usize = 500;
    let server = Server::start();
    let (mut known, connection) = http2(&server).await;
    tokio::spawn(connection);
    let version = || request(Method::GET, "/version", "admintoken", nothing());
    assert_eq!(known.send_request(version()).await.expect("an answer").status(), StatusCode::OK);
    let before = server.resident_kib();
    let mut silent: Vec<Box<dyn AsyncRead + Unpin + Send>> = Vec::new();
    for _ in 0..MANY {
        silent.push(Box::new(TcpStream::connect(("127.0.0.1", server.port())).await.expect("connects")));
        silent.push(Box::new(agreed_on_http2(&server).await));
    }
    for _ in 0..MANY / 5 {
        silent.push(Box::new(endless_head(&server).await));
    }
    let held = server.resident_kib().saturating_sub(before);
    assert!(held < 40 << 10, "{held} KiB");
    // Whoever is known is not closed for them, and whoever comes is served.
    assert_eq!(known.send_request(version()).await.expect("an answer").status(), StatusCode::OK);
    let (mut new, connection) = http2(&server).await;
    tokio::spawn(connection);
    assert_eq!(new.send_request(version()).await.expect("an answer").status(), StatusCode::OK);
    let closed = silent.len() - 512;
    let mut ends = tokio::task::JoinSet::new();
    for mut one in silent {
        ends.spawn(async move { one.read_to_end(&mut Vec::new()).await.is_ok() });
    }
    for at in 0..closed {
        let ended = tokio::time::timeout(Duration::from_secs(60), ends.join_next()).await;
        ended.unwrap_or_else(|_| panic!("{at} of {closed} are closed"));
    }
}

#[tokio::test]
async fn a_small_body_that_nobody_reads_is_taken_before_the_answer() {
    let server = Server::start();
    let (mut sender, connection) = http2(&server).await;
    tokio::spawn(connection);
    for (method, path, status) in [
        (Method::POST, "/apis/nosuch/v1/things", 404),
        (Method::PUT, "/api/v1/namespaces", 405),
        (Method::POST, "/api/v1/namespaces/default/configmaps?dryRun=some", 422),
    ] {
        let (asked, pieces) = counted(8);
        let answer = sender.send_request(request(method, path, "admintoken", pieces)).await.expect("an answer");
        assert_eq!(answer.status().as_u16(), status, "{path}");
        answer.into_body().collect().await.expect("a body");
        assert_eq!(asked.load(Ordering::SeqCst), 8, "{path}: all was taken");
    }
    // Of a large one the rest is refused, and the connection goes on.
    let large = Full::new(Bytes::from(vec![b' '; 2 << 20])).boxed();
    let answer = sender.send_request(request(Method::POST, "/apis/nosuch/v1/things", "admintoken", large)).await;
    assert_eq!(answer.expect("an answer").status(), StatusCode::NOT_FOUND);
    let after = sender.send_request(request(Method::GET, "/version", "admintoken", nothing())).await;
    assert_eq!(after.expect("an answer").status(), StatusCode::OK);
}

#[tokio::test]
async fn head_is_answered_over_http2_where_upstream_answers_it() {
    let server = Server::start();
    let (mut sender, connection) = http2(&server).await;
    tokio::spawn(connection);
    for (path, status) in [
        ("/healthz", 200),
        ("/apis", 200),
        ("/openapi/v3", 200),
        ("/openapi/v2", 200),
        ("/version", 405),
        ("/api/v1/namespaces", 405),
        ("/apis/apps/v1", 405),
        ("/nosuch", 404),
    ] {
        let head = request(Method::HEAD, path, "admintoken", nothing());
        let answer = sender.send_request(head).await.expect("an answer");
        let length = answer.headers().get("content-length").and_then(|l| l.to_str().ok()?.parse::<u64>().ok());
        assert_eq!((answer.status().as_u16(), length.is_some_and(|l| l > 0)), (status, true), "{path}");
        assert!(answer.into_body().collect().await.expect("no error").to_bytes().is_empty(), "{path}");
    }
}

/// A body of so many pieces of 16 KiB, and how many of them were asked for.
fn counted(pieces: usize) -> (Arc<AtomicUsize>, Body) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = asked.clone();
    let frames = futures_util::stream::iter(0..pieces).map(move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
        Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[b' '; 16 << 10])))
    });
    (asked, BodyExt::boxed(StreamBody::new(frames)))
}

#[test]
fn a_websocket_may_bring_its_token_as_a_subprotocol() {
    let server = Server::start();
    let ask = |protocols: &str, upgrade: &str| {
        let head = format!(
            "GET /api/v1/namespaces/default HTTP/1.1\r\nHost: localhost\r\n{upgrade}Sec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: {protocols}\r\n\r\n"
        );
        raw(server.port(), head.as_bytes()).expect("an answer").status
    };
    let websocket = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    let token = |token: &str| format!("base64url.bearer.authorization.k8s.io.{}", URL_SAFE_NO_PAD.encode(token));
    assert_eq!(ask(&format!("{}, v4.channel.k8s.io", token("admintoken")), websocket), 200);
    assert_eq!(ask(&format!("{}, v4.channel.k8s.io", token("nobody")), websocket), 401);
    assert_eq!(ask(&token("admintoken"), websocket), 401, "nothing would be left to agree on");
    assert_eq!(ask("v4.channel.k8s.io", websocket), 403);
    assert_eq!(ask(&format!("{}, a", token("admintoken")), "Connection: close\r\n"), 403, "no WebSocket");
}

#[test]
fn headers_that_are_no_ascii_are_read() {
    let server = Server::start();
    let ask = |headers: &[u8]| {
        let head = b"POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\nHost: localhost\r\n\
                     Authorization: Bearer admintoken\r\nContent-Type: application/json\r\nContent-Length: 2\r\n";
        raw(server.port(), &[head, headers, b"\r\n{}"].concat()).expect("an answer").json()
    };
    let seen = ask("Impersonate-User: j\u{fc}rgen\r\nImpersonate-Group: gr\u{fc}n\r\n".as_bytes());
    assert_eq!(seen["status"]["userInfo"]["username"], "j\u{fc}rgen", "{seen}");
    assert_eq!(seen["status"]["userInfo"]["groups"][0], "gr\u{fc}n");
    let seen = ask(b"Impersonate-User: j\xfcrgen\r\nImpersonate-Group: gr\xfcn\r\n");
    assert_eq!(seen["status"]["userInfo"]["groups"][0], "gr\u{fffd}n", "never left out: {seen}");
}
