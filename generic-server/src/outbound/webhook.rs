//! Webhooks: a JSON document is sent, another one comes back.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderValue, Request, Uri, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use machinery::{Str, Value};

use super::{HttpsClient, ServiceRef, Services, Trust, client, failure};
use crate::body::Body;

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

    /// Sends a document and gives the answer's body. An error says what upstream's client says.
    pub async fn post(&self, document: Vec<u8>, call: Call) -> Result<Bytes, String> {
        let shown = self.shown(call.timeout);
        let failed = |why: String| format!("Post {shown:?}: {why}");
        let address = self.address(&shown).map_err(failed)?;
        let client = self.client.get_or_init(|| self.connect()).as_ref().map_err(|why| failed(why.clone()))?;
        let request = request(&address, document).map_err(failed)?;
        let deadline = tokio::time::Instant::now() + call.timeout;
        let response = match tokio::time::timeout_at(deadline, client.request(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(failed(failure::transport(&error, &address.host, &address.dialled))),
            Err(_) => {
                let why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
                return Err(failed(why.to_owned()));
            }
        };
        let code = response.status();
        let body = Limited::new(response.into_body(), call.limit).collect();
        let body = match tokio::time::timeout_at(deadline, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return Err(format!("the response is larger than {} bytes", call.limit));
            }
            Ok(Err(error)) => {
                let why = failure::transport(&*error, &address.host, &address.dialled);
                return Err(format!(
                    "unexpected error when reading response body. Please retry. Original error: {why}"
                ));
            }
            Err(_) => {
                return Err(
                    "unexpected error when reading response body. Please retry. Original error: context deadline \
                            exceeded (Client.Timeout or context cancellation while reading body)"
                        .to_owned(),
                );
            }
        };
        if code.is_success() { Ok(body) } else { Err(failure::status(code.as_u16(), &body)) }
    }

    fn connect(&self) -> Result<HttpsClient, String> {
        let trust = if self.bundle.is_empty() { Trust::System } else { Trust::Bundle(&self.bundle) };
        let name = match &self.target {
            Target::Service { service, .. } => Some(service.server_name()),
            Target::Url(_) => None,
        };
        client(trust, name, None)
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
        let (host, port) = (uri.host().unwrap_or("").to_owned(), uri.port_u16().unwrap_or(443));
        let Target::Service { service, .. } = &self.target else {
            return Ok(Address { shown: shown.to_owned(), dialled: format!("{host}:{port}"), host, uri });
        };
        let (to, port) = self.services.resolve(service)?;
        let to = if to.contains(':') { format!("[{to}]") } else { to };
        let path = uri.path_and_query().map_or("/", |p| p.as_str());
        let uri = format!("https://{to}:{port}{path}").parse().map_err(|e: http::uri::InvalidUri| e.to_string())?;
        Ok(Address { shown: shown.to_owned(), dialled: format!("{to}:{port}"), host, uri })
    }
}

fn request(address: &Address, document: Vec<u8>) -> Result<Request<Body>, String> {
    let shown: Uri = address.shown.parse().map_err(|e: http::uri::InvalidUri| e.to_string())?;
    let host = shown.authority().and_then(|a| HeaderValue::from_str(a.as_str()).ok());
    let mut request = Request::post(address.uri.clone())
        .header(header::ACCEPT, "application/json, */*")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, "kube-apiserver-admission")
        .body(Body::full(document))
        .map_err(|e| e.to_string())?;
    if let Some(host) = host {
        request.headers_mut().insert(header::HOST, host);
    }
    Ok(request)
}
