//! Documents as clients get them.

use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt as _;
use machinery::{
    Str, Value, array,
    codec::json,
    meta::{GroupVersion, GroupVersionKind},
    object,
    request::Verbs,
    schema::{Schema, Shape},
};

use super::{OpenApi, V2, negotiate};
use crate::features::{BINARY, Minor};
use crate::openapi::{members::Encoding, paths::group_id};
use crate::{
    endpoint::Endpoint as _,
    request::{Request, RequestParts},
    resource::{Availability, Resource, SelectableField, Strategy, Subresource, SubresourceKind, UnknownField},
    response::Response,
    table::{ResourceTable, TableEntry},
};
use auth::Mode;

struct NoRules;

impl Strategy for NoRules {}

fn clocks() -> Resource {
    let status = Subresource {
        name: "status".into(),
        kind: SubresourceKind::Status,
        response_kind: GroupVersionKind::new("time.example.dev", "v1", "Clock"),
        verbs: Verbs::STATUS,
    };
    Resource {
        group: "time.example.dev".into(),
        version: "v1".into(),
        plural: "clocks".into(),
        singular: "clock".into(),
        kind: "Clock".into(),
        list_kind: "ClockList".into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: Verbs::STANDARD,
        storage_version_hash: None,
        subresources: vec![status],
        schema: Schema::of(Shape::Any).into(),
        built_in: false,
        storage_path: "time.example.dev/clocks".into(),
        storage_version: GroupVersion::new("time.example.dev", "v1"),
        conversion: None,
        strategy: Arc::new(NoRules),
        printer: crate::printer::metadata().printer(),
        selectable_fields: vec![SelectableField::new("spec.hour")],
        unknown_field: UnknownField::Unsupported,
        deprecation: None,
        availability: Availability::default(),
    }
}

fn named(kind: &str, group: &str) -> Resource {
    let plural = format!("{}s", kind.to_lowercase());
    Resource {
        group: group.into(),
        kind: kind.into(),
        list_kind: format!("{kind}List").into(),
        plural: plural.into(),
        ..clocks()
    }
}

fn entry(row: Resource) -> Arc<TableEntry> {
    Arc::new(TableEntry {
        row,
        registry: None,
        endpoints: Default::default(),
        after_write: None,
        openapi: Default::default(),
    })
}

/// A server of custom resources, all with one schema, which can change.
struct Server {
    table: Arc<ArcSwap<ResourceTable>>,
    schema: Arc<ArcSwap<Value>>,
    openapi: Arc<OpenApi>,
}

impl Server {
    fn of(rows: Vec<Resource>, schema: Value) -> Self {
        let table = Arc::new(ArcSwap::from_pointee(ResourceTable::new(rows.into_iter().map(entry))));
        let schema = Arc::new(ArcSwap::from_pointee(schema));
        let published = schema.clone();
        let openapi = OpenApi::new(
            vec![table.clone()],
            Arc::new(move |_| Some(Bytes::from(json::encode(&published.load())))),
            Minor(BINARY),
        );
        Server { table, schema, openapi }
    }

    /// Serves just these rows in a group.
    fn set(&self, group: &str, rows: Vec<Resource>) {
        let table = self.table.load().with_group(&group.into(), rows.into_iter().map(entry).collect());
        self.table.store(Arc::new(table));
    }

    async fn ask(&self, path: &str, headers: &[(header::HeaderName, &str)]) -> Response {
        let uri: http::Uri = path.parse().expect("a path");
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(name.clone(), HeaderValue::from_str(value).expect("a header"));
        }
        let request = Request::from(RequestParts::new(Method::GET, uri, map, Arc::new(Mode::AlwaysAllow)));
        self.openapi.serve(request).await.expect("an answer")
    }

    async fn get(&self, path: &str) -> Value {
        let response = self.ask(path, &[]).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        json::decode(&response.into_body().collect().await.expect("a body").to_bytes()).expect("JSON")
    }

    /// The URLs of the index.
    async fn index(&self) -> Vec<(Str, String)> {
        let index = self.get("/openapi/v3").await;
        let paths = index.get("paths").and_then(Value::as_object).expect("paths");
        let url = |at: &Value| at.str_at(&["serverRelativeURL"]).expect("a URL").to_owned();
        paths.iter().map(|(name, at)| (name.clone(), url(at))).collect()
    }
}

fn schema() -> Value {
    object! { "type" => "object", "description" => "A clock." }
}

