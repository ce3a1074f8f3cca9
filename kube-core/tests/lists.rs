//! Lists are written item by item in every form; what comes of it is what one encoder makes of the whole list.

mod served;

use bytes::Bytes;
use generic_server::{
    negotiate::{Offer, negotiate},
    response,
};
use http_body::Body as _;
use machinery::{Value, codec::json, object};
use served::Served;

const TABLE: &str = "as=Table;g=meta.k8s.io;v=v1";

fn configmap(i: usize) -> Value {
    let notes = ["line 1\nline 2\n", "a: b", "'quoted'", "", "  indented\n\n"];
    object! {
        "kind" => "ConfigMap", "apiVersion" => "v1",
        "metadata" => object! {
            "name" => format!("c-{i:04}"), "namespace" => "default", "uid" => i.to_string(),
            "creationTimestamp" => "2024-01-01T00:00:00Z",
            "labels" => object! { "i" => (i % 7).to_string() },
            "annotations" => object! { "note" => notes[i % notes.len()] },
        },
        "data" => object! { "k" => "v".repeat(i % 300), "<&>" => "é\u{2028}" },
    }
}

fn autoscaler(i: usize) -> Value {
    object! {
        "kind" => "HorizontalPodAutoscaler", "apiVersion" => "autoscaling/v2",
        "metadata" => object! { "name" => format!("h-{i:04}"), "namespace" => "default", "uid" => i.to_string() },
        "spec" => object! {
            "maxReplicas" => 3,
            "scaleTargetRef" => object! { "kind" => "Deployment", "name" => "x", "apiVersion" => "apps/v1" },
        },
        "status" => object! { "desiredReplicas" => i as i64, "currentReplicas" => 0 },
    }
}

/// A list put together of what single objects are answered as, then encoded at once.
async fn whole(served: &Served, path: &str, accept: &str) -> Vec<u8> {
    let parameters = accept.split_once(';').map_or("", |(_, parameters)| parameters);
    let transformed = parameters.contains("as=");
    let single = match transformed {
        true => format!("application/json;{}", parameters.replace("MetadataList", "Metadata")),
        false => "application/json".to_owned(),
    };
    let list = json::decode(&served::bytes(served.get(path, "application/json").await).await).expect("JSON");
    let row_name = if parameters.contains("Table") { "rows" } else { "items" };
    let mut items = Vec::new();
    for item in list.get("items").and_then(Value::as_array).expect("items") {
        let name = item.str_at(&["metadata", "name"]).expect("a name");
        let (collection, query) = path.split_once('?').unwrap_or((path, ""));
        let one = served.get(&format!("{collection}/{name}?{query}"), &single).await;
        let mut one = json::decode(&served::bytes(one).await).expect("JSON");
        if !transformed {
            one.make_object().remove("kind");
            one.make_object().remove("apiVersion");
        }
        items.push(if row_name == "rows" {
            one.get("rows").and_then(Value::as_array).expect("rows")[0].clone()
        } else {
            one
        });
    }
    let nobody = format!("{}?labelSelector=no%3Dbody", path.split('?').next().unwrap_or(path));
    let empty = served.get(&nobody, &single.replace("PartialObjectMetadata;", "PartialObjectMetadataList;")).await;
    let mut value = json::decode(&served::bytes(empty).await).expect("JSON");
    value.make_object().insert(row_name, items);
    let accepted = negotiate(Some(accept), None, None, &Offer::OBJECTS).expect("it is offered");
    response::encode(&value, accepted)
}

async fn check(served: &Served, path: &str, accept: &str, known_length: bool) {
    let expect = whole(served, path, accept).await;
    let response = served.get(path, accept).await;
    assert_eq!(response.status(), 200, "{path} {accept}");
    let hint = response.body().size_hint();
    assert_eq!(hint.exact().is_some(), known_length, "{path} {accept}");
    assert!(hint.lower() > 128 * 1024 || hint.exact().is_some(), "whether to compress it can be told");
    let found = served::bytes(response).await;
    if let Some(length) = hint.exact() {
        assert_eq!(found.len() as u64, length, "{path} {accept}");
    }
    let same = match accept.contains("json") {
        true => json::decode(&found) == json::decode(&expect) && found.len() == expect.len(),
        false => found == expect,
    };
    assert!(same, "{path} {accept}:\n{}\n{}", found.escape_ascii(), expect.escape_ascii());
}

#[tokio::test]
async fn a_list_is_what_its_objects_are() {
    let configmaps: Vec<Value> = (0..900).map(configmap).collect();
    let served = Served::start("", "configmaps", &configmaps).await;
    let autoscalers: Vec<Value> = (0..12).map(autoscaler).collect();
    let converted = Served::start("autoscaling", "horizontalpodautoscalers", &autoscalers).await;
    let metadata = "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    for (accept, known_length) in [
        ("application/json".to_owned(), true),
        ("application/json;pretty=1".to_owned(), false),
        ("application/yaml".to_owned(), false),
        ("application/vnd.kubernetes.protobuf".to_owned(), true),
        (format!("application/json;{TABLE}"), false),
        (format!("application/yaml;{TABLE}"), false),
        (format!("application/json;{metadata}"), false),
        (format!("application/yaml;{metadata}"), false),
        (format!("application/vnd.kubernetes.protobuf;{metadata}"), true),
    ] {
        // Twice: what is noted and kept of objects the first time is used the second time.
        for _ in 0..2 {
            let path = "/api/v1/namespaces/default/configmaps";
            check(&served, path, &accept, known_length).await;
            check(&served, &format!("{path}?labelSelector=i%3D3"), &accept, true).await;
            for version in ["v1", "v2"] {
                let path = format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
                check(&converted, &path, &accept, true).await;
            }
        }
    }
}

#[tokio::test]
async fn text_that_cannot_be_parsed_is_an_error_before_the_header() {
    let configmaps: Vec<Value> = (0..900).map(configmap).collect();
    // The metadata of one can be read, so the cache takes it.
    let spoil = |i, stored: Bytes| if i == 880 { stored.slice(..stored.len() - 1) } else { stored };
    let served = Served::start_with("", "configmaps", &configmaps, spoil).await;
    let path = "/api/v1/namespaces/default/configmaps";
    for accept in ["application/yaml", "application/vnd.kubernetes.protobuf", &format!("application/json;{TABLE}")] {
        let response = served.get(path, accept).await;
        assert_eq!(response.status(), 500, "{accept}");
    }
}

#[tokio::test]
async fn deprecated_paths_of_watches_are_there_for_everything_that_can_be_watched() {
    let served = Served::start("", "configmaps", &[configmap(0)]).await;
    let check = async |path: &str, status: u16| {
        assert_eq!(served.get(path, "application/json").await.status(), status, "{path}");
    };
    check("/api/v1/watch/configmaps", 200).await;
    check("/api/v1/watch/configmaps?fieldSelector=metadata.name%3Dc-0000", 200).await;
    check("/api/v1/watch/configmaps/c-0000", 404).await;
    check("/api/v1/watch/namespaces/default/configmaps", 200).await;
    check("/api/v1/watch/namespaces/default/configmaps/c-0000", 200).await;
    check("/api/v1/watch/namespaces/default/configmaps/c-0000?fieldSelector=metadata.name%3Dc-0000", 200).await;
    check("/api/v1/watch/namespaces/default/configmaps/c-0000?fieldSelector=metadata.name%3Db", 400).await;
    check("/api/v1/watch/namespaces/default/configmaps/c-0000?fieldSelector=metadata.namespace%3Ddefault", 400).await;
}
