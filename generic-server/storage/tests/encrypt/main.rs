//! Encryption at rest: what is stored, what is read back, rotation, reload, and KMS plugins that come and go.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod plugin;

use std::{fs, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use plugin::{Mood, Plugin};
use storage::{
    Expect, Memory, Range, Store,
    conformance::{self, Recorder, create},
    encrypt::{Encryption, EncryptionRules, KmsError, broken},
};

const ALLOWED: EncryptionRules = EncryptionRules { kms_v1: true, reload: false };
const KEY: &str = "/registry/secrets/default/one";
const VALUE: &str = r#"{"kind":"Secret"}"#;

/// Writes a configuration with an entry for some resources.
fn configure(file: &Path, entries: &[(&str, &str)]) {
    let mut text = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n".to_owned();
    for (resources, providers) in entries {
        text += &format!("- resources: [{resources}]\n  providers: [{providers}]\n");
    }
    fs::write(file, text).unwrap();
}

/// A provider with keys of 32 bytes, each named and made of one letter.
fn local(provider: &str, names: &[&str]) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let key = |name: &&str| format!("{{name: {name}, secret: {}}}", STANDARD.encode(name.repeat(32)));
    format!("{{{provider}: {{keys: [{}]}}}}", names.iter().map(key).collect::<Vec<_>>().join(", "))
}

struct Setup {
    folder: tempfile::TempDir,
    memory: Arc<Memory>,
}

impl Setup {
    fn new() -> Setup {
        Setup { folder: tempfile::tempdir().unwrap(), memory: Memory::new() }
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("encryption.yaml")
    }

    fn load(&self, entries: &[(&str, &str)]) -> Arc<Encryption> {
        configure(&self.file(), entries);
        Encryption::load(&self.file(), ALLOWED).unwrap()
    }

    /// The store for secrets under a new configuration.
    fn secrets(&self, providers: &str) -> Arc<dyn Store> {
        self.load(&[("secrets", providers)]).wrap(self.memory.clone(), "", "secrets")
    }

    /// What is stored.
    async fn raw(&self, key: &str) -> Bytes {
        self.memory.get(key).await.unwrap().0.unwrap().value
    }

    fn kms(&self) -> String {
        let socket = self.folder.path().join("kms.sock");
        format!("{{kms: {{apiVersion: v2, name: vault, endpoint: 'unix://{}', timeout: 20s}}}}", socket.display())
    }

    /// The same plugin, by the first protocol.
    fn first_kms(&self) -> String {
        self.kms().replace("apiVersion: v2", "apiVersion: v1")
    }

    fn plugin(&self) -> Plugin {
        Plugin::start(&self.folder.path().join("kms.sock"))
    }
}

async fn read(store: &dyn Store, key: &str) -> Result<String, String> {
    let value = store.get(key).await.unwrap().0.unwrap().value;
    match broken(&value) {
        Some(reason) => Err(reason.to_owned()),
        None => Ok(String::from_utf8(value.to_vec()).unwrap()),
    }
}

