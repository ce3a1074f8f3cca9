//! Webhooks: a JSON document is sent, another one comes back.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, header, uri::Scheme};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use machinery::{
    Str, Value,
    meta::{duration::GoDuration, go_text},
};
use tokio::time::Instant;
use traces::Dial;

use super::{
    Asker, CallError, HttpsClient, Identity, OutboundBody, Resolver, ServerCertificates, ServiceRef, Trust,
    WebhookUsers,
    client::{full, webhook_client},
    client_span::ClientSpan,
    egress::Network,
    failure, metrics, redirect,
    tls::ClientError,
};

/// So often a webhook is called again that asks for patience (client-go: the same).
const MAX_PATIENCE: usize = 10;

/// Where a webhook is.
#[derive(Clone, Debug, PartialEq)]
pub enum WebhookTarget {
    /// At an address: `https://host:port/path`.
    Url(Str),
    /// Behind a service of this cluster.
    Service {
        /// The service.
        service: ServiceRef,
        /// The path there; empty for the root.
        path: Str,
    },
}

impl WebhookTarget {
    /// Where a `clientConfig` says that a webhook is.
    fn of(config: &Value) -> Self {
        let Some(service) = config.get("service").filter(|s| s.as_object().is_some()) else {
            return WebhookTarget::Url(config.str_at(&["url"]).unwrap_or_default().into());
        };
        let text = |key: &str| Str::from(service.str_at(&[key]).unwrap_or_default());
        let port = service.get("port").and_then(Value::as_i64).and_then(|p| u16::try_from(p).ok()).unwrap_or(443);
        let service_ref = ServiceRef { namespace: text("namespace"), name: text("name"), port };
        WebhookTarget::Service { service: service_ref, path: text("path") }
    }

    /// Its host and port, if it has some.
    fn host(&self) -> Option<(String, u16)> {
        match self {
            WebhookTarget::Service { service, .. } => Some((service.server_name(), service.port)),
            WebhookTarget::Url(url) => {
                let url: Uri = url.parse().ok()?;
                Some((url.host()?.to_owned(), url.port_u16().unwrap_or(443)))
            }
        }
    }
}

/// A webhook. Costs nothing until it is called.
pub struct Webhook {
    target: WebhookTarget,
    access: Access,
    services: Option<Arc<Resolver>>,
    /// Whether it hears of which trace a call is part.
    is_traced: bool,
    client: OnceLock<Result<HttpsClient, ClientError>>,
    certificates: ServerCertificates,
}

