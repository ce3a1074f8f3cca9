//! Conversion webhooks: what they convert, and what becomes of a request when they do not.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use integration_tests::{Answer, Reply, Server, Watch, Webhook, send};
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// `spec.size` of v1 is `spec.count` of v2.
fn converted(object: &Value, to: &str) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = to.into();
    let spec = object["spec"].as_object_mut().expect("a spec");
    let (old, new) = if to.ends_with("/v2") { ("size", "count") } else { ("count", "size") };
    if let Some(value) = spec.remove(old) {
        spec.insert(new.to_owned(), value);
    }
    object
}

fn review(request: &Value, result: Value, objects: Vec<Value>) -> Answer {
    Answer::Json(json!({
        "kind": "ConversionReview", "apiVersion": request["apiVersion"],
        "response": {"uid": request["request"]["uid"], "result": result, "convertedObjects": objects},
    }))
}

fn convert(request: &Value) -> Answer {
    let to = request["request"]["desiredAPIVersion"].as_str().expect("a version");
    let objects = request["request"]["objects"].as_array().expect("objects");
    review(request, json!({"status": "Success"}), objects.iter().map(|object| converted(object, to)).collect())
}

fn definition(group: &str, client_config: Value) -> Value {
    let spec = |field: &str| json!({"type": "object", "properties": {field: {"type": "integer", "maximum": 1000}}});
    let version = |name: &str, field: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec(field)}}},
            "additionalPrinterColumns": [{"name": "Number", "type": "integer", "jsonPath": format!(".spec.{field}")}],
        })
    };
    json!({
        "metadata": {"name": format!("gadgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [version("v1", "size", true), version("v2", "count", false)],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client_config},
            },
        },
    })
}

/// A server, a group whose gadgets the webhook converts, and the webhook.
struct Setting {
    server: Server,
    webhook: Webhook,
}

impl Setting {
    fn new(answer: impl Fn(Value) -> Answer + Send + Sync + 'static) -> Self {
        let (server, webhook) = (Server::start(), Webhook::start(&["127.0.0.1"], answer));
        let url = format!("https://127.0.0.1:{}/convert", webhook.port());
        let config = json!({"url": url, "caBundle": webhook.bundle()});
        let made = server.request("POST", DEFINITIONS, Some(&definition("hook.test", config)));
        assert_eq!(made.status, 201, "{}", made.text());
        Setting { server, webhook }
    }

    fn path(version: &str, name: &str) -> String {
        let slash = if name.is_empty() || name.starts_with('?') { "" } else { "/" };
        format!("/apis/hook.test/{version}/namespaces/default/gadgets{slash}{name}")
    }

    fn get(&self, version: &str, name: &str) -> Reply {
        self.server.request("GET", &Self::path(version, name), None)
    }

    fn create(&self, version: &str, name: &str, field: &str, value: i64) -> Reply {
        let gadget = json!({
            "apiVersion": format!("hook.test/{version}"), "kind": "Gadget",
            "metadata": {"name": name}, "spec": {field: value},
        });
        self.server.request("POST", &Self::path(version, ""), Some(&gadget))
    }
}

