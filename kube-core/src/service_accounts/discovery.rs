//! Serves OpenID Connect Discovery 1.0 for service account tokens: the provider's document, and the keys themselves.

use std::sync::Arc;

use async_trait::async_trait;
use generic_server::{
    Body,
    endpoint::Endpoint,
    request::Request,
    response::{self, Response},
};
use http::{HeaderValue, Method, StatusCode, header};
use machinery::{
    Str,
    codec::json,
    meta::{Details, status::Status},
    object,
};

use super::TokenSettings;

/// Where the documents are.
const PATHS: [(&str, Document); 2] =
    [("/.well-known/openid-configuration", Document::Provider), ("/openid/v1/jwks", Document::Keys)];

#[derive(Clone, Copy)]
enum Document {
    Provider,
    Keys,
}

/// The documents' paths and who serves them, also with a slash behind. `address` is the server's own, as host and port.
pub(crate) fn endpoints(settings: &TokenSettings, address: &Str) -> Vec<(Str, Arc<dyn Endpoint>)> {
    let mut all: Vec<(Str, Arc<dyn Endpoint>)> = Vec::new();
    // Clients are sent elsewhere only to where a secure connection leads.
    if !settings.issuers[0].starts_with("https://") {
        return all;
    }
    for (path, document) in PATHS {
        let endpoint = Arc::new(Discovery { settings: settings.clone(), address: address.clone(), document });
        all.push((Str::new_static(path), endpoint.clone()));
        all.push((Str::from(format!("{path}/")), endpoint));
    }
    all
}

struct Discovery {
    settings: TokenSettings,
    address: Str,
    document: Document,
}

#[async_trait]
impl Endpoint for Discovery {
    async fn serve(&self, request: Request) -> Result<Response, Status> {
        if request.method != Method::GET {
            return Err(Status::method_not_allowed());
        }
        let media = match self.document {
            Document::Provider => "application/json",
            Document::Keys => "application/jwk-set+json",
        };
        accept(&request, media)?;
        let unready = || Status::service_unavailable("the keys of service account tokens are not ready");
        let published = self.settings.keys.published().await.ok_or_else(unready)?;
        let document = match self.document {
            Document::Keys => published.keys,
            Document::Provider => object! {
                "issuer" => &self.settings.issuers[0],
                "jwks_uri" => self.jwks_uri(),
                "response_types_supported" => vec!["id_token"],
                "subject_types_supported" => vec!["public"],
                "id_token_signing_alg_values_supported" => published.algorithms,
            },
        };
        let mut response = response::bytes(StatusCode::OK, media, Body::full(json::encode(&document)));
        if let Ok(cached) = HeaderValue::from_str(&format!("public, max-age={}", published.max_age)) {
            response.headers_mut().insert(header::CACHE_CONTROL, cached);
        }
        Ok(response)
    }
}

/// Refuses a client that takes no such document.
fn accept(request: &Request, media: &'static str) -> Result<(), Status> {
    let asked = request.header("accept").unwrap_or("");
    let takes = |clause: &str| matches!(clause.split(';').next().unwrap_or("").trim(), "*/*" | "application/*");
    let named =
        |clause: &str| clause.split(';').next().is_some_and(|essence| essence.trim().eq_ignore_ascii_case(media));
    if asked.is_empty() || asked.split(',').any(|clause| takes(clause) || named(clause)) {
        return Ok(());
    }
    let text = format!("406: Not Acceptable\n\nAvailable representations: {media}");
    Err(Status::new(406, "NotAcceptable", text).with_details(Details::default()))
}

impl Discovery {
    fn jwks_uri(&self) -> String {
        if self.settings.jwks_uri.is_empty() {
            format!("https://{}/openid/v1/jwks", self.address)
        } else {
            self.settings.jwks_uri.to_string()
        }
    }
}
