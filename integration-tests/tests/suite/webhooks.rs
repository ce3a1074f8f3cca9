//! Admission webhooks: what they change and refuse, and what becomes of a write when they fail.

use std::sync::{Arc, Mutex};

use base64::{Engine, engine::general_purpose::STANDARD};
use integration_tests::{Answer, Reply, Server, Webhook};
use serde_json::{Value, json};

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn response(review: &Value, mut response: Value) -> Answer {
    response["uid"] = review["request"]["uid"].clone();
    Answer::Json(json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response}))
}

fn patched(review: &Value, operations: &Value) -> Answer {
    let patch = STANDARD.encode(operations.to_string());
    response(review, json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}

/// A webhook of config maps in a configuration; `more` overrides members.
fn hook(webhook: &Webhook, name: &str, more: Value) -> Value {
    let mut hook = json!({
        "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": {"url": format!("https://127.0.0.1:{}/", webhook.port()), "caBundle": webhook.bundle()},
        "rules": [{
            "operations": ["CREATE", "UPDATE", "DELETE"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["configmaps"],
        }],
        // Not the config maps that the server keeps itself.
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
    });
    for (key, value) in more.as_object().expect("an object") {
        hook[key] = value.clone();
    }
    hook
}

fn configure(server: &Server, kind: &str, name: &str, hooks: &[Value]) {
    let configuration = json!({"metadata": {"name": name}, "webhooks": hooks});
    let made = server.request("POST", &format!("{CONFIGURATIONS}/{kind}webhookconfigurations"), Some(&configuration));
    assert_eq!(made.status, 201, "{}", made.text());
}

fn create(server: &Server, name: &str) -> Reply {
    server.request("POST", MAPS, Some(&json!({"metadata": {"name": name}, "data": {"a": "b"}})))
}

fn refused(reply: &Reply, code: u16, message: &str) {
    assert_eq!((reply.status, reply.json()["message"].as_str()), (code, Some(message)), "{}", reply.text());
}

#[test]
fn webhooks_change_what_is_written_one_after_the_other_and_see_what_it_is() {
    let server = Server::start();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let first = {
        let seen = seen.clone();
        Webhook::start(&["127.0.0.1"], move |review| {
            seen.lock().expect("not poisoned").push(review["request"].clone());
            let data = &review["request"]["object"]["data"];
            let count = data["count"].as_str().and_then(|count| count.parse().ok()).unwrap_or(0) + 1;
            patched(&review, &json!([{"op": "add", "path": "/data/count", "value": count.to_string()}]))
        })
    };
    let second = Webhook::start(&["127.0.0.1"], |review| {
        let path =
            json!([{"op": "add", "path": "/data/second", "value": review["request"]["object"]["data"]["count"]}]);
        patched(&review, &path)
    });
    let hooks = [
        hook(&first, "first.example.com", json!({"reinvocationPolicy": "IfNeeded"})),
        hook(
            &second,
            "second.example.com",
            json!({"rules": [{
                "operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"],
            }]}),
        ),
    ];
    configure(&server, "mutating", "both", &hooks);
    let made = create(&server, "a");
    assert_eq!(made.status, 201, "{}", made.text());
    // The second has changed it after the first, which is called again.
    assert_eq!(made.json()["data"], json!({"a": "b", "count": "2", "second": "1"}));
    let requests = seen.lock().expect("not poisoned").clone();
    assert_eq!((requests.len(), second.calls()), (2, 1));
    let request = &requests[0];
    assert_eq!(request["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    assert_eq!(request["resource"], json!({"group": "", "version": "v1", "resource": "configmaps"}));
    assert_eq!((&request["operation"], &request["name"]), (&json!("CREATE"), &json!("a")));
    assert_eq!((&request["namespace"], &request["dryRun"]), (&json!("default"), &json!(false)));
    assert_eq!(request["object"]["kind"], "ConfigMap");
    assert_eq!(request["oldObject"], Value::Null);
    assert!(request["userInfo"]["groups"].as_array().is_some_and(|groups| groups.contains(&json!("system:masters"))));

    let deleted = server.request("DELETE", &format!("{MAPS}/a"), None);
    let message = "Internal error occurred: admission webhook \"first.example.com\" attempted to modify the object, \
                   which is not supported for this operation";
    refused(&deleted, 500, message);
    let metrics = server.request("GET", "/metrics", None).text();
    let counted = "apiserver_admission_webhook_request_total{code=\"200\",name=\"first.example.com\",\
                   operation=\"CREATE\",rejected=\"false\",type=\"admit\"} 2";
    assert!(metrics.contains(counted), "{metrics}");
}

#[test]
fn webhooks_refuse_and_warn() {
    let server = Server::start();
    let webhook = Webhook::start(&["127.0.0.1"], |review| {
        let request = &review["request"];
        let object = if request["operation"] == "DELETE" { &request["oldObject"] } else { &request["object"] };
        let reply = match object["metadata"]["name"].as_str() {
            Some("plain") => json!({"allowed": false}),
            Some("coded") => json!({"allowed": false, "status": {
                "code": 409, "reason": "Conflict", "message": "taken", "details": {"causes": [{"field": "x"}]},
            }}),
            Some("warned") => json!({"allowed": true, "warnings": ["mind the gap"]}),
            _ => json!({"allowed": true}),
        };
        response(&review, reply)
    });
    configure(&server, "validating", "one", &[hook(&webhook, "v.example.com", json!({}))]);
    refused(
        &create(&server, "plain"),
        400,
        "admission webhook \"v.example.com\" denied the request without explanation",
    );
    let coded = create(&server, "coded");
    refused(&coded, 409, "admission webhook \"v.example.com\" denied the request: taken");
    assert_eq!(coded.json()["details"]["causes"][0]["field"], "x");
    let warned = create(&server, "warned");
    assert_eq!(warned.status, 201);
    let warnings: Vec<_> = warned.headers.iter().filter(|(name, _)| name == "warning").collect();
    assert!(matches!(warnings[..], [(_, text)] if text == "299 - \"mind the gap\""), "{warnings:?}");
    assert_eq!(server.request("DELETE", &format!("{MAPS}/warned"), None).status, 200);
    // Neither configurations nor other kinds are asked about.
    let calls = webhook.calls();
    let secret = json!({"metadata": {"name": "s"}});
    assert_eq!(server.request("POST", "/api/v1/namespaces/default/secrets", Some(&secret)).status, 201);
    let path = format!("{CONFIGURATIONS}/validatingwebhookconfigurations/one");
    assert_eq!(server.request("DELETE", &path, None).status, 200);
    assert_eq!(create(&server, "plain").status, 201, "at once");
    assert_eq!(webhook.calls(), calls);
}

#[test]
fn a_review_shows_what_was_asked() {
    let server = Server::start();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let webhook = Webhook::start(&["127.0.0.1"], {
        let seen = seen.clone();
        move |review| {
            seen.lock().expect("not poisoned").push(review["request"].clone());
            response(&review, json!({"allowed": true, "warnings": ["", "seen", "two\nlines"]}))
        }
    });
    let rules = json!({"rules": [{
        "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps", "pods", "pods/binding"],
    }]});
    configure(&server, "validating", "one", &[hook(&webhook, "v.example.com", rules)]);
    let last = || seen.lock().expect("not poisoned").pop().expect("a request");
    let options = |kind: &str, more: Value| {
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        options.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        options
    };
    let send = |verb: &str, path: &str, body: Option<&Value>| {
        let reply = server.request(verb, path, body);
        let warnings: Vec<_> =
            reply.headers.iter().filter(|(name, _)| name == "warning").map(|(_, w)| w.clone()).collect();
        assert_eq!(warnings, ["299 - \"seen\""], "{}", reply.text());
        reply.status
    };
    let map = json!({"metadata": {"name": "a"}});
    assert_eq!(send("POST", &format!("{MAPS}?fieldManager=me&fieldValidation=Strict"), Some(&map)), 201);
    let asked = json!({"fieldManager": "me", "fieldValidation": "Strict"});
    assert_eq!(last()["options"], options("CreateOptions", asked));
    assert_eq!(send("PATCH", &format!("{MAPS}/a?dryRun=All"), Some(&json!({"data": {"x": "y"}}))), 200);
    assert_eq!(last()["options"], options("UpdateOptions", json!({"dryRun": ["All"]})));
    let deletion = json!({"propagationPolicy": "Background"});
    assert_eq!(send("DELETE", &format!("{MAPS}?propagationPolicy=Background"), None), 200);
    let request = last();
    assert_eq!((&request["options"], request.get("name")), (&options("DeleteOptions", deletion), None));
    assert_eq!(request["oldObject"]["metadata"]["name"], "a");
    assert_eq!(send("POST", MAPS, Some(&json!({"metadata": {"generateName": "made-"}}))), 201);
    assert!(last()["name"].as_str().is_some_and(|name| name.starts_with("made-")), "the name is known by then");

    let binding = json!({"metadata": {"name": "p", "labels": {"a": "b"}}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(send("POST", "/api/v1/namespaces/default/pods/p/binding", Some(&binding)), 404, "warned all the same");
    let metadata = &last()["object"]["metadata"];
    assert_eq!(
        (&metadata["namespace"], &metadata["managedFields"][0]["subresource"]),
        (&json!("default"), &json!("binding"))
    );
}

#[test]
fn what_fails_is_a_refusal_unless_failures_are_ignored() {
    let server = Server::start();
    let webhook = Webhook::start(&["127.0.0.1"], |review| match review["request"]["name"].as_str() {
        Some("hangs") => Answer::Hang,
        Some("status") => Answer::Raw(503, "out of order".into()),
        Some("garbage") => Answer::Raw(200, "[".into()),
        Some("patch") => response(&review, json!({"allowed": true, "patchType": "JSONPatch", "patch": "AA=="})),
        Some("uid") => Answer::Json(json!({
            "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": {"uid": "x", "allowed": true},
        })),
        _ => response(&review, json!({"allowed": true})),
    });
    let name = "m.example.com";
    configure(&server, "mutating", "one", &[hook(&webhook, name, json!({"timeoutSeconds": 1}))]);
    let starts = |reply: &Reply, start: &str| {
        let start = format!("Internal error occurred: failed calling webhook \"{name}\": {start}");
        let json = reply.json();
        let message = json["message"].as_str().unwrap_or_default();
        assert!(reply.status == 500 && message.starts_with(&start), "{start}\n{}", reply.text());
    };
    let post = format!("failed to call webhook: Post \"https://127.0.0.1:{}/?timeout=1s\": ", webhook.port());
    starts(&create(&server, "hangs"), &format!("{post}context deadline exceeded"));
    starts(&create(&server, "status"), "failed to call webhook: ");
    starts(&create(&server, "garbage"), "failed to call webhook: yaml: line 1: did not find expected node content");
    starts(&create(&server, "patch"), "received undecodable patch in webhook response: ");
    starts(&create(&server, "uid"), "received invalid webhook response: expected response.uid=");
    assert_eq!(create(&server, "fine").status, 201);
    for name in ["hangs", "status", "garbage", "uid"] {
        assert_eq!(server.request("GET", &format!("{MAPS}/{name}"), None).status, 404, "{name} was not written");
    }

    let path = format!("{CONFIGURATIONS}/mutatingwebhookconfigurations/one");
    let ignore = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]);
    server.kubectl(&["patch", "mutatingwebhookconfiguration", "one", "--type=json", "-p", &ignore.to_string()]);
    for name in ["hangs", "status", "garbage", "patch", "uid"] {
        assert_eq!(create(&server, name).status, 201, "{name}");
    }
    let metrics = server.request("GET", "/metrics", None).text();
    let counted = "apiserver_admission_webhook_fail_open_count{name=\"m.example.com\",type=\"admit\"} 5";
    assert!(metrics.contains(counted), "{metrics}");
    assert_eq!(server.request("DELETE", &path, None).status, 200);
}

#[test]
fn selectors_conditions_and_dry_runs_decide_whether_a_webhook_is_called() {
    let server = Server::start();
    let webhook = Webhook::start(&["127.0.0.1"], |review| response(&review, json!({"allowed": false})));
    let more = json!({
        "sideEffects": "NoneOnDryRun",
        "objectSelector": {"matchLabels": {"judged": "yes"}},
        "matchConditions": [{"name": "big", "expression": "size(object.data) > 1"}],
    });
    configure(&server, "validating", "one", &[hook(&webhook, "v.example.com", more)]);
    let write = |name: &str, labels: Value, data: Value, query: &str| {
        let object = json!({"metadata": {"name": name, "labels": labels}, "data": data});
        server.request("POST", &format!("{MAPS}{query}"), Some(&object))
    };
    let (judged, big) = (json!({"judged": "yes"}), json!({"a": "1", "b": "2"}));
    assert_eq!(write("a", json!({}), big.clone(), "").status, 201);
    assert_eq!(write("b", judged.clone(), json!({"a": "1"}), "").status, 201);
    assert_eq!(webhook.calls(), 0);
    assert_eq!(write("c", judged.clone(), big.clone(), "").status, 400);
    assert_eq!(write("c", judged.clone(), big.clone(), "?dryRun=All").status, 400);
    assert_eq!(webhook.calls(), 2);
    let failing = write("d", judged.clone(), Value::Null, "");
    let message =
        "configmaps \"d\" is forbidden: expression 'size(object.data) > 1' resulted in error: no such key: data";
    refused(&failing, 403, message);

    let mut other = hook(&webhook, "w.example.com", json!({"admissionReviewVersions": ["v1beta1"]}));
    other["sideEffects"] = "None".into();
    configure(&server, "validating", "two", &[other]);
    let message = "admission webhook \"w.example.com\" denied the request without explanation";
    refused(&write("e", json!({}), big, ""), 400, message);
}

#[test]
fn a_webhook_that_matches_equivalents_gets_the_version_that_it_knows() {
    let server = Server::start();
    let webhook = Webhook::start(&["127.0.0.1"], |review| {
        let request = &review["request"];
        let fits = request["object"]["apiVersion"] == "autoscaling/v1"
            && request["requestKind"]["version"] == "v2"
            && request["kind"]["version"] == "v1";
        if !fits {
            return response(&review, json!({"allowed": false, "status": {"message": request.to_string()}}));
        }
        patched(&review, &json!([{"op": "replace", "path": "/spec/targetCPUUtilizationPercentage", "value": 42}]))
    });
    let more = json!({"matchPolicy": "Equivalent", "rules": [{
        "operations": ["*"], "apiGroups": ["autoscaling"], "apiVersions": ["v1"],
        "resources": ["horizontalpodautoscalers"],
    }]});
    configure(&server, "mutating", "one", &[hook(&webhook, "m.example.com", more)]);
    let cpu = |percent: u32| json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}});
    let scaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
        "spec": {
            "maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
            "metrics": [{"type": "Resource", "resource": cpu(80)}],
        },
    });
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let made = server.request("POST", path, Some(&scaler));
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(made.json()["spec"]["metrics"][0]["resource"], cpu(42));
}

