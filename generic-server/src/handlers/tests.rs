//! Requests without a body, from their path to their answer.

use std::sync::Arc;

use auth::Mode;
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Uri,
    header::{CONTENT_TYPE, WARNING},
};
use http_body_util::BodyExt;
use machinery::{
    Value,
    codec::{cbor, json},
    object,
};
use storage::Memory;

use crate::{
    admission::{Admission, Chain},
    handlers,
    negotiate::ServesCbor,
    registry::{Backing, Listers, Registries, RegistrySettings},
    request::{Request, RequestBody, RequestParts},
    response,
    table::{Endpoints, TableEntry, entries},
    testing,
};

struct Served(Arc<TableEntry>);

struct Answer {
    code: u16,
    content_type: String,
    warnings: usize,
    bytes: Bytes,
    body: Value,
}

impl Served {
    /// Serves config maps, of which there are some in the namespace `default`.
    async fn with(names: &[&str]) -> Self {
        let rows = vec![testing::config_maps()];
        let settings = RegistrySettings::default();
        let backing = Backing { store: Memory::new(), encryption: None, root: "/registry".into(), settings };
        let admission: Arc<dyn Admission> = Arc::new(Chain::default());
        let registries = Registries::new(&Listers::start(&rows, &backing), &admission);
        for name in names {
            let config_map = object! {
                "kind" => "ConfigMap", "apiVersion" => "v1",
                "metadata" => object! {
                    "name" => *name, "namespace" => "default", "labels" => object! { "first" => &name[..1] },
                },
            };
            registries.of("", "configmaps").create_as_server(config_map).await.expect("made");
        }
        let mut entries = entries(rows, &backing.settings, &registries, &Endpoints::new());
        Served(entries.pop().expect("one row"))
    }

    async fn ask(&self, method: Method, path: &str, accept: &'static str) -> Answer {
        self.send((method, path), accept, None, http::Extensions::new()).await
    }

    /// Asks a server that has CBOR, and sends a document in it.
    async fn send_cbor(&self, (method, path): (Method, &str), content_type: &'static str, body: Bytes) -> Answer {
        let mut extensions = http::Extensions::new();
        extensions.insert(ServesCbor);
        self.send((method, path), "application/cbor", Some((content_type, body)), extensions).await
    }

    async fn send(
        &self,
        (method, path): (Method, &str),
        accept: &'static str,
        body: Option<(&'static str, Bytes)>,
        extensions: http::Extensions,
    ) -> Answer {
        let uri: Uri = format!("/api/v1/namespaces/default/configmaps{path}").parse().expect("a path");
        let mut headers = HeaderMap::new();
        headers.insert("accept", HeaderValue::from_static(accept));
        let body = body.map(|(content_type, body)| {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            RequestBody::whole(body)
        });
        let parts = RequestParts::new(method, uri, headers, Arc::new(Mode::AlwaysAllow));
        let request = Request::from(RequestParts { body, extensions, ..parts });
        let wanted = response::wanted(&request);
        let answer = handlers::serve(request, self.0.clone()).await;
        let response = answer.unwrap_or_else(|status| response::error(&status, wanted));
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let (code, content_type) = (response.status().as_u16(), content_type.to_owned());
        let warnings = response.headers().get_all(WARNING).iter().count();
        let bytes = response.into_body().collect().await.expect("no error").to_bytes();
        let body = match content_type.as_str() {
            "application/cbor" => cbor::decode(&bytes).expect("CBOR"),
            _ => json::decode(&bytes).unwrap_or_default(),
        };
        Answer { code, content_type, warnings, bytes, body }
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, "application/json").await
    }
}

impl Answer {
    fn text(&self, path: &[&str]) -> &str {
        self.body.str_at(path).unwrap_or_default()
    }

    fn names(&self) -> Vec<&str> {
        let items = self.body.get("items").and_then(Value::as_array).unwrap_or_default();
        items.iter().filter_map(|item| item.str_at(&["metadata", "name"])).collect()
    }
}

