//! Encryption at rest: what is on the disk, which keys read it, and KMS plugins that come and go.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use integration_tests::Server;
use serde_json::{Value, json};

use crate::reloads::{reloads, replace};

#[path = "../../../generic-server/storage/tests/encrypt/plugin.rs"]
#[allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "made for the storage's own tests")]
pub(crate) mod plugin;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const WIDGETS: &str = "/apis/crypt.example.dev/v1/namespaces/default/widgets";
/// `plain as day` in base64, as it stands in a Secret's JSON.
const MARK: &str = "cGxhaW4gYXMgZGF5";

/// A server and its encryption file.
struct Encrypted {
    server: Server,
    file: PathBuf,
}

impl Encrypted {
    fn start(rules: &[(&str, &str)]) -> Encrypted {
        Self::start_with(&[], rules)
    }

    fn start_with(arguments: &[&str], rules: &[(&str, &str)]) -> Encrypted {
        let mut server = Server::prepare();
        let file = server.dir().join("encryption.yaml");
        let own = format!("--encryption-provider-config={}", file.display());
        server.set_arguments(&[&[own.as_str()], arguments].concat());
        let mut encrypted = Encrypted { server, file };
        encrypted.configure(rules);
        encrypted.server.run();
        encrypted
    }

    fn configure(&mut self, rules: &[(&str, &str)]) {
        let mut text = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n".to_owned();
        for (resources, providers) in rules {
            text += &format!("- resources: [{resources}]\n  providers: [{providers}]\n");
        }
        replace(&self.file, &text);
    }

    fn restart(&mut self, rules: &[(&str, &str)]) {
        self.server.kill();
        self.configure(rules);
        self.server.run();
    }

    fn create(&self, path: &str, object: &Value) -> Value {
        let reply = self.server.request("POST", path, Some(object));
        assert_eq!(reply.status, 201, "{}", reply.text());
        reply.json()
    }

    fn read(&self, path: &str) -> (u16, Value) {
        let reply = self.server.request("GET", path, None);
        (reply.status, reply.json())
    }

    /// Whether these bytes are anywhere in the data folder.
    fn on_disk(&self, text: &str) -> bool {
        found_below(&self.server.data(), text.as_bytes())
    }
}

fn found_below(folder: &Path, text: &[u8]) -> bool {
    fs::read_dir(folder).expect("a folder").any(|entry| {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            return found_below(&path, text);
        }
        fs::read(&path).expect("a file").windows(text.len()).any(|part| part == text)
    })
}

/// A provider with keys of 32 bytes, each named and made of one letter.
fn key(provider: &str, letters: &[char]) -> String {
    let secret = |letter: &char| STANDARD.encode(letter.to_string().repeat(32));
    let keys: Vec<String> = letters.iter().map(|l| format!("{{name: {l}, secret: {}}}", secret(l))).collect();
    format!("{{{provider}: {{keys: [{}]}}}}", keys.join(", "))
}

fn secret(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": MARK}})
}

fn widget(name: &str, text: &str) -> Value {
    json!({"apiVersion": "crypt.example.dev/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"text": text}})
}

fn definition() -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"text": {"type": "string"}}}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.crypt.example.dev"},
        "spec": {
            "group": "crypt.example.dev", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

#[test]
fn what_the_rules_name_is_not_on_the_disk_in_the_clear() {
    let (a, b) = (key("aescbc", &['a']), key("secretbox", &['b']));
    let encrypted = Encrypted::start(&[("secrets", &a), ("'*.crypt.example.dev'", &b)]);
    encrypted.create(SECRETS, &secret("one"));
    encrypted.create(CONFIGMAPS, &json!({"metadata": {"name": "open"}, "data": {"k": "for all to see"}}));
    encrypted.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition());
    encrypted.create(WIDGETS, &widget("w", "a trade secret"));
    assert!(encrypted.on_disk("for all to see"), "the search finds what is there");
    assert!(encrypted.on_disk("k8s:enc:aescbc:v1:a:") && encrypted.on_disk("k8s:enc:secretbox:v1:b:"));
    assert!(!encrypted.on_disk(MARK) && !encrypted.on_disk("a trade secret"));
    assert_eq!(encrypted.read(&format!("{SECRETS}/one")).1["data"]["k"], MARK);
    assert_eq!(encrypted.read(&format!("{WIDGETS}/w")).1["spec"]["text"], "a trade secret");
}

