//! One connection: the TLS handshake with its deadline, HTTP/1.1 or HTTP/2, and its end.

use std::{
    any::Any,
    convert::Infallible,
    io,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, LazyLock, OnceLock},
    time::Duration,
};

use arc_swap::ArcSwapOption;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::{
    body::{Body as _, Incoming},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prometheus::IntCounter;
use rustls_pki_types::CertificateDer;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Notify,
    time::{Instant, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{Lifecycle, Listener, Tls, head::Heads, refuse::refuse};
use crate::Body;
use crate::body::BodyError;
use crate::{
    strangers::{Counted, Guest, Strangers},
    usage::{InUse, Usage},
};

/// A client that has not finished its handshake or a request's headers by then is let go (upstream: 32 s).
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(32);
/// The kernel asks a silent client whether it is there, so often, until it has not answered so many times (Go: the same).
/// HTTP/2's own pings would do it too, but at ten thousand connections they cost a few hundred wake-ups a second.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);
const KEEP_ALIVE_RETRIES: u32 = 9;
/// What a client may send on one stream before we have read it: most request bodies in one go.
const STREAM_WINDOW: u32 = 256 * 1024;
/// And on all streams of a connection: enough to keep them busy, little enough for ten thousand connections.
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
/// What a stream may hold that the client has not taken yet.
const SEND_BUFFER: usize = 128 * 1024;
/// All headers of a request together; more is a 431 (upstream: the same, and so much that Go's reader adds).
const MAX_HEADER_BYTES: usize = (1 << 20) + 4096;
/// HTTP/2 counts 32 bytes a header; upstream has room for ten.
const MAX_HEADER_LIST: u32 = (1 << 20) + 320;
/// Upstream knows no limit; the parser needs one.
const MAX_HEADERS: usize = 4096;

/// What the serving flags say of a connection.
#[derive(Clone, Debug)]
pub struct ConnectionOptions {
    /// `--http2-max-streams-per-connection`, with upstream's default for 0 already applied.
    pub max_streams: u32,
    /// `--goaway-chance`: of an HTTP/2 request to have the client told to reconnect.
    pub goaway_chance: f64,
    /// Set on every response (`--strict-transport-security-directives`).
    pub response_headers: Vec<(HeaderName, HeaderValue)>,
    /// `--request-timeout`: what a connection's answers, but for those that last, are taken in.
    pub request_timeout: Duration,
}

/// In a response's extensions: it lasts as long as it lasts, as watches do.
#[derive(Clone, Copy, Debug)]
pub struct Lasting;

impl ConnectionOptions {
    /// Streams that a client may have open on one connection, unless a flag says otherwise (upstream: the same).
    pub const DEFAULT_MAX_STREAMS: u32 = 100;
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            max_streams: Self::DEFAULT_MAX_STREAMS,
            goaway_chance: 0.0,
            response_headers: Vec::new(),
            request_timeout: Duration::from_secs(60),
        }
    }
}

/// The other end of the connection that a request came on: in every request's extensions.
#[derive(Clone, Debug)]
pub struct Peer(Arc<PeerInfo>);

/// A place for something that is found out once a connection.
pub type Memo = ArcSwapOption<Box<dyn Any + Send + Sync>>;

/// Handshakes that failed, of all listeners.
pub(crate) static HANDSHAKE_ERRORS: LazyLock<IntCounter> = LazyLock::new(|| {
    let counter = IntCounter::new("apiserver_tls_handshake_errors_total", "TLS handshakes that failed.");
    counter.expect("a constant name is valid")
});

/// What is known of the other end.
#[derive(Debug)]
pub struct PeerInfo {
    /// The client's address.
    pub remote: SocketAddr,
    /// Our address that it connected to.
    pub local: SocketAddr,
    /// Its certificate, then what it sent along; empty without one. Only proven: that the client holds the first one's key.
    pub certificates: Vec<CertificateDer<'static>>,
    /// HTTP/2 was agreed.
    pub http2: bool,
    /// Until when its certificate lasts, in seconds since 1970; found out when it is first asked for.
    pub lasts_until: OnceLock<Option<i64>>,
    /// What authentication keeps of the certificate, which is its own affair.
    pub memo: Memo,
    /// The connection among those of strangers.
    pub(crate) guest: Option<Guest>,
}

impl Peer {
    /// For tests and in-process clients; the serving side makes its own.
    pub fn new(info: PeerInfo) -> Self {
        Self(Arc::new(info))
    }

    /// Says whether it is known who has made a request. A connection of strangers has less to expect than others.
    pub(crate) fn note_known(&self, is_known: bool) {
        if let Some(guest) = &self.0.guest {
            if is_known { guest.is_known() } else { guest.waits() }
        }
    }

    /// The same for all requests of a connection: what authentication found out may be kept by it.
    pub fn shared(&self) -> &Arc<PeerInfo> {
        &self.0
    }
}

impl std::ops::Deref for Peer {
    type Target = PeerInfo;

    fn deref(&self) -> &PeerInfo {
        &self.0
    }
}

