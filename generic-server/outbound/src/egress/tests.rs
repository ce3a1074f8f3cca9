//! Connections through proxies that run in this process: what is dialed echoes what it is sent.

use std::{collections::HashMap, convert::Infallible, path::Path, sync::Arc};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional, split},
    net::{TcpListener, TcpStream, UnixListener},
    sync::mpsc,
};

use super::{
    packet::{CloseResponse, Data, DialResponse, Packet, Payload},
    *,
};

/// A server that sends back what it gets; its address.
async fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = split(stream);
                tokio::io::copy(&mut read, &mut write).await
            });
        }
    });
    address
}

fn egress(proxy: Proxy) -> (Egress, EgressMetrics) {
    let metrics = EgressMetrics::default();
    let selections = [(Network::Cluster, Some(proxy)), (Network::Etcd, None)];
    (Egress::new(&selections, &metrics).expect("it can be used"), metrics)
}

/// Has more sent back than any buffer on the way holds, while it is being sent.
async fn exchange(stream: Box<dyn Stream>) {
    let (mut read, mut write) = split(stream);
    let sent: Vec<u8> = (0..1_000_000u32).map(|i| (i % 251) as u8).collect();
    let mut got = vec![0; sent.len()];
    let (wrote, read) = tokio::join!(write.write_all(&sent), read.read_exact(&mut got));
    wrote.expect("it is taken");
    read.expect("it comes back");
    assert!(sent == got);
}

/// A proxy that answers `CONNECT` at a socket: with this head, and then the connection if there is one.
fn connect_proxy(socket: &Path, head: &'static str) {
    let listener = UnixListener::bind(socket).expect("a socket");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer_connect(stream, head));
        }
    });
}

async fn answer_connect(mut stream: impl Stream, head: &'static str) -> io::Result<()> {
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        asked.push(stream.read_u8().await?);
    }
    let asked = String::from_utf8_lossy(&asked).into_owned();
    let address = asked.split(' ').nth(1).unwrap_or_default().to_owned();
    assert_eq!(asked, format!("CONNECT {address} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
    stream.write_all(head.as_bytes()).await?;
    stream.flush().await?;
    if head == OK {
        let mut to = TcpStream::connect(address).await?;
        copy_bidirectional(&mut stream, &mut to).await?;
    }
    Ok(())
}

const OK: &str = "HTTP/1.1 200 Connection established\r\nVia: proxy\r\n\r\n";

fn count(metrics: &EgressMetrics, protocol: &str, stage: Option<&str>) -> u64 {
    let starts = &metrics.starts_for_tests();
    match stage {
        None => starts.0.with_label_values(&[protocol, "uds"]).get(),
        Some(stage) => starts.1.with_label_values(&[protocol, "uds", stage]).get(),
    }
}

#[tokio::test]
async fn a_connection_is_asked_for_by_connect() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("proxy");
    connect_proxy(&socket, OK);
    let (egress, metrics) = egress(Proxy::ConnectSocket(socket));
    assert!(egress.to(Network::Etcd).is_none() && egress.to(Network::ControlPlane).is_none());
    let dial = egress.to(Network::Cluster).expect("a proxy");
    exchange(dial(echo().await).await.expect("a connection")).await;
    assert_eq!((count(&metrics, "http_connect", None), count(&metrics, "http_connect", Some("proxy"))), (1, 0));
}

