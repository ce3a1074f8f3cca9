//! Requests as client-go's typed, dynamic and metadata clients write them, v1.36: taken from what a real controller-manager
//! and kubectl sent while they emptied and deleted a namespace with custom resources in it.

use integration_tests::{Reply, Server};

use crate::protobuf::{Client, all, envelope, field, named, number, open, text};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON: &str = "application/json";
/// Accept of the controller-manager's typed clients.
const TYPED: &str = "application/vnd.kubernetes.protobuf, */*";
/// Accept of kubectl's typed clients, and of what a metadata client does not ask metadata for: deletes.
const FIRST: &str = "application/vnd.kubernetes.protobuf,application/json";
/// Accept of metadata clients: objects, watches and patches; lists.
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
    application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
    application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
/// The body of a metadata client's deletes, which stay JSON whatever the client speaks otherwise.
const BACKGROUND: &[u8] = b"{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",\"propagationPolicy\":\"Background\"}\n";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn with_widgets() -> Client {
    let client = Client(Server::start());
    client.0.kubectl_with(&["apply", "-f", "-"], include_str!("widgets.yaml").split("---").next().expect("a CRD"));
    client
}

/// Method, path, content type and body of a request, and the status and kind of its answer.
type Asked<'a> = (&'a str, &'a str, &'a str, &'a [u8], u16, &'a str);

fn content_type(reply: &Reply) -> &str {
    reply.headers.iter().find(|(name, _)| name == "content-type").map_or("", |(_, value)| value)
}

