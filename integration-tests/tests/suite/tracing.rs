//! Traces of requests, as a collector gets them.

use std::path::Path;

use integration_tests::{Answer, Collected, Collector, Server, Webhook, raw};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn configure(server: &mut Server, said: &str) {
    let file = server.dir().join("tracing.yaml");
    write(&file, said);
    server.set_arguments(&[&format!("--tracing-config-file={}", file.display())]);
}

fn write(file: &Path, said: &str) {
    let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n";
    std::fs::write(file, format!("{head}{said}")).expect("written");
}

fn traced(collector: &Collector, per_million: u32) -> Server {
    let mut server = Server::prepare();
    let endpoint = format!("endpoint: 127.0.0.1:{}\nsamplingRatePerMillion: {per_million}\n", collector.port());
    configure(&mut server, &endpoint);
    server.add_tokens("alicetoken,alice,1001,\"dev\"\n");
    server.run();
    server
}

/// Asks as the user of a token, in a trace of one's own: `number` is in it, and whether it is kept.
fn ask(server: &Server, token: &str, method: &str, path: &str, (number, kept): (u8, u8), body: &str) -> u16 {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: kubernetes\r\nAuthorization: Bearer {token}\r\nAudit-ID: own-{number}\r\n\
         traceparent: 00-{:032x}-00000000000000ff-{kept:02x}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        u128::from(number) | 1 << 127,
        body.len()
    );
    raw(server.port(), request.as_bytes()).expect("an answer").status
}

fn is_of(number: u8) -> impl Fn(&Collected) -> bool {
    move |span| span.attribute("audit-id").is_some_and(|id| id == format!("own-{number}")) && span.span.kind == 2
}

fn names(spans: &[Collected]) -> Vec<&str> {
    spans.iter().map(|span| span.span.name.as_str()).collect()
}

#[test]
fn a_trusted_clients_trace_goes_on_through_every_step_the_store_and_webhooks() {
    let collector = Collector::start(0);
    let server = traced(&collector, 0);
    let webhook = Webhook::start(&["127.0.0.1"], |review| {
        let response = json!({"uid": review["request"]["uid"], "allowed": true});
        Answer::Json(json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response}))
    });
    let hook = json!({
        "name": "a.b.c", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": {"url": format!("https://127.0.0.1:{}/", webhook.port()), "caBundle": webhook.bundle()},
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
    });
    let configuration = json!({"metadata": {"name": "all"}, "webhooks": [hook]});
    let place = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    assert_eq!(server.request("POST", place, Some(&configuration)).status, 201);

    let map = json!({"metadata": {"name": "a"}}).to_string();
    assert_eq!(ask(&server, "admintoken", "POST", MAPS, (1, 1), &map), 201);
    let request = collector.wait(is_of(1));
    assert_eq!(request.span.name, "POST /api/v1/namespaces/{:namespace}/configmaps");
    assert_eq!(request.span.parent_span_id, [0, 0, 0, 0, 0, 0, 0, 0xff]);
    assert_eq!(request.resource[0], ("service.name".to_owned(), "apiserver".to_owned()));
    let attributes = [
        ("http.request.method", "POST".to_owned()),
        ("http.response.status_code", "201".to_owned()),
        ("http.request.body.size", map.len().to_string()),
        ("url.path", MAPS.to_owned()),
        ("server.address", "kubernetes".to_owned()),
        ("client.address", "127.0.0.1".to_owned()),
        ("network.protocol.version", "1.1".to_owned()),
    ];
    for (key, expect) in attributes {
        assert_eq!(request.attribute(key), Some(expect), "{key}");
    }

    let trace = collector.trace(&request.span.trace_id);
    let expect = [
        "POST /api/v1/namespaces/{:namespace}/configmaps",
        "audit",
        "constrainedimpersonation",
        "priorityandfairness",
        "authorization",
        "Create",
        "Call validating webhook",
        "HTTP POST",
        "Create etcd3",
        "SerializeObject",
    ];
    assert_eq!(names(&trace), expect);
    let parents = [None, Some(0), Some(1), Some(2), Some(3), Some(4), Some(5), Some(6), Some(5), Some(5)];
    for (span, parent) in trace.iter().zip(parents) {
        let parent = parent.map(|place: usize| trace[place].span.span_id.clone());
        let is_root = parent.is_none();
        assert!(is_root || Some(&span.span.parent_span_id) == parent.as_ref(), "{}", span.span.name);
    }
    let store = &trace[8];
    assert_eq!(store.attribute("type").as_deref(), Some("*core.ConfigMap"));
    assert_eq!(store.attribute("key").as_deref(), Some("/configmaps/default/a"));
    assert!(store.events().ends_with(&["Txn call succeeded"]), "{:?}", store.events());
    assert_eq!(trace[6].attribute("webhook").as_deref(), Some("a.b.c"));

    // Others hear of it: the webhook belongs to the span of its call.
    let span: String = trace[7].span.span_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let told = webhook.header("traceparent").expect("it was told");
    assert!(told.starts_with("00-8000") && told.ends_with(&format!("-{span}-01")), "{told}");
}

