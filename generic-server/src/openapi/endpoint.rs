//! `/openapi/v3`, its documents, and `/openapi/v2`, for the whole chain.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, SystemTime},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use async_trait::async_trait;
use aws_lc_rs::digest;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use machinery::{Str, Value, codec::json, meta::Status, object};

use super::{gnostic, v2, v3};
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
    recent: Recent,
}

/// The documents for one state of the rows. Each is written when it is first asked for.
struct Made {
    tables: Vec<Arc<ResourceTable>>,
    documents: BTreeMap<Str, Arc<Document>>,
    index: OnceLock<Bytes>,
    v2: Written,
    v2_hash: OnceLock<Str>,
}

/// One document of v3.
struct Document {
    /// What clients keep it by: it changes when the rows do.
    hash: Str,
    /// Its member in the index.
    line: Vec<u8>,
    source: Source,
    written: Written,
}

enum Source {
    Rows(Vec<Arc<Entry>>),
    Group(Str),
    Page(&'static v3::Page),
}

/// A document in the encodings that it was asked for in.
#[derive(Default)]
struct Written {
    json: OnceLock<Bytes>,
    protobuf: OnceLock<Bytes>,
}

impl OpenApi {
    /// Of these servers' tables. `published` knows the schemas of custom resources.
    pub fn new(tables: Vec<Arc<ArcSwap<ResourceTable>>>, published: Published) -> Arc<Self> {
        Arc::new(OpenApi { tables, published, made: ArcSwapOption::empty(), recent: Recent::default() })
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
        let made = Arc::new(Made {
            documents: documents(&tables, kept),
            tables,
            index: OnceLock::new(),
            v2: Written::default(),
            v2_hash: OnceLock::new(),
        });
        self.made.store(Some(made.clone()));
        made
    }

    /// A document of v3.
    fn v3(&self, document: &Document, encoding: Encoding) -> Bytes {
        let make = || {
            let value = match &document.source {
                Source::Group(name) => v3::group(name),
                Source::Page(page) => page.document(),
                Source::Rows(rows) if rows[0].row.built_in => {
                    v3::group_version(&rows.iter().map(|e| &e.row).collect::<Vec<&Resource>>())
                }
                Source::Rows(rows) => v3::custom_group_version(&self.customs(rows)),
            };
            json::encode(&value)
        };
        if document.source.is_built_in() {
            return document.written.get(encoding, make, gnostic::encode_v3);
        }
        self.recent.get(&document.hash, encoding).unwrap_or_else(|| {
            let bytes = Written::default().get(encoding, make, gnostic::encode_v3);
            self.recent.put(&document.hash, encoding, bytes.clone());
            bytes
        })
    }

    fn customs(&self, rows: &[Arc<Entry>]) -> Vec<v3::Custom> {
        rows.iter().map(|e| (Arc::new(e.row.clone()), (self.published)(&e.row))).collect()
    }

    /// The document of v2, and its hash, which is that of the JSON in every encoding.
    fn v2(&self, made: &Made, encoding: Encoding) -> (Bytes, Str) {
        let make = || {
            let all: Vec<&Arc<Entry>> = made.tables.iter().flat_map(|t| t.entries()).collect();
            let rows: Vec<&Resource> = all.iter().map(|e| &e.row).filter(|row| row.built_in).collect();
            let customs: Vec<Arc<Entry>> = all.iter().filter(|e| !e.row.built_in).map(|e| (*e).clone()).collect();
            json::encode(&v2::document(&rows, &self.customs(&customs)))
        };
        let bytes = made.v2.get(encoding, make, gnostic::encode_v2);
        let hash = made.v2_hash.get_or_init(|| hash(&made.v2.get(Encoding::Json, make, gnostic::encode_v2)));
        (bytes, hash.clone())
    }
}

/// Documents of custom resources, those that were asked for last. There may be thousands of them; each is soon made
/// again, and clients keep them by their hash.
#[derive(Default)]
struct Recent(Mutex<VecDeque<(Str, Encoding, Bytes)>>);

impl Recent {
    /// So many bytes are kept, but at least one document.
    const LIMIT: usize = 8 << 20;

    fn get(&self, hash: &Str, encoding: Encoding) -> Option<Bytes> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().rposition(|(h, e, _)| h == hash && *e == encoding)?;
        let found = kept.remove(at)?;
        let bytes = found.2.clone();
        kept.push_back(found);
        Some(bytes)
    }

    fn put(&self, hash: &Str, encoding: Encoding, bytes: Bytes) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(h, e, _)| h != hash || *e != encoding);
        kept.push_back((hash.clone(), encoding, bytes));
        let mut size: usize = kept.iter().map(|(_, _, bytes)| bytes.len()).sum();
        while size > Self::LIMIT && kept.len() > 1 {
            size -= kept.pop_front().map_or(0, |(_, _, bytes)| bytes.len());
        }
    }
}

