//! `/openapi/v3`, its documents, and `/openapi/v2`, for the whole chain.

mod documents;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use machinery::{meta::Status, schema::openapi::Flavor};

use self::documents::{Document, Documents, Shared};
use crate::openapi::{Described, members::Encoding, row::Published};
use crate::{
    body::{Body, Piece},
    endpoint::Endpoint,
    request::Request,
    response::Response,
    table::{ResourceTable, TableEntry},
};

/// OpenAPI of a chain of servers.
pub struct OpenApi {
    tables: Vec<Arc<ArcSwap<ResourceTable>>>,
    published: Published,
    described: Described,
    made: ArcSwapOption<Documents>,
    shared: Shared,
}

impl OpenApi {
    /// Of these servers' tables. `published` knows the schemas of custom resources; `described` is what the built-in ones are of.
    pub fn new(
        tables: Vec<Arc<ArcSwap<ResourceTable>>>,
        published: Published,
        described: impl Into<Described>,
    ) -> Arc<Self> {
        let described = described.into();
        let (made, shared) = (ArcSwapOption::empty(), Shared::new(described));
        Arc::new(OpenApi { tables, published, described, made, shared })
    }

    /// The documents for the rows as they are now. Those whose rows are the same stay as they are.
    fn made(&self) -> Arc<Documents> {
        let tables: Vec<Arc<ResourceTable>> = self.tables.iter().map(|t| t.load_full()).collect();
        let before = self.made.load_full();
        if let Some(made) = &before
            && made.are_of(&tables)
        {
            return made.clone();
        }
        let made = Arc::new(Documents::after(before.as_deref(), tables, &self.published, self.described));
        self.made.store(Some(made.clone()));
        made
    }

    /// Makes what these custom resources add to documents, if it is not there yet. Others have their turn in between.
    async fn make<'a>(&self, entries: impl Iterator<Item = &'a Arc<TableEntry>>, flavor: Flavor, encoding: Encoding) {
        for entry in entries {
            if entry.openapi.known(flavor, encoding).is_none() {
                entry.openapi.added(&entry.row, &self.published, flavor, encoding);
                tokio::task::yield_now().await;
            }
        }
    }

    async fn v3(&self, document: &Document, encoding: Encoding) -> Vec<Arc<Piece>> {
        self.make(document.customs(), Flavor::V3, encoding).await;
        document.pieces(encoding, &self.shared, &self.published)
    }

    async fn v2(&self, made: &Documents, encoding: Encoding) -> Vec<Arc<Piece>> {
        self.make(made.customs(), Flavor::V2, encoding).await;
        made.v2(encoding, &self.shared, &self.published)
    }
}

fn response(status: StatusCode, media: Option<&'static str>, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    if let Some(media) = media {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    }
    response
}

/// The media types of one version of OpenAPI: as clients name them below `application/`, and as answers do.
type Offer = [(&'static str, Encoding, &'static str); 3];

const JSON: &str = "application/json";

const V2: Offer = {
    const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    [
        ("json", Encoding::Json, JSON),
        ("com.github.proto-openapi.spec.v2@v1.0+protobuf", Encoding::Protobuf, PROTOBUF),
        ("com.github.proto-openapi.spec.v2.v1.0+protobuf", Encoding::Protobuf, PROTOBUF),
    ]
};

const V3: Offer = {
    const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
    [
        ("json", Encoding::Json, JSON),
        ("com.github.proto-openapi.spec.v3@v1.0+protobuf", Encoding::Protobuf, PROTOBUF),
        ("com.github.proto-openapi.spec.v3.v1.0+protobuf", Encoding::Protobuf, PROTOBUF),
    ]
};

