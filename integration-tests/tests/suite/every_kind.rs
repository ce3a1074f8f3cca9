//! A real kubectl makes, lists, shows, describes and explains every kind that discovery names.

use std::{collections::BTreeSet, thread};

use integration_tests::Server;
use serde_json::{Value, json};

/// One object of every kind, but for those that the test makes itself.
const OBJECTS: &str = include_str!("every_kind.yaml");

/// So many kubectls at once: each is a process that reads discovery.
const AT_ONCE: usize = 4;

/// A resource, as discovery says.
struct Served {
    group: String,
    version: String,
    plural: String,
    kind: String,
    verbs: Vec<String>,
}

impl Served {
    fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }

    fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `deployments.v1.apps`: what kubectl takes for just this one. The core group has no name for that.
    fn full_name(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}.{}", self.plural, self.version, self.group)
        }
    }
}

/// Every resource of the built-in groups, without subresources.
fn served(server: &Server) -> Vec<Served> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let groups = server.request("GET", "/apis", None).json();
    let versions = groups["groups"].as_array().into_iter().flatten().flat_map(|g| g["versions"].as_array()).flatten();
    let paths = std::iter::once("/api/v1".to_owned())
        .chain(versions.map(|version| format!("/apis/{}", text(&version["groupVersion"]))));
    let mut all = Vec::new();
    for path in paths {
        let list = server.request("GET", &path, None).json();
        let group_version = text(&list["groupVersion"]);
        let (group, version) = group_version.split_once('/').unwrap_or(("", &group_version));
        for resource in list["resources"].as_array().into_iter().flatten() {
            let plural = text(&resource["name"]);
            if !plural.contains('/') {
                all.push(Served {
                    group: group.to_owned(),
                    version: version.to_owned(),
                    plural,
                    kind: text(&resource["kind"]),
                    verbs: resource["verbs"].as_array().into_iter().flatten().map(text).collect(),
                });
            }
        }
    }
    all
}

/// (apiVersion, kind) of every object in the file.
fn made_by_file() -> BTreeSet<(String, String)> {
    let value_of = |document: &str, key: &str| {
        let start = document.find(&format!("{key}: "))? + key.len() + 2;
        let end = document[start..].find([',', '}', '\n'])?;
        Some(document[start..start + end].trim().to_owned())
    };
    OBJECTS
        .split("\n---\n")
        .filter_map(|document| Some((value_of(document, "apiVersion")?, value_of(document, "kind")?)))
        .collect()
}

fn signing_request() -> Value {
    let params = rcgen::CertificateParams::default();
    let key = rcgen::KeyPair::generate().expect("a key");
    let pem = params.serialize_request(&key).and_then(|request| request.pem()).expect("a request");
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, pem);
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "one"},
        "spec": {"request": encoded, "signerName": "example.com/signer", "usages": ["client auth"]},
    })
}

/// Kinds that an older kubectl asks for in beta versions, which are not served, when it describes them: by the first minor
/// version that no longer does.
const ASKED_FOR_AS_BETA: [(&str, u32); 3] = [("ipaddress.", 33), ("servicecidr.", 33), ("volumeattributesclass.", 34)];

/// Whether this kubectl can describe an object of a kind that has left beta lately.
fn can_describe(minor: u32, object: &str) -> bool {
    ASKED_FOR_AS_BETA.iter().all(|(kind, since)| minor >= *since || !object.starts_with(kind))
}

/// The minor version of kubectl.
fn client_minor(server: &Server) -> u32 {
    let version = server.kubectl(&["version", "--client", "-o", "json"]);
    let version: Value = serde_json::from_str(&version).expect("JSON");
    let minor = version["clientVersion"]["minor"].as_str().unwrap_or_default();
    minor.trim_end_matches('+').parse().expect("a number")
}