#[test]
fn reviews_and_what_is_posted_to_objects_are_admitted_like_new_objects() {
    let server = Server::start();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let webhook = {
        let seen = seen.clone();
        Webhook::start(&["127.0.0.1"], move |review| {
            let request = review["request"].clone();
            let denied = request["object"]["metadata"]["labels"]["denied"].is_string();
            seen.lock().expect("not poisoned").push(request);
            response(&review, json!({"allowed": !denied, "status": {"message": "no"}}))
        })
    };
    let rules = json!([{
        "operations": ["CREATE"], "apiVersions": ["v1"], "apiGroups": ["authorization.k8s.io", "authentication.k8s.io"],
        "resources": ["*"],
    }, {
        "operations": ["CREATE"], "apiVersions": ["v1"], "apiGroups": [""],
        "resources": ["pods/eviction", "serviceaccounts/token"],
    }]);
    let everywhere = json!({"rules": rules, "namespaceSelector": {}});
    configure(&server, "validating", "reviews", &[hook(&webhook, "reviews.example.com", everywhere)]);
    let account = json!({"metadata": {"name": "robot"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(server.request("POST", accounts, Some(&account)).status, 201);
    let asked = json!({"verb": "get", "resource": "pods"});
    let checks = [
        (
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            json!({"spec": {"user": "jane", "resourceAttributes": asked}}),
            json!({"allowed": false}),
        ),
        (
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            json!({"spec": {"namespace": "default"}}),
            json!({"resourceRules": null, "nonResourceRules": null, "incomplete": false}),
        ),
        ("/apis/authentication.k8s.io/v1/tokenreviews", json!({"spec": {"token": "x"}}), json!({"user": {}})),
        ("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({}), json!({"userInfo": {}})),
        (
            "/api/v1/namespaces/default/serviceaccounts/robot/token",
            json!({"spec": {"audiences": ["a"]}}),
            json!({"token": "", "expirationTimestamp": null}),
        ),
    ];
    for (path, body, status) in checks {
        let answer = server.request("POST", path, Some(&body));
        assert_eq!(answer.status, 201, "{path}: {}", answer.text());
        let request = seen.lock().expect("not poisoned").pop().expect("the webhook was asked");
        assert_eq!((&request["operation"], &request["object"]["status"]), (&json!("CREATE"), &status), "{path}");
    }
    let denied = json!({"metadata": {"labels": {"denied": ""}}, "spec": {"token": "x"}});
    let answer = server.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", Some(&denied));
    refused(&answer, 400, "admission webhook \"reviews.example.com\" denied the request: no");
    seen.lock().expect("not poisoned").clear();

    // The options of an eviction say that it is a dry run, if the request does and they are there.
    let evict = |query: &str, options: Value| {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "gone"}, "deleteOptions": options});
        let answer =
            server.request("POST", &format!("/api/v1/namespaces/default/pods/gone/eviction{query}"), Some(&eviction));
        (answer, seen.lock().expect("not poisoned").pop().map(|request| request["object"]["deleteOptions"].clone()))
    };
    let (answer, options) = evict("?dryRun=All", json!({"gracePeriodSeconds": 3}));
    refused(&answer, 404, "pods \"gone\" not found");
    assert_eq!(options, Some(json!({"gracePeriodSeconds": 3, "dryRun": ["All"]})));
    let (answer, options) = evict("?dryRun=All", json!({"dryRun": ["All", "All"]}));
    refused(&answer, 500, "Non-matching dry-run options in request and content: [All] and [All All]");
    assert_eq!(options, None);
    let (answer, options) = evict("", json!({"ignoreStoreReadErrorWithClusterBreakingPotential": true}));
    assert_eq!((answer.status, options), (422, None), "{}", answer.text());
}
