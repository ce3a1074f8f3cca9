//! The audit log of a real server. In blocking mode, the default, an event is written before its request is answered.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use integration_tests::{Server, TokenKey, Watch, raw};
use serde_json::{Value, json};

const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, users: [\"system:apiserver\"]}
- level: Metadata
  resources: [{group: \"\", resources: [secrets]}]
- {level: RequestResponse, omitManagedFields: true}
";

/// A server that audits; `more` is on its command line, too.
fn audited(more: &[&str]) -> Server {
    let mut server = Server::prepare();
    let (policy, log) = (server.dir().join("policy.yaml"), server.dir().join("audit.log"));
    std::fs::write(&policy, POLICY).expect("written");
    let own = [format!("--audit-policy-file={}", policy.display()), format!("--audit-log-path={}", log.display())];
    server.set_arguments(&own.iter().map(String::as_str).chain(more.iter().copied()).collect::<Vec<_>>());
    server.run();
    server
}

/// The events about this path.
fn events(server: &Server, path: &str) -> Vec<Value> {
    let log = std::fs::read_to_string(server.dir().join("audit.log")).expect("a log");
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is a whole event"));
    events.filter(|event| event["requestURI"] == path).collect()
}

/// The only event about this path.
fn event(server: &Server, path: &str) -> Value {
    let [event]: [Value; 1] = events(server, path).try_into().expect("one event");
    event
}

#[test]
fn who_did_what_and_what_came_of_it_is_recorded_as_the_policy_says() {
    let server = audited(&[]);
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = json!({"metadata": {"name": "a"}, "data": {"k": "<line>\n"}});
    assert_eq!(server.request("POST", maps, Some(&map)).status, 201);
    let made = event(&server, maps);
    assert_eq!((&made["stage"], &made["verb"]), (&json!("ResponseComplete"), &json!("create")));
    assert_eq!(made["user"]["username"], "admin");
    assert_eq!(made["objectRef"]["name"], "a");
    assert_eq!(made["responseStatus"], json!({"metadata": {}, "code": 201}));
    let sent = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"k": "<line>\n"}});
    assert_eq!(made["requestObject"], sent);
    assert_eq!(made["responseObject"]["metadata"]["managedFields"], Value::Null, "they are left out");
    assert_eq!(made["annotations"]["authorization.k8s.io/decision"], "allow");

    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "hidden"}});
    assert_eq!(server.request("POST", secrets, Some(&secret)).status, 201);
    assert!(!event(&server, secrets).to_string().contains("password"), "nothing of a secret is in the log");

    // What a client sends over several lines is one line in the log.
    let path = format!("{maps}/a?fieldManager=m");
    let patch = b"{\"data\":\n{\"l\":\n\"1\"}}\n".to_vec();
    let request = [
        format!(
            "PATCH {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admintoken\r\nContent-Length: {}\r\n\
             Content-Type: application/merge-patch+json\r\nConnection: close\r\n\r\n",
            patch.len()
        )
        .into_bytes(),
        patch,
    ];
    assert_eq!(raw(server.port(), &request.concat()).expect("an answer").status, 200);
    assert_eq!(event(&server, &path)["requestObject"], json!({"data": {"l": "1"}}));
}

#[test]
fn what_is_refused_and_what_lasts_is_recorded_too() {
    let server = audited(&[]);
    let get = |path: &str, token: &str| {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nAudit-ID: own\r\nConnection: close\r\n\r\n"
        );
        raw(server.port(), request.as_bytes()).expect("an answer")
    };
    let stranger = get("/api/v1/pods?stranger", "wrong");
    assert_eq!(stranger.status, 401);
    assert!(stranger.headers.contains(&("audit-id".into(), "own".into())));
    let refused = event(&server, "/api/v1/pods?stranger");
    assert_eq!((&refused["stage"], &refused["user"]), (&json!("ResponseStarted"), &json!({})));
    assert_eq!((&refused["responseStatus"]["code"], &refused["auditID"]), (&json!(401), &json!("own")));

    assert_eq!(get("/nothing/here", "admintoken").status, 404);
    assert_eq!(event(&server, "/nothing/here")["responseStatus"], json!({"metadata": {}, "code": 404}));
    assert_eq!(get("/api/v1/pods?timeout=odd", "admintoken").status, 400);
    assert_eq!(event(&server, "/api/v1/pods?timeout=odd")["stage"], "ResponseStarted");

    let path = "/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=3600";
    let watch = Watch::open(server.port(), path).expect("a watch");
    let begun = event(&server, path);
    assert_eq!((&begun["stage"], &begun["verb"]), (&json!("ResponseStarted"), &json!("watch")));
    drop(watch);
}