fn widget(name: &str) -> String {
    format!(r#"{{"kind":"Widget","apiVersion":"example.com/v1","metadata":{{"name":"{name}"}},"spec":{{"size":1}}}}"#)
}

#[test]
fn typed_clients_delete_with_options_of_the_resources_group_version() {
    let client = with_widgets();
    let policies = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
    let policy = envelope("networking.k8s.io/v1", "NetworkPolicy", &named("p"));
    client.call("POST", policies, &policy, 201, "NetworkPolicy");
    let options = |message: &[u8]| envelope("networking.k8s.io/v1", "DeleteOptions", message);
    let path = format!("{policies}/p");
    let other = options(&field(2, field(1, "11111111-2222-3333-4444-555555555555")));
    client.call_with("DELETE", &path, (TYPED, PROTOBUF), &other, 409, "Status");
    client.call_with("DELETE", &path, (TYPED, PROTOBUF), &options(&field(4, "Background")), 200, "Status");
    client.call("GET", &path, b"", 404, "Status");

    // Definitions are deleted as any other kind, and their group version is one of the extensions server's.
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    let options = envelope("apiextensions.k8s.io/v1", "DeleteOptions", b"");
    client.call_with("DELETE", definition, (TYPED, PROTOBUF), &options, 200, "CustomResourceDefinition");
    let strange = envelope("apps/v1", "ListOptions", b"");
    let refused = client.call("DELETE", CONFIG_MAPS, &strange, 400, "Status");
    assert!(text(&refused, &[3]).starts_with("no kind \"ListOptions\" is registered for version \"apps/v1\""));
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn custom_resources_are_json_for_clients_that_would_rather_have_protobuf() {
    let client = with_widgets();
    let one = format!("{WIDGETS}/one");
    let watch = format!("{WIDGETS}?watch=true&timeoutSeconds=1");
    let created = widget("one");
    for accept in [FIRST, TYPED] {
        let merge = "application/merge-patch+json";
        let requests: [Asked<'_>; 7] = [
            ("POST", WIDGETS, JSON, created.as_bytes(), 201, "Widget"),
            ("GET", &one, "", b"", 200, "Widget"),
            ("GET", WIDGETS, "", b"", 200, "WidgetList"),
            ("PATCH", &one, merge, b"{\"spec\":{\"size\":2}}", 200, "Widget"),
            ("GET", &watch, "", b"", 200, ""),
            ("DELETE", &one, JSON, BACKGROUND, 200, "Status"),
            ("DELETE", WIDGETS, JSON, BACKGROUND, 200, "WidgetList"),
        ];
        for (method, path, sent, body, status, kind) in requests {
            let reply = client.ask(method, path, accept, sent, body);
            assert_eq!((reply.status, content_type(&reply)), (status, JSON), "{method} {path}: {}", reply.text());
            assert_eq!(reply.json()["kind"].as_str().unwrap_or_default(), kind, "{method} {path}: {}", reply.text());
        }
        // Errors have a message, whomever they are about.
        client.call_with("GET", &one, (accept, ""), b"", 404, "Status");
    }
    // One that accepts nothing else is refused before anything is done.
    let refused = client.call_with("POST", WIDGETS, (PROTOBUF, JSON), widget("none").as_bytes(), 406, "Status");
    assert_eq!(
        text(&refused, &[3]),
        "only the following media types are accepted: application/json, application/yaml, \
         application/vnd.kubernetes.protobuf"
    );
    client.call("GET", &format!("{WIDGETS}/none"), b"", 404, "Status");
}

#[test]
fn metadata_clients_see_custom_resources_as_messages() {
    let client = with_widgets();
    client.0.kubectl_with(&["create", "-f", "-"], &widget("one"));
    let one = format!("{WIDGETS}/one");
    let object = client.call_with("GET", &one, (METADATA, ""), b"", 200, "PartialObjectMetadata");
    assert_eq!(text(&object, &[1, 1]), "one");
    let list = client.call_with("GET", WIDGETS, (METADATA_LIST, ""), b"", 200, "PartialObjectMetadataList");
    assert_eq!(all(&list, 2).len(), 1);
    let merge = "application/merge-patch+json";
    let owned = br#"{"metadata":{"labels":{"a":"b"}}}"#;
    let patched = client.call_with("PATCH", &one, (METADATA, merge), owned, 200, "PartialObjectMetadata");
    assert_eq!((text(&patched, &[1, 11, 1]).as_str(), number(&patched, &[1, 7])), ("a", 1));
    let watch = format!(
        "{WIDGETS}?allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=1&watch=true"
    );
    let events = client.watch(&watch, METADATA);
    let seen: Vec<_> = events.iter().map(|(event, kind, _)| (event.as_str(), kind.as_str())).collect();
    assert_eq!(seen[..2], [("ADDED", "PartialObjectMetadata"), ("BOOKMARK", "PartialObjectMetadata")]);
    assert_eq!(text(&events[1].2, &[1, 12, 1]), "k8s.io/initial-events-end");
}

#[test]
fn a_namespace_is_emptied_and_finalized_as_its_controller_does_it() {
    let client = with_widgets();
    client.call("POST", "/api/v1/namespaces", &envelope("v1", "Namespace", &named("gone")), 201, "Namespace");
    let config_maps = "/api/v1/namespaces/gone/configmaps";
    let widgets = "/apis/example.com/v1/namespaces/gone/widgets";
    client.call("POST", config_maps, &envelope("v1", "ConfigMap", &named("a")), 201, "ConfigMap");
    client.ask("POST", widgets, FIRST, JSON, widget("w").as_bytes());
    let namespace = "/api/v1/namespaces/gone";
    let kubectl = b"{\"propagationPolicy\":\"Background\"}\n";
    let terminating = client.ask("DELETE", namespace, JSON, JSON, kubectl);
    assert_eq!(terminating.json()["status"]["phase"], "Terminating", "{}", terminating.text());

    // Each collection is deleted, then looked at.
    for (path, media) in [(config_maps, PROTOBUF), (widgets, JSON)] {
        let reply = client.ask("DELETE", path, FIRST, JSON, BACKGROUND);
        assert_eq!((reply.status, content_type(&reply)), (200, media), "{}", reply.text());
        let left = client.call_with("GET", path, (METADATA_LIST, ""), b"", 200, "PartialObjectMetadataList");
        assert_eq!(all(&left, 2).len(), 0, "{path}");
    }
    let now = client.ask("GET", namespace, TYPED, "", b"");
    let (_, kind, message) = open(&now.body);
    assert_eq!((kind.as_str(), text(&message, &[2, 1]).as_str()), ("Namespace", "kubernetes"));
    let finalized = envelope("v1", "Namespace", &field(1, at_most_metadata(&message)));
    client.call_with("PUT", &format!("{namespace}/finalize"), (TYPED, PROTOBUF), &finalized, 200, "Namespace");
    client.call("GET", namespace, b"", 404, "Status");
}

/// Name, uid and version of an object: what a finalized namespace is told by.
fn at_most_metadata(object: &[u8]) -> Vec<u8> {
    [1, 5, 6].map(|number| field(number, text(object, &[1, number]))).concat()
}
