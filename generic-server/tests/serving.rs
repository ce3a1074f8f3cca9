//! A real listener with real TLS, and clients of both HTTP versions.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use generic_server::{
    Body,
    serve::{
        BindOptions, CertificateFiles, ConnectionOptions, Lifecycle, Listener, Peer, ShutdownOptions, SniCertificate,
        Tls, TlsOptions, serve,
    },
};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertificateParams, DnType, Issuer, KeyPair};
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

static ONLY_TLS12: [&rustls::SupportedProtocolVersion; 1] = [&rustls::version::TLS12];
static ONLY_TLS13: [&rustls::SupportedProtocolVersion; 1] = [&rustls::version::TLS13];

type Issued = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// A certificate authority and the server's files in a folder of their own.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    folder: tempfile::TempDir,
}

impl Authority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate");
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("ca.crt"), certificate.pem()).expect("a file");
        let certificate = certificate.der().clone();
        Self { issuer: Issuer::new(params, key), certificate, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn issue(&self, common_name: &str, names: &[&str]) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name.push(DnType::CommonName, common_name);
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate, key)
    }

    fn files(&self, file: &str, names: &[&str]) -> CertificateFiles {
        let (certificate, key) = self.issue(file, names);
        let files =
            CertificateFiles { certificate: self.path(&format!("{file}.crt")), key: self.path(&format!("{file}.key")) };
        std::fs::write(&files.certificate, certificate.pem()).expect("a file");
        std::fs::write(&files.key, key.serialize_pem()).expect("a file");
        files
    }

    fn client(&self, common_name: &str) -> Issued {
        let (certificate, key) = self.issue(common_name, &[]);
        (vec![certificate.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
    }

    fn options(&self) -> TlsOptions {
        TlsOptions {
            default: self.files("server", &["localhost"]),
            sni: Vec::new(),
            client_ca_files: vec![self.path("ca.crt")],
            only_tls13: false,
            cipher_suites: Vec::new(),
            curves: Vec::new(),
            http2: true,
        }
    }
}

struct Server {
    address: SocketAddr,
    lifecycle: Lifecycle,
    tls: Arc<Tls>,
}

fn start<S, F>(tls: TlsOptions, options: ConnectionOptions, shutdown: ShutdownOptions, service: S) -> Server
where
    S: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let bind = BindOptions { address: Ipv4Addr::LOCALHOST.into(), port: 0, share_port: false };
    let listener = Listener::bind(&bind).expect("binds");
    let address = listener.local_addr();
    let lifecycle = Lifecycle::new(shutdown);
    let tls = Tls::load(tls).expect("loads");
    tokio::spawn(serve(listener, Arc::clone(&tls), options, service, lifecycle.clone()));
    Server { address, lifecycle, tls }
}

/// Answers with what it knows of the client.
async fn describe(request: Request<Incoming>) -> Response<Body> {
    let peer = request.extensions().get::<Peer>().expect("the peer of the connection");
    let protocol = if peer.http2 { "h2" } else { "http/1.1" };
    let text = format!("{protocol} {} {} {}", peer.remote.ip(), peer.certificates.len(), request.uri().path());
    Response::new(Body::full(text))
}

struct Client {
    alpn: &'static [u8],
    name: &'static str,
    identity: Option<Issued>,
    versions: &'static [&'static rustls::SupportedProtocolVersion],
}

impl Default for Client {
    fn default() -> Self {
        Self { alpn: b"h2", name: "localhost", identity: None, versions: rustls::ALL_VERSIONS }
    }
}

impl Client {
    async fn connect(
        self,
        server: &Server,
        trusted: &CertificateDer<'static>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(self.versions)
            .expect("versions")
            .with_root_certificates(roots);
        let mut config = match self.identity {
            Some((chain, key)) => {
                // Not checked, so that a certificate of any version can be shown.
                let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).expect("a key");
                let key = rustls::sign::CertifiedKey::new(chain, key);
                builder.with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(key)))
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![self.alpn.to_vec()];
        let stream = TcpStream::connect(server.address).await?;
        TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(self.name).expect("a name"), stream).await
    }
}