#[test]
fn a_strict_log_that_cannot_be_written_refuses_requests_and_says_so() {
    let mut server = audited(&["--audit-log-mode=blocking-strict"]);
    let (log, policy) = (server.dir().join("audit.log"), server.dir().join("policy.yaml"));
    std::fs::write(&policy, POLICY.replace("omitStages: [RequestReceived]", "")).expect("written");
    server.kill();
    server.run();
    assert_eq!(server.request("GET", "/version", None).status, 200);
    server.kill();
    std::fs::remove_file(&log).expect("removed");
    std::os::unix::fs::symlink("/dev/full", &log).expect("linked");
    server.run();
    let reply = server.request("GET", "/version", None);
    let expect = "Internal Server Error: \"/version\": failed to store audit event\n";
    assert_eq!((reply.status, reply.text().as_str()), (500, expect));
}

#[test]
fn a_policy_that_is_wrong_stops_the_start() {
    let mut server = Server::prepare();
    let policy = server.dir().join("policy.yaml");
    std::fs::write(&policy, POLICY.replace("Metadata", "Everything")).expect("written");
    server.set_arguments(&[&format!("--audit-policy-file={}", policy.display()), "--audit-log-path=-"]);
    let said = server.run_in_vain();
    let expect = format!(
        "loading audit policy file: rules[1].level: Unsupported value: \"Everything\": supported values: \"None\", \
         \"Metadata\", \"Request\", \"RequestResponse\": from file {}",
        policy.display()
    );
    assert!(said.contains(&expect), "{said}");
}

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// A server that knows the tokens of secrets which a key signs, and an account that such tokens are of.
struct OldTokens {
    server: Server,
    key: TokenKey,
    account: Value,
}

impl OldTokens {
    fn start() -> Self {
        let key = TokenKey::new("");
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("sa.key");
        std::fs::write(&file, key.pem()).expect("written");
        let server = audited(&[
            &format!("--service-account-key-file={}", file.display()),
            &format!("--service-account-signing-key-file={}", file.display()),
            "--service-account-issuer=https://kubernetes.default.svc",
            "--runtime-config=admissionregistration.k8s.io/v1alpha1=true",
        ]);
        let account = json!({"metadata": {"name": "robot"}, "secrets": [{"name": "auto"}]});
        let account = server.request("POST", "/api/v1/namespaces/default/serviceaccounts", Some(&account));
        assert_eq!(account.status, 201, "{}", account.text());
        OldTokens { account: account.json(), server, key }
    }

    /// The token of a secret.
    fn token(&self, secret: &str) -> String {
        let claim = |name: &str| format!("kubernetes.io/serviceaccount/{name}");
        self.key.sign_with(
            &json!({"alg": "ES256"}),
            &json!({
                "iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:default:robot",
                claim("namespace"): "default", claim("secret.name"): secret, claim("service-account.name"): "robot",
                claim("service-account.uid"): self.account["metadata"]["uid"],
            }),
        )
    }

    /// Keeps a token in a secret of that name.
    fn keep(&self, secret: &str, labels: Value) -> String {
        let token = self.token(secret);
        let annotations = json!({"kubernetes.io/service-account.name": "robot"});
        let object = json!({
            "metadata": {"name": secret, "annotations": annotations, "labels": labels},
            "type": "kubernetes.io/service-account-token", "data": {"token": STANDARD.encode(&token)},
        });
        let made = self.server.request("POST", SECRETS, Some(&object));
        assert_eq!(made.status, 201, "{}", made.text());
        token
    }

    /// On which day the token of a secret was used last.
    fn last_used(&self, secret: &str) -> String {
        let stored = self.server.request("GET", &format!("{SECRETS}/{secret}"), None).json();
        stored["metadata"]["labels"]["kubernetes.io/legacy-token-last-used"].as_str().unwrap_or_default().to_owned()
    }
}

