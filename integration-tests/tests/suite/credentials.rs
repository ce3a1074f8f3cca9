//! Every kind of credential, as kubectl shows it; and those that are forged.

use std::{path::Path, process::Command};

use integration_tests::{Authority, Issued, Issuer, Server, TokenKey, claims, kubectl_path, raw_with};
use serde_json::{Value, json};

const OWN: &str = "https://kubernetes.default.svc";

struct Cluster {
    server: Server,
    clients: Authority,
    proxies: Authority,
    issuer: Issuer,
    accounts: TokenKey,
}

fn write(path: &Path, text: &str) -> String {
    std::fs::write(path, text).expect("written");
    path.display().to_string()
}

impl Cluster {
    fn start() -> Self {
        let (clients, proxies) = (Authority::new("clients"), Authority::new("proxies"));
        let (issuer, accounts) = (Issuer::start(), TokenKey::new(""));
        let mut server = Server::prepare();
        let dir = server.dir().to_owned();
        let file = |name: &str, text: &str| write(&dir.join(name), text);
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n";
        let arguments = [
            format!("--client-ca-file={}", file("clients.pem", &clients.pem())),
            format!("--requestheader-client-ca-file={}", file("proxies.pem", &proxies.pem())),
            "--requestheader-allowed-names=front-proxy".to_owned(),
            "--requestheader-username-headers=X-Remote-User".to_owned(),
            "--requestheader-group-headers=X-Remote-Group".to_owned(),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
            format!(
                "--authentication-config={}",
                file("authn.yaml", &format!("{head}{}", issuer.configuration("oidc:")))
            ),
            "--enable-bootstrap-token-auth=true".to_owned(),
            format!("--service-account-key-file={}", file("sa.pub", &accounts.public_pem())),
            format!("--service-account-signing-key-file={}", file("sa.key", &accounts.pem())),
            format!("--service-account-issuer={OWN}"),
        ];
        server.set_arguments(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        server.run();
        Cluster { server, clients, proxies, issuer, accounts }
    }

    /// What `kubectl auth whoami` prints for these flags, or why it prints nothing.
    fn whoami(&self, flags: &[String]) -> Result<Value, String> {
        let output = Command::new(kubectl_path())
            .args(["auth", "whoami", "-o", "json", "--insecure-skip-tls-verify"])
            .arg(format!("--server=https://127.0.0.1:{}", self.server.port()))
            .args(flags)
            .env("KUBECONFIG", self.server.dir().join("none"))
            .env("HOME", self.server.dir())
            .output()
            .expect("kubectl runs");
        match output.status.success() {
            true => Ok(serde_json::from_slice::<Value>(&output.stdout).expect("JSON")["status"]["userInfo"].clone()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    fn whoami_by_token(&self, token: &str) -> Result<Value, String> {
        self.whoami(&[format!("--token={token}")])
    }

    /// Who somebody is to whom this certificate belongs, with these headers.
    fn by_certificate(&self, identity: &Issued, headers: &str) -> (u16, Value) {
        let body = r#"{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}"#;
        let request = format!(
            "POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             {headers}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let reply = raw_with(self.server.port(), identity, request.as_bytes()).expect("an answer");
        (reply.status, reply.json()["status"]["userInfo"].clone())
    }
}

fn name_of(user: Result<Value, String>) -> String {
    user.map_or_else(|why| panic!("{why}"), |user| user["username"].as_str().unwrap_or_default().to_owned())
}

/// A kubeconfig whose user is who a program says it is.
fn exec_config(server: &Server, program: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:{}', \
         insecure-skip-tls-verify: true}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: \
         {{exec: {{apiVersion: client.authentication.k8s.io/v1, command: '{program}', interactiveMode: Never}}}}}}]\n",
        server.port()
    )
}

#[test]
fn kubectl_is_known_by_every_kind_of_credential() {
    let cluster = Cluster::start();
    let (server, dir) = (&cluster.server, cluster.server.dir());

    let own = cluster.clients.issue("carol", &["dev", "qa"], &[]);
    let flags = [
        format!("--client-certificate={}", write(&dir.join("carol.pem"), &own.certificate)),
        format!("--client-key={}", write(&dir.join("carol.key"), &own.key)),
    ];
    let carol = cluster.whoami(&flags).expect("a user");
    assert_eq!(
        (&carol["username"], &carol["groups"]),
        (&json!("carol"), &json!(["dev", "qa", "system:authenticated"]))
    );

    assert_eq!(name_of(cluster.whoami_by_token("bobtoken")), "bob");

    let program = dir.join("who.sh");
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "bobtoken"},
    });
    write(&program, &format!("#!/bin/sh\necho '{credential}'\n"));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).expect("it may be run");
    let config = write(&dir.join("exec.yaml"), &exec_config(server, &program.display().to_string()));
    assert_eq!(name_of(cluster.whoami(&[format!("--kubeconfig={config}")])), "bob");