fn get(path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("https://localhost{path}")).body(Empty::new()).expect("a request")
}

async fn http2(stream: TlsStream<TcpStream>) -> hyper::client::conn::http2::SendRequest<Empty<Bytes>> {
    let connected = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (sender, connection) = connected.expect("HTTP/2");
    tokio::spawn(connection);
    sender
}

async fn text(response: Response<Incoming>) -> String {
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[tokio::test]
async fn http2_and_http1_are_both_spoken_and_the_peer_is_known() {
    let authority = Authority::new("ca");
    let server = start(authority.options(), ConnectionOptions::default(), ShutdownOptions::default(), describe);

    let stream = Client::default().connect(&server, &authority.certificate).await.expect("connects");
    let mut sender = http2(stream).await;
    let response = sender.send_request(get("/one")).await.expect("a response");
    assert_eq!(text(response).await, "h2 127.0.0.1 0 /one");

    let client = Client { alpn: b"http/1.1", identity: Some(authority.client("jane")), ..Client::default() };
    let stream = client.connect(&server, &authority.certificate).await.expect("connects");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
    tokio::spawn(connection);
    for _ in 0..2 {
        let mut request = get("/two");
        request.headers_mut().insert("host", "localhost".parse().expect("a value"));
        let response = sender.send_request(request).await.expect("a response");
        assert!(text(response).await.starts_with("http/1.1 127.0.0.1 1 "));
    }
}

#[tokio::test]
async fn a_client_certificate_of_a_stranger_reaches_authentication() {
    let (authority, stranger) = (Authority::new("ca"), Authority::new("stranger"));
    let server = start(authority.options(), ConnectionOptions::default(), ShutdownOptions::default(), describe);
    for versions in [&ONLY_TLS12, &ONLY_TLS13] {
        let client = Client { identity: Some(stranger.client("mallory")), versions, ..Client::default() };
        let stream = client.connect(&server, &authority.certificate).await.expect("connects");
        let response = http2(stream).await.send_request(get("/")).await.expect("a response");
        assert_eq!(text(response).await, "h2 127.0.0.1 1 /");
    }
}

#[tokio::test]
async fn certificates_of_version_1_are_shown_by_both_sides() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("x509/src/testdata");
    let authority = Authority::new("ca");
    let read = |name: &str| std::fs::read(data.join(name)).expect("a file");
    let server = start(authority.options(), ConnectionOptions::default(), ShutdownOptions::default(), describe);
    for versions in [&ONLY_TLS12, &ONLY_TLS13] {
        let chain = vec![CertificateDer::from_pem_slice(&read("v1.crt")).expect("PEM")];
        let key = PrivateKeyDer::from_pem_slice(&read("v1.key")).expect("PEM");
        let client = Client { identity: Some((chain, key)), versions, ..Client::default() };
        let stream = client.connect(&server, &authority.certificate).await.expect("connects");
        let response = http2(stream).await.send_request(get("/")).await.expect("a response");
        assert_eq!(text(response).await, "h2 127.0.0.1 1 /");
    }
    let files = CertificateFiles { certificate: data.join("v1-server.crt"), key: data.join("v1-server.key") };
    let options = TlsOptions { default: files, ..authority.options() };
    let server = start(options.clone(), ConnectionOptions::default(), ShutdownOptions::default(), describe);
    let client = outbound::plain_client(None).expect("a client");
    let request = Request::get(format!("https://{}/", server.address)).body(outbound::full("")).expect("a request");
    assert_eq!(client.request(request).await.expect("a response").status(), StatusCode::OK);
    let other = CertificateFiles { key: data.join("v1.key"), ..options.default.clone() };
    let why = Tls::load(TlsOptions { default: other, ..options }).expect_err("the key is another one's").to_string();
    assert!(why.ends_with("v1.key: private key does not match public key"), "{why}");
}