#[tokio::test]
async fn one_object_is_read_by_its_name() {
    let served = Served::with(&["a"]).await;
    let found = served.get("/a").await;
    assert_eq!((found.code, found.text(&["kind"]), found.text(&["metadata", "name"])), (200, "ConfigMap", "a"));
    let missing = served.get("/b").await;
    assert_eq!((missing.code, missing.text(&["reason"])), (404, "NotFound"));
    assert_eq!(missing.text(&["message"]), "configmaps \"b\" not found");
    assert_eq!(missing.text(&["details", "name"]), "b");
    // A get takes any state that is at least as new.
    assert_eq!(served.get("/a?resourceVersion=0").await.code, 200);
    // Upstream's get finds an unreadable version in its storage, which makes it an error of the server.
    assert_eq!(served.get("/a?resourceVersion=x").await.code, 500);
    let future = served.get("/a?resourceVersion=100000").await;
    assert_eq!((future.code, future.text(&["details", "causes"])), (504, ""));
}

#[tokio::test]
async fn lists_are_cut_into_pages_and_filtered() {
    let served = Served::with(&["a1", "a2", "b1", "c1"]).await;
    let all = served.get("").await;
    assert_eq!((all.code, all.text(&["kind"]), all.names()), (200, "ConfigMapList", vec!["a1", "a2", "b1", "c1"]));
    let first = served.get("?limit=3").await;
    assert_eq!(first.names(), ["a1", "a2", "b1"]);
    assert_eq!(first.body.at(&["metadata", "remainingItemCount"]).and_then(Value::as_i64), Some(1));
    let rest = served.get(&format!("?limit=3&continue={}", first.text(&["metadata", "continue"]))).await;
    assert_eq!((rest.names(), rest.text(&["metadata", "continue"])), (vec!["c1"], ""));
    assert_eq!(served.get("?labelSelector=first%3Da").await.names(), ["a1", "a2"]);
    assert_eq!(served.get("?fieldSelector=metadata.name%3Db1").await.names(), ["b1"]);
    assert_eq!(served.get("?labelSelector=first%3D%3D%3D").await.code, 400);
    let unknown = served.get("?fieldSelector=data.k%3D1").await;
    assert_eq!(unknown.code, 400);
    assert!(unknown.text(&["message"]).contains("\"data.k\" is not a known field selector"));
    assert_eq!(served.get("?continue=nonsense").await.code, 400);
}

