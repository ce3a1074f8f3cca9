//! An aggregated API server whose objects can be listed, watched, changed and deleted: boxes.test/v1, boxes in namespaces. It can be
//! down for a while, and has its objects still when it is up again.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures_util::stream;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpListener, runtime::Runtime, sync::watch};
use tokio_rustls::TlsAcceptor;

use crate::webhook::identity;

type Body = UnsyncBoxBody<Bytes, io::Error>;
const API_VERSION: &str = "boxes.test/v1";

/// The server. It ends when this is dropped.
pub struct Aggregated {
    port: u16,
    bundle: String,
    shared: Arc<Shared>,
    _runtime: Runtime,
}

struct Shared {
    state: Mutex<State>,
    /// The version of the last change; what watches wait for.
    changed: watch::Sender<usize>,
    is_down: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    /// By namespace and name.
    objects: BTreeMap<(String, String), Value>,
    /// What has happened; a version is a place behind it.
    log: Vec<(&'static str, Value)>,
}

impl Aggregated {
    /// A server whose certificate is of this name.
    pub fn start(name: &str) -> Self {
        let (bundle, tls) = identity(&[name]);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime starts");
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (changed, is_down) = (watch::Sender::new(0), watch::Sender::new(false));
        let shared = Arc::new(Shared { state: Mutex::default(), changed, is_down });
        runtime.spawn(serve(listener, TlsAcceptor::from(Arc::new(tls)), shared.clone()));
        Aggregated { port, bundle: STANDARD.encode(bundle), shared, _runtime: runtime }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The authority of its certificate, as a caBundle.
    pub fn bundle(&self) -> &str {
        &self.bundle
    }

    /// Whether it cuts all connections from now on.
    pub fn set_down(&self, is_down: bool) {
        self.shared.is_down.send_replace(is_down);
    }

    /// The names of its objects.
    pub fn names(&self) -> Vec<String> {
        self.shared.state().objects.keys().map(|(_, name)| name.clone()).collect()
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    while let Ok((tcp, _)) = listener.accept().await {
        let (acceptor, shared) = (acceptor.clone(), shared.clone());
        tokio::spawn(async move {
            let mut is_down = shared.is_down.subscribe();
            let connection = async {
                let Ok(tls) = acceptor.accept(tcp).await else { return };
                let service = service_fn(|request| answer(request, shared.clone()));
                let _ = http1::Builder::new().serve_connection(TokioIo::new(tls), service).await; // clients go away
            };
            let cut = async {
                let _ = is_down.wait_for(|down| *down).await; // or nobody can say so any more
            };
            tokio::select! {
                () = connection => {}
                () = cut => {}
            }
        });
    }
}

/// A path: namespace and name, where it has them.
fn place(path: &str) -> Option<(String, String)> {
    let rest = path.strip_prefix("/apis/boxes.test/v1/")?;
    let parts: Vec<&str> = rest.split('/').collect();
    let owned = |namespace: &str, name: &str| Some((namespace.to_owned(), name.to_owned()));
    match parts.as_slice() {
        ["boxes"] => owned("", ""),
        ["namespaces", namespace, "boxes"] => owned(namespace, ""),
        ["namespaces", namespace, "boxes", name] => owned(namespace, name),
        _ => None,
    }
}

async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Response<Body>, io::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let query = parts.uri.query().unwrap_or_default();
    if parts.uri.path() == "/apis/boxes.test/v1" {
        return Ok(document(200, &resources()));
    }
    let Some((namespace, name)) = place(parts.uri.path()) else { return Ok(failure(404)) };
    if parts.method == Method::GET && name.is_empty() && query.contains("watch=true") {
        let since = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion=")?.parse().ok());
        return Ok(watched(shared, since.unwrap_or(0)));
    }
    let (code, value) = shared.act(&parts.method, &namespace, &name, &body);
    Ok(if code < 300 { document(code, &value) } else { failure(code) })
}

fn resources() -> Value {
    let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "watch"];
    let boxes = json!({"name": "boxes", "singularName": "box", "namespaced": true, "kind": "Box", "verbs": verbs});
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": API_VERSION, "resources": [boxes]})
}

fn document(code: u16, value: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(value.to_string())).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).expect("a status code");
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

fn failure(code: u16) -> Response<Body> {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        _ => "",
    };
    document(code, &json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}))
}

