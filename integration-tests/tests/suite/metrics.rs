//! The metrics that dashboards and alerts ask for (those of kubernetes-mixin among them) are there, with the labels that they select by;
//! and each family of upstream's server is here as it is there, or its absence has a reason (`tests/metrics.tsv`).

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read, Write},
    net::TcpListener,
};

use integration_tests::{Answer, Etcd, Server, Watch, Webhook, own_address, raw};
use serde_json::{Value, json};

/// The samples of a family whose labels have these values.
fn samples<'a>(metrics: &'a str, family: &str, labels: &[(&str, &str)]) -> Vec<&'a str> {
    let of_family = |line: &&str| line.strip_prefix(family).is_some_and(|rest| rest.starts_with(['{', ' ']));
    let has = |line: &str, (name, value): &(&str, &str)| {
        let text = format!("{name}=\"{value}\"");
        line.contains(&format!("{{{text}")) || line.contains(&format!(",{text}"))
    };
    metrics.lines().filter(of_family).filter(|line| labels.iter().all(|label| has(line, label))).collect()
}

#[test]
fn what_alerts_and_dashboards_select_is_there() {
    let server = Server::start();
    let maps = "/api/v1/namespaces/default/configmaps";
    let made = server.request("POST", maps, Some(&json!({"metadata": {"name": "a"}})));
    assert_eq!(made.status, 201);
    assert_eq!(server.request("GET", maps, None).status, 200);
    assert_eq!(server.request("GET", &format!("{maps}/a"), None).status, 200);
    assert_eq!(server.request("GET", "/api/v1/configmaps", None).status, 200);
    assert_eq!(server.request("GET", "/readyz", None).status, 200);
    let listed =
        Watch::open(server.port(), &format!("{maps}?watch=true&timeoutSeconds=1")).expect("a watch").next_event();
    assert!(listed.is_some());
    let deprecated = server.request("GET", "/api/v1/namespaces/default/endpoints", None);
    assert_eq!(deprecated.status, 200);
    let stranger = "GET /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\nConnection: close\r\n\r\n";
    assert_eq!(raw(server.port(), stranger.as_bytes()).expect("an answer").status, 401);
    let nobody = "GET /api/v1/nothings/x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admintoken\r\nConnection: close\r\n\r\n";
    assert_eq!(raw(server.port(), nobody.as_bytes()).expect("an answer").status, 404);
    let metrics = server.request("GET", "/metrics", None).text();
    let maps = [("group", ""), ("resource", "configmaps")];
    let check = |family: &str, labels: &[(&str, &str)]| {
        assert!(!samples(&metrics, family, labels).is_empty(), "{family} {labels:?} is not there");
    };
    let created = [("verb", "POST"), ("version", "v1"), ("scope", "resource"), ("component", "apiserver")];
    check("apiserver_request_total", &[&created[..], &[("code", "201"), ("dry_run", "")], &maps].concat());
    for histogram in ["apiserver_request_duration_seconds", "apiserver_request_sli_duration_seconds"] {
        let of_created = [&created[..], &maps].concat();
        check(&format!("{histogram}_count"), &of_created);
        check(&format!("{histogram}_bucket"), &[&of_created[..], &[("le", "1")]].concat());
        check(&format!("{histogram}_bucket"), &[&of_created[..], &[("le", "+Inf")]].concat());
    }
    // What the rules for the error budget select: reads by how far they reach, with the time that each may take, and writes.
    for (verb, scope, bound) in [("GET", "resource", "1"), ("LIST", "namespace", "5"), ("LIST", "cluster", "30")] {
        let of_reads = [&maps[..], &[("verb", verb), ("scope", scope), ("le", bound)]].concat();
        check("apiserver_request_sli_duration_seconds_bucket", &of_reads);
    }
    check("apiserver_request_sli_duration_seconds_bucket", &[("scope", ""), ("verb", "GET"), ("le", "1")]);
    check("apiserver_request_total", &[("subresource", "/readyz"), ("component", ""), ("code", "200")]);
    let watched = samples(&metrics, "apiserver_request_sli_duration_seconds_count", &[("verb", "WATCH")]);
    assert!(watched.is_empty(), "how long a watch takes says nothing: {watched:?}");
    for step in ["authentication", "audit", "constrainedimpersonation", "priorityandfairness", "authorization"] {
        check("apiserver_request_filter_duration_seconds_bucket", &[("filter", step), ("le", "0.0001")]);
    }
    check("apiserver_response_sizes_sum", &[("verb", "LIST"), ("resource", "configmaps")]);
    check("apiserver_request_body_size_bytes_count", &[&maps[..], &[("verb", "create")]].concat());
    check("apiserver_current_inflight_requests", &[("request_kind", "readOnly")]);
    check("apiserver_longrunning_requests", &[("verb", "WATCH"), ("resource", "configmaps")]);
    check("apiserver_watch_events_total", &[&maps[..], &[("version", "v1")]].concat());
    check("apiserver_watch_events_sizes_sum", &maps);
    let plugin = [("name", "NamespaceLifecycle"), ("type", "admit"), ("operation", "CREATE"), ("rejected", "false")];
    check("apiserver_admission_controller_admission_duration_seconds_bucket", &plugin);
    check("apiserver_admission_step_admission_duration_seconds_count", &plugin[1..]);
    check(
        "apiserver_requested_deprecated_apis",
        &[("resource", "endpoints"), ("version", "v1"), ("removed_release", "")],
    );
    check("authentication_attempts", &[("result", "success")]);
    check("authentication_duration_seconds_bucket", &[("result", "error"), ("le", "0.001")]);
    check("authenticated_user_requests", &[("username", "admin")]);
    check("authorization_attempts_total", &[("result", "allowed")]);
    check("authorization_duration_seconds_count", &[("result", "allowed")]);
    check("etcd_request_duration_seconds_bucket", &[&maps[..], &[("operation", "create"), ("le", "0.1")]].concat());
    check("etcd_requests_total", &[&maps[..], &[("operation", "list")]].concat());
    check("apiserver_storage_objects", &[("resource", "configmaps")]);
    check("apiserver_resource_objects", &maps);
    check("apiserver_watch_cache_events_received_total", &maps);
    check("apiserver_watch_cache_resource_version", &maps);
    check("aggregator_unavailable_apiservice", &[("name", "v1.apps")]);
    check("apiserver_flowcontrol_dispatched_requests_total", &[("priority_level", "exempt")]);
    check("apiserver_client_certificate_expiration_seconds_count", &[]);
    for bound in ["86400", "604800"] {
        check("apiserver_client_certificate_expiration_seconds_bucket", &[("le", bound)]);
    }
    check("apiserver_tls_handshake_errors_total", &[]);
    check("process_resident_memory_bytes", &[]);
    check("process_cpu_seconds_total", &[]);
    check("process_start_time_seconds", &[]);
    check("kubernetes_build_info", &[("major", "1"), ("minor", "36")]);
    // What does not exist has no series: its names are anybody's.
    assert!(!metrics.contains("nothings"), "{metrics}");
}