#[tokio::test]
async fn a_self_signed_authority_that_shows_itself_is_its_own_bundle() {
    let mut params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).expect("names");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    let authority = Authority::new("ca");
    let files = CertificateFiles { certificate: authority.path("own.crt"), key: authority.path("own.key") };
    std::fs::write(&files.certificate, certificate.pem()).expect("written");
    std::fs::write(&files.key, key.serialize_pem()).expect("written");
    let options = TlsOptions { default: files, ..authority.options() };
    let server = start(options, ConnectionOptions::default(), ShutdownOptions::default(), describe);
    let get = async |bundle: &str, name: &str| {
        let trust = outbound::Trust::Bundle(bundle.as_bytes());
        let client = outbound::client(trust, Some(name.to_owned()), None).expect("a client");
        let request = Request::get(format!("https://{}/", server.address)).body(outbound::full("")).expect("a request");
        client.request(request).await.map(|response| response.status().as_u16()).map_err(|e| outbound::root_cause(&e))
    };
    assert_eq!(get(&certificate.pem(), "localhost").await, Ok(200));
    assert_eq!(get(&certificate.pem(), "127.0.0.1").await, Ok(200));
    assert!(get(&certificate.pem(), "elsewhere").await.is_err());
    let other = std::fs::read_to_string(authority.path("ca.crt")).expect("a file");
    assert!(get(&other, "localhost").await.is_err());
}

