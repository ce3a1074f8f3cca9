//! Files that are followed while the server runs: what is new counts, what is wrong changes nothing, is told and counted.

use std::path::{Path, PathBuf};

use integration_tests::{Answer, Authority, Issuer, Server, Webhook, claims, raw_with, shown_certificate};
use serde_json::json;

/// Replaces a file, as those do who do not want it to be seen half written.
pub(crate) fn replace(path: &Path, text: &str) {
    let next = path.with_extension("next");
    std::fs::write(&next, text).expect("written");
    std::fs::rename(&next, path).expect("replaced");
}

/// A server with files, by their names; `arguments` name them as `{name}`.
fn server(files: &[(&str, String)], arguments: &[&str]) -> (Server, impl Fn(&str) -> PathBuf + use<>) {
    let mut server = Server::prepare();
    let dir = server.dir().to_owned();
    for (name, text) in files {
        std::fs::write(dir.join(name), text).expect("written");
    }
    let place = dir.display().to_string();
    let arguments: Vec<String> = arguments.iter().map(|argument| argument.replace("{dir}", &place)).collect();
    server.set_arguments(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    server.run();
    (server, move |name: &str| dir.join(name))
}

/// How often a file was taken or not taken, by upstream's metric of it.
pub(crate) fn reloads(server: &Server, controller: &str, status: &str) -> f64 {
    let text = server.request("GET", "/metrics", None).text();
    let name = format!("apiserver_{controller}_config_controller_automatic_reloads_total");
    let is_it = |line: &&str| line.starts_with(&name) && line.contains(&format!("status=\"{status}\""));
    text.lines().find(is_it).and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
}

#[test]
fn authorities_of_clients_and_proxies_are_followed() {
    let [old, new, proxies, other] = ["old", "new", "proxies", "other"].map(Authority::new);
    let (server, file) = server(
        &[("clients.pem", old.pem()), ("proxies.pem", proxies.pem())],
        &[
            "--client-ca-file={dir}/clients.pem",
            "--requestheader-client-ca-file={dir}/proxies.pem",
            "--requestheader-allowed-names=front-proxy",
            "--requestheader-username-headers=X-Remote-User",
        ],
    );
    let status = |authority: &Authority, name: &str, header: &str| {
        let request = format!("GET /version HTTP/1.1\r\nHost: localhost\r\n{header}Connection: close\r\n\r\n");
        let identity = authority.issue(name, &[], &[]);
        raw_with(server.port(), &identity, request.as_bytes()).map_or(0, |reply| reply.status)
    };
    let client = |authority: &Authority| status(authority, "carol", "");
    let proxy = |authority: &Authority| status(authority, "front-proxy", "X-Remote-User: erin\r\n");
    for (path, told, asks, old, new) in [
        ("clients.pem", "the new clients' authorities", &client as &dyn Fn(&Authority) -> u16, &old, &new),
        ("proxies.pem", "the new front proxies' authorities", &proxy as &dyn Fn(&Authority) -> u16, &proxies, &other),
    ] {
        assert_eq!((asks(old), asks(new)), (200, 401), "{path}");
        replace(&file(path), "no certificate");
        server.in_the_end(told, || server.log().contains(told));
        assert_eq!((asks(old), asks(new)), (200, 401), "{path}: the old ones count");
        replace(&file(path), &new.pem());
        server.in_the_end(path, || asks(new) == 200);
        assert_eq!(asks(old), 401, "{path}");
        replace(&file(path), &format!("{}{}", old.pem(), new.pem()));
        server.in_the_end(path, || asks(old) == 200 && asks(new) == 200);
    }
}

#[test]
fn the_serving_certificate_and_the_token_file_are_followed() {
    let authority = Authority::new("servers");
    let (first, second) =
        (authority.issue("first", &[], &["localhost"]), authority.issue("second", &[], &["localhost"]));
    let (server, file) = server(
        &[("tls.pem", first.certificate.clone()), ("tls.key", first.key.clone())],
        &["--tls-cert-file={dir}/tls.pem", "--tls-private-key-file={dir}/tls.key"],
    );
    let shown = || shown_certificate(server.port()).expect("it shows one");
    assert_eq!(shown(), first.der());

    let tokens = std::fs::read_to_string(file("tokens.csv")).expect("it was written");
    let status = |token: &str| server.ask(token, "GET", "/version", None).status;
    assert_eq!((status("bobtoken"), status("zoetoken")), (200, 401));
    replace(&file("tokens.csv"), "zoetoken,zoe\n");
    server.in_the_end("tokens", || server.log().contains("the new token file is not used"));
    assert_eq!((status("bobtoken"), status("zoetoken")), (200, 401), "the old ones count");
    replace(&file("tokens.csv"), &tokens.replace("bobtoken,bob", "zoetoken,zoe"));
    server.in_the_end("tokens", || status("zoetoken") == 200);
    assert_eq!((status("bobtoken"), status("admintoken")), (401, 200));
    assert!(!server.log().contains("zoetoken"), "tokens are told to nobody");

    // A certificate that has no key to it is not used; with its key it is.
    replace(&file("tls.pem"), &second.certificate);
    server.in_the_end("a certificate without its key", || {
        server.log().contains("cannot use the new serving certificates")
    });
    assert_eq!(shown(), first.der());
    replace(&file("tls.key"), &second.key);
    server.in_the_end("the certificate", || shown() == second.der());
}

#[test]
fn identity_providers_are_followed() {
    let issuer = Issuer::start();
    let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";
    let config = |prefix: &str| format!("{head}jwt:\n{}", issuer.configuration(prefix));
    let (server, file) = server(&[("authn.yaml", config("old:"))], &["--authentication-config={dir}/authn.yaml"]);
    let token = |subject: &str| issuer.key().sign(&claims(&issuer.url(), "cluster", subject));
    let name = |subject: &str| {
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let reply = server.ask(&token(subject), "POST", path, Some(&json!({})));
        reply.json()["status"]["userInfo"]["username"].as_str().unwrap_or_default().to_owned()
    };
    server.in_the_end("the provider", || name("dora") == "old:dora");
    for (number, wrong) in
        ["jwt: [{}]\n", "jwt: 1\n", "anonymous: {enabled: false}\njwt: []\n", "other: 1\n"].iter().enumerate()
    {
        replace(&file("authn.yaml"), &format!("{head}{wrong}"));
        server.in_the_end(wrong, || reloads(&server, "authentication", "failure") > number as f64);
        assert_eq!(name(&format!("d{number}")), format!("old:d{number}"), "{wrong}: the old one counts");
    }
    assert!(reloads(&server, "authentication", "success") == 0.0);
    replace(&file("authn.yaml"), &config("new:"));
    server.in_the_end("the new one", || reloads(&server, "authentication", "success") == 1.0);
    assert_eq!(name("erin"), "new:erin");
}

#[test]
fn authorizers_are_followed() {
    let allows = |name: &'static str| {
        Webhook::start(&["localhost"], move |review| {
            let allowed = review["spec"]["user"] == name;
            Answer::Json(json!({
                "apiVersion": review["apiVersion"], "kind": "SubjectAccessReview", "status": {"allowed": allowed},
            }))
        })
    };
    let (bob, nobody) = (allows("bob"), allows("nobody"));
    let kubeconfig = |webhook: &Webhook| {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: 'https://localhost:{}/', \
             certificate-authority-data: {}}}}}]\nusers: [{{name: u, user: {{}}}}]\ncontexts: [{{name: c, context: {{cluster: c, \
             user: u}}}}]\n",
            webhook.port(),
            webhook.bundle()
        )
    };
    let place = std::cell::OnceCell::new();
    let config = |file: &str| {
        format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n- {{type: RBAC, name: \
             rbac}}\n- type: Webhook\n  name: w\n  webhook:\n    timeout: 3s\n    subjectAccessReviewVersion: v1\n    \
             matchConditionSubjectAccessReviewVersion: v1\n    failurePolicy: Deny\n    authorizedTTL: 1s\n    unauthorizedTTL: \
             1s\n    connectionInfo: {{type: KubeConfigFile, kubeConfigFile: '{}/{file}'}}\n",
            place.get().map_or_else(String::new, |dir: &PathBuf| dir.display().to_string())
        )
    };
    // The file names others by their whole paths.
    let mut server = Server::prepare();
    place.set(server.dir().to_owned()).expect("set once");
    let file = |name: &str| server.dir().join(name);
    std::fs::write(file("bob.yaml"), kubeconfig(&bob)).expect("written");
    std::fs::write(file("nobody.yaml"), kubeconfig(&nobody)).expect("written");
    std::fs::write(file("authz.yaml"), config("nobody.yaml")).expect("written");
    let path = file("authz.yaml");
    let flag = format!("--authorization-config={}", path.display());
    server.set_arguments(&[&flag]);
    server.run();
    let status = || server.ask("bobtoken", "GET", "/api/v1/namespaces", None).status;
    assert_eq!(status(), 403);
    let wrongs = [
        config("bob.yaml").replace("type: RBAC", "type: Node"),
        config("missing.yaml"),
        config("bob.yaml").replace("failurePolicy: Deny", "failurePolicy: Maybe"),
    ];
    for (number, wrong) in wrongs.iter().enumerate() {
        replace(&path, wrong);
        server.in_the_end("a wrong one", || reloads(&server, "authorization", "failure") > number as f64);
        assert_eq!(status(), 403, "the old one counts");
    }
    replace(&path, &config("bob.yaml"));
    server.in_the_end("the new one", || reloads(&server, "authorization", "success") == 1.0);
    server.in_the_end("bob may", || status() == 200);
}