/// The events from a version on, as they happen.
fn watched(shared: Arc<Shared>, since: usize) -> Response<Body> {
    let changes = shared.changed.subscribe();
    let events = stream::unfold((shared, changes, since), |(shared, mut changes, at)| async move {
        changes.wait_for(|version| *version > at).await.ok()?;
        let (kind, object) = shared.state().log[at].clone();
        let line = json!({"type": kind, "object": object}).to_string() + "\n";
        Some((Ok(Frame::data(Bytes::from(line))), (shared, changes, at + 1)))
    });
    let events: std::pin::Pin<Box<dyn futures_util::Stream<Item = _> + Send>> = Box::pin(events);
    Response::new(BodyExt::boxed_unsync(StreamBody::new(events)))
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("not poisoned")
    }

    fn act(&self, method: &Method, namespace: &str, name: &str, body: &Value) -> (u16, Value) {
        let mut state = self.state();
        let key = (namespace.to_owned(), name.to_owned());
        let done = match (method.as_str(), name.is_empty()) {
            ("GET", true) => (200, state.list(namespace)),
            ("POST", true) => (201, state.create(namespace, body.clone())),
            ("DELETE", true) => {
                let keys: Vec<_> = state.objects.keys().filter(|(own, _)| own == namespace).cloned().collect();
                keys.iter().for_each(|key| drop(state.delete(key, body)));
                (200, state.list(namespace))
            }
            _ => match state.objects.get(&key).cloned() {
                None => (404, Value::Null),
                Some(object) => match method.as_str() {
                    "GET" => (200, object),
                    "PATCH" => state.patch(&key, object, body),
                    "DELETE" => state.delete(&key, body),
                    _ => (405, Value::Null),
                },
            },
        };
        self.changed.send_replace(state.log.len());
        done
    }
}

impl State {
    fn list(&self, namespace: &str) -> Value {
        let items = self.objects.iter().filter(|((own, _), _)| namespace.is_empty() || own == namespace);
        let items: Vec<&Value> = items.map(|(_, object)| object).collect();
        let version = self.log.len().to_string();
        json!({"kind": "BoxList", "apiVersion": API_VERSION, "metadata": {"resourceVersion": version}, "items": items})
    }

    fn put(&mut self, kind: &'static str, key: &(String, String), mut object: Value) -> Value {
        object["metadata"]["resourceVersion"] = json!((self.log.len() + 1).to_string());
        self.log.push((kind, object.clone()));
        match kind {
            "DELETED" => drop(self.objects.remove(key)),
            _ => drop(self.objects.insert(key.clone(), object.clone())),
        }
        object
    }

    fn create(&mut self, namespace: &str, mut object: Value) -> Value {
        object["kind"] = json!("Box");
        object["apiVersion"] = json!(API_VERSION);
        object["metadata"]["namespace"] = json!(namespace);
        object["metadata"]["uid"] = json!(format!("box-{}", self.log.len()));
        object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        self.put("ADDED", &(namespace.to_owned(), name), object)
    }

    /// A merge patch of the metadata, if the object is still the one that it names.
    fn patch(&mut self, key: &(String, String), mut object: Value, patch: &Value) -> (u16, Value) {
        for (member, value) in patch["metadata"].as_object().into_iter().flatten() {
            let metadata = object["metadata"].as_object_mut().expect("an object");
            match member.as_str() {
                "uid" | "resourceVersion" if metadata[member] != *value => return (409, Value::Null),
                _ if value.is_null() => drop(metadata.remove(member)),
                _ => drop(metadata.insert(member.clone(), value.clone())),
            }
        }
        (200, self.settle(key, object))
    }

    fn delete(&mut self, key: &(String, String), options: &Value) -> (u16, Value) {
        let mut object = self.objects[key].clone();
        let metadata = &mut object["metadata"];
        for (member, value) in options["preconditions"].as_object().into_iter().flatten() {
            if metadata[member] != *value {
                return (409, Value::Null);
            }
        }
        metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        (200, self.settle(key, object))
    }

    /// Writes an object; one that is being deleted goes when no finalizer is left.
    fn settle(&mut self, key: &(String, String), object: Value) -> Value {
        let metadata = &object["metadata"];
        let waits = metadata["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty());
        let goes = metadata["deletionTimestamp"].is_string() && !waits;
        self.put(if goes { "DELETED" } else { "MODIFIED" }, key, object)
    }
}
