//! A webhook that answers as a test wants it to.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{net::TcpListener, runtime::Runtime, sync::oneshot};
use tokio_rustls::TlsAcceptor;

use crate::Authority;

/// What a webhook answers.
pub enum Answer {
    /// A document.
    Json(Value),
    /// A status code and a body, whatever they are.
    Raw(u16, String),
    /// Nothing at all, for as long as the client waits.
    Hang,
    /// A document that comes when somebody has it.
    Later(oneshot::Receiver<Value>),
    /// The connection is cut.
    Cut,
}

/// A webhook on a port of its own, over HTTPS. It ends when this is dropped.
pub struct Webhook {
    port: u16,
    bundle: String,
    calls: Arc<AtomicUsize>,
    last: Arc<Mutex<HeaderMap>>,
    _runtime: Runtime,
}

type Answering = dyn Fn(&str, Value) -> Answer + Send + Sync;

impl Webhook {
    /// A webhook whose certificate is of these names; what it answers is `answer` of the document it got.
    pub fn start(names: &[&str], answer: impl Fn(Value) -> Answer + Send + Sync + 'static) -> Self {
        Self::serve(names, move |_, document| answer(document))
    }

    /// A server that answers requests by their path, too.
    pub fn serve(names: &[&str], answer: impl Fn(&str, Value) -> Answer + Send + Sync + 'static) -> Self {
        Self::with(identity(names), answer)
    }

    /// The same, with a certificate of nothing but a common name.
    pub fn serve_nameless(name: &str, answer: impl Fn(&str, Value) -> Answer + Send + Sync + 'static) -> Self {
        Self::with(identity_of(name, &[]), answer)
    }

    fn with(
        (bundle, tls): (String, rustls::ServerConfig),
        answer: impl Fn(&str, Value) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime starts");
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let calls = Arc::new(AtomicUsize::new(0));
        let last = Arc::<Mutex<HeaderMap>>::default();
        let seen = (calls.clone(), last.clone());
        runtime.spawn(serve(listener, TlsAcceptor::from(Arc::new(tls)), Arc::new(answer), seen));
        Webhook { port, bundle: STANDARD.encode(bundle), calls, last, _runtime: runtime }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The authority of its certificate, as PEM.
    pub fn authority(&self) -> String {
        let pem = STANDARD.decode(&self.bundle).expect("it was encoded here");
        String::from_utf8(pem).expect("PEM is text")
    }

    /// The authority of its certificate, as a caBundle.
    pub fn bundle(&self) -> &str {
        &self.bundle
    }

    /// How often it was called.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// A header of the last call.
    pub fn header(&self, name: &str) -> Option<String> {
        let last = self.last.lock().expect("not poisoned");
        last.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    }
}

/// An authority (PEM), and what serves with a certificate of it.
pub(crate) fn identity(names: &[&str]) -> (String, rustls::ServerConfig) {
    identity_of("webhook", names)
}

fn identity_of(common_name: &str, names: &[&str]) -> (String, rustls::ServerConfig) {
    let authority = Authority::new("webhooks");
    let own = authority.issue(common_name, &[], names);
    let (chain, key) = own.parsed();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has suites")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("certificate and key fit");
    (authority.pem(), config)
}

/// What is known of the calls.
type Seen = (Arc<AtomicUsize>, Arc<Mutex<HeaderMap>>);

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, answer: Arc<Answering>, seen: Seen) {
    while let Ok((tcp, _)) = listener.accept().await {
        let (acceptor, answer, seen) = (acceptor.clone(), answer.clone(), seen.clone());
        tokio::spawn(async move {
            let Ok(tls) = acceptor.accept(tcp).await else { return };
            let service = service_fn(move |request| reply(request, answer.clone(), seen.clone()));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(tls), service).await; // clients go away
        });
    }
}

async fn reply(
    request: Request<Incoming>,
    answer: Arc<Answering>,
    (calls, last): Seen,
) -> io::Result<Response<Full<Bytes>>> {
    let path = request.uri().path().to_owned();
    *last.lock().expect("not poisoned") = request.headers().clone();
    let body = request.into_body().collect().await.map(|b| b.to_bytes()).unwrap_or_default();
    calls.fetch_add(1, Ordering::SeqCst);
    let (code, body) = match answer(&path, serde_json::from_slice(&body).unwrap_or_default()) {
        Answer::Json(document) => (200, document.to_string()),
        Answer::Raw(code, body) => (code, body),
        Answer::Hang => std::future::pending().await,
        Answer::Later(document) => match document.await {
            Ok(document) => (200, document.to_string()),
            Err(_) => return Err(io::Error::other("nobody has an answer")),
        },
        Answer::Cut => return Err(io::Error::other("cut")),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = StatusCode::from_u16(code).expect("a status code");
    Ok(response)
}