#[test]
fn servers_whose_certificates_are_believed_no_more_are_told_of() {
    let mut server = Server::prepare();
    let (policy, log) = (server.dir().join("policy.yaml"), server.dir().join("audit.log"));
    std::fs::write(&policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
        .expect("written");
    let own = [format!("--audit-policy-file={}", policy.display()), format!("--audit-log-path={}", log.display())];
    server.set_arguments(&own.each_ref().map(String::as_str));
    server.run();
    let hook = Webhook::serve_nameless("hook.default.svc", |path, _| {
        let list =
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "toys.test/v1", "resources": []});
        if path.starts_with("/apis/") { Answer::Json(list) } else { Answer::Raw(500, String::new()) }
    });
    let made = |path: &str, object: Value| {
        let reply = server.request("POST", path, Some(&object));
        assert_eq!(reply.status, 201, "{}", reply.text());
    };
    made(
        "/api/v1/namespaces/default/services",
        json!({"metadata": {"name": "hook"}, "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}}),
    );
    let service = json!({"namespace": "default", "name": "hook", "port": hook.port()});
    made(
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        json!({"metadata": {"name": "w"}, "webhooks": [{"name": "a.example.com", "admissionReviewVersions": ["v1"],
            "sideEffects": "None", "clientConfig": {"service": service, "caBundle": hook.bundle()}, "rules": [{"operations":
            ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"]}]}]}),
    );
    made(
        "/apis/apiregistration.k8s.io/v1/apiservices",
        json!({"metadata": {"name": "v1.toys.test"}, "spec": {"group": "toys.test", "version": "v1", "service": service,
            "insecureSkipTLSVerify": true, "groupPriorityMinimum": 10, "versionPriority": 10}}),
    );
    let secret = json!({"metadata": {"name": "a"}});
    let refused = server.request("POST", "/api/v1/namespaces/default/secrets", Some(&secret));
    assert!(refused.text().contains("certificate relies on legacy Common Name field"), "{}", refused.text());
    assert_eq!(server.metric("apiserver_webhooks_x509_missing_san_total"), 1.0);
    let since = std::time::Instant::now();
    while server.request("GET", "/apis/toys.test/v1/boxes", None).status != 200 {
        assert!(since.elapsed().as_secs() < 120, "the service is not available: {}", server.log());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(server.metric("apiserver_kube_aggregator_x509_missing_san_total"), 1.0);
    assert_eq!(server.metric("apiserver_kube_aggregator_x509_insecure_sha1_total"), 0.0);
    let log = std::fs::read_to_string(log).expect("the audit log");
    let reason = "relies on a legacy Common Name field instead of the SAN extension for subject validation";
    for host in ["hook.default.svc", "127.0.0.1"] {
        assert!(
            log.contains(&format!("\"missing-san.invalid-cert.kubernetes.io/{host}\":\"{reason}\"")),
            "{host}: {log}"
        );
    }
}

/// A family as it is shown, or as the table has it.
#[derive(Debug, Default, PartialEq)]
struct Family {
    kind: String,
    labels: BTreeSet<String>,
    /// Bounds of buckets, but for the last, which is infinite.
    buckets: Vec<f64>,
}

/// The families of a table: for each what it is, or why it is not here.
fn table() -> BTreeMap<String, Result<Family, String>> {
    let rows = include_str!("../metrics.tsv").lines().map(|row| {
        let columns: Vec<&str> = row.split('\t').collect();
        let list = |text: &str| text.split(',').filter(|item| *item != "-").map(str::to_owned).collect::<Vec<_>>();
        let family = match columns[..] {
            [_, _, reason] => Err(reason.strip_prefix("not here: ").expect("a reason").to_owned()),
            [_, kind, labels, buckets] => Ok(Family {
                kind: kind.to_owned(),
                labels: list(labels).into_iter().collect(),
                buckets: list(buckets).iter().map(|bound| bound.parse().expect("a number")).collect(),
            }),
            _ => panic!("{row:?} is no row"),
        };
        (columns[0].to_owned(), family)
    });
    rows.collect()
}

/// The families that a server shows.
fn shown(metrics: &str) -> BTreeMap<String, Family> {
    let mut all: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in metrics.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.split_once(' ').expect("a name and a type");
            current = name.to_owned();
            all.insert(current.clone(), Family { kind: kind.to_owned(), ..Family::default() });
        } else if !line.starts_with('#') {
            let family = all.get_mut(&current).expect("declared before");
            let Some((_, rest)) = line.split_once('{') else { continue };
            let (labels, _) = rest.rsplit_once('}').expect("labels end");
            for label in labels.split("\",").filter(|label| !label.is_empty()) {
                let (name, value) = label.split_once("=\"").expect("a value");
                match name {
                    "le" => family
                        .buckets
                        .extend(value.trim_end_matches('"').parse::<f64>().ok().filter(|le| le.is_finite())),
                    "quantile" => {}
                    name => drop(family.labels.insert(name.to_owned())),
                }
            }
        }
    }
    for family in all.values_mut() {
        family.buckets.sort_by(f64::total_cmp);
        family.buckets.dedup();
    }
    all
}

/// A server that promises more than it sends.
fn liar() -> (String, u16) {
    let address = own_address();
    let listener = TcpListener::bind((address.as_str(), 0)).expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
        }
    });
    (address, port)
}

/// Knows no token, and never answers about the slow one.
fn tokens() -> Webhook {
    Webhook::start(&["localhost"], |review| match review["spec"]["token"].as_str() {
        Some("slow") => Answer::Hang,
        _ => Answer::Json(json!({"apiVersion": review["apiVersion"], "kind": "TokenReview",
            "status": {"authenticated": false}})),
    })
}

/// A server on etcd whose tokens are asked about elsewhere, and whose controllers run.
fn server(etcd: &Etcd, tokens: &Webhook) -> Server {
    let mut server = Server::prepare();
    let path = server.dir().join("tokens.yaml");
    let config = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: 'https://localhost:{}/', \
         certificate-authority-data: {}}}}}]\nusers: [{{name: u, user: {{}}}}]\ncontexts: [{{name: c, context: {{cluster: c, \
         user: u}}}}]\n",
        tokens.port(),
        tokens.bundle()
    );
    std::fs::write(&path, config).expect("written");
    server.set_arguments(&[
        &format!("--etcd-servers={}", etcd.url()),
        &format!("--authentication-token-webhook-config-file={}", path.display()),
        "--controllers=*",
    ]);
    server.run();
    server
}

