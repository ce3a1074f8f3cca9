//! CustomResourceDefinitions as large as those of well-known projects, and as bad as can be.

use std::time::{Duration, Instant};

use integration_tests::{Server, send};
use serde_json::{Map, Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn described(mut schema: Value, what: &str) -> Value {
    let text =
        format!("The {what}, which this field sets; what it does is told in a few sentences, as it is in real ones.");
    schema["description"] = text.into();
    schema
}

/// A part with so many levels of parts below it: text, numbers, lists by key, maps, and what is int or string.
fn part(levels: usize) -> Value {
    let mut properties = Map::new();
    let mut field = |name: String, schema: Value| {
        properties.insert(name.clone(), described(schema, &name));
    };
    for i in 0..4 {
        field(format!("name{i}"), json!({"type": "string", "minLength": 1, "maxLength": 253, "pattern": "^[a-z]"}));
        field(format!("count{i}"), json!({"type": "integer", "format": "int32", "minimum": 0}));
    }
    field("policy".into(), json!({"type": "string", "enum": ["Always", "Never"], "default": "Always"}));
    field(
        "port".into(),
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
    );
    field("labels".into(), json!({"type": "object", "additionalProperties": {"type": "string"}}));
    let entry = json!({"type": "object", "required": ["key"], "properties": {
        "key": {"type": "string"}, "value": {"type": "string"}, "optional": {"type": "boolean"},
    }});
    field(
        "entries".into(),
        json!({
            "type": "array", "items": entry, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"],
        }),
    );
    if levels > 0 {
        for i in 0..3 {
            field(format!("part{i}"), part(levels - 1));
        }
    }
    json!({"type": "object", "properties": properties})
}

fn fields(schema: &Value) -> usize {
    let properties = schema["properties"].as_object().into_iter().flat_map(|p| p.values());
    properties.map(|p| 1 + fields(p)).sum::<usize>()
        + schema["items"].as_object().map_or(0, |_| fields(&schema["items"]))
}

fn definition(group: &str, kind: &str, versions: &[Value]) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "categories": ["everything"], "shortNames": [kind[..3].to_lowercase()]},
            "versions": versions,
        },
    })
}

fn version(name: &str, storage: bool, spec: &Value) -> Value {
    let condition = json!({"type": "object", "required": ["type", "status"], "properties": {
        "type": {"type": "string"}, "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "reason": {"type": "string"}, "lastTransitionTime": {"type": "string", "format": "date-time"},
    }});
    let conditions = json!({
        "type": "array", "items": condition, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
    });
    json!({
        "name": name, "served": true, "storage": storage, "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
        "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {
            "spec": spec,
            "status": {"type": "object", "properties": {"conditions": conditions, "observedGeneration": {"type": "integer"}}},
        }}},
    })
}

/// As those that issue certificates: one of several solvers, and a pod's parts in each.
fn issuers() -> Value {
    let solver = part(2);
    let one = |name: &str| json!({"required": [name]});
    let spec = json!({
        "type": "object",
        "properties": {"acme": solver.clone(), "vault": solver.clone(), "ca": solver.clone(), "selfSigned": solver},
        "oneOf": [one("acme"), one("vault"), one("ca"), one("selfSigned")],
    });
    definition("issue.test", "Issuer", &[version("v1", true, &spec)])
}

/// As those of gateways: rules in lists, in two versions that differ in their name.
fn routes() -> Value {
    let rules = json!({"type": "array", "maxItems": 16, "items": part(3)});
    let hosts =
        json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "maxLength": 253}});
    let spec = json!({"type": "object", "properties": {"hostnames": hosts, "rules": rules}});
    definition("route.test", "Route", &[version("v1", false, &spec), version("v1beta1", true, &spec)])
}

/// As those that deploy applications: much that is kept as it comes, and whole objects.
fn applications() -> Value {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let whole =
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    let source = part(3);
    let spec = json!({
        "type": "object",
        "properties": {"source": source.clone(), "sources": {"type": "array", "items": source}, "values": free, "template": whole},
    });
    definition("deploy.test", "Application", &[version("v1alpha1", true, &spec)])
}

fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn large_definitions_install_and_work_with_kubectl() {
    let server = Server::start();
    let all = [issuers(), routes(), applications()];
    for one in &all {
        let schema = &one["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        assert!(fields(schema) > 500, "{} fields", fields(schema));
        let since = Instant::now();
        contains(
            &server.kubectl_with(&["apply", "--server-side", "-f", "-"], &one.to_string()),
            &["serverside-applied"],
        );
        assert!(since.elapsed() < Duration::from_secs(60), "{:?}", since.elapsed());
    }
    server.kubectl(&["wait", "--for=condition=Established", "--all", "crd", "--timeout=100s"]);
    contains(
        &server.kubectl(&["api-resources", "--categories=everything"]),
        &["issuers", "routes", "applications", "iss"],
    );

    let issuer = json!({
        "apiVersion": "issue.test/v1", "kind": "Issuer", "metadata": {"name": "one"},
        "spec": {"acme": {"name0": "a", "part1": {"port": "http", "entries": [{"key": "k", "value": "v"}]}}},
    });
    contains(&server.kubectl_with(&["apply", "-f", "-"], &issuer.to_string()), &["issuer.issue.test/one created"]);
    let get = |path: &str| server.kubectl(&["get", "issuer", "one", "-o", &format!("jsonpath={path}")]);
    assert_eq!(get("{.spec.acme.policy} {.spec.acme.part1.policy}"), "Always Always");
    let two = server
        .try_kubectl(&["patch", "issuer", "one", "--type=merge", "-p", "{\"spec\":{\"ca\":{\"name0\":\"b\"}}}"], "");
    contains(&String::from_utf8_lossy(&two.stderr), &["must validate one and only one schema (oneOf)"]);
    let misspelt = issuer.to_string().replace("name0", "nam0");
    let misspelt = server.try_kubectl(&["apply", "-f", "-"], &misspelt);
    contains(&String::from_utf8_lossy(&misspelt.stderr), &["unknown field \"spec.acme.nam0\""]);
    let ready = "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}";
    server.kubectl(&["patch", "issuer", "one", "--subresource=status", "--type=merge", "-p", ready]);
    server.kubectl(&["wait", "--for=condition=Ready", "issuer/one", "--timeout=100s"]);
    contains(&server.kubectl(&["get", "iss"]), &["READY", "AGE", "one", "True"]);
    contains(
        &server.kubectl(&["explain", "issuer.spec.acme.part0"]),
        &["FIELD: part0 <Object>", "which this field sets"],
    );

    let route = json!({
        "apiVersion": "route.test/v1", "kind": "Route", "metadata": {"name": "web"},
        "spec": {"hostnames": ["a.test"], "rules": [{"part0": {"part1": {"part2": {"count0": 3}}}}]},
    });
    contains(&server.kubectl_with(&["apply", "--server-side", "-f", "-"], &route.to_string()), &["serverside-applied"]);
    let old = server.kubectl(&["get", "routes.v1beta1.route.test", "web", "-o", "yaml"]);
    contains(&old, &["apiVersion: route.test/v1beta1", "count0: 3"]);
    let twice = route.to_string().replace("[\"a.test\"]", "[\"a.test\",\"a.test\"]");
    assert!(!server.try_kubectl(&["replace", "-f", "-"], &twice).status.success());

    let application = json!({
        "apiVersion": "deploy.test/v1alpha1", "kind": "Application", "metadata": {"name": "app"},
        "spec": {
            "values": {"any": {"thing": [1, "two", null]}},
            "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "b"}},
        },
    });
    contains(&server.kubectl_with(&["create", "-f", "-"], &application.to_string()), &["created"]);
    let kept = server.kubectl(&[
        "get",
        "application",
        "app",
        "-o",
        "jsonpath={.spec.values.any.thing[1]} {.spec.template.data.a}",
    ]);
    assert_eq!(kept, "two b");
    server.kubectl(&["delete", "crd", "--all", "--timeout=100s"]);
    assert_eq!(server.request("GET", "/apis/issue.test/v1/issuers", None).status, 404);
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

/// A definition's changes by every way that kubectl has, as somebody makes them who keeps it in a file.
#[test]
fn large_definitions_are_changed_in_every_way_of_kubectl() {
    let server = Server::start();
    let mut routes = routes();
    let versions = routes["spec"]["versions"].as_array_mut().expect("a list");
    let mut older = versions[0].clone();
    older["name"] = "v1alpha1".into();
    versions.push(older);
    let file = server.dir().join("routes.json");
    let write = |definition: &Value| std::fs::write(&file, definition.to_string()).expect("written");
    write(&routes);
    let path = file.to_str().expect("a path");
    let refused = server.try_kubectl(&["apply", "-f", path], "");
    contains(
        &String::from_utf8_lossy(&refused.stderr),
        &["\"routes.route.test\" is invalid: metadata.annotations: Too long: may not be more than 262144 bytes"],
    );
    contains(&server.kubectl(&["create", "-f", path]), &["routes.route.test created"]);
    server.kubectl(&["wait", "--for=condition=established", "crd/routes.route.test", "--timeout=10s"]);
    contains(
        &server.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", path]),
        &["routes.route.test serverside-applied"],
    );
    contains(
        &server.kubectl(&["get", "crd", "routes.route.test", "-o", "yaml"]),
        &["kind: Route", "part0:", "v1beta1"],
    );
    contains(&server.kubectl(&["get", "crd"]), &["NAME", "CREATED AT", "routes.route.test"]);

    // What is different is told, and then replaced.
    routes["spec"]["versions"][0]["additionalPrinterColumns"][0]["name"] = "Condition".into();
    write(&routes);
    let different = server.try_kubectl(&["diff", "--server-side", "--force-conflicts", "-f", path], "");
    assert_eq!(different.status.code(), Some(1), "{}", String::from_utf8_lossy(&different.stderr));
    contains(&String::from_utf8_lossy(&different.stdout), &["-      name: Ready", "+      name: Condition"]);
    contains(&server.kubectl(&["replace", "-f", path]), &["routes.route.test replaced"]);
    assert!(server.try_kubectl(&["diff", "--server-side", "--force-conflicts", "-f", path], "").status.success());

    let short = "{\"spec\":{\"names\":{\"shortNames\":[\"rt\"]}}}";
    contains(&server.kubectl(&["patch", "crd", "routes.route.test", "--type=merge", "-p", short]), &["patched"]);
    let column =
        "[{\"op\":\"replace\",\"path\":\"/spec/versions/0/additionalPrinterColumns/0/name\",\"value\":\"State\"}]";
    contains(&server.kubectl(&["patch", "crd", "routes.route.test", "--type=json", "-p", column]), &["patched"]);
    let mut edit = server.kubectl_command(&["edit", "crd", "routes.route.test"]);
    let edited =
        edit.env("KUBE_EDITOR", "sed -i 's/ plural: routes/&\\n    singular: way/; /singular: route$/d'").output();
    let edited = edited.expect("kubectl runs");
    contains(&String::from_utf8_lossy(&edited.stdout), &["routes.route.test edited"]);

    // Everything counts at once.
    let route = json!({
        "apiVersion": "route.test/v1", "kind": "Route", "metadata": {"name": "web", "finalizers": ["route.test/hold"]},
        "spec": {"rules": [{"part0": {"part1": {"part2": {"count0": 3}}}}]},
    });
    contains(&server.kubectl_with(&["apply", "-f", "-"], &route.to_string()), &["route.route.test/web created"]);
    contains(&server.kubectl(&["get", "rt", "web"]), &["STATE", "AGE", "web"]);
    contains(&server.kubectl(&["get", "way", "-o", "name"]), &["route.route.test/web"]);
    let all = server.kubectl(&["explain", "rt", "--recursive"]);
    contains(&all, &["KIND:       Route", "VERSION:    v1", "hostnames\t<[]string>", "part2\t<Object>"]);
    assert!(all.lines().count() > 500, "{} lines", all.lines().count());

    // It goes once its objects have gone.
    server.kubectl(&["delete", "crd", "routes.route.test", "--cascade=foreground", "--wait=false"]);
    contains(
        &server.kubectl(&["get", "crd", "routes.route.test", "-o", "jsonpath={.status.conditions[*].type}"]),
        &["Terminating"],
    );
    let held = server.try_kubectl(&["wait", "--for=delete", "crd/routes.route.test", "--timeout=1s"], "");
    assert!(!held.status.success(), "an object holds it");
    server.kubectl(&["patch", "rt", "web", "--type=merge", "-p", "{\"metadata\":{\"finalizers\":null}}"]);
    server.kubectl(&["wait", "--for=delete", "crd/routes.route.test", "--timeout=10s"]);
    contains(&server.kubectl(&["create", "-f", path]), &["routes.route.test created"]);
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

/// A definition with this schema of `spec`.
fn with_spec(name: &str, spec: Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    definition(&format!("{name}.bad.test"), "Thing", &[version])
}

fn deep(levels: usize, key: &str) -> Value {
    (0..levels).fold(json!({"type": "string"}), |inner, _| match key {
        "items" => json!({"type": "array", "items": inner}),
        _ => json!({"type": "object", "properties": {"a": inner}}),
    })
}

#[test]
fn schemas_as_bad_as_can_be_are_refused_or_served_in_good_time() {
    let server = Server::start();
    let try_spec = |name: &str, spec: Value| {
        let since = Instant::now();
        let reply = server.request("POST", DEFINITIONS, Some(&with_spec(name, spec)));
        assert!(since.elapsed() < Duration::from_secs(60), "{name}: {:?}", since.elapsed());
        assert!((200..500).contains(&reply.status), "{name}: {}", reply.text());
        (reply.status, reply.text())
    };
    let wide: Map<String, Value> = (0..10_000).map(|i| (format!("field{i}"), json!({"type": "string"}))).collect();
    assert_eq!(try_spec("wide", json!({"type": "object", "properties": wide})).0, 201);
    assert_eq!(try_spec("deep", deep(100, "properties")).0, 201);
    assert_eq!(try_spec("lists", deep(100, "items")).0, 201);
    let text = with_spec("deeper", json!({"type": "object", "properties": {"a": "HERE"}})).to_string();
    let (open, close) = ("{\"type\":\"object\",\"properties\":{\"a\":".repeat(4000), "}}".repeat(4000));
    let text = text.replace("\"HERE\"", &format!("{open}{{\"type\":\"string\"}}{close}"));
    let reply = send(server.port(), "POST", DEFINITIONS, "application/json", text.as_bytes()).expect("an answer");
    assert!((200..500).contains(&reply.status), "{}", reply.status); // refused or not: it must do no harm
    let huge = json!({"type": "string", "description": "x".repeat(4 << 20)});
    assert_eq!(server.request("POST", DEFINITIONS, Some(&with_spec("huge", huge))).status, 413);
    let recursive = try_spec("recursive", json!({"$ref": "#/properties/spec"}));
    assert!(recursive.0 == 422 && recursive.1.contains("$ref"), "{}", recursive.1);
    for (i, pattern) in ["(a{1,1000}){1,1000}", "((((((a*)*)*)*)*)*", "[", "(?=a)", "a{2,1}", "\\8"].iter().enumerate()
    {
        let refused = try_spec(&format!("pattern{i}"), json!({"type": "string", "pattern": pattern}));
        assert!(refused.0 == 422 && refused.1.contains("regular expression"), "{pattern}: {}", refused.1);
    }
    let many: Vec<Value> = (0..20_000).map(|i| json!(format!("value{i}"))).collect();
    assert_eq!(try_spec("enum", json!({"type": "string", "enum": many})).0, 201);
    assert_eq!(server.request("GET", "/readyz", None).text(), "ok");
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[test]
fn objects_as_bad_as_can_be_are_refused_or_taken_in_good_time() {
    let server = Server::start();
    let item = json!({"type": "object", "properties": {"a": {"type": "string", "default": "x".repeat(100_000)}}});
    let spec = json!({
        "type": "object",
        "properties": {
            "slow": {"type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
            "bombs": {"type": "array", "items": item},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    });
    let definition = with_spec("objects", spec);
    assert_eq!(server.request("POST", DEFINITIONS, Some(&definition)).status, 201);
    let path = "/apis/objects.bad.test/v1/namespaces/default/things";
    let create = |name: &str, spec: &str| {
        let body = format!(
            "{{\"apiVersion\":\"objects.bad.test/v1\",\"kind\":\"Thing\",\"metadata\":{{\"name\":\"{name}\"}},\"spec\":{spec}}}"
        );
        let since = Instant::now();
        let reply = send(server.port(), "POST", path, "application/json", body.as_bytes()).expect("an answer");
        assert!(since.elapsed() < Duration::from_secs(60), "{name}: {:?}", since.elapsed());
        reply.status
    };
    assert_eq!(create("slow", &format!("{{\"slow\":\"{}\"}}", "a".repeat(100_000))), 422);
    let set: Vec<String> = (0..30_000).map(|i| i.to_string()).collect();
    assert_eq!(create("set", &format!("{{\"set\":[{}]}}", set.join(","))), 201);
    assert_eq!(create("twice", &format!("{{\"set\":[{},7]}}", set.join(","))), 422);
    let nested = |levels: usize| format!("{{\"free\":{{\"a\":{}1{}}}}}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(create("deep", &nested(100)), 201);
    assert_eq!(create("deeper", &nested(100_000)), 400);
    assert_eq!(create("large", &format!("{{\"free\":{{\"a\":\"{}\"}}}}", "x".repeat(1_400_000))), 201);
    assert_eq!(create("too-large", &format!("{{\"free\":{{\"a\":\"{}\"}}}}", "x".repeat(2_000_000))), 413);
    assert_eq!(create("bomb", &format!("{{\"bombs\":[{}]}}", vec!["{}"; 50_000].join(","))), 413);
    assert_eq!(server.request("GET", "/readyz", None).text(), "ok");
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[test]
fn a_status_has_its_default_where_writes_may_not_set_it() {
    let server = Server::start();
    let condition = json!({"type": "object", "properties": {
        "type": {"type": "string"}, "status": {"type": "string", "default": "Unknown"},
    }});
    let status = json!({
        "type": "object", "default": {"conditions": [{"type": "Accepted"}]},
        "properties": {"conditions": {"type": "array", "items": condition}, "seen": {"type": "integer"}},
    });
    let mut version = version("v1", true, &json!({"type": "object", "properties": {"a": {"type": "string"}}}));
    version["schema"]["openAPIV3Schema"]["properties"]["status"] = status;
    let made = server.request("POST", DEFINITIONS, Some(&definition("status.test", "Gate", &[version])));
    assert_eq!(made.status, 201, "{}", made.text());
    let path = "/apis/status.test/v1/namespaces/default/gates";
    let gate = |name: &str| {
        let metadata = json!({"name": name});
        json!({"apiVersion": "status.test/v1", "kind": "Gate", "metadata": metadata, "spec": {}, "status": {"seen": 5}})
    };
    let defaulted = json!({"conditions": [{"type": "Accepted", "status": "Unknown"}]});
    let created = server.request("POST", path, Some(&gate("a")));
    assert_eq!((created.status, &created.json()["status"]), (201, &defaulted), "{}", created.text());
    let dry = server.request("POST", &format!("{path}?dryRun=All"), Some(&gate("dry")));
    assert_eq!(dry.json()["status"], defaulted);
    let mut applied = gate("b");
    applied.as_object_mut().expect("an object").remove("status");
    let applied = send(
        server.port(),
        "PATCH",
        &format!("{path}/b?fieldManager=me"),
        "application/apply-patch+yaml",
        applied.to_string().as_bytes(),
    );
    assert_eq!(applied.expect("an answer").json()["status"], defaulted);
    for one in ["a", "b"] {
        assert_eq!(server.request("GET", &format!("{path}/{one}"), None).json()["status"], defaulted);
    }
    let list = server.request("GET", path, None).json();
    assert!(list["items"].as_array().expect("items").iter().all(|item| item["status"] == defaulted));
    let changed = json!({"status": {"seen": 7}});
    let changed = server.request("PATCH", &format!("{path}/a/status"), Some(&changed)).json();
    assert_eq!(changed["status"]["seen"], 7);
}

#[test]
fn an_apply_drops_what_no_property_holds() {
    let server = Server::start();
    let template = json!({"type": "object", "properties": {"metadata": {"type": "object"}}});
    let spec = json!({"type": "object", "properties": {"template": template}});
    let made =
        server.request("POST", DEFINITIONS, Some(&definition("drop.test", "Temp", &[version("v1", true, &spec)])));
    assert_eq!(made.status, 201, "{}", made.text());
    let path = "/apis/drop.test/v1/namespaces/default/temps/a?fieldManager=me&fieldValidation=Strict";
    let config = json!({
        "apiVersion": "drop.test/v1", "kind": "Temp", "metadata": {"name": "a"},
        "spec": {"template": {"metadata": {"labels": {"a": "b"}}}},
    });
    let reply = send(server.port(), "PATCH", path, "application/apply-patch+yaml", config.to_string().as_bytes());
    let reply = reply.expect("an answer");
    assert_eq!(
        (reply.status, &reply.json()["spec"]),
        (201, &json!({"template": {"metadata": {}}})),
        "{}",
        reply.text()
    );
}

#[test]
fn what_is_established_is_served_however_many_come_at_once() {
    let server = Server::start();
    let (server, many) = (&server, 12);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for i in (0..many).map(|i| thread * many + i) {
                    let crd = with_spec(&format!("g{i}"), json!({"type": "object"}));
                    let group = crd["spec"]["group"].as_str().expect("a group");
                    assert_eq!(server.request("POST", DEFINITIONS, Some(&crd)).status, 201);
                    let seen = server.request("GET", &format!("{DEFINITIONS}/things.{group}"), None).json();
                    let conditions = seen["status"]["conditions"].as_array().expect("conditions").iter();
                    let mut established = conditions.filter(|c| c["type"] == "Established" && c["status"] == "True");
                    assert!(established.next().is_some(), "{seen}");
                    let path = format!("/apis/{group}/v1/namespaces/default/things");
                    let thing =
                        json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "one"}});
                    let made = server.request("POST", &path, Some(&thing));
                    assert_eq!(made.status, 201, "{}", made.text());
                    assert_eq!(server.request("GET", &format!("{path}/one"), None).status, 200);
                    let listed = server.request("GET", &path, None).json();
                    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
                }
            });
        }
    });
}