#[test]
fn keys_rotate_over_restarts_and_a_write_without_a_change_takes_the_new_one() {
    let mut encrypted = Encrypted::start(&[("secrets", "{identity: {}}")]);
    let first = encrypted.create(SECRETS, &secret("one"));
    encrypted.create(SECRETS, &secret("two"));
    assert!(encrypted.on_disk(MARK), "identity writes in the clear");
    let put = |encrypted: &Encrypted, object: &Value| {
        let reply = encrypted.server.request("PUT", &format!("{SECRETS}/one"), Some(object));
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    };
    assert_eq!(put(&encrypted, &first), first, "nothing to write");
    // A key, with the clear text still read: an update that changes nothing encrypts.
    encrypted.restart(&[("secrets", &format!("{}, {{identity: {{}}}}", key("aesgcm", &['a'])))]);
    let second = put(&encrypted, &first);
    assert_ne!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    assert_eq!(put(&encrypted, &second), second, "written once");
    // A new key before the old one, and then alone.
    encrypted.restart(&[("secrets", &format!("{}, {{identity: {{}}}}", key("aesgcm", &['b', 'a'])))]);
    assert_eq!(encrypted.read(&format!("{SECRETS}/one")), (200, second.clone()));
    let third = put(&encrypted, &second);
    assert_ne!(third, second);
    encrypted.restart(&[("secrets", &key("aesgcm", &['b']))]);
    assert_eq!(encrypted.read(&format!("{SECRETS}/one")), (200, third));
    // The other one was never rewritten: it alone cannot be read, and a list says which it is.
    let (status, error) = encrypted.read(&format!("{SECRETS}/two"));
    assert_eq!((status, &error["message"]), (500, &json!("Internal error occurred: no matching prefix found")));
    let (status, error) = encrypted.read(SECRETS);
    let text =
        "Internal error occurred: unable to transform key \"/registry/secrets/default/two\": no matching prefix found";
    assert_eq!((status, &error["message"]), (500, &json!(text)));
    assert_eq!(encrypted.read("/api/v1/namespaces/kube-system/secrets").0, 200, "others are not harmed");
}

