//! Webhooks: a JSON document is sent, another one comes back.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, Uri, header, uri::Scheme};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use machinery::{Str, Value, meta::go_text};
use tokio::time::Instant;

use super::{
    HttpsClient, OutboundBody, ServiceRef, Services, Trust,
    client::{full, webhook_client},
    failure, redirect,
};

/// Where a webhook is.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
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

impl Target {
    /// Where a `clientConfig` says that a webhook is.
    fn of(config: &Value) -> Self {
        let Some(service) = config.get("service").filter(|s| s.as_object().is_some()) else {
            return Target::Url(config.str_at(&["url"]).unwrap_or_default().into());
        };
        let text = |key: &str| Str::from(service.str_at(&[key]).unwrap_or_default());
        let port = service.get("port").and_then(Value::as_i64).and_then(|p| u16::try_from(p).ok()).unwrap_or(443);
        let service_ref = ServiceRef { namespace: text("namespace"), name: text("name"), port };
        Target::Service { service: service_ref, path: text("path") }
    }
}

/// A webhook. Costs nothing until it is called.
pub struct Webhook {
    target: Target,
    /// PEM; empty for the authorities that the machine believes.
    bundle: Vec<u8>,
    services: Arc<Services>,
    client: OnceLock<Result<HttpsClient, String>>,
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
    pub fn new(target: Target, bundle: Vec<u8>, services: Arc<Services>) -> Self {
        Webhook { target, bundle, services, client: OnceLock::new() }
    }

    /// The webhook of a `clientConfig` (of a webhook configuration or of a custom resource definition).
    pub fn of_config(config: &Value, services: Arc<Services>) -> Self {
        let bundle = STANDARD.decode(config.str_at(&["caBundle"]).unwrap_or_default()).unwrap_or_default();
        Webhook::new(Target::of(config), bundle, services)
    }

    /// Sends a document and gives the answer's body, perhaps from another place that the webhook sends to. An error says what
    /// upstream's client says.
    pub async fn post(&self, document: Vec<u8>, call: Call) -> Result<Bytes, String> {
        let document = Bytes::from(document);
        let deadline = Instant::now() + call.timeout;
        let mut hop = Hop { url: self.shown(call.timeout), method: Method::POST, with_body: true };
        for requests in 1.. {
            let (response, address) = self.send(&hop, &document, deadline).await?;
            let next = redirect::next(&response, &hop.url, &hop.method, requests);
            match next.map_err(|(url, why)| failed(&url, why))? {
                None => return read(response, &address, call.limit, deadline).await,
                Some(next) => {
                    hop = Hop { url: next.url, method: next.method, with_body: next.with_body && hop.with_body };
                }
            }
        }
        Err("the webhook sends on without an end".to_owned())
    }

    async fn send(
        &self,
        hop: &Hop,
        document: &Bytes,
        deadline: Instant,
    ) -> Result<(Response<Incoming>, Address), String> {
        let failed = |why: String| failed(&hop.url, why);
        let address = self.address(&hop.url).map_err(failed)?;
        let client = self.client.get_or_init(|| self.connect()).as_ref().map_err(|why| failed(why.clone()))?;
        let body = if hop.with_body { document.clone() } else { Bytes::new() };
        let request = request(&address, &hop.method, body).map_err(failed)?;
        match tokio::time::timeout_at(deadline, client.request(request)).await {
            Ok(Ok(response)) => Ok((response, address)),
            Ok(Err(error)) => Err(failed(failure::transport(&error, &address.host, &address.dialled))),
            Err(_) => Err(failed("context deadline exceeded".to_owned())),
        }
    }

    fn connect(&self) -> Result<HttpsClient, String> {
        let trust = if self.bundle.is_empty() { Trust::System } else { Trust::Bundle(&self.bundle) };
        let name = match &self.target {
            Target::Service { service, .. } => Some(service.server_name()),
            Target::Url(_) => None,
        };
        webhook_client(trust, name)
    }

    /// The URL of a call.
    fn shown(&self, timeout: Duration) -> String {
        let base = match &self.target {
            Target::Url(url) => url.to_string(),
            Target::Service { service, path } => {
                let slash = if path.is_empty() || path.starts_with('/') { "" } else { "/" };
                format!("https://{}:{}{slash}{path}", service.server_name(), service.port)
            }
        };
        format!("{base}?timeout={}s", timeout.as_secs())
    }

    fn address(&self, shown: &str) -> Result<Address, String> {
        let uri: Uri = shown.parse().map_err(|e: http::uri::InvalidUri| e.to_string())?;
        let default = if uri.scheme() == Some(&Scheme::HTTP) { 80 } else { 443 };
        let (host, port) = (uri.host().unwrap_or("").to_owned(), uri.port_u16().unwrap_or(default));
        let own = |service: &ServiceRef| host == service.server_name() && port == service.port;
        let service = match &self.target {
            Target::Service { service, .. } if own(service) => service,
            _ => return Ok(Address { shown: shown.to_owned(), dialled: format!("{host}:{port}"), host, uri }),
        };
        let (to, port) = self.services.resolve(service)?;
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
) -> Result<Bytes, String> {
    let code = response.status();
    let content_type = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default().to_owned();
    let unread =
        |why: &str| format!("unexpected error when reading response body. Please retry. Original error: {why}");
    let body = Limited::new(response.into_body(), limit).collect();
    let body = match tokio::time::timeout_at(deadline, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return Err(format!("the response is larger than {limit} bytes"));
        }
        Ok(Err(error)) => {
            let why = failure::transport(&*error, &address.host, &address.dialled);
            return Err(unread(if why == "EOF" { "unexpected EOF" } else { &why }));
        }
        Err(_) => return Err(unread("context deadline exceeded")),
    };
    match code.as_u16() {
        200..=206 if body.is_empty() => {
            let named = if content_type.is_empty() { "application/json" } else { &content_type };
            Err(format!("0-length response with status code: {} and content type: {named}", code.as_u16()))
        }
        200..=206 => Ok(body),
        code => Err(failure::status(code, &content_type, &body)),
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