#[tokio::test]
async fn what_a_proxy_refuses_is_told_in_upstreams_words() {
    let folder = tempfile::tempdir().expect("a folder");
    for (place, (head, expect)) in [
        (
            "HTTP/1.1 503 Service Unavailable\r\n\r\n",
            "proxy error from SOCKET while dialing a:1, code 503: 503 Service Unavailable",
        ),
        ("HTTP/1.1 200 OK\r\n\r\nmore", "unexpected 4 bytes of buffered data from CONNECT proxy \"SOCKET\""),
        (
            "SSH-2.0\r\n\r\n",
            "reading HTTP response from CONNECT to a:1 via proxy SOCKET failed: malformed HTTP response \"SSH-2.0\"",
        ),
        ("HTTP/1.1 200", "reading HTTP response from CONNECT to a:1 via proxy SOCKET failed: unexpected EOF"),
    ]
    .into_iter()
    .enumerate()
    {
        let socket = folder.path().join(place.to_string());
        connect_proxy(&socket, head);
        let (egress, metrics) = egress(Proxy::ConnectSocket(socket.clone()));
        let dial = egress.to(Network::Cluster).expect("a proxy");
        let Err(error) = dial("a:1".to_owned()).await else { panic!("{head:?} is no success") };
        assert_eq!(error.to_string(), expect.replace("SOCKET", &socket.display().to_string()));
        assert_eq!(count(&metrics, "http_connect", Some("proxy")), 1);
    }
    let nowhere = folder.path().join("nowhere");
    for (proxy, protocol) in
        [(Proxy::ConnectSocket(nowhere.clone()), "http_connect"), (Proxy::Konnectivity(nowhere.clone()), "grpc")]
    {
        let (egress, metrics) = egress(proxy);
        let dial = egress.to(Network::Cluster).expect("a proxy");
        let Err(error) = dial("a:1".to_owned()).await else { panic!("there is no proxy") };
        assert_eq!(error.to_string(), format!("dial unix {}: connect: no such file or directory", nowhere.display()));
        assert_eq!((count(&metrics, protocol, Some("connect")), count(&metrics, protocol, Some("proxy"))), (1, 0));
    }
}

/// A proxy at a port that speaks TLS with a certificate of this name; its address, and the certificate with its key.
async fn tls_proxy(name: &str) -> (String, Identity) {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("a certificate");
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has suites")
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        )
        .expect("certificate and key fit");
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move { answer_connect(acceptor.accept(stream).await?, OK).await });
        }
    });
    let identity = Identity { certificate: certificate.pem().into_bytes(), key: key.serialize_pem().into_bytes() };
    (address, identity)
}

#[tokio::test]
async fn a_proxy_may_speak_tls_and_must_be_who_it_says() {
    let (address, identity) = tls_proxy("proxy.example").await;
    let proxy = |server_name: Option<&str>| Proxy::ConnectTcp {
        address: address.clone(),
        tls: Some(ProxyTls {
            bundle: identity.certificate.clone(),
            identity: identity.clone(),
            server_name: server_name.map(str::to_owned),
        }),
    };
    let (known, _) = egress(proxy(Some("proxy.example")));
    let dial = known.to(Network::Cluster).expect("a proxy");
    exchange(dial(echo().await).await.expect("a connection")).await;
    let (strange, _) = egress(proxy(None));
    let dial = strange.to(Network::Cluster).expect("a proxy");
    let Err(error) = dial("a:1".to_owned()).await else { panic!("it has another name") };
    assert!(error.to_string().starts_with("tls: failed to verify certificate: x509: "), "{error}");
}

#[test]
fn who_may_only_be_reached_through_a_proxy_needs_one() {
    let none = Egress::default();
    let why = none.required(Network::Cluster).err().map(|why| why.to_string());
    assert_eq!(why.as_deref(), Some("egress lookup required with egress selector type \"cluster\""));
    let (some, _) = egress(Proxy::ConnectSocket("/proxy".into()));
    assert!(some.required(Network::Cluster).is_ok_and(|dial| dial.is_some()));
    assert!(some.required(Network::Etcd).is_ok_and(|dial| dial.is_none()), "it is to be reached without one");
    let why = some.required(Network::ControlPlane).err().map(|why| why.to_string());
    assert_eq!(why.as_deref(), Some("egress lookup for \"controlplane\" is not configured"));
}

/// A konnectivity server at a socket that connects itself, as an agent of it would.
fn konnectivity(socket: &Path) -> Arc<std::sync::atomic::AtomicU64> {
    let listener = UnixListener::bind(socket).expect("a socket");
    let closed = Arc::<std::sync::atomic::AtomicU64>::default();
    let count = closed.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let count = count.clone();
            let service = service_fn(move |request| proxied(request, count.clone()));
            let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
        }
    });
    closed
}

type Frames = Result<Frame<Bytes>, Infallible>;

