//! Everybody whom the server asks fails in turn: is silent, cuts connections, lies, answers without an end, or refuses. No request
//! outlasts its deadline, those that need nobody's help do not notice, and all is well once the others are. `SOAK=N` plays
//! it N times.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use integration_tests::{Etcd, Issuer, Mood, Server, TokenKey, Webhook, claims, current};
use serde_json::{Value, json};

use crate::encryption::plugin::{Mood as PluginMood, Plugin};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// What a request may take that says `timeout=3s`: a machine that does much else needs its time.
const PATIENCE: Duration = Duration::from_secs(45);

/// Somebody whom the server asks over HTTPS.
struct Backend {
    server: Webhook,
    mood: Arc<Mutex<Mood>>,
}

impl Backend {
    /// What it answers to a document when it is well, and when it lies.
    fn start(well: fn(&Value) -> Value, lie: fn(&Value) -> Value) -> Self {
        let mood = Arc::new(Mutex::new(Mood::Well));
        let moody = mood.clone();
        let server = Webhook::serve(&["localhost", "127.0.0.1"], move |_, document| {
            current(&moody).answer(|| well(&document), || lie(&document))
        });
        Backend { server, mood }
    }

    fn set(&self, mood: Mood) {
        *self.mood.lock().expect("not poisoned") = mood;
    }

    /// A kubeconfig file that names it.
    fn kubeconfig(&self, path: &Path) -> String {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: 'https://localhost:{}/', \
             certificate-authority-data: {}}}}}]\nusers: [{{name: u, user: {{}}}}]\ncontexts: [{{name: c, context: {{cluster: c, \
             user: u}}}}]\n",
            self.server.port(),
            self.server.bundle()
        );
        std::fs::write(path, text).expect("written");
        path.display().to_string()
    }
}

/// How often all of it is played.
fn rounds() -> usize {
    std::env::var("SOAK").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

/// Asks as somebody until `stop`, things that nobody else is asked about: all must be answered well.
fn undisturbed(server: &Server, stop: &AtomicBool, done: &AtomicUsize) {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
        let name = format!("l-{:?}-{number}", thread::current().id()).replace(['(', ')'], "").to_lowercase();
        let lease = json!({"metadata": {"name": name}, "spec": {"holderIdentity": "me"}});
        let made = server.ask("admintoken", "POST", leases, Some(&lease));
        assert_eq!(made.status, 201, "{}", made.text());
        for path in ["/version", "/api/v1/namespaces/default", &format!("{leases}/{name}"), "/livez"] {
            let read = server.ask("admintoken", "GET", path, None);
            assert_eq!(read.status, 200, "{path}: {}", read.text());
        }
        assert_eq!(server.ask("admintoken", "DELETE", &format!("{leases}/{name}"), None).status, 200);
        number += 1;
        done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Does what needs somebody who is not well while others ask what needs nobody.
fn meanwhile<T: Send>(server: &Server, what: &str, run: impl Fn() -> T + Send + Sync) -> Vec<T> {
    let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let other = scope.spawn(|| undisturbed(server, &stop, &done));
        let asked: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let since = Instant::now();
                    let answer = run();
                    assert!(since.elapsed() < PATIENCE, "{what}: {:?}", since.elapsed());
                    answer
                })
            })
            .collect();
        let answers = asked.into_iter().map(|one| one.join().expect("no panic")).collect();
        while done.load(Ordering::Relaxed) < 3 && !other.is_finished() {
            thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        other.join().expect("others are served");
        answers
    })
}

/// A server that asks everybody, and everybody.
struct World {
    server: Server,
    issuer: Issuer,
    tokens: Backend,
    authorizer: Backend,
    auditor: Backend,
    images: Backend,
    admission: Backend,
    aggregated: Backend,
}

fn review(kind: &str, asked: &Value, status: Value) -> Value {
    json!({"apiVersion": asked["apiVersion"], "kind": kind, "status": status})
}

fn admission_review(asked: &Value, allowed: bool) -> Value {
    let response = json!({"uid": asked["request"]["uid"], "allowed": allowed, "status": {"message": "no"}});
    json!({"apiVersion": asked["apiVersion"], "kind": "AdmissionReview", "response": response})
}