/// What a client takes, as Go's OpenAPI handlers read `Accept`: best clauses first, each against the offer in order.
fn negotiate(headers: &HeaderMap, offer: &Offer) -> Option<(Encoding, &'static str)> {
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).filter(|a| !a.is_empty()).unwrap_or("*/*");
    let mut clauses: Vec<(f32, &str)> = accept
        .split(',')
        .map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let quality = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok());
            (quality.unwrap_or(1.0), media)
        })
        .collect();
    clauses.sort_by(|a, b| b.0.total_cmp(&a.0)); // stable: of equals the first named wins
    clauses.into_iter().find_map(|(_, media)| {
        let (kind, sub) = media.split_once('/')?;
        let fits = |name: &str| (kind == "application" || kind == "*") && (sub == name || sub == "*");
        offer.iter().find(|(name, ..)| fits(name)).map(|(_, encoding, answered)| (*encoding, *answered))
    })
}

/// A year from now, as Go writes it: `Sat, 27 Nov 2027 10:00:00 UTC`.
fn in_a_year() -> String {
    let then = SystemTime::now() + Duration::from_secs(365 * 24 * 60 * 60);
    httpdate::fmt_http_date(then).replace("GMT", "UTC")
}

fn empty(status: StatusCode) -> Response {
    response(status, None, Body::empty())
}

/// Whether the client has the document of this hash.
fn has(request: &Request, hash: &str) -> bool {
    let known = request.headers.get(header::IF_NONE_MATCH).and_then(|v| v.to_str().ok());
    known.and_then(|known| known.strip_prefix('"')?.strip_suffix('"')) == Some(hash)
}

/// Says by which hash clients keep a document.
fn hashed(mut out: Response, hash: &str, immutable: bool) -> Response {
    let etag = format!("\"{hash}\"");
    let headers = out.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        headers.insert(header::ETAG, etag);
    }
    if immutable {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        if let Ok(expires) = HeaderValue::from_str(&in_a_year()) {
            headers.insert(header::EXPIRES, expires);
        }
    }
    out
}

#[async_trait]
impl Endpoint for OpenApi {
    async fn serve(&self, request: Request) -> Result<Response, Status> {
        Ok(self.answer(&request).await)
    }

    fn listed(&self) -> Vec<String> {
        vec!["/openapi/v3/".to_owned()]
    }
}

impl OpenApi {
    async fn answer(&self, request: &Request) -> Response {
        let made = self.made();
        match request.uri.path().strip_prefix("/openapi/").unwrap_or_default() {
            "v2" => self.answer_v2(request, &made).await,
            "v3" => response(StatusCode::OK, Some("text/plain; charset=utf-8"), Body::full(made.index())),
            path => match path.strip_prefix("v3/").and_then(|name| made.document(name)) {
                Some(document) => self.answer_v3(request, document).await,
                None => empty(StatusCode::NOT_FOUND),
            },
        }
    }

    async fn answer_v2(&self, request: &Request, made: &Documents) -> Response {
        let Some((encoding, media)) = negotiate(&request.headers, &V2) else {
            return empty(StatusCode::NOT_ACCEPTABLE);
        };
        let hash = made.v2_hash(&self.published, self.described);
        if has(request, hash) {
            return hashed(empty(StatusCode::NOT_MODIFIED), hash, false);
        }
        let body = Body::pieces(self.v2(made, encoding).await);
        hashed(response(StatusCode::OK, Some(media), body), hash, false)
    }

    async fn answer_v3(&self, request: &Request, document: &Document) -> Response {
        let Some((encoding, media)) = negotiate(&request.headers, &V3) else {
            return empty(StatusCode::NOT_ACCEPTABLE);
        };
        let asked = request.query.get("hash");
        if asked.is_some_and(|asked| asked != document.hash) {
            let mut out = response(StatusCode::MOVED_PERMANENTLY, Some(JSON), Body::empty());
            let to = format!("{}?hash={}", request.uri.path(), document.hash);
            if let Ok(to) = HeaderValue::from_str(&to) {
                out.headers_mut().insert(header::LOCATION, to);
            }
            return out;
        }
        if has(request, &document.hash) {
            return hashed(empty(StatusCode::NOT_MODIFIED), &document.hash, asked.is_some());
        }
        let body = Body::pieces(self.v3(document, encoding).await);
        hashed(response(StatusCode::OK, Some(media), body), &document.hash, asked.is_some())
    }
}

#[cfg(test)]
mod tests;