#[test]
fn whose_word_counts_decides_what_is_kept() {
    let collector = Collector::start(0);
    let server = traced(&collector, 0);
    // Alice's wish is none of the server's business, and nobody else asks for a trace.
    assert_eq!(ask(&server, "alicetoken", "GET", MAPS, (1, 1), ""), 403);
    assert_eq!(ask(&server, "admintoken", "GET", MAPS, (2, 0), ""), 200);
    assert_eq!(ask(&server, "admintoken", "GET", "/version", (3, 1), ""), 200);
    let last = collector.wait(is_of(3));
    assert_eq!(last.span.name, "GET");
    let kept: Vec<_> = collector.spans().into_iter().filter(|span| span.span.kind == 2).collect();
    assert_eq!(names(&kept), ["GET"]);
    drop(server);

    let server = traced(&collector, 1_000_000);
    assert_eq!(ask(&server, "alicetoken", "GET", MAPS, (4, 0), ""), 403);
    assert_eq!(ask(&server, "admintoken", "GET", MAPS, (5, 0), ""), 200);
    assert_eq!(ask(&server, "admintoken", "GET", MAPS, (6, 1), ""), 200);
    // Hers is a new trace, with a link to what she has named.
    let alice = collector.wait(is_of(4));
    assert!(alice.span.parent_span_id.is_empty());
    assert_eq!(alice.span.links[0].span_id, [0, 0, 0, 0, 0, 0, 0, 0xff]);
    assert_eq!(alice.attribute("http.response.status_code").as_deref(), Some("403"));
    let list = collector.wait(is_of(6));
    let trace = collector.trace(&list.span.trace_id);
    assert!(names(&trace).ends_with(&["List", "cacher.GetList", "SerializeObject"]), "{:?}", names(&trace));
    assert!(!collector.spans().iter().any(is_of(5)), "the administrator has said that it is not to be kept");
}

#[test]
fn a_collector_that_is_gone_costs_spans_alone() {
    let collector = Collector::start(0);
    let server = traced(&collector, 1_000_000);
    drop(collector);
    // A batch is full after a few dozen requests.
    let lost = || server.metric("apiserver_tracing_lost_spans_total{reason=\"export_failed\"}");
    let answered = (0..10_000).take_while(|_| lost() == 0.0).count();
    assert!(answered < 10_000, "nothing is said of what is lost");
    assert_eq!(server.request("GET", MAPS, None).status, 200);
    assert!(server.log().contains("the collector takes no traces"), "{}", server.log());
}

#[test]
fn a_collector_may_listen_at_a_socket() {
    let mut server = Server::prepare();
    let socket = server.dir().join("otel.sock");
    let collector = Collector::start_at(socket.clone());
    configure(&mut server, &format!("endpoint: unix://{}\nsamplingRatePerMillion: 1000000\n", socket.display()));
    server.run();
    assert_eq!(server.request("GET", MAPS, None).status, 200);
    let list = collector.wait(|span| span.span.name == "List");
    assert_eq!(list.attribute("resource").as_deref(), Some("configmaps"));
}

#[test]
fn a_configuration_that_is_wrong_stops_the_start() {
    let refused = |said: &str| {
        let mut server = Server::prepare();
        configure(&mut server, said);
        server.run_in_vain()
    };
    let why = refused("samplingRatePerMillion: -5\n");
    let expect = "failed to validate tracing configuration: samplingRatePerMillion: Invalid value: -5: sampling rate must be \
                  positive";
    assert!(why.contains(expect), "{why}");
    assert!(refused("rate: 5\n").contains("strict decoding error: unknown field \"rate\""));
    let mut server = Server::prepare();
    server.set_arguments(&["--tracing-config-file=/no/such"]);
    assert!(server.run_in_vain().contains("tracing-config-file /no/such does not exist"));
}

#[test]
fn without_a_configuration_a_clients_trace_reaches_webhooks_all_the_same() {
    let server = Server::start();
    let webhook = Webhook::start(&["127.0.0.1"], |review: Value| {
        let response = json!({"uid": review["request"]["uid"], "allowed": true});
        Answer::Json(json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response}))
    });
    let hook = json!({
        "name": "a.b.c", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": {"url": format!("https://127.0.0.1:{}/", webhook.port()), "caBundle": webhook.bundle()},
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
    });
    let configuration = json!({"metadata": {"name": "all"}, "webhooks": [hook]});
    let place = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    assert_eq!(server.request("POST", place, Some(&configuration)).status, 201);
    let map = json!({"metadata": {"name": "a"}}).to_string();
    assert_eq!(ask(&server, "admintoken", "POST", MAPS, (9, 1), &map), 201);
    let told = webhook.header("traceparent").expect("it was told");
    assert_eq!(told, format!("00-{:032x}-00000000000000ff-01", 9 | 1u128 << 127));
}