/// Who is told what is wrong with a webhook's certificate: a key and a text for the audit log.
type Annotate<'a> = &'a (dyn Fn(String, &'static str) + Sync);

/// Whom to believe that it is the webhook, and what to tell it.
#[derive(Default)]
pub(crate) struct Access {
    /// PEM; empty for the authorities that the machine believes.
    pub(crate) bundle: Vec<u8>,
    /// Whether any certificate will do.
    pub(crate) insecure: bool,
    /// The name that its certificate must have; `None`: that of the service or of the URL's host.
    pub(crate) server_name: Option<String>,
    /// The certificate to show.
    pub(crate) identity: Option<Identity>,
    /// Opens connections; `None`: as it is opened to what the services' resolver knows, or as usual.
    pub(crate) dial: Option<Dial>,
    /// Headers that say who calls. They go to the webhook alone, not to where it sends on to.
    pub(crate) headers: HeaderMap,
}

/// One call's bounds.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// How long it may take in all.
    pub timeout: Duration,
    /// The largest answer that is read, in bytes.
    pub limit: usize,
}

/// Where a call goes.
struct Address {
    /// With the timeout, as upstream's errors show it.
    shown: String,
    /// The name that the certificate must have.
    host: String,
    /// What is dialled.
    dialled: String,
    uri: Uri,
}

impl Webhook {
    /// A webhook. `bundle` holds the authorities of its certificate.
    pub fn new(target: WebhookTarget, bundle: Vec<u8>, services: Arc<Resolver>) -> Self {
        let webhook = Webhook::with_access(target, Access { bundle, ..Access::default() }, Some(services));
        Webhook { is_traced: true, ..webhook }
    }

    pub(crate) fn with_access(target: WebhookTarget, access: Access, services: Option<Arc<Resolver>>) -> Self {
        let certificates = ServerCertificates::new(Asker::Webhooks);
        Webhook { target, access, services, is_traced: false, client: OnceLock::new(), certificates }
    }

    /// The webhook of a `clientConfig` (of a webhook configuration or of a custom resource definition).
    pub fn of_config(config: &Value, services: Arc<Resolver>) -> Self {
        let bundle = STANDARD.decode(config.str_at(&["caBundle"]).unwrap_or_default()).unwrap_or_default();
        Webhook::new(WebhookTarget::of(config), bundle, services)
    }

    /// The same, called as the one of these users who is for its host.
    pub fn of_config_as(config: &Value, services: Arc<Resolver>, users: Option<&WebhookUsers>) -> Self {
        let mut webhook = Webhook::of_config(config, services);
        let user = users.and_then(|users| {
            let (host, port) = webhook.target.host()?;
            users.of(&host, port)
        });
        if let Some(user) = user {
            webhook.access.identity = user.identity.clone();
            webhook.access.headers = user.headers.clone();
        }
        webhook
    }

    /// Sends a document and gives the answer's body, perhaps from another place that the webhook sends to. Who asks for
    /// patience is called again, as often as the time allows.
    ///
    /// # Errors
    /// What upstream's client says, and what can be done about it.
    pub async fn call(&self, document: impl Into<Bytes>, call: Call) -> Result<Bytes, CallError> {
        self.call_noting(document, call, &|_, _| ()).await
    }

    /// [`Webhook::call`], which tells for the audit log what is wrong with the webhook's certificate.
    ///
    /// # Errors
    /// As [`Webhook::call`].
    pub async fn call_noting(
        &self,
        document: impl Into<Bytes>,
        call: Call,
        annotate: Annotate<'_>,
    ) -> Result<Bytes, CallError> {
        let (document, begun) = (document.into(), Instant::now());
        let answer = self.call_patiently(document, call, annotate).await;
        let host = self.shown_host();
        metrics::took(&Method::POST, &host, begun.elapsed());
        if let Ok(answer) = &answer {
            metrics::received(&Method::POST, &host, answer.len());
        }
        answer
    }

    async fn call_patiently(&self, document: Bytes, call: Call, annotate: Annotate<'_>) -> Result<Bytes, CallError> {
        let deadline = Instant::now() + call.timeout;
        for _ in 0..MAX_PATIENCE {
            match self.follow(&document, call, deadline, annotate).await {
                Err(error) if let Some(pause) = error.pause() => {
                    let until = Instant::now() + pause;
                    if until >= deadline {
                        return Err(error);
                    }
                    tokio::time::sleep_until(until).await;
                }
                done => return done,
            }
        }
        self.follow(&document, call, deadline, annotate).await
    }

    async fn follow(
        &self,
        document: &Bytes,
        call: Call,
        deadline: Instant,
        annotate: Annotate<'_>,
    ) -> Result<Bytes, CallError> {
        let mut hop = Hop { url: self.shown(call.timeout), method: Method::POST, with_body: true };
        for requests in 1.. {
            let (response, address) = self.send(&hop, requests == 1, document, deadline, annotate).await?;
            let next = redirect::next(&response, &hop.url, &hop.method, requests);
            match next.map_err(|(url, why)| CallError::of_answer(failed(&url, why)))? {
                None => return read(response, &address, call.limit, deadline).await,
                Some(next) => {
                    hop = Hop { url: next.url, method: next.method, with_body: next.with_body && hop.with_body };
                }
            }
        }
        Err(CallError::of_answer("the webhook sends on without an end"))
    }

    async fn send(
        &self,
        hop: &Hop,
        is_first: bool,
        document: &Bytes,
        deadline: Instant,
        annotate: Annotate<'_>,
    ) -> Result<(Response<Incoming>, Address), CallError> {
        let failed = |why: String| CallError::of_answer(failed(&hop.url, why));
        let address = self.address(&hop.url).map_err(failed)?;
        let client = self.client.get_or_init(|| self.connect()).as_ref().map_err(|why| failed(why.to_string()))?;
        let body = if hop.with_body { document.clone() } else { Bytes::new() };
        let mut request = request(&address, &hop.method, body).map_err(failed)?;
        if is_first {
            request.headers_mut().extend(self.access.headers.clone());
        }
        let span = match self.is_traced {
            true => ClientSpan::begin(&hop.method, request.headers_mut(), &hop.url),
            false => ClientSpan::default(),
        };
        let bytes = if hop.with_body { document.len() } else { 0 };
        let answer = tokio::time::timeout_at(deadline, client.request(request)).await;
        let code = answer.as_ref().ok().and_then(|answer| answer.as_ref().ok()).map(Response::status);
        metrics::sent(&hop.method, &self.shown_host(), bytes, code);
        match answer {
            Ok(Ok(response)) => {
                span.answered(response.status());
                self.certificates.answered(&address.host, annotate);
                Ok((response, address))
            }
            Ok(Err(error)) => {
                let why = failure::transport(&error, &address.host, &address.dialled);
                span.failed(&why);
                self.certificates.failed(&address.host, &why, annotate);
                Err(CallError::of_transport(self::failed(&hop.url, why), &error))
            }
            Err(_) => {
                span.failed("context deadline exceeded");
                Err(CallError::timeout(self::failed(&hop.url, "context deadline exceeded".to_owned())))
            }
        }
    }

    /// Whether it can be called at all.
    pub(crate) fn check(&self) -> Result<(), ClientError> {
        self.client.get_or_init(|| self.connect()).as_ref().map(|_| ()).map_err(Clone::clone)
    }

    /// What is behind a service is in the cluster, a URL in the control plane.
    fn dial(&self) -> Option<&Dial> {
        let of_services = self.services.as_ref().and_then(|services| {
            let network = match &self.target {
                WebhookTarget::Service { .. } => Network::Cluster,
                WebhookTarget::Url(_) => Network::ControlPlane,
            };
            services.egress.to(network)
        });
        self.access.dial.as_ref().or(of_services)
    }

    fn connect(&self) -> Result<HttpsClient, ClientError> {
        let Access { bundle, insecure, server_name, identity, .. } = &self.access;
        let trust = match bundle.is_empty() {
            _ if *insecure => Trust::Anybody,
            true => Trust::System,
            false => Trust::Bundle(bundle),
        };
        let name = match &self.target {
            WebhookTarget::Service { service, .. } => Some(service.server_name()),
            WebhookTarget::Url(_) => server_name.clone(),
        };
        webhook_client(self.dial(), trust, name, identity.as_ref(), &self.certificates)
    }

    /// Host and port, as metrics show them: those of the configuration, not of the places that it sends on to.
    fn shown_host(&self) -> String {
        match &self.target {
            WebhookTarget::Service { service, .. } => format!("{}:{}", service.server_name(), service.port),
            WebhookTarget::Url(url) => {
                let parsed = url.parse::<Uri>().ok();
                parsed
                    .and_then(|uri| uri.authority().map(|a| a.as_str().to_owned()))
                    .unwrap_or_else(|| "none".to_owned())
            }
        }
    }

    /// The URL of a call.
    fn shown(&self, timeout: Duration) -> String {
        let base = match &self.target {
            WebhookTarget::Url(url) => url.to_string(),
            WebhookTarget::Service { service, path } => {
                let slash = if path.is_empty() || path.starts_with('/') { "" } else { "/" };
                format!("https://{}:{}{slash}{path}", service.server_name(), service.port)
            }
        };
        let timeout = GoDuration { nanoseconds: i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX) };
        format!("{base}?timeout={timeout}")
    }

    fn address(&self, shown: &str) -> Result<Address, String> {
        let uri: Uri = shown.parse().map_err(|e: http::uri::InvalidUri| e.to_string())?;
        let default = if uri.scheme() == Some(&Scheme::HTTP) { 80 } else { 443 };
        let (host, port) = (uri.host().unwrap_or("").to_owned(), uri.port_u16().unwrap_or(default));
        let own = |service: &ServiceRef| host == service.server_name() && port == service.port;
        let service = match &self.target {
            WebhookTarget::Service { service, .. } if own(service) => service,
            _ => return Ok(Address { shown: shown.to_owned(), dialled: format!("{host}:{port}"), host, uri }),
        };
        let services = self.services.as_ref().ok_or("services are not known here")?;
        let (to, port) = services.resolve(service).map_err(|why| why.to_string())?;
        let to = if to.contains(':') { format!("[{to}]") } else { to };
        let path = uri.path_and_query().map_or("/", |p| p.as_str());
        let uri = format!("https://{to}:{port}{path}").parse().map_err(|e: http::uri::InvalidUri| e.to_string())?;
        Ok(Address { shown: shown.to_owned(), dialled: format!("{to}:{port}"), host, uri })
    }
}

