//! How requests reach etcd's servers: they say of which trace they are part, and somebody else may open the connections.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use etcd_client::{BalancedChannelBuilder, Channel};
use http::{HeaderMap, Request, Response, Uri};
use http_body::{Frame, SizeHint};
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc::{Sender, channel};
use tonic::{
    body::Body,
    transport::{Channel as Transport, Endpoint, channel::Change},
};
use tower::{BoxError, Service, ServiceExt as _, service_fn, util::BoxCloneSyncService};
use traces::{Dial, Instrument, Span};

/// The part of upstream's server that makes the spans of requests to etcd.
static GRPC: Instrument = Instrument {
    name: "go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc",
    version: "0.65.0",
};

/// Makes the channel.
pub(super) struct Channels {
    /// Opens connections; `None`: they are opened as usual.
    pub(super) dial: Option<Dial>,
    /// Whether requests say of which trace they are part.
    pub(super) traced: bool,
    /// The server, if there is just one.
    pub(super) server: Option<Uri>,
}

impl BalancedChannelBuilder for Channels {
    type Error = tonic::transport::Error;

    fn balanced_channel(self, size: usize) -> Result<(Channel, Sender<Change<Uri, Endpoint>>), Self::Error> {
        let Channels { dial, traced, server } = self;
        let (service, endpoints) = match dial {
            Some(dial) => {
                let (dialed, endpoints) = Dialed::new(dial, size);
                (BoxCloneSyncService::new(dialed), endpoints)
            }
            None => {
                let (transport, endpoints) = Transport::balance_channel(size);
                if !traced {
                    return Ok((Channel::Tonic(transport), endpoints));
                }
                (BoxCloneSyncService::new(transport.map_err(BoxError::from)), endpoints)
            }
        };
        let service = match traced {
            true => BoxCloneSyncService::new(Traced { service, server: server.map(Arc::new) }),
            false => service,
        };
        Ok((Channel::Custom(service), endpoints))
    }
}

type Answering<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;
type Inner = BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>;

/// Servers whose connections somebody else opens; each request takes the next one.
#[derive(Clone)]
struct Dialed {
    servers: Arc<Mutex<Vec<(Uri, Transport)>>>,
    next: Arc<AtomicUsize>,
}

impl Dialed {
    fn new(dial: Dial, size: usize) -> (Self, Sender<Change<Uri, Endpoint>>) {
        let (endpoints, mut changes) = channel(size);
        let dialed = Dialed { servers: Arc::default(), next: Arc::default() };
        let servers = Arc::downgrade(&dialed.servers);
        tokio::spawn(async move {
            while let Some(change) = changes.recv().await {
                let Some(servers) = servers.upgrade() else { return };
                let mut servers = servers.lock().unwrap_or_else(PoisonError::into_inner);
                match change {
                    Change::Insert(uri, endpoint) => servers.push((uri, connected(&endpoint, dial.clone()))),
                    Change::Remove(uri) => servers.retain(|(known, _)| *known != uri),
                }
            }
        });
        (dialed, endpoints)
    }

    fn take(&self) -> Option<Transport> {
        let servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let place = self.next.fetch_add(1, Ordering::Relaxed).checked_rem(servers.len())?;
        servers.get(place).map(|(_, transport)| transport.clone())
    }
}

/// A server, connected when it is first asked.
fn connected(endpoint: &Endpoint, dial: Dial) -> Transport {
    let connector = service_fn(move |uri: Uri| {
        let dial = dial.clone();
        async move {
            let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
            let host = uri.host().unwrap_or_default().to_owned();
            let address = format!("{host}:{}", uri.port_u16().unwrap_or(default));
            Ok::<_, io::Error>(TokioIo::new(dial(address).await?))
        }
    });
    endpoint.connect_with_connector_lazy(connector)
}

impl Service<Request<Body>> for Dialed {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Answering<Response<Body>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let dialed = self.clone();
        Box::pin(async move {
            // The servers are told of right after the channel is made.
            let transport = loop {
                match dialed.take() {
                    Some(transport) => break transport,
                    None => tokio::task::yield_now().await,
                }
            };
            Ok(transport.oneshot(request).await?)
        })
    }
}

/// Requests that are spans of the traces that they belong to.
#[derive(Clone)]
struct Traced {
    service: Inner,
    server: Option<Arc<Uri>>,
}

impl Service<Request<Body>> for Traced {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Answering<Response<Body>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let span = self.span(&request);
        {
            let _entered = span.enter();
            traces::inject(request.headers_mut());
        }
        let answering = self.service.call(request);
        if !span.is_kept() {
            return answering;
        }
        Box::pin(async move {
            match answering.await {
                Ok(response) => Ok(response.map(|body| Body::new(Answer { body, span, received: 0 }))),
                Err(error) => {
                    span.failed(&error.to_string());
                    Err(error)
                }
            }
        })
    }
}

impl Traced {
    fn span(&self, request: &Request<Body>) -> Span {
        let method = request.uri().path().trim_start_matches('/');
        let span = GRPC.call(method.to_owned(), |a| {
            a.text("rpc.method", method);
            a.text("rpc.system.name", "grpc");
            if let Some(server) = &self.server {
                a.text("server.address", server.host().unwrap_or_default());
                a.int("server.port", server.port_u16().unwrap_or(2379));
            }
        });
        span.event("message", |a| {
            a.text("rpc.message.type", "SENT");
            a.int("rpc.message.id", 1);
        });
        span
    }
}

/// What each message of gRPC begins with: whether it is compressed, and its length.
const PREFIX: u64 = 5;

/// An answer, whose end ends the span.
struct Answer {
    body: Body,
    span: Span,
    /// Messages, as far as frames tell.
    received: u64,
}

impl Answer {
    fn note(&mut self, frame: &Frame<Bytes>) {
        if let Some(data) = frame.data_ref() {
            self.received += 1;
            let (id, size) = (self.received, (data.len() as u64).saturating_sub(PREFIX));
            self.span.event("message", |a| {
                a.text("rpc.message.type", "RECEIVED");
                a.int("rpc.message.id", id);
                a.int("rpc.message.uncompressed_size", size);
            });
        }
        if let Some(trailers) = frame.trailers_ref() {
            let (code, message) = status(trailers);
            self.span.describe(|a| a.text("rpc.response.status_code", code));
            if code != "OK" {
                self.span.failed(message);
            }
        }
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.note(frame);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The code of an answer, as Go names it, and its message.
fn status(trailers: &HeaderMap) -> (&'static str, &str) {
    const NAMES: [&str; 17] = [
        "OK",
        "Canceled",
        "Unknown",
        "InvalidArgument",
        "DeadlineExceeded",
        "NotFound",
        "AlreadyExists",
        "PermissionDenied",
        "ResourceExhausted",
        "FailedPrecondition",
        "Aborted",
        "OutOfRange",
        "Unimplemented",
        "Internal",
        "Unavailable",
        "DataLoss",
        "Unauthenticated",
    ];
    let text = |name: &str| trailers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let code = text("grpc-status").parse().ok().and_then(|code: usize| NAMES.get(code));
    (code.unwrap_or(&"Unknown"), text("grpc-message"))
}