/// Accepts connections and calls `service` for each request, until the lifecycle says to stop listening. Connections that
/// are open then go on by themselves; [`Lifecycle::shutdown`] awaits them.
pub async fn serve<S, F>(
    listener: Listener,
    tls: Arc<Tls>,
    options: ConnectionOptions,
    service: S,
    lifecycle: Lifecycle,
) where
    S: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let server = Arc::new(Server { service, options, lifecycle: lifecycle.clone() });
    let strangers = Arc::new(Strangers::default());
    let accept = async || {
        tokio::select! {
            accepted = listener.accept() => Some(accepted),
            () = strangers.let_in() => None,
        }
    };
    let stop = lifecycle.stopped_listening();
    while let Some(Some((stream, remote))) = stop.run_until_cancelled(accept()).await {
        let server = Arc::clone(&server);
        let tls = TlsAcceptor::from(tls.config());
        let guard = lifecycle.track_connection();
        let strangers = Arc::clone(&strangers);
        tokio::spawn(async move {
            let _guard = guard;
            let stop = server.lifecycle.stopped_listening().clone();
            let admitted = stop.run_until_cancelled(strangers.admit(remote.ip())).await.flatten();
            let Some(visit) = admitted else { return };
            let guest = visit.guest();
            let close = server.lifecycle.close_connections().clone();
            // Boxed: many may wait for their turn, and it is large.
            let connection = Box::pin(handle(server, tls, stream, (remote, guest.clone())));
            tokio::select! {
                ended = close.run_until_cancelled(connection) => {
                    if let Some(Err(error)) = ended {
                        tracing::debug!(%remote, %error, "the connection broke");
                    }
                }
                () = guest.told_to_leave() => tracing::debug!(%remote, "a stranger made room for others"),
            }
        });
    }
}

struct Server<S> {
    service: S,
    options: ConnectionOptions,
    lifecycle: Lifecycle,
}

type ConnectionError = Box<dyn std::error::Error + Send + Sync>;

async fn handle<S, F>(
    server: Arc<Server<S>>,
    tls: TlsAcceptor,
    stream: TcpStream,
    (remote, guest): (SocketAddr, Guest),
) -> Result<(), ConnectionError>
where
    S: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    stream.set_nodelay(true)?;
    let keep_alive = TcpKeepalive::new()
        .with_time(KEEP_ALIVE_EVERY)
        .with_interval(KEEP_ALIVE_EVERY)
        .with_retries(KEEP_ALIVE_RETRIES);
    SockRef::from(&stream).set_tcp_keepalive(&keep_alive)?;
    let local = stream.local_addr()?;
    let local = SocketAddr::new(local.ip().to_canonical(), local.port());
    // Boxed: its state is large and of no use to the connection afterwards.
    let handshake = Box::pin(timeout(HANDSHAKE_TIMEOUT, shake_hands(tls, stream, guest.clone()))).await;
    let failed = |why: BodyError| {
        HANDSHAKE_ERRORS.inc();
        why
    };
    let handshake = handshake.map_err(|_| failed("the TLS handshake took too long".into()))?;
    let Some(stream) = handshake.map_err(|error| failed(error.into()))? else { return Ok(()) };
    let session = stream.get_ref().1;
    let peer = Peer::new(PeerInfo {
        remote,
        local,
        certificates: session
            .peer_certificates()
            .unwrap_or_default()
            .iter()
            .cloned()
            .map(CertificateDer::into_owned)
            .collect(),
        memo: Memo::empty(),
        lasts_until: OnceLock::new(),
        http2: session.alpn_protocol() == Some(b"h2"),
        guest: Some(guest),
    });
    if peer.http2 { speak_http2(server, stream, peer).await } else { speak_http1(server, stream, peer).await }
}