#[tokio::test]
async fn answers_come_in_the_form_that_is_asked_for() {
    let served = Served::with(&["a"]).await;
    let table = served.ask(Method::GET, "", "application/json;as=Table;v=v1;g=meta.k8s.io").await;
    assert_eq!((table.text(&["kind"]), table.text(&["apiVersion"])), ("Table", "meta.k8s.io/v1"));
    let partial = served.ask(Method::GET, "/a", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io").await;
    assert_eq!(partial.text(&["kind"]), "PartialObjectMetadata");
    let protobuf = served.ask(Method::GET, "/a", "application/vnd.kubernetes.protobuf").await;
    assert_eq!((protobuf.code, protobuf.content_type.as_str()), (200, "application/vnd.kubernetes.protobuf"));
    assert_eq!(served.ask(Method::GET, "/a", "image/png").await.code, 406);
}

#[tokio::test]
async fn documents_come_and_go_as_cbor_where_the_server_has_it() {
    const CBOR: &str = "application/cbor";
    let served = Served::with(&["a"]).await;
    let empty = Bytes::new();
    assert_eq!(served.ask(Method::GET, "/a", CBOR).await.code, 406);
    let one = served.send_cbor((Method::GET, "/a"), CBOR, empty.clone()).await;
    assert_eq!((one.code, one.content_type.as_str(), one.text(&["metadata", "name"])), (200, CBOR, "a"));
    let all = served.send_cbor((Method::GET, ""), CBOR, empty.clone()).await;
    assert_eq!((all.text(&["kind"]), all.names()), ("ConfigMapList", vec!["a"]));
    let none = served.send_cbor((Method::GET, "?labelSelector=first%3Dz"), CBOR, empty.clone()).await;
    assert_eq!((none.text(&["kind"]), none.body.get("items")), ("ConfigMapList", Some(&Vec::<Value>::new().into())));
    let missing = served.send_cbor((Method::GET, "/b"), CBOR, empty.clone()).await;
    assert_eq!((missing.code, missing.content_type.as_str(), missing.text(&["reason"])), (404, CBOR, "NotFound"));
    // What upstream's router refuses is JSON.
    let refused = served.send_cbor((Method::PUT, ""), CBOR, empty.clone()).await;
    assert_eq!((refused.code, refused.content_type.as_str()), (405, "application/json"));
    let watch = served.send_cbor((Method::GET, "?watch=1&timeoutSeconds=1"), CBOR, empty).await;
    assert_eq!((watch.code, watch.content_type.as_str()), (200, "application/cbor-seq"));
    let event = cbor::decode(&watch.bytes).expect("an event");
    assert_eq!((event.str_at(&["type"]), event.str_at(&["object", "kind"])), (Some("ADDED"), Some("ConfigMap")));

    let document =
        object! { "metadata" => object! { "name" => "b" }, "data" => object! { "k" => "v" }, "unknown" => 1 };
    let document = Bytes::from(cbor::encode_plain(&document));
    let strict = served.send_cbor((Method::POST, "?fieldValidation=Strict"), CBOR, document.clone()).await;
    let why = "strict decoding error: cbor: found unknown field at map element index 1";
    assert_eq!(
        (strict.code, strict.text(&["message"])),
        (400, &*format!("ConfigMap in version \"v1\" cannot be handled as a ConfigMap: {why}"))
    );
    let made = served.send_cbor((Method::POST, ""), CBOR, document).await;
    assert_eq!((made.code, made.warnings, made.text(&["data", "k"])), (201, 1, "v"));
    let config = object! {
        "apiVersion" => "v1", "kind" => "ConfigMap", "metadata" => object! { "name" => "b" }, "data" => object! { "l" => "w" },
    };
    let config = Bytes::from(cbor::encode_plain(&config));
    let applied = served.send_cbor((Method::PATCH, "/b?fieldManager=m"), "application/apply-patch+cbor", config).await;
    assert_eq!((applied.code, applied.text(&["data", "l"])), (200, "w"));
    let options = Bytes::from(cbor::encode_plain(&object! { "dryRun" => vec![Value::from("All")] }));
    assert_eq!(served.send_cbor((Method::DELETE, "/b"), CBOR, options).await.code, 200);
    assert_eq!(served.get("/b").await.code, 200);
    let broken = served.send_cbor((Method::DELETE, "/b"), CBOR, Bytes::from_static(&[0xa1])).await;
    assert_eq!(broken.text(&["message"]), "unable to determine group/version/kind: unexpected EOF");
}

#[tokio::test]
async fn objects_are_deleted_one_by_one_and_together() {
    let served = Served::with(&["a1", "a2", "b1"]).await;
    let gone = served.ask(Method::DELETE, "/b1", "application/json").await;
    assert_eq!((gone.code, gone.text(&["kind"]), gone.text(&["status"])), (200, "Status", "Success"));
    assert_eq!(gone.text(&["details", "kind"]), "configmaps");
    assert_eq!(served.ask(Method::DELETE, "/b1", "application/json").await.code, 404);
    let dry = served.ask(Method::DELETE, "/a1?dryRun=All", "application/json").await;
    assert_eq!((dry.code, served.get("/a1").await.code), (200, 200));
    assert_eq!(served.ask(Method::DELETE, "/a1?dryRun=Some", "application/json").await.code, 422);
    let all = served.ask(Method::DELETE, "?labelSelector=first%3Da", "application/json").await;
    assert_eq!((all.code, all.names()), (200, vec!["a1", "a2"]));
    assert_eq!(served.get("").await.names(), Vec::<&str>::new());
}

#[tokio::test]
async fn what_a_row_does_not_serve_is_no_method_of_it() {
    let served = Served::with(&[]).await;
    for (method, path) in [(Method::POST, "/a"), (Method::PUT, ""), (Method::PATCH, "")] {
        let refused = served.ask(method.clone(), path, "application/json").await;
        assert_eq!((refused.code, refused.text(&["reason"])), (405, "MethodNotAllowed"), "{method} {path}");
    }
    let subresource = served.get("/a/status").await;
    assert_eq!(subresource.code, 404);
}
