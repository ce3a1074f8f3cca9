//! `/openapi/v3`, its documents, and `/openapi/v2`, for the whole chain.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use async_trait::async_trait;
use aws_lc_rs::digest;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use machinery::{Map, Str, Value, codec::json, meta::Status, object};

use super::{v2, v3};
use crate::{
    body::Body,
    pipeline::respond::Response,
    request::Request,
    resource::Resource,
    server::{Endpoint, Entry, ResourceTable},
};

/// Finds the `openAPIV3Schema` of a custom resource's version.
pub type Published = Arc<dyn Fn(&Resource) -> Option<Arc<Value>> + Send + Sync>;

/// OpenAPI of a chain of servers.
pub struct OpenApi {
    tables: Vec<Arc<ArcSwap<ResourceTable>>>,
    published: Published,
    made: ArcSwapOption<Made>,
}

/// The documents for one state of the rows. Each is written when it is first asked for.
struct Made {
    tables: Vec<Arc<ResourceTable>>,
    documents: BTreeMap<Str, Arc<Document>>,
    index: OnceLock<Bytes>,
    v2: OnceLock<Written>,
}

/// One document of v3.
struct Document {
    /// What clients keep it by: it changes when the rows do.
    hash: Str,
    source: Source,
    json: OnceLock<Bytes>,
}

enum Source {
    Rows(Vec<Arc<Entry>>),
    Group(Str),
    Other(fn() -> Value),
}

struct Written {
    json: Bytes,
    hash: Str,
}

impl OpenApi {
    /// Of these servers' tables. `published` knows the schemas of custom resources.
    pub fn new(tables: Vec<Arc<ArcSwap<ResourceTable>>>, published: Published) -> Arc<Self> {
        Arc::new(OpenApi { tables, published, made: ArcSwapOption::empty() })
    }

    /// The documents for the rows as they are now. Those whose rows are the same stay as they are.
    fn made(&self) -> Arc<Made> {
        let tables: Vec<Arc<ResourceTable>> = self.tables.iter().map(|t| t.load_full()).collect();
        let before = self.made.load_full();
        if let Some(made) = &before
            && made.tables.iter().zip(&tables).all(|(a, b)| Arc::ptr_eq(a, b))
        {
            return made.clone();
        }
        let kept = before.as_ref().map(|made| &made.documents);
        let made =
            Arc::new(Made { documents: documents(&tables, kept), tables, index: OnceLock::new(), v2: OnceLock::new() });
        self.made.store(Some(made.clone()));
        made
    }

    fn json(&self, document: &Document) -> Bytes {
        let make = || {
            let value = match &document.source {
                Source::Group(name) => v3::group(name),
                Source::Other(make) => make(),
                Source::Rows(rows) if rows[0].row.built_in => {
                    v3::group_version(&rows.iter().map(|e| &e.row).collect::<Vec<&Resource>>())
                }
                Source::Rows(rows) => v3::custom_group_version(&self.customs(rows)),
            };
            Bytes::from(json::encode(&value))
        };
        document.json.get_or_init(make).clone()
    }

    fn customs(&self, rows: &[Arc<Entry>]) -> Vec<v3::Custom> {
        rows.iter().map(|e| (Arc::new(e.row.clone()), (self.published)(&e.row))).collect()
    }

    fn v2<'a>(&self, made: &'a Made) -> &'a Written {
        made.v2.get_or_init(|| {
            let all: Vec<&Arc<Entry>> = made.tables.iter().flat_map(|t| t.entries()).collect();
            let rows: Vec<&Resource> = all.iter().map(|e| &e.row).filter(|row| row.built_in).collect();
            let customs: Vec<Arc<Entry>> = all.iter().filter(|e| !e.row.built_in).map(|e| (*e).clone()).collect();
            let json = json::encode(&v2::document(&rows, &self.customs(&customs)));
            Written { hash: hash(&json), json: Bytes::from(json) }
        })
    }
}

fn hash(bytes: &[u8]) -> Str {
    let digest = digest::digest(&digest::SHA512, bytes);
    Str::from(digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect::<String>())
}

/// What the documents are made of, by their names. A document whose rows are the very same as before is kept.
fn documents(
    tables: &[Arc<ResourceTable>],
    kept: Option<&BTreeMap<Str, Arc<Document>>>,
) -> BTreeMap<Str, Arc<Document>> {
    let mut versions: BTreeMap<Str, Vec<Arc<Entry>>> = BTreeMap::new();
    let mut out = BTreeMap::new();
    let mut put = |name: Str, source: Source| {
        if let Some(document) = kept.and_then(|kept| kept.get(&name)).filter(|d| d.source.is(&source)) {
            out.insert(name, document.clone());
            return;
        }
        let hash = source.fingerprint(&name);
        out.insert(name, Arc::new(Document { hash, source, json: OnceLock::new() }));
    };
    for (name, make) in v3::others() {
        put(name, Source::Other(make));
    }
    for entry in tables.iter().flat_map(|t| t.entries()) {
        let row = &entry.row;
        let root = if row.group.is_empty() { "api" } else { "apis" };
        versions.entry(Str::from(format!("{root}/{}", row.api_version()))).or_default().push(entry.clone());
    }
    for (name, rows) in versions {
        let row = &rows[0].row;
        if row.built_in && !row.group.is_empty() {
            put(Str::from(format!("apis/{}", row.group)), Source::Group(row.group.clone()));
        }
        put(name, Source::Rows(rows));
    }
    out
}