impl World {
    fn start() -> Self {
        let issuer = Issuer::start();
        let tokens = Backend::start(
            |asked| {
                let known = asked["spec"]["token"].as_str().is_some_and(|token| token.starts_with("hook-"));
                review("TokenReview", asked, json!({"authenticated": known, "user": {"username": "hooked"}}))
            },
            |_| json!({"kind": "TokenReview", "status": {"authenticated": "yes"}}),
        );
        let authorizer = Backend::start(
            |asked| {
                let user = asked["spec"]["user"].as_str().unwrap_or_default();
                let allowed = ["hooked", "oidc:dora"].contains(&user);
                review("SubjectAccessReview", asked, json!({"allowed": allowed}))
            },
            |_| json!({"apiVersion": "v1", "kind": "Pod"}),
        );
        let auditor = Backend::start(|_| json!({}), |_| json!([]));
        let images = Backend::start(
            |asked| review("ImageReview", asked, json!({"allowed": true})),
            |asked| review("ImageReview", asked, json!({"allowed": 1})),
        );
        let admission =
            Backend::start(|asked| admission_review(asked, true), |_| json!({"response": {"uid": "other"}}));
        let aggregated = Backend::start(|_| json!({"kind": "APIResourceList", "resources": []}), |_| json!("no"));
        let mut server = Server::prepare();
        let dir = server.dir().to_owned();
        let write = |name: &str, text: &str| {
            std::fs::write(dir.join(name), text).expect("written");
            dir.join(name).display().to_string()
        };
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: ";
        let authn = format!("{head}AuthenticationConfiguration\njwt:\n{}", issuer.configuration("oidc:"));
        let authz = format!(
            "{head}AuthorizationConfiguration\nauthorizers:\n- {{type: RBAC, name: rbac}}\n- type: Webhook\n  name: w\n  webhook:\n    \
             timeout: 2s\n    subjectAccessReviewVersion: v1\n    matchConditionSubjectAccessReviewVersion: v1\n    failurePolicy: \
             Deny\n    authorizedTTL: 1ms\n    unauthorizedTTL: 1ms\n    connectionInfo: {{type: KubeConfigFile, kubeConfigFile: \
             '{}'}}\n",
            authorizer.kubeconfig(&dir.join("authz-hook.yaml"))
        );
        let plugins = format!(
            "{head}AdmissionConfiguration\nplugins:\n- name: ImagePolicyWebhook\n  configuration:\n    imagePolicy: {{kubeConfigFile: \
             '{}', allowTTL: -1, denyTTL: -1, retryBackoff: 1, defaultAllow: false}}\n",
            images.kubeconfig(&dir.join("images.yaml"))
        );
        let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";
        let arguments = [
            format!("--authentication-config={}", write("authn.yaml", &authn)),
            format!("--authentication-token-webhook-config-file={}", tokens.kubeconfig(&dir.join("tokens.yaml"))),
            "--authentication-token-webhook-cache-ttl=1ms".to_owned(),
            format!("--authorization-config={}", write("authz.yaml", &authz)),
            format!("--audit-policy-file={}", write("policy.yaml", policy)),
            format!("--audit-webhook-config-file={}", auditor.kubeconfig(&dir.join("audit.yaml"))),
            "--audit-webhook-batch-max-wait=1s".to_owned(),
            "--enable-admission-plugins=ImagePolicyWebhook".to_owned(),
            format!("--admission-control-config-file={}", write("plugins.yaml", &plugins)),
        ];
        server.set_arguments(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        server.run();
        let world = World { server, issuer, tokens, authorizer, auditor, images, admission, aggregated };
        world.configure();
        world
    }

    /// What is said by objects: a webhook and an aggregated server.
    fn configure(&self) {
        let made = |path: &str, object: Value| {
            let reply = self.server.request("POST", path, Some(&object));
            assert_eq!(reply.status, 201, "{}", reply.text());
        };
        self.server.kubectl(&["create", "serviceaccount", "default"]);
        let hook = &self.admission.server;
        let configuration = json!({"metadata": {"name": "slow"}, "webhooks": [{
            "name": "slow.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 2,
            "clientConfig": {"url": format!("https://127.0.0.1:{}/", hook.port()), "caBundle": hook.bundle()},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        }]});
        made("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", configuration);
        let service = json!({
            "metadata": {"name": "aggregated"}, "spec": {"type": "ExternalName", "externalName": "127.0.0.1"},
        });
        made("/api/v1/namespaces/default/services", service);
        let api = json!({
            "metadata": {"name": "v1.soak.example.com"},
            "spec": {
                "group": "soak.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 1,
                "insecureSkipTLSVerify": true,
                "service": {"namespace": "default", "name": "aggregated", "port": self.aggregated.server.port()},
            },
        });
        made("/apis/apiregistration.k8s.io/v1/apiservices", api);
    }

    /// One that is new each time, so that no answer about it is kept.
    fn fresh(&self, prefix: &str) -> String {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        format!("{prefix}{}", NUMBER.fetch_add(1, Ordering::Relaxed))
    }

    fn by_token(&self, token: &str) -> u16 {
        self.server.ask(token, "GET", "/version?timeout=3s", None).status
    }

    fn by_provider(&self) -> u16 {
        let token = self.issuer.key().sign(&claims(&self.issuer.url(), "cluster", "dora"));
        self.by_token(&token)
    }

    /// A token that names a key that the provider does not have.
    fn by_unknown_key(&self) -> u16 {
        let key = TokenKey::new(&self.fresh("k"));
        self.by_token(&key.sign(&claims(&self.issuer.url(), "cluster", "dora")))
    }

    fn by_webhook(&self) -> u16 {
        self.by_token(&self.fresh("hook-"))
    }

    /// What RBAC does not allow.
    fn authorized(&self) -> u16 {
        let path = format!("/api/v1/namespaces/default/configmaps/{}?timeout=3s", self.fresh("m"));
        self.server.ask("hook-known", "GET", &path, None).status
    }

    fn pod(&self) -> u16 {
        let pod = json!({
            "metadata": {"name": self.fresh("p")}, "spec": {"containers": [{"name": "c", "image": self.fresh("i")}]},
        });
        self.server.request("POST", "/api/v1/namespaces/default/pods?timeout=3s", Some(&pod)).status
    }

    fn map(&self) -> u16 {
        let map = json!({"metadata": {"name": self.fresh("m")}});
        self.server.request("POST", &format!("{MAPS}?timeout=3s"), Some(&map)).status
    }

    fn aggregated(&self) -> u16 {
        self.server.request("GET", "/apis/soak.example.com/v1?timeout=3s", None).status
    }
}

#[test]
fn whoever_fails_harms_those_alone_who_need_them() {
    let world = World::start();
    let well = |what: &str, is_so: &dyn Fn() -> bool| {
        let since = Instant::now();
        while !is_so() {
            assert!(since.elapsed() < Duration::from_secs(120), "{what}: {}", world.server.log());
            thread::sleep(Duration::from_millis(50));
        }
    };
    type Set<'a> = Box<dyn Fn(Mood) + 'a>;
    type Ask<'a> = Box<dyn Fn() -> u16 + Send + Sync + 'a>;
    let asks: Vec<(&str, Set<'_>, Ask<'_>, u16)> = vec![
        ("tokens", Box::new(|mood| world.tokens.set(mood)), Box::new(|| world.by_webhook()), 200),
        ("authorizer", Box::new(|mood| world.authorizer.set(mood)), Box::new(|| world.authorized()), 404),
        ("images", Box::new(|mood| world.images.set(mood)), Box::new(|| world.pod()), 201),
        ("admission", Box::new(|mood| world.admission.set(mood)), Box::new(|| world.map()), 201),
        ("aggregated", Box::new(|mood| world.aggregated.set(mood)), Box::new(|| world.aggregated()), 200),
    ];
    well("the provider", &|| world.by_provider() == 200);
    for round in 0..rounds() {
        for (name, set, ask, good) in &asks {
            well(name, &|| ask() == *good);
            for mood in Mood::BAD {
                set(mood);
                for status in meanwhile(&world.server, &format!("{name} {mood:?}"), ask) {
                    // What an aggregated server says is handed on, whatever it is.
                    let may_pass = *name == "aggregated" && matches!(mood, Mood::Lying | Mood::Oversized);
                    assert!(may_pass || status != *good, "{round} {name} {mood:?}: {status}");
                }
                set(Mood::Well);
                well(name, &|| ask() == *good);
            }
        }
        // Of a provider only those need something whose key is not known.
        for mood in Mood::BAD {
            world.issuer.set_mood(mood);
            let statuses = meanwhile(&world.server, "provider", || (world.by_unknown_key(), world.by_provider()));
            assert!(statuses.iter().all(|(unknown, known)| *unknown != 200 && *known == 200), "{mood:?} {statuses:?}");
        }
        world.issuer.set_mood(Mood::Well);
        // The audit log is nobody's business but its own: events are lost, and counted, before anybody waits.
        for mood in Mood::BAD {
            world.auditor.set(mood);
            let statuses = meanwhile(&world.server, "auditor", || world.map());
            assert_eq!(statuses, [201; 4], "{mood:?}");
        }
        world.auditor.set(Mood::Well);
    }
}

#[test]
fn a_kms_plugin_that_fails_closes_what_is_encrypted_and_nothing_else() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let dir = tempfile::tempdir().expect("a folder");
    let socket = dir.path().join("kms.sock");
    let plugin = {
        let _in_runtime = runtime.enter();
        Plugin::start(&socket)
    };
    let file = dir.path().join("encryption.yaml");
    std::fs::write(&file, kms_config(&socket)).expect("written");
    let mut server = Server::prepare();
    server.set_arguments(&[&format!("--encryption-provider-config={}", file.display())]);
    server.run();
    let secret = json!({"metadata": {"name": "s"}});
    assert_eq!(server.request("POST", SECRETS, Some(&secret)).status, 201);
    for round in 0..rounds() {
        for mood in [PluginMood::Refusing, PluginMood::Silent, PluginMood::Lying] {
            // A server that starts now knows no data key.
            plugin.set(mood);
            server.kill();
            server.run();
            let asked = |server: &Server| {
                let other = json!({"metadata": {"name": format!("other-{round}-{mood:?}").to_lowercase()}});
                let read = server.request("GET", &format!("{SECRETS}/s?timeout=3s"), None).status;
                let made = server.request("POST", &format!("{SECRETS}?timeout=3s"), Some(&other)).status;
                (read, made, server.request("GET", &format!("{SECRETS}?timeout=3s"), None).status)
            };
            for (read, made, listed) in meanwhile(&server, &format!("KMS {mood:?}"), || asked(&server)) {
                assert!(read >= 500 && made >= 500 && listed >= 500, "{mood:?}: {read} {made} {listed}");
            }
            plugin.set(PluginMood::Well);
            let since = Instant::now();
            while server.request("GET", &format!("{SECRETS}/s?timeout=3s"), None).status != 200 {
                assert!(since.elapsed() < Duration::from_secs(120), "{mood:?}: {}", server.log());
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// Secrets are encrypted with a plugin's keys.
fn kms_config(socket: &Path) -> String {
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers: \
         [{{kms: {{apiVersion: v2, name: vault, endpoint: 'unix://{}', timeout: 3s}}}}]\n",
        socket.display()
    )
}

#[test]
fn a_kms_plugin_and_etcd_may_stop_for_a_while() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let dir = tempfile::tempdir().expect("a folder");
    let socket = dir.path().join("kms.sock");
    let start = || {
        let _in_runtime = runtime.enter();
        Plugin::start(&socket)
    };
    let mut plugin = Some(start());
    let file = dir.path().join("encryption.yaml");
    std::fs::write(&file, kms_config(&socket)).expect("written");
    let etcd = Etcd::start();
    let mut server = Server::prepare();
    server.set_arguments(&[
        &format!("--encryption-provider-config={}", file.display()),
        &format!("--etcd-servers={}", etcd.url()),
    ]);
    server.run();
    let made = |path: &str, name: String| {
        let object = json!({"metadata": {"name": name}});
        server.request("POST", &format!("{path}?timeout=3s"), Some(&object)).status
    };
    assert_eq!((made(SECRETS, "s".into()), made(MAPS, "m".into())), (201, 201));
    for round in 0..rounds() {
        // Secrets that are known can be read, and whatever is no secret can be written.
        drop(plugin.take());
        let read =
            meanwhile(&server, "without a plugin", || server.request("GET", &format!("{SECRETS}/s"), None).status);
        assert_eq!(read, [200; 4]);
        let _ = std::fs::remove_file(&socket);
        plugin = Some(start());

        // What is in the cache can be read while etcd says nothing; what must ask it ends at its deadline.
        etcd.freeze(true);
        let since = Instant::now();
        let cached = server.request("GET", &format!("{MAPS}/m?resourceVersion=0"), None).status;
        let listed = server.request("GET", &format!("{MAPS}?resourceVersion=0"), None).status;
        assert_eq!((cached, listed), (200, 200));
        assert!(made(MAPS, format!("frozen-{round}")) >= 500);
        assert!(server.request("GET", &format!("{MAPS}/m?timeout=3s"), None).status >= 500);
        assert!(since.elapsed() < PATIENCE, "{:?}", since.elapsed());
        etcd.freeze(false);
        let since = Instant::now();
        let mut number = 0;
        while made(MAPS, format!("well-{round}-{number}")) != 201 {
            assert!(since.elapsed() < Duration::from_secs(120), "{}", server.log());
            thread::sleep(Duration::from_millis(50));
            number += 1;
        }
    }
}
