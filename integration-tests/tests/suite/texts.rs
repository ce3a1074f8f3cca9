//! Documents by the letter: clients' own tests compare the texts of discovery and of errors, whose members stand in the
//! order of Go's structs; only compact text ends with a line feed.

use integration_tests::{Reply, Server, raw};

fn get(server: &Server, path: &str, headers: &str) -> Reply {
    ask(server, "GET", path, headers, "")
}

fn ask(server: &Server, method: &str, path: &str, headers: &str, body: &str) -> Reply {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admintoken\r\n{headers}Content-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    raw(server.port(), head.as_bytes()).expect("an answer")
}

fn starts(reply: &Reply, with: &str) {
    assert!(reply.text().starts_with(with), "{}", reply.text().chars().take(with.len() + 100).collect::<String>());
}

#[test]
fn discovery_has_the_order_of_gos_structs() {
    let server = Server::start();
    let core = get(&server, "/api/v1", "");
    starts(
        &core,
        "{\"kind\":\"APIResourceList\",\"groupVersion\":\"v1\",\"resources\":[{\"name\":\"bindings\",\"singularName\":\"binding\",\
         \"namespaced\":true,\"kind\":\"Binding\",\"verbs\":[\"create\"]},",
    );
    assert!(core.text().ends_with("]}\n"));
    starts(
        &get(&server, "/apis/apps", ""),
        "{\"kind\":\"APIGroup\",\"apiVersion\":\"v1\",\"name\":\"apps\",\"versions\":[{\"groupVersion\":\"apps/v1\",\"version\":\"v1\"}],\
         \"preferredVersion\":{\"groupVersion\":\"apps/v1\",\"version\":\"v1\"}}\n",
    );
    starts(
        &get(&server, "/apis", ""),
        "{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":[{\"name\":\"apiregistration.k8s.io\",\"versions\":[{",
    );
    starts(
        &get(&server, "/api", ""),
        "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"],\"serverAddressByClientCIDRs\":[{\"clientCIDR\":",
    );
    let aggregated = "Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList\r\n";
    starts(
        &get(&server, "/api", aggregated),
        "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":[{\"metadata\":{\
         },\"versions\":[{\"version\":\"v1\",\"resources\":[{\"resource\":\"bindings\",\"responseKind\":{\"group\":\"\",\
         \"version\":\"\",\"kind\":\"Binding\"},\"scope\":\"Namespaced\",\"singularResource\":\"binding\",\"verbs\":[\"create\"]},",
    );
    starts(&get(&server, "/version", ""), "{\n  \"major\": \"1\",\n  \"minor\": \"36\",\n  \"emulationMajor\": \"1\",");
}

#[test]
fn errors_have_it_and_only_compact_ones_end_with_a_line_feed() {
    let server = Server::start();
    let path = "/api/v1/namespaces/default/configmaps/none";
    let compact = get(&server, path, "");
    assert_eq!(
        compact.text(),
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"configmaps \\\"none\\\" not \
         found\",\"reason\":\"NotFound\",\"details\":{\"name\":\"none\",\"kind\":\"configmaps\"},\"code\":404}\n"
    );
    let indented = "{\n  \"kind\": \"Status\",\n  \"apiVersion\": \"v1\",\n  \"metadata\": {},\n  \"status\": \"Failure\",\n  \"message\": \
                    \"configmaps \\\"none\\\" not found\",\n  \"reason\": \"NotFound\",\n  \"details\": {\n    \"name\": \"none\",\n    \
                    \"kind\": \"configmaps\"\n  },\n  \"code\": 404\n}";
    for reply in [
        get(&server, &format!("{path}?pretty=true"), ""),
        get(&server, path, "User-Agent: curl/8\r\n"),
        // Errors have no other form; where nothing else is accepted they are JSON for people.
        get(&server, path, "Accept: application/json;as=Table;v=v1;g=meta.k8s.io\r\n"),
    ] {
        assert_eq!((reply.status, reply.text().as_str()), (404, indented));
        let length = reply.headers.iter().find(|(name, _)| name == "content-length").map(|(_, value)| value.as_str());
        assert_eq!(length, Some(indented.len().to_string().as_str()));
    }
    let timeout = get(&server, "/api/v1/namespaces?timeout=abc", "");
    assert_eq!(
        (timeout.status, timeout.json()["message"].as_str()),
        (400, Some("invalid timeout specified in the request URL - time: invalid duration \"abc\""))
    );
}

#[test]
fn objects_and_lists_end_as_gos_encoder_ends_them() {
    let server = Server::start();
    server.kubectl_with(&["apply", "-f", "-"], include_str!("widgets.yaml").split("---").next().expect("a CRD"));
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = r#"{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"one"},"spec":{"size":1}}"#;
    let json = "Content-Type: application/json\r\n";
    let config_maps = "/api/v1/namespaces/default/configmaps";
    let large = format!(r#"{{"metadata":{{"name":"large"}},"data":{{"a":"{}"}}}}"#, "x".repeat(100_000));
    for (method, path, headers, body) in [
        ("POST", widgets, json, widget),
        ("GET", &format!("{widgets}/one"), "", ""),
        ("GET", widgets, "", ""),
        ("POST", config_maps, json, &large),
        ("GET", &format!("{config_maps}/large"), "", ""),
        ("GET", "/api/v1/namespaces/default", "", ""),
        (
            "GET",
            "/api/v1/namespaces/default",
            "Accept: application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io\r\n",
            "",
        ),
        ("GET", "/api/v1/namespaces", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io\r\n", ""),
        ("GET", "/api/v1/secrets", "", ""),
    ] {
        let compact = ask(&server, method, path, headers, body);
        assert!(
            compact.text().ends_with("}\n") && !compact.text().ends_with("\n\n"),
            "{method} {path}: {}",
            compact.text()
        );
        if method == "GET" {
            let pretty = get(&server, &format!("{path}?pretty=true"), headers);
            assert!(pretty.text().ends_with("\n}"), "{path}: {}", pretty.text());
            assert_eq!(pretty.json()["kind"], compact.json()["kind"]);
        }
    }
    // A custom resource's list is a map to Go.
    let list = get(&server, widgets, "");
    starts(&list, "{\"apiVersion\":\"example.com/v1\",\"items\":[{");
    assert!(list.text().contains("}],\"kind\":\"WidgetList\",\"metadata\":{"), "{}", list.text());
    let table = get(&server, "/api/v1/namespaces", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io\r\n");
    starts(&table, "{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{\"resourceVersion\":\"");
    assert!(table.text().contains(
        "\"columnDefinitions\":[{\"name\":\"Name\",\"type\":\"string\",\"format\":\"name\",\"description\":"
    ));
    assert!(table.text().contains(
        "\"object\":{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{\"name\":"
    ));
}

#[test]
fn a_version_that_is_none_is_passed_over_by_a_post_and_refused_by_what_could_have_changed_an_object() {
    let server = Server::start();
    let config_maps = "/api/v1/namespaces/default/configmaps";
    let body = |name: &str, version: &str| {
        format!(
            r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#
        )
    };
    let json = "Content-Type: application/json\r\n";
    for (i, (version, posted, applied)) in
        [("v1", 201, 500), ("-1", 201, 500), ("00", 201, 201), ("12", 500, 201), ("", 201, 201)].into_iter().enumerate()
    {
        let post = ask(&server, "POST", config_maps, json, &body(&format!("p{i}"), version));
        assert_eq!(post.status, posted, "{version}: {}", post.text());
        let path = format!("{config_maps}/a{i}?fieldManager=m");
        let apply = "Content-Type: application/apply-patch+yaml\r\n";
        let apply = ask(&server, "PATCH", &path, apply, &body(&format!("a{i}"), version));
        assert_eq!(apply.status, applied, "{version}: {}", apply.text());
        if applied == 500 {
            let why = format!("strconv.ParseUint: parsing \"{version}\": invalid syntax");
            assert_eq!(apply.json()["message"], why.as_str());
            let lease = format!(r#"{{"metadata":{{"name":"l","resourceVersion":"{version}"}},"spec":{{}}}}"#);
            let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
            let put = ask(&server, "PUT", leases, json, &lease);
            assert_eq!((put.status, put.json()["message"].as_str()), (500, Some(why.as_str())));
        }
    }
}

#[test]
fn other_kinds_in_a_body_are_unknown_or_unreadable_or_another_type_in_this_order() {
    let server = Server::start();
    let config_maps = "/api/v1/namespaces/default/configmaps";
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let core = "scheme \"pkg/api/legacyscheme/scheme.go:30\"";
    let extensions = "scheme \"pkg/apiserver/apiserver.go:55\"";
    for (path, body, why) in [
        (
            config_maps,
            r#"{"kind":"Pod","apiVersion":"v1"}"#,
            "converting (v1.Pod) to (core.ConfigMap): unknown conversion".to_owned(),
        ),
        (
            config_maps,
            r#"{"kind":"Pod","apiVersion":"v1","spec":5}"#,
            "json: cannot unmarshal number into Go struct field Pod.spec of type v1.PodSpec".to_owned(),
        ),
        (
            config_maps,
            r#"{"kind":"DeleteOptions","apiVersion":"apps/v1","gracePeriodSeconds":"x"}"#,
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64"
                .to_owned(),
        ),
        (
            config_maps,
            r#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","spec":5}"#,
            format!(
                "no kind \"CustomResourceDefinition\" is registered for version \"apiextensions.k8s.io/v1\" in {core}"
            ),
        ),
        (
            definitions,
            r#"{"kind":"Pod","apiVersion":"v1","spec":5}"#,
            format!("no kind \"Pod\" is registered for version \"v1\" in {extensions}"),
        ),
    ] {
        let refused = ask(&server, "POST", path, "Content-Type: application/json\r\n", body);
        let message = refused.json()["message"].as_str().unwrap_or_default().to_owned();
        assert_eq!(
            (refused.status, message.split_once(": ").map_or("", |(_, why)| why)),
            (400, why.as_str()),
            "{body}"
        );
    }
    let apply = "Content-Type: application/merge-patch+json\r\n";
    ask(&server, "POST", config_maps, "Content-Type: application/json\r\n", r#"{"metadata":{"name":"a"}}"#);
    for (patch, why) in [
        (r#"{"kind":"Pod"}"#, "converting (v1.Pod) to (core.ConfigMap): unknown conversion"),
        (r#"{"apiVersion":"x/y/z"}"#, "unexpected GroupVersion string: x/y/z"),
    ] {
        let refused = ask(&server, "PATCH", &format!("{config_maps}/a"), apply, patch);
        assert_eq!(refused.status, 422, "{}", refused.text());
        assert!(refused.json()["message"].as_str().is_some_and(|m| m.ends_with(why)), "{}", refused.text());
    }
}