/// One request of a call.
struct Hop {
    url: String,
    method: Method,
    with_body: bool,
}

/// A failure in the words of Go's client, which calls all requests by the method of the first.
fn failed(url: &str, why: String) -> String {
    format!("Post {}: {why}", go_text::quote(url))
}

/// The body of an answer that is no failure.
async fn read(
    response: Response<Incoming>,
    address: &Address,
    limit: usize,
    deadline: Instant,
) -> Result<Bytes, CallError> {
    let code = response.status();
    let pause = failure::retry_after(&response);
    let content_type = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default().to_owned();
    let unread =
        |why: &str| format!("unexpected error when reading response body. Please retry. Original error: {why}");
    let body = Limited::new(response.into_body(), limit).collect();
    let body = match tokio::time::timeout_at(deadline, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return Err(CallError::of_answer(format!("the response is larger than {limit} bytes")));
        }
        Ok(Err(error)) => {
            let why = failure::transport(&*error, &address.host, &address.dialled);
            return Err(CallError::of_answer(unread(if why == "EOF" { "unexpected EOF" } else { &why })));
        }
        Err(_) => return Err(CallError::timeout(unread("context deadline exceeded"))),
    };
    match code.as_u16() {
        200..=206 if body.is_empty() => {
            let named = if content_type.is_empty() { "application/json" } else { &content_type };
            let why = format!("0-length response with status code: {} and content type: {named}", code.as_u16());
            Err(CallError::of_answer(why))
        }
        200..=206 => Ok(body),
        code => Err(CallError::of_status(code, &content_type, &body, pause)),
    }
}

fn request(address: &Address, method: &Method, document: Bytes) -> Result<Request<OutboundBody>, String> {
    let shown: Uri = address.shown.parse().map_err(|e: http::uri::InvalidUri| e.to_string())?;
    let host = shown.authority().and_then(|a| HeaderValue::from_str(a.as_str()).ok());
    let mut request = Request::builder()
        .method(method)
        .uri(address.uri.clone())
        .header(header::ACCEPT, "application/json, */*")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, "kube-apiserver-admission")
        .body(full(document))
        .map_err(|e| e.to_string())?;
    if let Some(host) = host {
        request.headers_mut().insert(header::HOST, host);
    }
    Ok(request)
}