#[test]
fn objects_are_what_the_webhook_makes_of_them() {
    let setting = Setting::new(|request| convert(&request));
    let made = setting.create("v2", "a", "count", 3);
    assert_eq!((made.status, &made.json()["spec"]), (201, &json!({"count": 3})), "{}", made.text());
    assert_eq!(setting.get("v1", "a").json()["spec"], json!({"size": 3}));
    let seen = setting.get("v2", "a").json();
    assert_eq!((&seen["spec"], &seen["apiVersion"]), (&json!({"count": 3}), &json!("hook.test/v2")));
    // The rules are those of the version that is asked.
    assert_eq!(setting.create("v2", "b", "count", 1001).status, 422);
    let patched = setting.server.request("PATCH", &Setting::path("v2", "a"), Some(&json!({"spec": {"count": 4}})));
    assert_eq!(patched.json()["metadata"]["generation"], 2, "{}", patched.text());
    assert_eq!(setting.get("v1", "a").json()["spec"], json!({"size": 4}));
    let applied =
        json!({"apiVersion": "hook.test/v1", "kind": "Gadget", "metadata": {"name": "a"}, "spec": {"size": 5}});
    let apply = |query: &str| {
        let path = Setting::path("v1", &format!("a?fieldManager=me{query}"));
        send(setting.server.port(), "PATCH", &path, "application/apply-patch+yaml", applied.to_string().as_bytes())
            .expect("an answer")
    };
    // Whoever has set the count owns the size.
    assert_eq!(apply("").status, 409, "{}", apply("").text());
    assert_eq!(apply("&force=true").status, 200);
    assert_eq!(setting.get("v2", "a").json()["spec"], json!({"count": 5}));
    let table = setting.server.kubectl(&["get", "gadgets.v2.hook.test", "a"]);
    assert!(table.contains("NUMBER") && table.contains('5'), "{table}");
    let gone = setting.server.request("DELETE", &Setting::path("v2", "a"), None);
    assert_eq!(gone.status, 200, "{}", gone.text());
}