#[test]
fn keys_rotate_while_the_server_runs_and_a_wrong_file_changes_nothing() {
    let following = ["--encryption-provider-config-automatic-reload=true"];
    let mut encrypted = Encrypted::start_with(&following, &[("secrets", &key("aesgcm", &['a']))]);
    encrypted.create(SECRETS, &secret("one"));
    let (short, unknown) = ("{aesgcm: {keys: [{name: s, secret: c2hvcnQ=}]}}", "{rot13: {}}");
    for (number, wrong) in [short, unknown].iter().enumerate() {
        encrypted.configure(&[("secrets", wrong)]);
        let server = &encrypted.server;
        server.in_the_end(wrong, || reloads(server, "encryption", "failure") > number as f64);
        encrypted.create(SECRETS, &secret(&format!("wrong-{number}")));
        assert_eq!(encrypted.read(&format!("{SECRETS}/one")).1["data"]["k"], MARK, "the old one counts");
    }
    assert_eq!(reloads(&encrypted.server, "encryption", "success"), 0.0);
    let names = ["one", "wrong-0", "wrong-1"];
    let rewrite = |encrypted: &Encrypted| {
        for path in names.map(|name| format!("{SECRETS}/{name}")) {
            let reply = encrypted.server.request("PUT", &path, Some(&encrypted.read(&path).1));
            assert_eq!(reply.status, 200, "{}", reply.text());
        }
    };
    // The new key behind the old one, before it, alone; and the process may end at any moment of it.
    for (number, pair) in ['a', 'b', 'c', 'd'].windows(2).enumerate() {
        let [old, new] = [pair[0], pair[1]];
        for (step, letters) in [vec![old, new], vec![new, old], vec![new]].iter().enumerate() {
            if step == 2 {
                rewrite(&encrypted);
            }
            let before = reloads(&encrypted.server, "encryption", "success");
            encrypted.configure(&[("secrets", &key("aesgcm", letters))]);
            if (number, step) == (1, 1) {
                encrypted.server.kill();
                encrypted.server.run();
            } else {
                let server = &encrypted.server;
                server.in_the_end("the new keys", || reloads(server, "encryption", "success") > before);
            }
            for name in names {
                assert_eq!(encrypted.read(&format!("{SECRETS}/{name}")).1["data"]["k"], MARK, "{name} {letters:?}");
            }
        }
        assert!(encrypted.on_disk(&format!("k8s:enc:aesgcm:v1:{new}:")));
    }
    encrypted.server.kill();
    encrypted.server.run();
    assert_eq!(encrypted.read(SECRETS).0, 200);
}

#[test]
fn a_file_that_is_wrong_is_refused() {
    let mut server = Server::prepare();
    let file = server.dir().join("encryption.yaml");
    fs::write(&file, "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n").expect("written");
    server.set_arguments(&[&format!("--encryption-provider-config={}", file.display())]);
    let said = server.run_in_vain();
    assert!(said.contains("resources: Required value: at least one resources is required"), "{said}");
}

#[test]
fn a_kms_plugin_sees_no_value_and_may_be_away() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("kms.sock");
    let start = || {
        let _in_runtime = runtime.enter();
        plugin::Plugin::start(&socket)
    };
    let plugin = start();
    let provider =
        format!("{{kms: {{apiVersion: v2, name: vault, endpoint: 'unix://{}', timeout: 10s}}}}", socket.display());
    let rules = [("secrets", provider.as_str())];
    let mut encrypted = Encrypted::start(&rules);
    encrypted.create(SECRETS, &secret("one"));
    assert!(encrypted.on_disk("k8s:enc:kms:v2:vault:") && !encrypted.on_disk(MARK));
    assert!(plugin.state().seen.iter().all(|seen| seen.len() == 32), "seeds alone");
    assert_eq!(encrypted.server.request("GET", "/readyz/kms-providers", None).text(), "ok");
    assert_eq!(encrypted.server.request("GET", "/livez/kms-providers", None).status, 404, "no reason to restart");
    // Without the plugin the server starts, is not ready, and says what it cannot read.
    drop(plugin);
    fs::remove_file(&socket).expect("removed");
    encrypted.restart(&rules);
    let readyz = encrypted.server.request("GET", "/readyz", None);
    assert!(readyz.status == 500 && readyz.text().contains("[-]kms-providers failed"), "{}", readyz.text());
    assert_eq!(encrypted.read(&format!("{SECRETS}/one")).0, 500);
    assert_eq!(encrypted.read("/api/v1/namespaces/default").0, 200);
    let refused = encrypted.server.request("POST", SECRETS, Some(&secret("two")));
    assert!(refused.status >= 500, "{}", refused.text());
    // It is back: all is well again without a restart.
    let _plugin = start();
    let since = Instant::now();
    while encrypted.read(&format!("{SECRETS}/one")).0 != 200 || encrypted.read("/readyz").0 != 200 {
        assert!(since.elapsed() < Duration::from_secs(180), "{}", encrypted.server.log());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(encrypted.read(&format!("{SECRETS}/one")).1["data"]["k"], MARK);
    encrypted.create(SECRETS, &secret("two"));
}