    let account = json!({"metadata": {"name": "robot"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(server.request("POST", accounts, Some(&account)).status, 201);
    let review = json!({"spec": {"expirationSeconds": 600}});
    let issued = server.request("POST", &format!("{accounts}/robot/token"), Some(&review)).json();
    let token = issued["status"]["token"].as_str().expect("a token").to_owned();
    let robot = cluster.whoami_by_token(&token).expect("a user");
    assert_eq!(robot["username"], "system:serviceaccount:default:robot");
    assert!(
        robot["extra"]["authentication.kubernetes.io/credential-id"][0]
            .as_str()
            .is_some_and(|id| id.starts_with("JTI="))
    );

    let token = cluster.issuer.key().sign(&claims(&cluster.issuer.url(), "cluster", "dora"));
    while cluster.whoami_by_token(&token).is_err() {
        std::thread::yield_now(); // until the provider has been asked for its keys
    }
    assert_eq!(name_of(cluster.whoami_by_token(&token)), "oidc:dora");

    let secret = json!({
        "metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token",
        "stringData": {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"},
    });
    assert_eq!(server.request("POST", "/api/v1/namespaces/kube-system/secrets", Some(&secret)).status, 201);
    assert_eq!(name_of(cluster.whoami_by_token("abcdef.0123456789abcdef")), "system:bootstrap:abcdef");

    let refused = cluster.whoami_by_token("nobody").expect_err("nobody's");
    assert!(refused.contains("You must be logged in to the server"), "{refused}");
}

#[test]
fn a_front_proxy_speaks_for_others_and_nobody_else_does() {
    let cluster = Cluster::start();
    let headers = "X-Remote-User: erin\r\nX-Remote-Group: g1\r\nX-Remote-Group: g2\r\nX-Remote-Extra-Scopes: s\r\n";
    let proxy = cluster.proxies.issue("front-proxy", &[], &[]);
    let (status, erin) = cluster.by_certificate(&proxy, headers);
    assert_eq!((status, &erin["username"]), (201, &json!("erin")));
    assert_eq!(erin["groups"], json!(["g1", "g2", "system:authenticated"]));
    assert_eq!(erin["extra"], json!({"scopes": ["s"]}));

    // Another name, another authority, no certificate: the headers are nobody's.
    let (status, _) = cluster.by_certificate(&cluster.proxies.issue("other", &[], &[]), headers);
    assert_eq!(status, 401);
    let (status, own) = cluster.by_certificate(&cluster.clients.issue("front-proxy", &[], &[]), headers);
    assert_eq!((status, &own["username"]), (201, &json!("front-proxy")), "a client's certificate names the client");
    let (status, _) = cluster.by_certificate(&Authority::new("proxies").issue("front-proxy", &[], &[]), headers);
    assert_eq!(status, 401);
    // A client's certificate does not become another's by asking to act as them.
    let act = "Impersonate-User: admin\r\nImpersonate-Group: system:masters\r\n";
    let (status, _) = cluster.by_certificate(&cluster.clients.issue("carol", &[], &[]), act);
    assert_eq!(status, 403);
    // The proxy's users are those of its headers, also where it says that they act as others.
    let (status, _) = cluster.by_certificate(&proxy, &format!("{headers}{act}"));
    assert_eq!(status, 403);
}

#[test]
fn odd_certificates_are_nobodys_or_their_subjects() {
    let cluster = Cluster::start();
    let by = |common_name: &str, organizations: &[&str]| {
        cluster.by_certificate(&cluster.clients.issue(common_name, organizations, &["a.example"]), "")
    };
    let (status, user) = by("system:admin", &["system:masters"]);
    assert_eq!((status, &user["groups"]), (201, &json!(["system:masters", "system:authenticated"])));
    assert_eq!(by("", &["system:masters"]).0, 401, "without a name");
    let (status, user) = by("name with spaces \u{e4}\n", &["g\u{0}"]);
    assert_eq!((status, &user["username"]), (201, &json!("name with spaces \u{e4}\n")));
    let long = "n".repeat(60_000);
    let (status, user) = by(&long, &[]);
    assert_eq!((status, user["username"].as_str().map(str::len)), (201, Some(60_000)));
}

#[test]
fn forged_tokens_are_nobodys() {
    let cluster = Cluster::start();
    let (server, key) = (&cluster.server, &cluster.accounts);
    let made = json!({"metadata": {"name": "robot"}});
    let made = server.request("POST", "/api/v1/namespaces/default/serviceaccounts", Some(&made)).json();
    let own = json!({
        "namespace": "default", "serviceaccount": {"name": "robot", "uid": made["metadata"]["uid"]},
    });
    let mut good = claims(OWN, OWN, "system:serviceaccount:default:robot");
    good["kubernetes.io"] = own;
    let oidc = claims(&cluster.issuer.url(), "cluster", "dora");
    let provider = cluster.issuer.key();
    let status = |token: &str| server.ask(token, "GET", "/version", None).status;
    let review = |token: &str| {
        let review = json!({"spec": {"token": token}});
        let reply = server.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", Some(&review));
        reply.json()["status"].clone()
    };
    while status(&provider.sign(&oidc)) != 200 {
        std::thread::yield_now();
    }
    assert_eq!(status(&key.sign_with(&json!({"alg": "ES256"}), &good)), 200);

    let other = TokenKey::new("k");
    let public_secret = key.public_pem();
    let changed = |claims: &Value, member: &str, value: Value| {
        let mut claims = claims.clone();
        claims[member] = value;
        claims
    };
    let past = json!(1_000_000_000);
    let unsigned = |header: Value, claims: &Value| {
        let token = key.sign_with(&header, claims);
        format!("{}.", token.rsplit_once('.').expect("three parts").0)
    };
    let swapped = |mine: &TokenKey, claims: &Value, with: &Value| {
        let (real, theirs) = (mine.sign(claims), mine.sign(with));
        let (real, theirs): (Vec<_>, Vec<_>) = (real.split('.').collect(), theirs.split('.').collect());
        format!("{}.{}.{}", real[0], theirs[1], real[2])
    };
    let mut forged = Vec::new();
    for (mine, claims) in [(key, &good), (provider, &oidc)] {
        forged.extend([
            other.sign(claims),
            mine.sign(&changed(claims, "exp", past.clone())),
            mine.sign(&changed(claims, "nbf", json!(9_999_999_999_u64))),
            mine.sign(&changed(claims, "aud", json!("elsewhere"))),
            mine.sign(&changed(claims, "iss", json!("https://elsewhere"))),
            unsigned(json!({"alg": "none"}), claims),
            unsigned(json!({"alg": "ES256", "kid": "k"}), claims),
            mine.sign_with(&json!({"alg": "HS256", "kid": "k", "k": public_secret}), claims),
            mine.sign_with(&json!({"alg": "RS256", "kid": "k"}), claims),
            mine.sign_with(&json!({"alg": "ES256", "kid": "k", "crit": ["x"]}), claims),
            mine.sign_with(&json!({"alg": "ES256", "kid": "k", "jwk": other.jwk()}), claims).replace('.', ".."),
            other.sign_with(&json!({"alg": "ES256", "kid": "k", "jwk": other.jwk()}), claims),
            other.sign_with(&json!({"alg": "ES256", "kid": "k", "jku": "https://elsewhere"}), claims),
            swapped(mine, claims, &changed(claims, "sub", json!("admin"))),
        ]);
    }
    forged.extend([".", "..", "a.b.c", "e30.e30.", "Bearer"].map(str::to_owned));
    forged.push(format!("{}.e30.e30", "A".repeat(100_000)));
    forged.push(key.sign(&changed(&good, "kubernetes.io", json!({"namespace": "default", "serviceaccount": []}))));
    forged.push(key.sign(&changed(&good, "pad", json!("x".repeat(40_000)))));
    for token in &forged {
        let answered = status(token);
        let expect: &[u16] = if token.len() > 60_000 { &[401, 431] } else { &[401] };
        assert!(expect.contains(&answered), "{answered}: {token:.80}");
        assert_ne!(review(token)["authenticated"], json!(true), "{token:.80}");
    }
    // What was forged is told nowhere.
    let (log, metrics) = (server.log(), server.request("GET", "/metrics", None).text());
    for token in forged.iter().filter(|token| token.len() > 60) {
        let signed = token.rsplit_once('.').map_or("", |(_, signature)| signature);
        let part = if signed.len() > 40 { signed } else { &token[..60] };
        assert!(!log.contains(part) && !metrics.contains(part), "{part}");
    }
    assert_eq!(status("admintoken"), 200);
}
