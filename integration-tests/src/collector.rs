//! An OpenTelemetry collector that keeps the spans that it gets.

use std::{
    convert::Infallible,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    runtime::Runtime,
};
use traces::otlp::{Any, EXPORT, ExportRequest, KeyValue, Span};

/// A test waits no longer than that for spans: they are sent every five seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// A span, and what it belongs to.
#[derive(Clone, Debug)]
pub struct Collected {
    /// The service and its instance.
    pub resource: Vec<(String, String)>,
    /// The part of the server, and its version.
    pub scope: (String, String),
    /// The span.
    pub span: Span,
}

impl Collected {
    /// An attribute as text.
    pub fn attribute(&self, key: &str) -> Option<String> {
        self.span.attributes.iter().find(|attribute| attribute.key == key).map(text)
    }

    /// The names of its events.
    pub fn events(&self) -> Vec<&str> {
        self.span.events.iter().map(|event| event.name.as_str()).collect()
    }
}

/// The value of an attribute as text.
pub fn text(attribute: &KeyValue) -> String {
    match attribute.value.as_ref().and_then(|value| value.value.clone()) {
        Some(Any::Text(text)) => text,
        Some(Any::Int(number)) => number.to_string(),
        Some(Any::Bool(truth)) => truth.to_string(),
        None => String::new(),
    }
}

type Kept = Arc<(Mutex<Vec<Collected>>, Condvar)>;

/// A collector. It ends when this is dropped.
pub struct Collector {
    kept: Kept,
    port: u16,
    _runtime: Runtime,
}

impl Collector {
    /// A collector at a port of 127.0.0.1; 0: a free one.
    pub fn start(port: u16) -> Self {
        let (runtime, kept) = (runtime(), Kept::default());
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", port))).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let own = kept.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, own.clone()));
            }
        });
        Collector { kept, port, _runtime: runtime }
    }

    /// A collector at a socket.
    pub fn start_at(socket: PathBuf) -> Self {
        let (runtime, kept) = (runtime(), Kept::default());
        let listener = runtime.block_on(async { UnixListener::bind(socket) }).expect("a socket");
        let own = kept.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, own.clone()));
            }
        });
        Collector { kept, port: 0, _runtime: runtime }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What there is so far.
    pub fn spans(&self) -> Vec<Collected> {
        self.kept.0.lock().expect("not poisoned").clone()
    }

    /// The span that `which` is looking for, as soon as it is there.
    pub fn wait(&self, which: impl Fn(&Collected) -> bool) -> Collected {
        let (kept, more) = &*self.kept;
        let spans = kept.lock().expect("not poisoned");
        let spans =
            more.wait_timeout_while(spans, PATIENCE, |spans| !spans.iter().any(&which)).expect("not poisoned").0;
        let found = spans.iter().find(|span| which(span)).cloned();
        found.unwrap_or_else(|| {
            let names: Vec<_> = spans.iter().map(|span| span.span.name.clone()).collect();
            panic!("no such span among {names:?}")
        })
    }

    /// The spans of a trace, in the order in which they began; to be asked when one that ends last is there.
    pub fn trace(&self, trace: &[u8]) -> Vec<Collected> {
        let mut spans: Vec<_> = self.spans().into_iter().filter(|span| span.span.trace_id == trace).collect();
        spans.sort_by_key(|span| span.span.start_time_unix_nano);
        spans
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime starts")
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, kept: Kept) {
    let service = service_fn(move |request| take(request, kept.clone()));
    // Clients go away.
    let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

type Answer = Response<StreamBody<stream::Iter<std::array::IntoIter<Result<Frame<Bytes>, Infallible>, 2>>>>;

/// One call of gRPC: a message comes, an empty one goes back.
async fn take(request: Request<Incoming>, kept: Kept) -> Result<Answer, Infallible> {
    assert_eq!(request.uri().path(), EXPORT);
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let message = body.get(5..).unwrap_or_default();
    keep(ExportRequest::decode(message).expect("spans"), &kept);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let frames = [Ok(Frame::data(Bytes::from_static(&[0; 5]))), Ok(Frame::trailers(trailers))];
    let mut answer = Response::new(StreamBody::new(stream::iter(frames)));
    answer.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    Ok(answer)
}

fn keep(request: ExportRequest, kept: &Kept) {
    let (all, more) = &**kept;
    let mut all = all.lock().expect("not poisoned");
    for of_resource in request.resource_spans {
        let attributes = of_resource.resource.unwrap_or_default().attributes;
        let resource: Vec<_> = attributes.iter().map(|a| (a.key.clone(), text(a))).collect();
        for of_scope in of_resource.scope_spans {
            let scope = of_scope.scope.unwrap_or_default();
            let scope = (scope.name, scope.version);
            let spans = of_scope.spans.into_iter();
            all.extend(spans.map(|span| Collected { resource: resource.clone(), scope: scope.clone(), span }));
        }
    }
    more.notify_all();
}