#[tokio::test]
async fn plain_http_is_told_that_this_is_https_and_garbage_is_dropped() {
    let authority = Authority::new("ca");
    let server = start(authority.options(), ConnectionOptions::default(), ShutdownOptions::default(), describe);
    let mut stream = TcpStream::connect(server.address).await.expect("connects");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("writes");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("reads");
    assert_eq!(answer, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n");

    for garbage in [&b"\x00\x01\x02\x03\x04\x05"[..], b"\x16\x03\x01\xff\xff\xff\xff\xff\xff\xff", b"G"] {
        let mut stream = TcpStream::connect(server.address).await.expect("connects");
        stream.write_all(garbage).await.expect("writes");
        stream.shutdown().await.expect("closes its side");
        let mut answer = Vec::new();
        // A reset is as good an end as a close.
        let _ = stream.read_to_end(&mut answer).await;
    }
    // A client that says nothing holds up nobody else.
    let _silent = TcpStream::connect(server.address).await.expect("connects");
    let stream = Client::default().connect(&server, &authority.certificate).await.expect("still serves");
    assert_eq!(http2(stream).await.send_request(get("/")).await.expect("a response").status(), StatusCode::OK);
}

#[tokio::test]
async fn the_certificate_follows_the_name_and_the_files() {
    let (authority, other) = (Authority::new("ca"), Authority::new("other"));
    let mut options = authority.options();
    let named = other.files("named", &["api.example.com"]);
    let wild = other.files("wild", &["ignored.example.org"]);
    options.sni = vec![
        SniCertificate { files: named, names: Vec::new() },
        SniCertificate { files: wild, names: vec!["*.example.org".to_owned()] },
    ];
    let server = start(options, ConnectionOptions::default(), ShutdownOptions::default(), describe);
    let connects = async |name: &'static str, trusted: &CertificateDer<'static>| {
        Client { name, ..Client::default() }.connect(&server, trusted).await.is_ok()
    };
    assert!(connects("localhost", &authority.certificate).await);
    assert!(connects("api.example.com", &other.certificate).await);
    assert!(connects("ignored.example.org", &other.certificate).await, "the wildcard covers one label");
    assert!(!connects("a.b.example.org", &other.certificate).await, "and not two");

    assert!(!server.tls.reload().expect("reads"), "nothing changed");
    let (certificate, key) = other.issue("server", &["localhost"]);
    std::fs::write(authority.path("server.crt"), certificate.pem()).expect("writes");
    server.tls.reload().expect_err("a key that is not the certificate's is refused");
    assert!(connects("localhost", &authority.certificate).await, "and the old pair stays in use");
    std::fs::write(authority.path("server.key"), key.serialize_pem()).expect("writes");
    assert!(server.tls.reload().expect("loads"));
    assert!(connects("localhost", &other.certificate).await);
}

#[tokio::test]
async fn tls_options_limit_what_clients_may_use() {
    let authority = Authority::new("ca");
    let check = async |change: &dyn Fn(&mut TlsOptions), tls12: bool| {
        let mut options = authority.options();
        change(&mut options);
        let server = start(options, ConnectionOptions::default(), ShutdownOptions::default(), describe);
        let client = Client { versions: &ONLY_TLS12, ..Client::default() };
        assert_eq!(client.connect(&server, &authority.certificate).await.is_ok(), tls12);
        Client::default().connect(&server, &authority.certificate).await.expect("TLS 1.3 always works");
    };
    check(&|_| {}, true).await;
    check(&|options| options.only_tls13 = true, false).await;
    let suite = |name: &str| vec![name.to_owned()];
    check(&|options| options.cipher_suites = suite("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"), true).await;
    check(&|options| options.cipher_suites = suite("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"), false).await;
    check(&|options| options.curves = vec![23], true).await;
    let mut none = authority.options();
    none.curves = vec![999];
    Tls::load(none).expect_err("a curve that does not exist");
}

#[test]
fn files_that_are_missing_or_wrong_are_named() {
    let authority = Authority::new("ca");
    let check = |change: &dyn Fn(&mut TlsOptions), expect: &Path| {
        let mut options = authority.options();
        change(&mut options);
        let message = Tls::load(options).expect_err("is refused").to_string();
        assert!(message.starts_with(&format!("{}: ", expect.display())), "{message}");
    };
    let missing = authority.path("missing");
    check(&|options| options.default.certificate = missing.clone(), &missing);
    let empty = authority.path("empty");
    std::fs::write(&empty, "").expect("writes");
    check(&|options| options.default.certificate = empty.clone(), &empty);
    check(&|options| options.default.key = empty.clone(), &empty);
    check(&|options| options.client_ca_files = vec![empty.clone()], &empty);
}

#[tokio::test]
async fn headers_beyond_the_limit_are_a_431() {
    let authority = Authority::new("ca");
    let server = start(authority.options(), ConnectionOptions::default(), ShutdownOptions::default(), describe);
    let client = Client { alpn: b"http/1.1", ..Client::default() };
    let mut stream = client.connect(&server, &authority.certificate).await.expect("connects");
    let head = format!("GET / HTTP/1.1\r\nHost: x\r\nX-Long: {}\r\n\r\n", "x".repeat(1200 * 1024));
    let _ = stream.write_all(head.as_bytes()).await;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 431");

    let stream = Client::default().connect(&server, &authority.certificate).await.expect("connects");
    let mut sender = http2(stream).await;
    let mut request = get("/");
    request.headers_mut().insert("x-long", "x".repeat(30 * 1024).parse().expect("a value"));
    assert_eq!(sender.send_request(request).await.expect("a response").status(), StatusCode::OK);
}

#[tokio::test]
async fn a_go_away_lets_the_request_finish_and_ends_the_connection() {
    let authority = Authority::new("ca");
    let options = ConnectionOptions { goaway_chance: 1.0, ..ConnectionOptions::default() };
    let server = start(authority.options(), options, ShutdownOptions::default(), describe);
    let stream = Client::default().connect(&server, &authority.certificate).await.expect("connects");
    let mut sender = http2(stream).await;
    let response = sender.send_request(get("/")).await.expect("a response");
    assert_eq!(response.status(), StatusCode::OK);
    tokio::time::timeout(Duration::from_secs(60), async {
        while server.lifecycle.open_connections() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the connection ends");
}

/// What a test and its service tell each other.
#[derive(Default)]
struct Told {
    lifecycle: std::sync::OnceLock<Lifecycle>,
    /// A slow request is being served.
    begun: tokio::sync::Notify,
    /// It may end.
    end: tokio::sync::Notify,
}

/// `/slow` waits until it may end, `/watch` streams until it is told to end.
fn slow_or_watch(
    told: Arc<Told>,
) -> impl Fn(Request<Incoming>) -> futures_util::future::BoxFuture<'static, Response<Body>> + Send + Sync {
    move |request| {
        let told = Arc::clone(&told);
        Box::pin(async move {
            if request.uri().path() == "/slow" {
                told.begun.notify_one();
                told.end.notified().await;
                return Response::new(Body::full("done"));
            }
            let end = told.lifecycle.get().expect("set before the first request").stream_end();
            let events = futures_util::stream::once(async { Ok::<_, std::io::Error>(Bytes::from_static(b"event")) });
            let last = futures_util::stream::once(async move {
                end.await;
                Ok(Bytes::from_static(b"end"))
            });
            Response::new(Body::stream(futures_util::StreamExt::chain(events, last)))
        })
    }
}

#[tokio::test]
async fn the_shutdown_finishes_requests_then_ends_watches_then_closes_connections() {
    let authority = Authority::new("ca");
    let told = Arc::<Told>::default();
    let shutdown = ShutdownOptions::default();
    let server = start(authority.options(), ConnectionOptions::default(), shutdown, slow_or_watch(Arc::clone(&told)));
    told.lifecycle.set(server.lifecycle.clone()).expect("once");
    let stream = Client::default().connect(&server, &authority.certificate).await.expect("connects");
    let mut sender = http2(stream).await;
    let mut watch = sender.send_request(get("/watch")).await.expect("a response").into_body();
    let first = watch.frame().await.expect("a frame").expect("no error");
    assert_eq!(first.into_data().expect("data"), "event");
    let slow = tokio::spawn(sender.send_request(get("/slow")));
    told.begun.notified().await;

    let ending = tokio::spawn({
        let lifecycle = server.lifecycle.clone();
        async move { lifecycle.shutdown().await }
    });
    server.lifecycle.stopped_listening().cancelled().await;
    told.end.notify_one();
    let slow = slow.await.expect("the task").expect("the request in flight is answered");
    assert_eq!(text(slow).await, "done");
    let last = watch.frame().await.expect("a frame").expect("no error");
    assert_eq!(last.into_data().expect("data"), "end");
    assert!(watch.frame().await.is_none(), "the watch ends cleanly");
    ending.await.expect("the shutdown ends");
    assert_eq!(server.lifecycle.open_connections(), 0);
    TcpStream::connect(server.address).await.expect_err("nobody listens");
}

#[tokio::test]
async fn with_retry_after_new_requests_are_answered_429_while_old_ones_drain() {
    let authority = Authority::new("ca");
    let told = Arc::<Told>::default();
    let shutdown = ShutdownOptions { retry_after: true, ..ShutdownOptions::default() };
    let server = start(authority.options(), ConnectionOptions::default(), shutdown, slow_or_watch(Arc::clone(&told)));
    told.lifecycle.set(server.lifecycle.clone()).expect("once");
    let stream = Client::default().connect(&server, &authority.certificate).await.expect("connects");
    let mut sender = http2(stream).await;
    let slow = tokio::spawn(sender.send_request(get("/slow")));
    told.begun.notified().await;
    let ending = tokio::spawn({
        let lifecycle = server.lifecycle.clone();
        async move { lifecycle.shutdown().await }
    });
    server.lifecycle.not_ready().cancelled().await;
    // Refusals begin right after that, and last as long as the slow request does.
    let refused = loop {
        let response = sender.send_request(get("/watch")).await.expect("a response");
        if response.status() != StatusCode::OK {
            break response;
        }
    };
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["retry-after"], "5");
    told.end.notify_one();
    assert_eq!(slow.await.expect("the task").expect("a response").status(), StatusCode::OK);
    ending.await.expect("the shutdown ends");
}

/// Sends bytes on a fresh connection and returns what comes back until the server closes it.
async fn exchange(server: &Server, authority: &Authority, alpn: &'static [u8], bytes: &[u8]) -> Vec<u8> {
    let client = Client { alpn, ..Client::default() };
    let mut stream = client.connect(server, &authority.certificate).await.expect("connects");
    // The server may close while we write: what it answered still counts.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut answer)).await.expect("is closed");
    answer
}

#[tokio::test]
async fn malformed_http_closes_its_own_connection_and_no_other() {
    let authority = Authority::new("ca");
    let server = start(authority.options(), ConnectionOptions::default(), ShutdownOptions::default(), describe);
    let stream = Client::default().connect(&server, &authority.certificate).await.expect("connects");
    let mut neighbour = http2(stream).await;
    for garbage in [
        &b"\x00\x01\x02\x03 garbage\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nBad Header\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let answer = exchange(&server, &authority, b"http/1.1", garbage).await;
        let is_refused =
            answer.is_empty() || [&b"HTTP/1.1 400"[..], b"HTTP/1.1 505"].iter().any(|s| answer.starts_with(s));
        assert!(is_refused, "{garbage:?}: {}", String::from_utf8_lossy(&answer));
    }
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for frames in [
        // No preface; a frame larger than allowed; data on a stream that was never opened; headers that do not decode.
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",
        b"\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x01x",
        b"\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x04\x01\x05\x00\x00\x00\x01\xff\xff\xff\xff",
    ] {
        let bytes = if frames.starts_with(b"GET") { frames.to_vec() } else { [PREFACE, frames].concat() };
        exchange(&server, &authority, b"h2", &bytes).await;
        let response = neighbour.send_request(get("/")).await.expect("the neighbour is served");
        assert_eq!(response.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn heads_that_are_none_are_refused_in_the_words_of_gos_server() {
    let authority = Authority::new("ca");
    let server = start(authority.options(), ConnectionOptions::default(), ShutdownOptions::default(), describe);
    let unsupported = ("501 Not Implemented", "Unsupported transfer encoding");
    let bad = ("400 Bad Request", "400 Bad Request");
    for (head, (first, body)) in [
        (
            "GET / HTTP/1.1",
            ("400 Bad Request: missing required Host header", "400 Bad Request: missing required Host header"),
        ),
        (
            "GET / HTTP/1.1\r\nHost: a/b",
            ("400 Bad Request: malformed Host header", "400 Bad Request: malformed Host header"),
        ),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b", bad),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip", unsupported),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked", unsupported),
        ("GET / HTTP/1.1\r\nHost: a\r\nBad Header: b", bad),
        ("GET / HTTP/1.1\r\nHost: a\r\nExpect: tea", ("417 Expectation Failed", "")),
    ] {
        let answer = exchange(&server, &authority, b"http/1.1", format!("{head}\r\n\r\n").as_bytes()).await;
        let answer = String::from_utf8(answer).expect("text");
        let (said, found) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{head}: {answer}"));
        assert_eq!(said.lines().next(), Some(format!("HTTP/1.1 {first}").as_str()), "{head}");
        assert!(said.to_ascii_lowercase().contains("connection: close"), "{head}: {said}");
        assert_eq!(found, body, "{head}");
    }
    // Go's server takes what is no ASCII in values, and 1.0 without a Host.
    for head in ["GET /a HTTP/1.1\r\nHost: a\r\nX-User: j\u{fc}rgen\r\nConnection: close", "GET /a HTTP/1.0"] {
        let answer = exchange(&server, &authority, b"http/1.1", format!("{head}\r\n\r\n").as_bytes()).await;
        assert!(
            answer.starts_with(b"HTTP/1.1 200") || answer.starts_with(b"HTTP/1.0 200"),
            "{}",
            answer.escape_ascii()
        );
    }
    let large = format!("GET /a HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(900 << 10));
    let answer =
        exchange(&server, &authority, b"http/1.1", format!("{large}\r\nConnection: close\r\n\r\n").as_bytes()).await;
    assert!(answer.starts_with(b"HTTP/1.1 200"), "upstream's limit is 1 MiB");
    let answer = exchange(&server, &authority, b"http/1.1", format!("{large}{large}\r\n\r\n").as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 431 Request Header Fields Too Large"));
}

#[tokio::test]
async fn answers_to_head_have_a_length_and_no_body() {
    let authority = Authority::new("ca");
    let server = start(authority.options(), ConnectionOptions::default(), ShutdownOptions::default(), describe);
    let stream = Client::default().connect(&server, &authority.certificate).await.expect("connects");
    let mut sender = http2(stream).await;
    for _ in 0..3 {
        let request = Request::head("https://localhost/one").body(Empty::new()).expect("a request");
        let response = sender.send_request(request).await.expect("a response");
        assert_eq!(response.headers()["content-length"], "19");
        assert_eq!(text(response).await, "");
    }
    assert_eq!(text(sender.send_request(get("/one")).await.expect("a response")).await, "h2 127.0.0.1 0 /one");
    let head = b"HEAD /one HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answer = String::from_utf8(exchange(&server, &authority, b"http/1.1", head).await).expect("text");
    // Names are written as Go writes them.
    assert!(answer.contains("\r\nContent-Length: 25\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn a_connection_can_be_upgraded_and_carries_bytes_both_ways() {
    let authority = Authority::new("ca");
    let echo = async |mut request: Request<Incoming>| {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut stream = TokioIo::new(upgrade.await.expect("is upgraded"));
            let (mut reader, mut writer) = tokio::io::split(&mut stream);
            tokio::io::copy(&mut reader, &mut writer).await.expect("echoes");
        });
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert("connection", "Upgrade".parse().expect("a value"));
        response.headers_mut().insert("upgrade", "echo".parse().expect("a value"));
        response
    };
    let server = start(authority.options(), ConnectionOptions::default(), ShutdownOptions::default(), echo);
    let client = Client { alpn: b"http/1.1", ..Client::default() };
    let mut stream = client.connect(&server, &authority.certificate).await.expect("connects");
    let head = b"GET /exec HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
    stream.write_all(head).await.expect("writes");
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.expect("a head"));
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&answer));
    stream.write_all(b"hello").await.expect("writes");
    let mut echoed = [0; 5];
    stream.read_exact(&mut echoed).await.expect("reads");
    assert_eq!(&echoed, b"hello");
}

#[tokio::test]
async fn a_client_that_stops_reading_holds_back_the_producer_and_nobody_else() {
    let authority = Authority::new("ca");
    let drawn = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&drawn);
    let service = move |request: Request<Incoming>| {
        let counted = Arc::clone(&counted);
        async move {
            if request.uri().path() != "/endless" {
                return Response::new(Body::full("ok"));
            }
            let chunks = std::iter::repeat_with(move || {
                counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                Bytes::from_static(&[b'x'; 16 * 1024])
            });
            Response::new(Body::chunks(chunks, None))
        }
    };
    let server = start(authority.options(), ConnectionOptions::default(), ShutdownOptions::default(), service);
    let stream = Client::default().connect(&server, &authority.certificate).await.expect("connects");
    let mut sender = http2(stream).await;
    let stalled = sender.send_request(get("/endless")).await.expect("a response");
    tokio::time::sleep(Duration::from_millis(200)).await;
    let bytes = drawn.load(std::sync::atomic::Ordering::Relaxed) * 16 * 1024;
    assert!(bytes < 4 * 1024 * 1024, "{bytes} bytes were made for a client that reads none");
    let response = sender.send_request(get("/")).await.expect("another stream is served");
    assert_eq!(text(response).await, "ok");
    drop(stalled);
}