#[tokio::test]
async fn the_document_of_v2_names_the_version_and_shares_parameters() {
    let server = Server::of(vec![Resource { built_in: true, ..clocks() }], schema());
    let made = server.get("/openapi/v2").await;
    assert_eq!(made.str_at(&["info", "version"]), Some("1.36"));
    let clocks = "/apis/time.example.dev/v1/namespaces/{namespace}/clocks/{name}";
    let patch = made.at(&["paths", clocks, "patch"]).expect("an operation");
    assert_eq!(
        patch.get("consumes"),
        Some(&array![
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
            "application/apply-patch+yaml",
        ])
    );
    let json_first = array!["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
    assert_eq!(patch.get("produces"), Some(&json_first));
    let references = made.at(&["paths", clocks, "parameters"]).and_then(Value::as_array).expect("parameters");
    let namespace = references.iter().filter_map(|p| p.str_at(&["$ref"])).find(|r| r.contains("namespace"));
    let name = namespace.and_then(|reference| reference.strip_prefix("#/parameters/")).expect("a reference");
    assert_eq!(made.str_at(&["parameters", name, "in"]), Some("path"));
    assert!(references.iter().any(|p| p.str_at(&["name"]) == Some("name")), "the name of the object is its own");
}

#[tokio::test]
async fn custom_resources_in_v2_share_the_parameters_of_built_in_ones() {
    let built_in = Resource { built_in: true, ..named("Watch", "w.example.dev") };
    let made = Server::of(vec![built_in, clocks()], schema()).get("/openapi/v2").await;
    let list = "/apis/time.example.dev/v1/namespaces/{namespace}/clocks";
    for (method, path) in [("get", list.to_owned()), ("delete", format!("{list}/{{name}}"))] {
        let consumes = made.at(&["paths", &path, method, "consumes"]);
        assert_eq!(consumes, Some(&array!["application/json", "application/yaml"]), "{method} {path}");
    }
    let paths = made.get("paths").and_then(Value::as_object).expect("paths");
    let (mut shared, mut own) = (0, 0);
    for (_, item) in paths.iter().filter(|(path, _)| path.starts_with(list)) {
        let members = item.as_object().expect("an item").values();
        let lists = members.filter_map(|member| member.get("parameters").unwrap_or(member).as_array());
        for parameter in lists.flatten() {
            match parameter.str_at(&["$ref"]).and_then(|reference| reference.strip_prefix("#/parameters/")) {
                Some(name) => {
                    shared += 1;
                    assert!(made.at(&["parameters", name]).is_some(), "{name}");
                }
                None => own += 1,
            }
        }
    }
    assert!(shared > 20 && own > 5, "{shared} {own}");
}

#[tokio::test]
async fn a_custom_resource_has_paths_operations_and_definitions() {
    let server = Server::of(vec![clocks()], schema());
    let made = server.get("/openapi/v3/apis/time.example.dev/v1").await;
    let paths = made.get("paths").and_then(Value::as_object).expect("paths");
    let names: Vec<&str> = paths.keys().map(Str::as_str).collect();
    assert_eq!(
        names,
        [
            "/apis/time.example.dev/v1/clocks",
            "/apis/time.example.dev/v1/namespaces/{namespace}/clocks",
            "/apis/time.example.dev/v1/namespaces/{namespace}/clocks/{name}",
            "/apis/time.example.dev/v1/namespaces/{namespace}/clocks/{name}/status",
        ]
    );
    let check = |path: usize, method: &str, id: &str| {
        assert_eq!(paths.get(names[path]).and_then(|p| p.str_at(&[method, "operationId"])), Some(id));
    };
    check(0, "get", "listTimeExampleDevV1ClockForAllNamespaces");
    check(1, "delete", "deleteTimeExampleDevV1CollectionNamespacedClock");
    check(2, "put", "replaceTimeExampleDevV1NamespacedClock");
    check(3, "patch", "patchTimeExampleDevV1NamespacedClockStatus");
    let clock = made.at(&["components", "schemas", "dev.example.time.v1.Clock"]).expect("the kind");
    assert_eq!(clock.str_at(&["description"]), Some("A clock."));
    let fields = array![object! { "fieldPath" => "spec.hour" }];
    assert_eq!(clock.get("x-kubernetes-selectable-fields"), Some(&fields));
    assert!(made.at(&["components", "schemas", "io.k8s.apimachinery.pkg.apis.meta.v1.Time"]).is_some());
}

#[tokio::test]
async fn a_change_in_one_group_changes_the_hash_of_its_documents_alone() {
    let server = Server::of(vec![clocks(), named("Tower", "a.example.dev"), named("Bell", "a.example.dev")], schema());
    let before = server.index().await;
    let of = |index: &[(Str, String)], name: &str| index.iter().find(|(n, _)| n == name).map(|(_, url)| url.clone());
    let changed = |before: &[(Str, String)], after: &[(Str, String)]| -> Vec<Str> {
        let other = after.iter().filter(|(name, url)| of(before, name).as_ref() != Some(url));
        other.map(|(name, _)| name.clone()).collect()
    };
    let (clock, tower) = ("apis/time.example.dev/v1", "apis/a.example.dev/v1");

    server.set("a.example.dev", vec![named("Tower", "a.example.dev")]);
    let fewer = server.index().await;
    assert_eq!(changed(&before, &fewer), [tower]);
    let url = of(&fewer, tower).expect("a document");
    let towers = server.get(&url).await;
    let definitions = towers.at(&["components", "schemas"]).and_then(Value::as_object).expect("schemas");
    assert!(definitions.contains_key("dev.example.a.v1.Tower") && !definitions.contains_key("dev.example.a.v1.Bell"));

    // The same rows with another schema, as an update of their definition makes them.
    server.schema.store(Arc::new(object! { "type" => "object", "description" => "A large clock." }));
    server.set("time.example.dev", vec![clocks()]);
    let rewritten = server.index().await;
    assert_eq!(changed(&fewer, &rewritten), [clock]);
    let old = of(&fewer, clock).expect("a document");
    assert_eq!(server.ask(&old, &[]).await.status(), StatusCode::MOVED_PERMANENTLY);
    let made = server.get(&of(&rewritten, clock).expect("a document")).await;
    let text = made.str_at(&["components", "schemas", "dev.example.time.v1.Clock", "description"]);
    assert_eq!(text, Some("A large clock."));

    server.set("time.example.dev", Vec::new());
    let gone = server.index().await;
    assert_eq!((of(&gone, clock), gone.len() + 1), (None, rewritten.len()));
    let again = Server::of(vec![named("Tower", "a.example.dev")], schema());
    assert_eq!(again.index().await, gone, "another server says the same of the same");
}

#[tokio::test]
async fn v2_has_everything_under_one_hash_in_every_encoding() {
    const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    let server = Server::of(vec![clocks(), named("Tower", "a.example.dev")], schema());
    let etag = |response: &Response| response.headers()[header::ETAG].to_str().expect("text").to_owned();
    let document = server.get("/openapi/v2").await;
    for name in ["dev.example.a.v1.Tower", "dev.example.time.v1.ClockList", "io.k8s.apimachinery.pkg.apis.meta.v1.Time"]
    {
        assert!(document.at(&["definitions", name]).is_some(), "{name}");
    }
    for path in ["/apis/a.example.dev/v1/towers", "/apis/time.example.dev/v1/clocks", "/version/"] {
        assert!(document.at(&["paths", path]).is_some(), "{path}");
    }
    let json = etag(&server.ask("/openapi/v2", &[]).await);
    let protobuf = server.ask("/openapi/v2", &[(header::ACCEPT, PROTOBUF)]).await;
    assert_eq!((etag(&protobuf), protobuf.headers()[header::CONTENT_TYPE] == PROTOBUF), (json.clone(), true));
    let body = protobuf.into_body().collect().await.expect("a body").to_bytes();
    assert!(body.starts_with(b"\x0a\x032.0"));
    let same = server.ask("/openapi/v2", &[(header::IF_NONE_MATCH, &json)]).await;
    assert_eq!(same.status(), StatusCode::NOT_MODIFIED);

    server.set("a.example.dev", Vec::new());
    let changed = server.ask("/openapi/v2", &[(header::IF_NONE_MATCH, &json)]).await;
    assert_eq!(changed.status(), StatusCode::OK);
    assert_ne!(etag(&changed), json);
    assert!(server.get("/openapi/v2").await.at(&["definitions", "dev.example.a.v1.Tower"]).is_none());
}

#[test]
fn group_names_become_words() {
    let check = |group: &str, id: &str| assert_eq!(group_id(group), id);
    check("", "core");
    check("apps", "apps");
    check("rbac.authorization.k8s.io", "rbacAuthorization");
    check("flowcontrol.apiserver.k8s.io", "flowcontrolApiserver");
    check("crd-openapi.example.dev", "crdOpenapiExampleDev");
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
    check("application/com.github.proto-openapi.spec.v2.v1.0+protobuf;q=0.5, application/json", Some(Encoding::Json));
    check("application/com.github.proto-openapi.spec.v3.v1.0+protobuf", None);
    check("application/yaml", None);
    check("text/plain, application/json;q=0.5", Some(Encoding::Json));
}