#[test]
fn the_use_of_old_tokens_and_versions_is_noted() {
    let old = OldTokens::start();
    let server = &old.server;
    for (secret, kind) in [("auto", "autogenerated"), ("manual", "manual")] {
        let token = old.keep(secret, json!({}));
        let path = format!("/version?{secret}");
        let reply = server.ask(&token, "GET", &path, None);
        assert_eq!(reply.status, 200, "{}", reply.text());
        let warned = reply.headers.iter().any(|(name, value)| name == "warning" && value.contains("auto-generated"));
        assert_eq!(warned, secret == "auto", "{:?}", reply.headers);
        let noted = &event(server, &path)["annotations"];
        assert_eq!(noted["authentication.k8s.io/legacy-token"], "system:serviceaccount:default:robot");
        assert_eq!(noted[format!("authentication.k8s.io/legacy-token-{kind}-secret")], secret);
        assert_eq!(old.last_used(secret).split('-').map(str::len).collect::<Vec<_>>(), [4, 2, 2]);
    }
    let counted = |name: &str| server.metric(&format!("serviceaccount_{name}_total"));
    let all = ["legacy_tokens", "legacy_auto_token_uses", "legacy_manual_token_uses"].map(counted);
    assert_eq!(all, [2.0, 1.0, 1.0]);
    let alpha = "/apis/admissionregistration.k8s.io/v1alpha1/mutatingadmissionpolicies";
    assert_eq!(server.request("GET", alpha, None).status, 200);
    let noted = &event(server, alpha)["annotations"];
    assert_eq!((&noted["k8s.io/deprecated"], &noted["k8s.io/removed-release"]), (&json!("true"), &json!("1.38")));
    let log = std::fs::read_to_string(server.dir().join("audit.log")).expect("a log");
    let token = old.token("auto");
    assert!(!log.contains(&token) && !server.log().contains(&token), "tokens are told nowhere");
}

#[test]
fn what_is_told_of_a_token_that_is_refused_is_noted_too() {
    let old = OldTokens::start();
    let server = &old.server;
    let why = |token: &str, mark: &str| {
        let path = format!("/version?{mark}");
        assert_eq!(server.ask(token, "GET", &path, None).status, 401, "{mark}");
        let reviews = format!("/apis/authentication.k8s.io/v1/tokenreviews?{mark}");
        let judged = server.request("POST", &reviews, Some(&json!({"spec": {"token": token}}))).json();
        let [failed, reviewed] = [path, reviews].map(|path| event(server, &path)["annotations"].clone());
        for noted in [&failed, &reviewed] {
            assert_eq!(noted["authentication.k8s.io/legacy-token"], "system:serviceaccount:default:robot", "{mark}");
            let invalidated = &noted["authentication.k8s.io/legacy-token-invalidated"];
            assert_eq!(*invalidated, if mark == "marked" { json!("marked/default") } else { Value::Null }, "{mark}");
        }
        judged["status"]["error"].as_str().unwrap_or_default().to_owned()
    };
    // A cleaner has marked the secret as one that nobody has used for long.
    let marked = old.keep("marked", json!({"kubernetes.io/legacy-token-invalid-since": "2024-01-01"}));
    let told = why(&marked, "marked");
    let expect =
        "the token in secret default/marked for service account default/robot has been marked invalid. Use tokens";
    assert!(told.contains(expect), "{told}");
    assert_eq!(old.last_used("marked").len(), 10, "cleaners see that it is used");
    assert_eq!(server.metric("serviceaccount_invalid_legacy_auto_token_uses_total"), 2.0);
    let gone = old.token("nosuch");
    assert_eq!(why(&gone, "nosuch"), "[invalid bearer token, Token has been invalidated]");
    // The account is another one now.
    let kept = old.keep("kept", json!({}));
    let account = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(server.request("DELETE", &format!("{account}/robot"), None).status, 200);
    assert_eq!(why(&kept, "away"), "[invalid bearer token, serviceaccounts \"robot\" not found]");
    let again = server.request("POST", account, Some(&json!({"metadata": {"name": "robot"}}))).json();
    let uid = |account: &Value| account["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let expect = format!(
        "[invalid bearer token, ServiceAccount UID ({}) does not match claim ({})]",
        uid(&again),
        uid(&old.account)
    );
    assert_eq!(why(&kept, "another"), expect);
}