/// The handshake; `None` when the client spoke plain HTTP and was told so.
async fn shake_hands(
    tls: TlsAcceptor,
    mut stream: TcpStream,
    guest: Guest,
) -> io::Result<Option<TlsStream<Counted<TcpStream>>>> {
    const METHODS: [&[u8; 5]; 5] = [b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO"];
    let mut start = [0; 5];
    let got = stream.peek(&mut start).await?;
    if got > 0 && METHODS.iter().any(|method| method.starts_with(&start[..got])) {
        // What Go's server says, and its clients know.
        let answer = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
        stream.write_all(answer).await?;
        stream.shutdown().await?;
        // Bytes left unread would reset the connection and might take the answer with it.
        let mut sink = [0; 4096];
        for _ in 0..16 {
            if stream.read(&mut sink).await? == 0 {
                break;
            }
        }
        return Ok(None);
    }
    tls.accept(Counted::new(stream, guest)).await.map(Some)
}

async fn speak_http2<S, F>(
    server: Arc<Server<S>>,
    stream: TlsStream<Counted<TcpStream>>,
    peer: Peer,
) -> Result<(), ConnectionError>
where
    S: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let go_away = Arc::new(Notify::new());
    let stop = server.lifecycle.stopped_listening().clone();
    let mut http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(server.options.max_streams)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(STREAM_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(MAX_HEADER_LIST);
    let usage = Usage::new(true, server.options.request_timeout, peer.guest.clone());
    let used = Arc::clone(&usage);
    let signal = Arc::clone(&go_away);
    let service = service_fn(move |request| {
        let (server, peer, signal) = (Arc::clone(&server), peer.clone(), Arc::clone(&signal));
        let in_use = used.begin();
        // Boxed: a request's future is large, and hyper moves it several times before it runs.
        Box::pin(async move {
            let mut response = respond(&server, request, peer, in_use).await;
            let closes = response.headers_mut().remove(header::CONNECTION).is_some_and(|value| value == "close");
            if closes || happens(server.options.goaway_chance) {
                signal.notify_one();
            }
            Ok::<_, Infallible>(response)
        })
    });
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    let mut told = None;
    loop {
        tokio::select! {
            ended = connection.as_mut() => return ended.map_err(Into::into),
            () = async { tokio::select! { () = stop.cancelled() => {}, () = go_away.notified() => {} } }, if told.is_none() => {}
            idle = usage.overdue(told) => if !idle || told.is_some() {
                return Ok(());
            },
        }
        told = Some(Instant::now());
        connection.as_mut().graceful_shutdown();
    }
}

async fn speak_http1<S, F>(
    server: Arc<Server<S>>,
    stream: TlsStream<Counted<TcpStream>>,
    peer: Peer,
) -> Result<(), ConnectionError>
where
    S: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let stop = server.lifecycle.stopped_listening().clone();
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        // As Go's servers write names: some clients of HTTP/1.1 mind the case.
        .title_case_headers(true)
        .header_read_timeout(None)
        .max_headers(MAX_HEADERS)
        .max_header_size(MAX_HEADER_BYTES)
        .max_buf_size(MAX_HEADER_BYTES);
    let usage = Usage::new(false, server.options.request_timeout, peer.guest.clone());
    let used = Arc::clone(&usage);
    let service = service_fn(move |request: Request<Incoming>| {
        let (server, peer, used) = (Arc::clone(&server), peer.clone(), Arc::clone(&used));
        if !request.body().is_end_stream() {
            used.brings_body();
        }
        let in_use = used.begin();
        Box::pin(async move {
            let response = match refuse(&request) {
                Some(refusal) => refusal,
                None => respond(&server, request, peer, in_use).await,
            };
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                used.hand_over();
            }
            Ok::<_, Infallible>(response)
        })
    });
    let stream = TokioIo::new(Heads::new(stream, Arc::clone(&usage)));
    let mut connection = pin!(http.serve_connection(stream, service).with_upgrades());
    let mut told = None;
    loop {
        tokio::select! {
            ended = connection.as_mut() => return ended.map_err(Into::into),
            () = stop.cancelled(), if told.is_none() => {}
            idle = usage.overdue(told) => if !idle || told.is_some() {
                return Ok(());
            },
        }
        told = Some(Instant::now());
        connection.as_mut().graceful_shutdown();
    }
}

async fn respond<S, F>(
    server: &Server<S>,
    mut request: Request<Incoming>,
    peer: Peer,
    mut in_use: InUse,
) -> Response<Body>
where
    S: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<Body>>,
{
    let head = request.method() == Method::HEAD;
    let mut response = if server.lifecycle.refuse_requests().is_cancelled() && !is_health(request.uri().path()) {
        try_elsewhere()
    } else {
        let _guard = server.lifecycle.track_request();
        request.extensions_mut().insert(peer);
        (server.service)(request).await
    };
    for (name, value) in &server.options.response_headers {
        response.headers_mut().insert(name.clone(), value.clone());
    }
    if head {
        response = without_body(response);
    }
    if response.extensions_mut().remove::<Lasting>().is_some() {
        in_use.lasts();
    }
    response.map(|body| body.used_by(in_use))
}

/// The answer to a HEAD: what the body's length would be, and no body. HTTP/2 knows no other way to leave it out.
fn without_body(mut response: Response<Body>) -> Response<Body> {
    if let Some(length) = response.body().size_hint().exact().filter(|length| *length > 0) {
        response.headers_mut().entry(header::CONTENT_LENGTH).or_insert(length.into());
    }
    response.map(|_| Body::empty())
}

/// Probes are answered to the end, or the kubelet would take a slow shutdown for a crash.
fn is_health(path: &str) -> bool {
    ["/healthz", "/livez", "/readyz"].iter().any(|probe| path.starts_with(probe))
}

/// The answer to new requests while those before them drain (`--shutdown-send-retry-after`).
fn try_elsewhere() -> Response<Body> {
    let mut response = Response::new(Body::full("The apiserver is shutting down, please try again later.\n"));
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// True with this chance.
fn happens(chance: f64) -> bool {
    // A fresh UUID is the random number at hand; its first bytes are random.
    chance > 0.0 && (uuid::Uuid::new_v4().as_u64_pair().0 >> 32) as f64 / f64::from(u32::MAX) < chance
}