impl Source {
    /// Whether two documents have the same source, so that they are the same.
    fn is(&self, other: &Source) -> bool {
        match (self, other) {
            (Source::Rows(a), Source::Rows(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b)),
            (Source::Group(a), Source::Group(b)) => a == b,
            (Source::Other(_), Source::Other(_)) => true,
            _ => false,
        }
    }

    /// A hash of what the document is made of, so that an index needs no document. The text of a custom resource's schema
    /// shows in its row.
    fn fingerprint(&self, name: &Str) -> Str {
        let mut text = format!("{} {name}", env!("CARGO_PKG_VERSION"));
        if let Source::Rows(rows) = self {
            for entry in rows {
                let row = &entry.row;
                text.push_str(&format!("\n{} {} {:?}", row.plural, row.kind, row.subresources));
                if !row.built_in {
                    text.push_str(&format!("{:?} {:?}", row.schema, row.selectable_fields));
                }
            }
        }
        hash(text.as_bytes())
    }
}

impl Made {
    fn index(&self) -> Bytes {
        let write = || {
            let entry = |(name, document): (&Str, &Arc<Document>)| {
                let url = format!("/openapi/v3/{name}?hash={}", document.hash);
                (name.clone(), object! { "serverRelativeURL" => url })
            };
            let paths: Map = self.documents.iter().map(entry).collect();
            Bytes::from(json::encode(&object! { "paths" => paths }))
        };
        self.index.get_or_init(write).clone()
    }
}

fn response(status: StatusCode, media: Option<&'static str>, body: Bytes, head: bool) -> Response {
    let length = body.len();
    let mut response = Response::new(if head || length == 0 { Body::empty() } else { Body::full(body) });
    *response.status_mut() = status;
    if let Some(media) = media {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    }
    response
}

const JSON: &str = "application/json";

/// Whether a client takes JSON, as Go's OpenAPI handlers read `Accept`.
fn takes_json(headers: &HeaderMap) -> bool {
    let Some(accept) = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()) else { return true };
    accept.is_empty()
        || accept.split(',').any(|clause| {
            let media = clause.split(';').next().unwrap_or_default().trim();
            matches!(media, "application/json" | "*/*" | "application/*")
        })
}

/// A year from now, as Go writes it: `Sat, 27 Nov 2027 10:00:00 UTC`.
fn in_a_year() -> String {
    let then = SystemTime::now() + Duration::from_secs(365 * 24 * 60 * 60);
    httpdate::fmt_http_date(then).replace("GMT", "UTC")
}

/// Answers with a document that has a hash.
fn hashed(request: &Request, json: Bytes, hash: &str, immutable: bool) -> Response {
    let etag = format!("\"{hash}\"");
    let known = request.headers.get(header::IF_NONE_MATCH).and_then(|v| v.to_str().ok());
    let head = request.method == Method::HEAD;
    let mut out = if known.is_some_and(|known| known == etag) {
        response(StatusCode::NOT_MODIFIED, None, Bytes::new(), head)
    } else {
        response(StatusCode::OK, Some(JSON), json, head)
    };
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
        Ok(self.answer(&request))
    }
}

impl OpenApi {
    fn answer(&self, request: &Request) -> Response {
        let made = self.made();
        let head = request.method == Method::HEAD;
        let path = request.uri.path().strip_prefix("/openapi/").unwrap_or_default();
        if path == "v2" {
            if !takes_json(&request.headers) {
                return response(StatusCode::NOT_ACCEPTABLE, None, Bytes::new(), head);
            }
            let written = self.v2(&made);
            return hashed(request, written.json.clone(), &written.hash, false);
        }
        if path == "v3" {
            return response(StatusCode::OK, Some("text/plain; charset=utf-8"), made.index(), head);
        }
        let Some(document) = path.strip_prefix("v3/").and_then(|name| made.documents.get(name)) else {
            return response(StatusCode::NOT_FOUND, None, Bytes::new(), head);
        };
        if !takes_json(&request.headers) {
            return response(StatusCode::NOT_ACCEPTABLE, None, Bytes::new(), head);
        }
        let asked = request.query.get("hash");
        match asked {
            Some(asked) if asked != document.hash => {
                let mut out = response(StatusCode::MOVED_PERMANENTLY, Some(JSON), Bytes::new(), head);
                let to = format!("{}?hash={}", request.uri.path(), document.hash);
                if let Ok(to) = HeaderValue::from_str(&to) {
                    out.headers_mut().insert(header::LOCATION, to);
                }
                out
            }
            asked => hashed(request, self.json(document), &document.hash, asked.is_some()),
        }
    }
}