#[test]
fn a_list_is_converted_in_batches_and_a_watch_once_for_all() {
    let setting = Setting::new(|request| {
        // What comes from the store has no resourceVersion there.
        let objects = request["request"]["objects"].as_array().expect("objects");
        match objects.iter().all(|object| object["metadata"]["resourceVersion"].is_null()) {
            true => convert(&request),
            false => review(&request, json!({"status": "Failure", "message": "a resourceVersion"}), vec![]),
        }
    });
    for i in 0..300 {
        assert_eq!(setting.create("v1", &format!("g{i}"), "size", i).status, 201);
    }
    assert_eq!(setting.webhook.calls(), 0, "the stored version needs no webhook");
    let list = setting.get("v2", "").json();
    let items = list["items"].as_array().expect("items");
    assert!(items.iter().all(|item| item["metadata"]["resourceVersion"].is_string()), "clients see one");
    assert!(items.len() == 300 && items.iter().all(|item| item["spec"]["count"].is_i64()));
    assert_eq!((&list["apiVersion"], &list["kind"]), (&json!("hook.test/v2"), &json!("GadgetList")));
    assert_eq!(setting.webhook.calls(), 2, "300 objects are two batches");
    setting.get("v2", "");
    setting.get("v2", "g7");
    assert_eq!(setting.webhook.calls(), 2, "what was converted is kept");

    let version = list["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
    let port = setting.server.port();
    let path = Setting::path("v2", &format!("?watch=1&resourceVersion={version}"));
    let watches: Vec<_> = (0..8).map(|_| Watch::open(port, &path).expect("a watch")).collect();
    setting.create("v1", "late", "size", 9);
    for mut watch in watches {
        let event = watch.next_event().expect("an event");
        assert!(event["type"] == "ADDED" && event["object"]["spec"]["count"] == 9, "{event}");
    }
    assert_eq!(setting.webhook.calls(), 3, "one event is converted once for eight watchers");
    let mut initial = Watch::open(port, &Setting::path("v2", "?watch=1")).expect("a watch");
    for _ in 0..301 {
        assert_eq!(initial.next_event().expect("an event")["type"], "ADDED");
    }
    assert_eq!(setting.webhook.calls(), 3);
}

#[test]
fn selectors_look_at_what_the_webhook_has_made_of_objects() {
    let fails = Arc::new(AtomicBool::new(false));
    let setting = Setting::new({
        let fails = fails.clone();
        move |request| {
            if fails.load(Ordering::SeqCst) {
                return review(&request, json!({"status": "Failure", "message": "not today"}), vec![]);
            }
            let to = request["request"]["desiredAPIVersion"].as_str().expect("a version");
            let tiered = |object: &Value| {
                let mut object = converted(object, to);
                if let Some(count) = object["spec"]["count"].as_i64() {
                    object["metadata"]["labels"] = json!({"tier": if count < 10 { "low" } else { "high" }});
                }
                object
            };
            let objects = request["request"]["objects"].as_array().expect("objects").iter().map(tiered).collect();
            review(&request, json!({"status": "Success"}), objects)
        }
    });
    for (name, size) in [("a", 1), ("b", 20), ("c", 2), ("d", 30)] {
        assert_eq!(setting.create("v1", name, "size", size).status, 201);
    }
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().expect("items").iter();
        items.map(|item| item["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
    };
    let list = setting.get("v2", "?labelSelector=tier%3Dhigh").json();
    assert_eq!(names(&list), ["b", "d"]);
    assert!(names(&setting.get("v1", "?labelSelector=tier%3Dhigh").json()).is_empty(), "v1 has no such label");
    assert_eq!(names(&setting.get("v2", "?labelSelector=tier%3Dlow&fieldSelector=metadata.name%3Dc").json()), ["c"]);
    let first = setting.get("v2", "?labelSelector=tier%3Dlow&limit=1").json();
    let token = first["metadata"]["continue"].as_str().expect("more may follow");
    let second = setting.get("v2", &format!("?labelSelector=tier%3Dlow&limit=1&continue={token}")).json();
    assert_eq!([names(&first), names(&second)].concat(), ["a", "c"]);

    let version = list["metadata"]["resourceVersion"].as_str().expect("a version");
    let path = Setting::path("v2", &format!("?watch=1&labelSelector=tier%3Dhigh&resourceVersion={version}"));
    let mut watch = Watch::open(setting.server.port(), &path).expect("a watch");
    let resize = |name: &str, size: i64| {
        let patch = json!({"spec": {"size": size}});
        assert_eq!(setting.server.request("PATCH", &Setting::path("v1", name), Some(&patch)).status, 200);
    };
    for (name, size) in [("a", 3), ("a", 11), ("b", 21), ("b", 4), ("c", 5), ("d", 31)] {
        resize(name, size);
    }
    assert_eq!(setting.server.request("DELETE", &Setting::path("v1", "d"), None).status, 200);
    for (kind, name, count) in [("ADDED", "a", 11), ("MODIFIED", "b", 21), ("DELETED", "b", 21), ("MODIFIED", "d", 31)]
    {
        let event = watch.next_event().expect("an event");
        let seen = (&event["type"], &event["object"]["metadata"]["name"], &event["object"]["spec"]["count"]);
        assert_eq!(seen, (&json!(kind), &json!(name), &json!(count)));
    }
    assert_eq!(watch.next_event().expect("an event")["type"], "DELETED");

    fails.store(true, Ordering::SeqCst);
    resize("a", 12);
    for method in ["GET", "DELETE"] {
        let path = Setting::path("v2", "?labelSelector=tier%3Dhigh");
        let refused = setting.server.request(method, &path, None);
        let why = "conversion webhook for hook.test/v1, Kind=Gadget failed: not today";
        assert_eq!((refused.status, &refused.json()["message"]), (500, &json!(why)), "{method}");
    }
    assert_eq!(setting.get("v2", "?watch=1&labelSelector=tier%3Dhigh&timeoutSeconds=600").text(), "");
    fails.store(false, Ordering::SeqCst);
    let path = Setting::path("v2", "?labelSelector=tier%3Dlow");
    assert_eq!(names(&setting.server.request("DELETE", &path, None).json()), ["b", "c"]);
    assert_eq!(names(&setting.get("v1", "").json()), ["a"]);
}

/// What a webhook does wrong, and how the error ends.
type Lie = (fn(&Value) -> Answer, &'static str);

const LIES: &[Lie] = &[
    (|r| review(r, json!({"status": "Success"}), vec![]), "returned 0 objects, expected 1"),
    (|r| review(r, json!({"status": "Failure", "message": "not today"}), vec![]), "failed: not today"),
    (|r| with(r, |o| o["metadata"]["name"] = "b".into()), "returned invalid object: must have the same name: a != b"),
    (|r| with(r, |o| o["metadata"]["uid"] = "x".into()), "must have the same UID"),
    (|r| with(r, |o| o["kind"] = "Other".into()), "invalid kind (expected Gadget, received Other)"),
    (
        |r| with(r, |o| o["apiVersion"] = "hook.test/v3".into()),
        "invalid groupVersion (expected hook.test/v2, received hook.test/v3)",
    ),
    (|r| with(r, |o| o["metadata"]["labels"] = json!({"a b": "c"})), "returned invalid metadata: metadata.labels"),
    (
        |_| Answer::Raw(500, "boom".into()),
        "an error on the server (\"boom\") has prevented the request from succeeding",
    ),
    (|_| Answer::Raw(404, String::new()), "the server could not find the requested resource"),
    (|_| Answer::Raw(200, "<html>".into()), "json parse error"),
    (|_| Answer::Json(json!({"kind": "Pod", "apiVersion": "v1"})), "no kind \"Pod\" is registered for version \"v1\""),
    (|_| Answer::Raw(200, "x".repeat(3 << 20)), "the response is larger than"),
    (
        |_| Answer::Json(json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1"})),
        "no response provided",
    ),
];

/// A conversion of which the object is changed afterwards.
fn with(request: &Value, change: fn(&mut Value)) -> Answer {
    let to = request["request"]["desiredAPIVersion"].as_str().expect("a version");
    let mut object = converted(&request["request"]["objects"][0], to);
    change(&mut object);
    review(request, json!({"status": "Success"}), vec![object])
}

#[test]
fn a_webhook_that_lies_fails_the_requests_that_need_it_and_no_others() {
    let lie = Arc::new(AtomicUsize::new(usize::MAX));
    let setting = Setting::new({
        let lie = lie.clone();
        move |request| match LIES.get(lie.load(Ordering::SeqCst)) {
            Some((answer, _)) => answer(&request),
            None => convert(&request),
        }
    });
    assert_eq!(setting.create("v1", "a", "size", 1).status, 201);
    for (i, (_, expect)) in LIES.iter().enumerate() {
        lie.store(i, Ordering::SeqCst);
        let reply = setting.get("v2", "a");
        assert_eq!(reply.status, 500, "{i}: {}", reply.text());
        let message = reply.json()["message"].as_str().expect("a message").to_owned();
        assert!(message.starts_with("conversion webhook for hook.test/v1, Kind=Gadget "), "{message}");
        assert!(message.contains(expect), "{message}");
        assert_eq!(setting.get("v2", "").status, 500);
        assert_eq!(setting.create("v2", "never", "count", 1).status, 500);
        assert_eq!(setting.get("v1", "").json()["items"].as_array().map(Vec::len), Some(1), "v1 goes on");
    }
    // A watch ends without a word, and nothing is deleted through the version that cannot be had.
    assert_eq!(setting.get("v2", "?watch=1&timeoutSeconds=600").text(), "");
    for path in ["a", ""] {
        let refused = setting.server.request("DELETE", &Setting::path("v2", path), None);
        let message = refused.json()["message"].as_str().expect("a message").to_owned();
        assert!(
            refused.status == 500 && message.starts_with("conversion webhook for hook.test/v1, Kind=Gadget"),
            "{message}"
        );
    }
    assert_eq!(setting.get("v1", "a").status, 200);
    lie.store(usize::MAX, Ordering::SeqCst);
    assert_eq!(setting.get("v2", "a").json()["spec"], json!({"count": 1}), "failures are not kept");
    let metrics = setting.server.request("GET", "/metrics", None).text();
    for part in ["conversion_webhook_call_failure", "conversion_webhook_partial_response_failure", "\"success\""] {
        assert!(
            metrics.lines().any(|l| l.starts_with("apiserver_conversion_webhook_request_total") && l.contains(part))
        );
    }
    assert!(!setting.server.log().contains("panicked"), "{}", setting.server.log());
}

#[test]
fn a_webhook_that_hangs_or_is_not_there_slows_nothing_else() {
    let hangs = Arc::new(Mutex::new(false));
    let setting = Setting::new({
        let hangs = hangs.clone();
        move |request| if *hangs.lock().expect("not poisoned") { Answer::Hang } else { convert(&request) }
    });
    assert_eq!(setting.create("v2", "a", "count", 1).status, 201);
    assert_eq!(setting.create("v1", "b", "size", 1).status, 201);
    assert_eq!(setting.get("v2", "a").status, 200);
    *hangs.lock().expect("not poisoned") = true;
    let port = setting.server.port();
    let waiting: Vec<_> = (0..40)
        .map(|_| std::thread::spawn(move || send(port, "GET", &Setting::path("v2", "b?timeout=6s"), "", b"")))
        .collect();
    std::thread::sleep(std::time::Duration::from_millis(200)); // so that they wait already
    for _ in 0..20 {
        let since = std::time::Instant::now();
        assert_eq!(setting.get("v1", "b").status, 200);
        assert_eq!(setting.server.request("GET", "/api/v1/namespaces/default", None).status, 200);
        assert_eq!(setting.get("v2", "a").status, 200, "what is known needs no webhook");
        assert!(since.elapsed().as_secs() < 5, "nobody waited with those who wait: {:?}", since.elapsed());
    }
    for waiting in waiting {
        let status = waiting.join().expect("asked").expect("an answer").status;
        assert!(matches!(status, 500 | 504), "{status}");
    }
    let nobody = json!({"url": format!("https://127.0.0.1:{}/", integration_tests::free_port()), "caBundle": setting.webhook.bundle()});
    let made = setting.server.request("POST", DEFINITIONS, Some(&definition("nobody.test", nobody)));
    assert_eq!(made.status, 201, "{}", made.text());
    let path = "/apis/nobody.test/v2/namespaces/default/gadgets";
    let gadget = json!({"apiVersion": "nobody.test/v2", "kind": "Gadget", "metadata": {"name": "a"}, "spec": {}});
    let refused = setting.server.request("POST", path, Some(&gadget));
    let message = refused.json()["message"].as_str().expect("a message").to_owned();
    assert!(message.contains("connect: connection refused") && message.contains("?timeout=30s"), "{message}");
}

#[test]
fn a_webhook_is_found_through_its_service_and_known_by_its_certificate() {
    let (server, webhook) = (Server::start(), Webhook::start(&["hook.default.svc"], |request| convert(&request)));
    let service = json!({
        "metadata": {"name": "hook"}, "spec": {"type": "ExternalName", "externalName": "127.0.0.1"},
    });
    assert_eq!(server.request("POST", "/api/v1/namespaces/default/services", Some(&service)).status, 201);
    let place = json!({"namespace": "default", "name": "hook", "port": webhook.port(), "path": "/convert"});
    let stranger = Webhook::start(&["hook.default.svc"], |request| convert(&request));
    for (group, bundle, expect) in [
        ("known.test", webhook.bundle(), None),
        ("stranger.test", stranger.bundle(), Some("certificate signed by unknown authority")),
    ] {
        let config = json!({"service": place, "caBundle": bundle});
        assert_eq!(server.request("POST", DEFINITIONS, Some(&definition(group, config))).status, 201);
        let path = format!("/apis/{group}/v2/namespaces/default/gadgets");
        let api_version = format!("{group}/v2");
        let gadget =
            json!({"apiVersion": api_version, "kind": "Gadget", "metadata": {"name": "a"}, "spec": {"count": 1}});
        let reply = server.request("POST", &path, Some(&gadget));
        match expect {
            None => assert_eq!(reply.status, 201, "{}", reply.text()),
            Some(expect) => {
                let message = reply.json()["message"].as_str().expect("a message").to_owned();
                assert!(message.contains(expect) && message.contains("https://hook.default.svc:"), "{message}");
            }
        }
    }
}