/// Runs kubectl once for each of the arguments' lists, a few at a time, and gives what each printed.
fn kubectls(server: &Server, calls: &[Vec<String>]) -> Vec<String> {
    let run = |call: &Vec<String>| server.kubectl(&call.iter().map(String::as_str).collect::<Vec<_>>());
    let share = calls.len().div_ceil(AT_ONCE).max(1);
    thread::scope(|scope| {
        let workers: Vec<_> =
            calls.chunks(share).map(|part| scope.spawn(move || part.iter().map(run).collect::<Vec<_>>())).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("every call succeeds")).collect()
    })
}

fn call(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn kubectl_makes_lists_and_describes_an_object_of_every_kind() {
    let server = Server::start();
    let served = served(&server);
    let mut made = made_by_file();
    made.insert(("certificates.k8s.io/v1".into(), "CertificateSigningRequest".into()));
    made.insert(("v1".into(), "Binding".into()));
    for resource in served.iter().filter(|resource| resource.can("create")) {
        let kind = (resource.api_version(), resource.kind.clone());
        assert!(made.contains(&kind), "no object of {kind:?} is made here");
    }

    let created = server.kubectl_with(&["create", "-f", "-"], OBJECTS);
    server.kubectl_with(&["create", "-f", "-"], &signing_request().to_string());
    let binding = json!({"metadata": {"name": "one"}, "target": {"kind": "Node", "name": "one"}});
    assert_eq!(server.request("POST", "/api/v1/namespaces/default/bindings", Some(&binding)).status, 201);

    let listed: Vec<&Served> = served.iter().filter(|resource| resource.can("list")).collect();
    let all = listed.iter().map(|resource| resource.full_name()).collect::<Vec<_>>().join(",");
    // `TYPE/NAME created`, for what can be described and is not a definition's own.
    let objects: Vec<String> = created
        .lines()
        .filter_map(|line| line.strip_suffix(" created"))
        .chain(["certificatesigningrequest.certificates.k8s.io/one"])
        .filter(|object| !object.ends_with("/<unknown>"))
        .map(str::to_owned)
        .collect();
    let mut calls = vec![
        call(&["get", &all, "-A", "-o", "wide"]),
        call(&["get", &all, "-A", "-o", "yaml"]),
        call(&["get", &all, "-A"]),
    ];
    let minor = client_minor(&server);
    let described: Vec<&String> = objects.iter().filter(|object| can_describe(minor, object)).collect();
    for part in described.chunks(described.len().div_ceil(AT_ONCE)) {
        calls.push(["describe".to_owned()].into_iter().chain(part.iter().copied().cloned()).collect());
    }
    let shown = kubectls(&server, &calls);

    let (wide, yaml, descriptions) = (&shown[0], &shown[1], shown[3..].concat());
    for resource in listed.iter().filter(|resource| resource.can("create")) {
        let kind = format!("kind: {}\n", resource.kind);
        assert!(yaml.contains(&kind), "no {kind} in the YAML of all");
    }
    for object in &objects {
        let name = object.split('/').next_back().unwrap_or_default();
        assert!(wide.contains(name), "no {object} in:\n{wide}");
    }
    let names = descriptions.lines().filter(|line| line.starts_with("Name:")).count();
    assert!(names >= described.len(), "{names} of {} are described:\n{descriptions}", described.len());
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[test]
fn kubectl_explains_every_resource() {
    let server = Server::start();
    let served = served(&server);
    let explain = |resource: &Served| {
        call(&["explain", &resource.plural, "--recursive", &format!("--api-version={}", resource.api_version())])
    };
    // A review cannot be listed or got, but it is explained too.
    let texts = kubectls(&server, &served.iter().map(explain).collect::<Vec<_>>());
    for (resource, text) in served.iter().zip(&texts) {
        let kind = format!("KIND:       {}\n", resource.kind);
        assert!(text.contains(&kind), "no {kind} in:\n{text}");
        assert!(text.contains(&format!("VERSION:    {}\n", resource.version)), "{}:\n{text}", resource.full_name());
        for part in ["FIELDS:\n", "\n  apiVersion\t<string>\n", "\n  kind\t<string>\n"] {
            assert!(text.contains(part), "{}: no {part:?} in:\n{text}", resource.full_name());
        }
    }
}