impl Written {
    /// The document in one encoding. `make` writes the JSON, of which the other encoding is made.
    fn get(&self, encoding: Encoding, make: impl Fn() -> Vec<u8>, encode: fn(&Value) -> Vec<u8>) -> Bytes {
        let json = self.json.get_or_init(|| Bytes::from(make()));
        match encoding {
            Encoding::Json => json.clone(),
            Encoding::Protobuf => {
                let write = || json::decode(json).map_or_else(|_| Bytes::new(), |value| Bytes::from(encode(&value)));
                self.protobuf.get_or_init(write).clone()
            }
        }
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
        let line = index_line(&name, &hash);
        out.insert(name, Arc::new(Document { hash, line, source, written: Written::default() }));
    };
    for page in &v3::PAGES {
        put(Str::new_static(page.name), Source::Page(page));
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

/// The member of the index for a document.
fn index_line(name: &Str, hash: &str) -> Vec<u8> {
    let mut line = json::encode(&Value::from(name));
    line.push(b':');
    let url = format!("/openapi/v3/{name}?hash={hash}");
    line.extend_from_slice(&json::encode(&object! { "serverRelativeURL" => url }));
    line
}

impl Source {
    fn is_built_in(&self) -> bool {
        !matches!(self, Source::Rows(rows) if !rows[0].row.built_in)
    }

    /// Whether two documents have the same source, so that they are the same.
    fn is(&self, other: &Source) -> bool {
        match (self, other) {
            (Source::Rows(a), Source::Rows(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b)),
            (Source::Group(a), Source::Group(b)) => a == b,
            (Source::Page(_), Source::Page(_)) => true,
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
            let mut text = br#"{"paths":{"#.to_vec();
            for (n, document) in self.documents.values().enumerate() {
                if n > 0 {
                    text.push(b',');
                }
                text.extend_from_slice(&document.line);
            }
            text.extend_from_slice(b"}}");
            Bytes::from(text)
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

/// An encoding of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Json,
    Protobuf,
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

/// Answers with a document that has a hash.
fn hashed(request: &Request, media: &'static str, body: Bytes, hash: &str, immutable: bool) -> Response {
    let etag = format!("\"{hash}\"");
    let known = request.headers.get(header::IF_NONE_MATCH).and_then(|v| v.to_str().ok());
    let head = request.method == Method::HEAD;
    let mut out = if known.is_some_and(|known| known == etag) {
        response(StatusCode::NOT_MODIFIED, None, Bytes::new(), head)
    } else {
        response(StatusCode::OK, Some(media), body, head)
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

    fn listed(&self) -> Vec<String> {
        vec!["/openapi/v3/".to_owned()]
    }
}

impl OpenApi {
    fn answer(&self, request: &Request) -> Response {
        let made = self.made();
        let head = request.method == Method::HEAD;
        let path = request.uri.path().strip_prefix("/openapi/").unwrap_or_default();
        if path == "v2" {
            let Some((encoding, media)) = negotiate(&request.headers, &V2) else {
                return response(StatusCode::NOT_ACCEPTABLE, None, Bytes::new(), head);
            };
            let (body, hash) = self.v2(&made, encoding);
            return hashed(request, media, body, &hash, false);
        }
        if path == "v3" {
            return response(StatusCode::OK, Some("text/plain; charset=utf-8"), made.index(), head);
        }
        let Some(document) = path.strip_prefix("v3/").and_then(|name| made.documents.get(name)) else {
            return response(StatusCode::NOT_FOUND, None, Bytes::new(), head);
        };
        let Some((encoding, media)) = negotiate(&request.headers, &V3) else {
            return response(StatusCode::NOT_ACCEPTABLE, None, Bytes::new(), head);
        };
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
            asked => hashed(request, media, self.v3(document, encoding), &document.hash, asked.is_some()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_custom_resources_are_kept_up_to_a_limit_and_the_oldest_go_first() {
        let recent = Recent::default();
        let third = Bytes::from(vec![b' '; Recent::LIMIT / 3]);
        let name = |n: usize| Str::from(format!("hash {n}"));
        for n in 0..3 {
            recent.put(&name(n), Encoding::Json, third.clone());
        }
        assert_eq!(recent.get(&name(0), Encoding::Protobuf), None);
        assert!(recent.get(&name(0), Encoding::Json).is_some(), "now it is the latest");
        recent.put(&name(3), Encoding::Json, third.clone());
        let there: Vec<bool> = (0..4).map(|n| recent.get(&name(n), Encoding::Json).is_some()).collect();
        assert_eq!(there, [true, false, true, true]);
        recent.put(&name(4), Encoding::Json, Bytes::from(vec![b' '; Recent::LIMIT + 1]));
        assert!(recent.get(&name(4), Encoding::Json).is_some() && recent.get(&name(3), Encoding::Json).is_none());
    }

    #[test]
    fn clients_get_the_encoding_that_they_name_first_among_the_best() {
        let check = |accept: &str, expect: Option<Encoding>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_str(accept).expect("a header"));
            assert_eq!(negotiate(&headers, &V2).map(|(encoding, _)| encoding), expect, "{accept}");
        };
        check("", Some(Encoding::Json));
        check("*/*", Some(Encoding::Json));
        check("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", Some(Encoding::Protobuf));
        check(
            "application/com.github.proto-openapi.spec.v2.v1.0+protobuf;q=0.5,application/*;q=0.1",
            Some(Encoding::Protobuf),
        );
        check(
            "application/com.github.proto-openapi.spec.v2.v1.0+protobuf;q=0.5, application/json",
            Some(Encoding::Json),
        );
        check("application/com.github.proto-openapi.spec.v3.v1.0+protobuf", None);
        check("application/yaml", None);
        check("text/plain, application/json;q=0.5", Some(Encoding::Json));
    }
}