async fn well(encryption: &Encryption) {
    for _ in 0..3000 {
        if encryption.kms_health().iter().all(|(_, health)| health.is_ok()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{:?}", encryption.kms_health());
}

#[tokio::test(flavor = "multi_thread")]
async fn encrypted_stores_pass_the_suite() {
    for provider in ["aescbc", "aesgcm", "secretbox"] {
        conformance::semantics(async || Setup::new().secrets(&local(provider, &["a"]))).await;
    }
    let setup = Setup::new();
    let _plugin = setup.plugin();
    for provider in [setup.kms(), setup.first_kms()] {
        let encryption = setup.load(&[("secrets", &provider)]);
        well(&encryption).await;
        conformance::semantics(async || encryption.wrap(Memory::new(), "", "secrets")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_stored_under_upstreams_prefixes_and_nowhere_in_the_clear() {
    for (provider, prefix) in [
        ("aescbc", "k8s:enc:aescbc:v1:a:"),
        ("aesgcm", "k8s:enc:aesgcm:v1:a:"),
        ("secretbox", "k8s:enc:secretbox:v1:a:"),
    ] {
        let setup = Setup::new();
        let store = setup.secrets(&local(provider, &["a", "b"]));
        create(&*store, KEY, VALUE).await;
        let raw = setup.raw(KEY).await;
        assert!(raw.starts_with(prefix.as_bytes()), "{raw:?}");
        assert!(!raw.windows(6).any(|part| part == b"Secret"));
        assert_eq!(read(&*store, KEY).await.unwrap(), VALUE);
        assert!(!store.is_stale(KEY).await.unwrap());
    }
    let setup = Setup::new();
    let store = setup.secrets("{identity: {}}");
    create(&*store, KEY, VALUE).await;
    assert_eq!(setup.raw(KEY).await, VALUE);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_rotated_without_losing_what_the_old_ones_wrote() {
    let setup = Setup::new();
    let plain = setup.secrets("{identity: {}}");
    let one = create(&*plain, KEY, VALUE).await;
    // Identity last: what is not encrypted yet is read, and is stale.
    let old = setup.secrets(&format!("{}, {{identity: {{}}}}", local("aescbc", &["a"])));
    assert_eq!(read(&*old, KEY).await.unwrap(), VALUE);
    assert!(old.is_stale(KEY).await.unwrap());
    let two = old.put(KEY, VALUE.into(), Expect::Revision(one), None).await.unwrap();
    assert!(!old.is_stale(KEY).await.unwrap());
    // Another key first, of another kind even.
    let new = setup.secrets(&format!("{}, {}", local("aesgcm", &["b"]), local("aescbc", &["a"])));
    assert_eq!(read(&*new, KEY).await.unwrap(), VALUE);
    assert!(new.is_stale(KEY).await.unwrap());
    let other = "/registry/secrets/default/other";
    create(&*new, other, VALUE).await;
    assert!(setup.raw(other).await.starts_with(b"k8s:enc:aesgcm:v1:b:"));
    // The old key is gone too soon: that object alone is broken, and can be deleted.
    let early = setup.secrets(&local("aesgcm", &["b"]));
    assert_eq!(read(&*early, KEY).await, Err("no matching prefix found".into()));
    let listed = early.range(Range { prefix: "/registry/".into(), ..Range::default() }).await.unwrap().items;
    let broken: Vec<bool> = listed.iter().map(|item| broken(&item.value).is_some()).collect();
    assert_eq!(broken, [true, false]);
    early.delete(KEY, two).await.unwrap();
    // A server without the configuration does not hand out what is encrypted, either.
    let none = setup.secrets("{identity: {}}");
    assert_eq!(read(&*none, other).await, Err("identity transformer tried to read encrypted data".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_was_moved_or_changed_is_broken_in_reads_and_watches() {
    let setup = Setup::new();
    let store = setup.secrets(&local("aesgcm", &["a"]));
    let start = create(&*store, KEY, VALUE).await;
    let recorder = Recorder::new();
    let _watch = store.watch("/registry/", start, recorder.clone()).await.unwrap();
    let moved = "/registry/secrets/default/two";
    setup.memory.put(moved, setup.raw(KEY).await, Expect::Absent, None).await.unwrap();
    assert!(read(&*store, moved).await.is_err());
    setup.memory.put("/registry/secrets/plain", VALUE.into(), Expect::Absent, None).await.unwrap();
    assert_eq!(read(&*store, "/registry/secrets/plain").await, Err("no matching prefix found".into()));
    create(&*store, "/registry/secrets/default/three", VALUE).await;
    let seen = recorder.wait(|seen| seen.events.len() == 3).await;
    let values: Vec<bool> = seen.events.iter().map(|event| broken(event.value.as_ref().unwrap()).is_none()).collect();
    assert_eq!(values, [false, false, true]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_most_exact_rule_decides() {
    let setup = Setup::new();
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| local("secretbox", &[name]));
    let encryption =
        setup.load(&[("secrets", &*a), ("'*.apps'", &*b), ("deployments.apps, '*.'", &*c), ("'*.*'", &*d)]);
    for (n, (group, resource, key)) in [
        ("", "secrets", "a"),
        ("", "configmaps", "c"),
        ("apps", "deployments", "c"),
        ("apps", "daemonsets", "b"),
        ("batch", "jobs", "d"),
        ("apps.example.com", "deployments", "d"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/registry/{n}");
        create(&*encryption.wrap(setup.memory.clone(), group, resource), &path, VALUE).await;
        let raw = setup.raw(&path).await;
        assert!(raw.starts_with(format!("k8s:enc:secretbox:v1:{key}:").as_bytes()), "{group} {resource}");
    }
    let encryption = setup.load(&[("secrets", &*a)]);
    create(&*encryption.wrap(setup.memory.clone(), "", "pods"), "/registry/p", VALUE).await;
    assert_eq!(setup.raw("/registry/p").await, VALUE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_configuration_counts_if_it_is_valid() {
    let setup = Setup::new();
    let encryption = setup.load(&[("secrets", &local("aesgcm", &["a"]))]);
    let store = encryption.wrap(setup.memory.clone(), "", "secrets");
    create(&*store, KEY, VALUE).await;
    let error = encryption.replace("kind: Nonsense".to_owned()).await.unwrap_err();
    assert!(error.to_string().contains("encryption.yaml"), "{error}");
    assert_eq!(read(&*store, KEY).await.unwrap(), VALUE);
    configure(&setup.file(), &[("secrets", &local("aesgcm", &["b", "a"]))]);
    let text = fs::read_to_string(setup.file()).unwrap();
    encryption.replace(text.clone()).await.expect("valid");
    assert_eq!(encryption.text(), text);
    create(&*store, "/registry/secrets/new", VALUE).await;
    assert!(setup.raw("/registry/secrets/new").await.starts_with(b"k8s:enc:aesgcm:v1:b:"), "the new key is used");
    assert_eq!(read(&*store, KEY).await.unwrap(), VALUE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kms_plugin_sees_one_seed_and_no_value() {
    let setup = Setup::new();
    let plugin = setup.plugin();
    let encryption = setup.load(&[("secrets", &setup.kms())]);
    well(&encryption).await;
    let store = encryption.wrap(setup.memory.clone(), "", "secrets");
    for n in 0..300 {
        create(&*store, &format!("/registry/secrets/{n}"), VALUE).await;
    }
    assert!(setup.raw("/registry/secrets/7").await.starts_with(b"k8s:enc:kms:v2:vault:"));
    assert_eq!((plugin.state().encrypted, plugin.state().decrypted), (1, 0), "its own seed is known");
    assert!(plugin.state().seen.iter().all(|seen| seen.len() == 32));
    // Another server, or this one after a restart, asks once.
    let other = setup.load(&[("secrets", &setup.kms())]);
    let store = other.wrap(setup.memory.clone(), "", "secrets");
    let items = store.range(Range { prefix: "/registry/".into(), ..Range::default() }).await.unwrap().items;
    assert!(items.len() == 300 && items.iter().all(|item| item.value == VALUE));
    assert_eq!(plugin.state().decrypted, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_of_the_first_protocol_encrypts_a_key_for_each_value() {
    const MANY: usize = 1100; // more than are kept
    let setup = Setup::new();
    let plugin = setup.plugin();
    let encryption = setup.load(&[("secrets", &setup.first_kms())]);
    well(&encryption).await;
    let store = encryption.wrap(setup.memory.clone(), "", "secrets");
    for n in 0..MANY {
        create(&*store, &format!("/registry/secrets/{n}"), VALUE).await;
    }
    let raw = setup.raw("/registry/secrets/7").await;
    let after = raw.strip_prefix(b"k8s:enc:kms:v1:vault:").expect("upstream's prefix");
    assert_eq!(after[..2], [0, 32], "the length of the key");
    assert_eq!(after[2..].len(), 32 + 12 + VALUE.len() + 16, "the key, a nonce, the value, a tag");
    let seen: Vec<usize> = plugin.state().seen.iter().map(Vec::len).filter(|len| *len != "ping".len()).collect();
    assert_eq!(seen, [32; MANY], "keys alone");
    let last = format!("/registry/secrets/{}", MANY - 1);
    assert_eq!(read(&*store, &last).await.unwrap(), VALUE);
    let probes = |plugin: &Plugin| plugin.state().seen.iter().filter(|seen| *seen == b"ping").count();
    assert!(plugin.state().decrypted <= probes(&plugin), "the words of probes alone");
    // Another server asks for each, once.
    let other = setup.load(&[("secrets", &setup.first_kms())]);
    well(&other).await;
    let before = plugin.state().decrypted;
    let store = other.wrap(setup.memory.clone(), "", "secrets");
    let items = store.range(Range { prefix: "/registry/".into(), ..Range::default() }).await.unwrap().items;
    assert!(items.len() == MANY && items.iter().all(|item| item.value == VALUE));
    let asked = plugin.state().decrypted - before;
    assert!((MANY..=MANY + probes(&plugin)).contains(&asked), "{asked}");
    // The plugin is away: what is known is read, nothing is written.
    plugin.set(Mood::Refusing);
    assert_eq!(read(&*store, &items[MANY - 1].key).await.unwrap(), VALUE);
    let written = store.put(KEY, VALUE.into(), Expect::Absent, None).await;
    assert!(written.unwrap_err().to_string().contains("the vault is sealed"));
    let third = setup.load(&[("secrets", &setup.first_kms())]).wrap(setup.memory.clone(), "", "secrets");
    assert_eq!(read(&*third, &last).await.unwrap_err(), "the vault is sealed");
    // A key that it lies about is asked for again.
    plugin.set(Mood::Lying);
    let fourth = setup.load(&[("secrets", &setup.first_kms())]).wrap(setup.memory.clone(), "", "secrets");
    assert!(read(&*fourth, &last).await.is_err());
    plugin.set(Mood::Well);
    assert_eq!(read(&*fourth, &last).await.unwrap(), VALUE);
    assert!(!fourth.is_stale(&last).await.unwrap());
}

#[test]
fn what_plugins_of_the_first_protocol_may_be_called_and_how_many_keys_are_kept() {
    let setup = Setup::new();
    let allowed = |kms_v1, reload| EncryptionRules { kms_v1, reload };
    let check = |providers: &str, allowed: EncryptionRules, expect: &str| {
        configure(&setup.file(), &[("secrets", providers)]);
        let found = Encryption::load(&setup.file(), allowed).map(drop).map_err(|error| error.to_string());
        match expect {
            "" => assert_eq!(found, Ok(()), "{providers}"),
            expect => assert!(found.as_ref().is_err_and(|error| error.ends_with(expect)), "{found:?}"),
        }
    };
    let plugin = |more: &str| format!("{{kms: {{name: 'k:l', endpoint: 'unix:///none'{more}}}}}");
    let twice = [plugin(""), plugin("")].join(", ");
    check(&plugin(""), allowed(false, false), "Set --feature-gates=KMSv1=true to use the deprecated KMSv1 feature.");
    check(&plugin(", cachesize: -1"), allowed(true, false), "");
    let why = "kms.cachesize: Invalid value: 0: cachesize should be a positive value, or negative to disable";
    check(&plugin(", cachesize: 0"), allowed(true, false), why);
    check(&twice, allowed(true, false), "");
    check(&twice, allowed(true, true), "duplicate KMS provider name k:l, names must be unique");
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_read_what_another_server_encrypted() {
    for provider in [Setup::kms, Setup::first_kms] {
        let setup = Setup::new();
        let _plugin = setup.plugin();
        let (here, there) =
            (setup.load(&[("secrets", &provider(&setup))]), setup.load(&[("secrets", &provider(&setup))]));
        well(&there).await;
        let recorder = Recorder::new();
        let mine = here.wrap(setup.memory.clone(), "", "secrets");
        let _watch = mine.watch("/registry/", 1, recorder.clone()).await.unwrap();
        create(&*there.wrap(setup.memory.clone(), "", "secrets"), KEY, VALUE).await;
        assert_eq!(recorder.events(1).await[0].2.as_deref(), Some(VALUE));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kms_plugin_that_fails_is_told_and_harms_only_what_needs_it() {
    let setup = Setup::new();
    let encryption = setup.load(&[("secrets", &setup.kms())]);
    let store = encryption.wrap(setup.memory.clone(), "", "secrets");
    let written = store.put(KEY, VALUE.into(), Expect::Absent, None).await;
    assert!(written.unwrap_err().to_string().contains("KMS provider vault"));
    let (name, health) = encryption.kms_health().remove(0);
    assert!(name == "vault" && health.is_err());
    // It comes; a server that starts then is well.
    let plugin = setup.plugin();
    let encryption = setup.load(&[("secrets", &setup.kms())]);
    well(&encryption).await;
    let store = encryption.wrap(setup.memory.clone(), "", "secrets");
    create(&*store, KEY, VALUE).await;
    // It fails: what is known is read and written all the same, by this server but not by a new one.
    plugin.set(Mood::Refusing);
    assert_eq!(read(&*store, KEY).await.unwrap(), VALUE);
    create(&*store, "/registry/secrets/two", VALUE).await;
    let other = setup.load(&[("secrets", &setup.kms())]).wrap(setup.memory.clone(), "", "secrets");
    let error = read(&*other, KEY).await.unwrap_err();
    assert_eq!(error, "failed to decrypt DEK, error: the vault is sealed");
    plugin.set(Mood::Well);
    assert_eq!(read(&*other, KEY).await.unwrap(), VALUE);
    // A data key that it lies about is asked for again.
    plugin.set(Mood::Lying);
    let other = setup.load(&[("secrets", &setup.kms())]).wrap(setup.memory.clone(), "", "secrets");
    let error = read(&*other, KEY).await.unwrap_err();
    assert_eq!(error, "the stored data cannot be decrypted with this key");
    plugin.set(Mood::Well);
    assert_eq!(read(&*other, KEY).await.unwrap(), VALUE);
    // Its key changes: a new server writes with the new one, and calls the old values stale.
    plugin.state.lock().unwrap().key_id = "two".into();
    let encryption = setup.load(&[("secrets", &setup.kms())]);
    well(&encryption).await;
    let store = encryption.wrap(setup.memory.clone(), "", "secrets");
    assert_eq!(read(&*store, KEY).await.unwrap(), VALUE);
    assert!(store.is_stale(KEY).await.unwrap());
    create(&*store, "/registry/secrets/three", VALUE).await;
    assert!(!store.is_stale("/registry/secrets/three").await.unwrap());
    plugin.state.lock().unwrap().healthz = "sealed".into();
    let encryption = setup.load(&[("secrets", &setup.kms())]);
    for _ in 0..3000 {
        if encryption.kms_health()[0].1.clone().is_err_and(|error| error == KmsError::Healthz("sealed".to_owned())) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{:?}", encryption.kms_health());
}