/// Does what makes the families appear that are not there from the start.
fn exercise(server: &Server) {
    let made = |path: &str, object: Value| {
        let reply = server.request("POST", path, Some(&object));
        assert_eq!(reply.status, 201, "{}", reply.text());
        reply.json()
    };
    // A definition with a rule, and a custom resource that is wrong, and is let be so.
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let with_rule = |rule: &str| {
        json!({"metadata": {"name": "toys.example.com"}, "spec": {"group": "example.com", "scope": "Cluster",
            "names": {"plural": "toys", "kind": "Toy"}, "versions": [{"name": "v1", "served": true, "storage": true, "schema":
            {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type":
            "integer"}}, "x-kubernetes-validations": [{"rule": rule}]}}}}}]}})
    };
    made(crds, with_rule("self.size > 0"));
    let toys = "/apis/example.com/v1/toys";
    let mut toy = made(
        toys,
        json!({"kind": "Toy", "apiVersion": "example.com/v1", "metadata": {"name": "a"}, "spec": {"size": 1}}),
    );
    toy["spec"]["size"] = json!(2);
    assert_eq!(server.request("PUT", &format!("{toys}/a"), Some(&toy)).status, 200);
    // Writes of one kind, which the caches of others hear of when they are asked for the latest state.
    let maps = "/api/v1/namespaces/default/configmaps";
    made(maps, json!({"metadata": {"name": "a"}}));
    made("/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "a"}}));
    assert_eq!(server.request("GET", maps, None).status, 200);
    let watch =
        format!("{maps}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true");
    let mut watch = Watch::open(server.port(), &watch).expect("a watch");
    while watch.next_event().expect("the end of the list")["type"] != "BOOKMARK" {}
    assert_eq!(server.request("GET", "/api/v1/namespaces/default/endpoints", None).status, 200);
    // An answer that is cut short.
    let (address, port) = liar();
    let account = server.request(
        "POST",
        "/api/v1/namespaces/default/serviceaccounts",
        Some(&json!({"metadata": {"name": "default"}})),
    );
    assert!([201, 409].contains(&account.status), "{}", account.text());
    made(
        "/api/v1/namespaces/default/pods",
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
    );
    let pod = "/api/v1/namespaces/default/pods/p";
    let at = json!({"status": {"podIPs": [{"ip": address}], "podIP": address}});
    assert_eq!(server.request("PATCH", &format!("{pod}/status"), Some(&at)).status, 200);
    let cut = format!(
        "GET {pod}:{port}/proxy/ HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admintoken\r\nConnection: close\r\n\r\n"
    );
    assert!(raw(server.port(), cut.as_bytes()).map_or(true, |reply| reply.body.len() < 100), "nobody has more to send");
    // Somebody whom nobody knows, and somebody about whom nobody hears in time.
    assert_eq!(server.ask("unknown", "GET", "/api", None).status, 401);
    assert_eq!(server.ask("slow", "GET", "/api/v1/namespaces?timeout=100ms", None).status, 504);
}