/// One stream of packets.
async fn proxied(
    request: Request<Incoming>,
    closed: Arc<std::sync::atomic::AtomicU64>,
) -> Result<Response<StreamBody<impl futures_util::Stream<Item = Frames>>>, Infallible> {
    assert_eq!(request.uri().path(), "/ProxyService/Proxy");
    let (answers, waiting) = mpsc::channel::<Frame<Bytes>>(16);
    tokio::spawn(async move {
        let mut body = request.into_body();
        let mut buffer = BytesMut::new();
        let mut open = HashMap::new();
        while let Some(Ok(frame)) = body.frame().await {
            buffer.extend_from_slice(&frame.into_data().unwrap_or_default());
            while let Some(packet) = next(&mut buffer) {
                answer(packet, &mut open, &answers, &closed).await;
            }
        }
    });
    let frames = stream::unfold(waiting, |mut waiting| async move { Some((Ok(waiting.recv().await?), waiting)) });
    let mut response = Response::new(StreamBody::new(frames));
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    Ok(response)
}

fn next(buffer: &mut BytesMut) -> Option<Packet> {
    let length = u32::from_be_bytes(buffer.get(1..5)?.try_into().ok()?) as usize;
    if buffer.len() < 5 + length {
        return None;
    }
    buffer.advance(5);
    Some(Packet::decode(buffer.split_to(length)).expect("a packet"))
}

fn frame(payload: Payload) -> Frame<Bytes> {
    let packet = Packet::new(payload).encode_to_vec();
    let mut message = BytesMut::with_capacity(5 + packet.len());
    message.put_u8(0);
    message.put_u32(packet.len() as u32);
    message.extend_from_slice(&packet);
    Frame::data(message.freeze())
}

type Writers = HashMap<i64, tokio::io::WriteHalf<TcpStream>>;

async fn answer(
    packet: Packet,
    open: &mut Writers,
    answers: &mpsc::Sender<Frame<Bytes>>,
    closed: &std::sync::atomic::AtomicU64,
) {
    const ID: i64 = 7;
    match packet.payload.expect("a payload") {
        Payload::DialRequest(asked) => {
            assert_eq!(asked.protocol, "tcp");
            let mut told = DialResponse { error: String::new(), connect_id: ID, random: asked.random };
            match TcpStream::connect(&asked.address).await {
                Ok(stream) => {
                    let (mut read, write) = split(stream);
                    open.insert(ID, write);
                    let answers = answers.clone();
                    answers.send(frame(Payload::DialResponse(told))).await.expect("the client is there");
                    tokio::spawn(async move {
                        let mut data = BytesMut::with_capacity(8192);
                        while matches!(read.read_buf(&mut data).await, Ok(1..)) {
                            let data = data.split().freeze();
                            let data = Data { connect_id: ID, error: String::new(), data };
                            if answers.send(frame(Payload::Data(data))).await.is_err() {
                                return;
                            }
                        }
                    });
                }
                Err(_) => {
                    told.error = "dial tcp: connection refused".to_owned();
                    told.connect_id = 0;
                    answers.send(frame(Payload::DialResponse(told))).await.expect("the client is there");
                }
            }
        }
        Payload::Data(data) => {
            let to = open.get_mut(&data.connect_id).expect("a connection");
            to.write_all(&data.data).await.expect("it is taken");
        }
        Payload::CloseRequest(close) => {
            open.remove(&close.connect_id).expect("a connection");
            let told = CloseResponse { error: String::new(), connect_id: close.connect_id };
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
            let _ = answers.send(frame(Payload::CloseResponse(told))).await;
            let _ = answers.send(Frame::trailers(trailers)).await;
            closed.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
        other => panic!("{other:?} is nothing for a server"),
    }
}

#[tokio::test]
async fn a_konnectivity_server_carries_a_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("server");
    let closed = konnectivity(&socket);
    let (egress, metrics) = egress(Proxy::Konnectivity(socket));
    let dial = egress.to(Network::Cluster).expect("a proxy");
    exchange(dial(echo().await).await.expect("a connection")).await;
    while closed.load(std::sync::atomic::Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!((count(&metrics, "grpc", None), count(&metrics, "grpc", Some("proxy"))), (1, 0));
}

#[tokio::test]
async fn what_an_agent_cannot_reach_is_told_in_its_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("server");
    konnectivity(&socket);
    let (egress, metrics) = egress(Proxy::Konnectivity(socket));
    let dial = egress.to(Network::Cluster).expect("a proxy");
    // Nobody listens at a port that was free a moment ago and is held by nobody.
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
    let Err(error) = dial(free.to_string()).await else { panic!("nobody is there") };
    assert_eq!(error.to_string(), "dial tcp: connection refused");
    assert_eq!(count(&metrics, "grpc", Some("proxy")), 1);
}