#[test]
fn each_family_of_upstream_is_here_or_its_absence_has_a_reason() {
    let (etcd, tokens) = (Etcd::start(), tokens());
    let server = server(&etcd, &tokens);
    exercise(&server);
    let shown = shown(&server.request("GET", "/metrics", None).text());
    let close = |a: &f64, b: &f64| (a - b).abs() <= b.abs() * 1e-9;
    let mut wrong = Vec::new();
    for (name, row) in table() {
        match (row, shown.get(&name)) {
            (Ok(_), None) => wrong.push(format!("{name} is not there")),
            (Err(_), None) => {}
            (Err(why), Some(_)) => wrong.push(format!("{name} is there, though {why}")),
            (Ok(row), Some(found)) => {
                let buckets = row.buckets.len() == found.buckets.len()
                    && found.buckets.iter().zip(&row.buckets).all(|(a, b)| close(a, b));
                if (&row.kind, &row.labels) != (&found.kind, &found.labels) || !buckets {
                    wrong.push(format!("{name}: {found:?}, not {row:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), server.log());
}

/// Where facts of the real server are at hand, the table has a row for each of its families.
#[test]
fn the_table_has_all_families_of_the_real_server() {
    let Ok(folder) = std::env::var("KUBE_REFERENCE_DIR") else { return };
    let facts = std::fs::read_to_string(format!("{folder}/metrics.tsv")).expect("the facts");
    let own = include_str!("../metrics.tsv");
    for fact in facts.lines() {
        assert!(own.lines().any(|row| row.starts_with(&format!("{fact}\t"))), "there is no row of {fact:?}");
    }
}
