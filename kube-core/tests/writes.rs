//! Writes against a store whose caches may be behind, and against other writers: they win the races that they should win,
//! and whoever has seen an answer finds it in everything that follows.

mod late;

use std::{collections::BTreeMap, sync::Arc};

use auth::User;
use generic_server::{
    admission::{Admission, Chain},
    options::{DeleteOptions, WriteOptions},
    registry::{Backing, Deleted, Lister, Registry, RegistrySettings, Replace, Write, Written},
};
use kube_core::admission::NamespaceLifecycle;
use late::Late;
use machinery::{Str, Value, codec::json, meta::status::Status, object};
use storage::{Memory, Store, cache::ReadAt};

const NAMESPACE: &str = "default";

/// A server's registry of a kind.
async fn registry(store: Arc<dyn Store>, plural: &str, admission: Arc<dyn Admission>) -> Arc<Registry> {
    let rows = kube_core::resources();
    let row = rows.into_iter().find(|row| row.group.is_empty() && row.plural == plural).expect("a row");
    let settings = RegistrySettings::default();
    let backing = Backing { store, encryption: None, root: "/registry".into(), settings };
    let registry = Arc::new(Registry::new(Lister::start(row, &backing), admission));
    registry.ready().await.expect("it fills");
    registry
}

async fn config_maps(store: &Arc<Late>) -> Arc<Registry> {
    registry(store.clone(), "configmaps", Arc::new(Chain::default())).await
}

fn config_map(name: &str, key: &str, value: &str) -> Value {
    object! {
        "kind" => "ConfigMap", "apiVersion" => "v1",
        "metadata" => object! { "name" => name, "namespace" => NAMESPACE }, "data" => object! { key => value },
    }
}

/// Runs a write as a client's.
async fn write<T>(registry: &Registry, dry_run: bool, run: impl AsyncFnOnce(&mut Write<'_>) -> T) -> T {
    let options = WriteOptions { dry_run, field_manager: "test".into(), ..WriteOptions::default() };
    let (user, mut warnings) = (User::anonymous(), Vec::new());
    let row = registry.row.clone();
    let mut write = Write {
        row: &row,
        namespace: NAMESPACE,
        subresource: "",
        user: &user,
        audit: generic_server::audit::OFF,
        options: &options,
        warnings: &mut warnings,
    };
    run(&mut write).await
}

async fn put(registry: &Registry, name: &str, object: Value) -> Result<Written, Status> {
    write(registry, false, async |write| registry.update(write, name, &Replace(object)).await).await
}

async fn create(registry: &Registry, object: Value, dry_run: bool) -> Result<Written, Status> {
    write(registry, dry_run, async |write| registry.create(write, object).await).await
}

async fn delete(registry: &Registry, name: &str, options: &DeleteOptions) -> Result<Deleted, Status> {
    write(registry, false, async |write| registry.delete(write, name, options).await).await
}

async fn set(registry: &Arc<Registry>, name: &str, key: &str, value: &str) -> Result<Written, Status> {
    let edit = |current: &Value| {
        let mut new = current.clone();
        new.set(&["data", key], value);
        Ok(new)
    };
    registry.edit(NAMESPACE, name, "", edit).await
}

fn parse(bytes: &[u8]) -> Value {
    json::decode(bytes).expect("JSON")
}

fn version(written: &Written) -> Str {
    parse(&written.bytes).str_at(&["metadata", "resourceVersion"]).expect("a version").into()
}

/// The code of an answer, 200 for success.
fn code<T>(result: &Result<T, Status>) -> u16 {
    result.as_ref().map_or_else(|status| status.code, |_| 200)
}

/// A small source of chance (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// What one client knows, who is alone: what each object holds and its version, and the versions before.
#[derive(Default)]
struct Model {
    objects: BTreeMap<String, (String, Str)>,
    old: Vec<Str>,
}

impl Model {
    fn note(&mut self, name: &str, value: &str, written: &Written) {
        let before = self.objects.insert(name.to_owned(), (value.to_owned(), version(written)));
        // A write that changes nothing keeps the version.
        self.old.extend(before.map(|(_, version)| version).filter(|before| *before != version(written)));
    }

    fn forget(&mut self, name: &str) {
        self.old.extend(self.objects.remove(name).map(|(_, version)| version));
    }

    /// One request to a server, and whether its answer is the one that fits.
    async fn step(&mut self, server: &Arc<Registry>, chance: &mut Chance, step: usize) {
        let (name, value) = (format!("c{}", chance.below(3)), format!("v{}", chance.below(4)));
        let known = self.objects.get(&name).cloned();
        let exists = known.is_some();
        let there = if exists { 200 } else { 404 };
        let old = self.old.last().cloned().unwrap_or("1".into());
        match chance.below(9) {
            0 => {
                let made = create(server, config_map(&name, "k", &value), false).await;
                assert_eq!(code(&made), if exists { 409 } else { 200 }, "{step}: create");
                made.iter().for_each(|made| self.note(&name, &value, made));
            }
            1 => {
                let made = create(server, config_map(&name, "k", &value), true).await;
                assert_eq!(code(&made), if exists { 409 } else { 200 }, "{step}: dry run of a create");
            }
            2 => {
                let done = put(server, &name, config_map(&name, "k", &value)).await;
                assert_eq!(code(&done), there, "{step}: put without a version");
                done.iter().for_each(|done| self.note(&name, &value, done));
            }
            pinned @ (3 | 4) => {
                let (version, fits) = match (&known, pinned) {
                    (Some((_, version)), 3) => (version.clone(), 200),
                    _ => (old, if exists { 409 } else { 404 }),
                };
                let mut object = config_map(&name, "k", &value);
                object.set(&["metadata", "resourceVersion"], version);
                let done = put(server, &name, object).await;
                assert_eq!(code(&done), fits, "{step}: put of a version");
                done.iter().for_each(|done| self.note(&name, &value, done));
            }
            5 => {
                let done = set(server, &name, "k", &value).await;
                assert_eq!(code(&done), there, "{step}: patch");
                done.iter().for_each(|done| self.note(&name, &value, done));
            }
            6 => {
                let gone = delete(server, &name, &DeleteOptions::default()).await;
                assert_eq!(code(&gone), there, "{step}: delete");
                self.forget(&name);
            }
            7 => {
                let (version, fits) = match &known {
                    Some((_, version)) if chance.below(2) == 0 => (version.clone(), 200),
                    Some(_) => (old, 409),
                    None => (old, 404),
                };
                let options = DeleteOptions { resource_version: Some(version), ..DeleteOptions::default() };
                let gone = delete(server, &name, &options).await;
                assert_eq!(code(&gone), fits, "{step}: delete of a version");
                if fits == 200 {
                    self.forget(&name);
                }
            }
            _ => {
                let found = server.get(NAMESPACE, &name, ReadAt::Latest).await;
                assert_eq!(code(&found), there, "{step}: get");
                let found = found.ok().map(|found| parse(found.bytes()));
                let shown = found.as_ref().map(|found| {
                    let version = found.str_at(&["metadata", "resourceVersion"]).expect("a version");
                    (found.str_at(&["data", "k"]).unwrap_or_default().to_owned(), Str::from(version))
                });
                assert_eq!(shown, known, "{step}: get");
            }
        }
    }
}

#[tokio::test]
async fn a_client_finds_its_writes_through_servers_whose_caches_are_late() {
    for seed in 1..=20 {
        let memory = Memory::new();
        let stores = [Late::new(&memory, 0), Late::new(&memory, 0)];
        let servers = [config_maps(&stores[0]).await, config_maps(&stores[1]).await];
        stores.iter().for_each(|store| store.hold());
        let (mut chance, mut model) = (Chance(seed), Model::default());
        for step in 0..150 {
            let at = chance.below(2) as usize;
            model.step(&servers[at], &mut chance, step).await;
            if chance.below(3) == 0 {
                stores[chance.below(2) as usize].tell_one();
            }
        }
    }
}

/// Two servers on a store that takes its time, and whose caches hear of changes at once or never.
async fn slow_servers(hears: bool) -> [Arc<Registry>; 2] {
    let memory = Memory::new();
    let stores = [Late::new(&memory, 3), Late::new(&memory, 5)];
    let servers = [config_maps(&stores[0]).await, config_maps(&stores[1]).await];
    if !hears {
        stores.iter().for_each(|store| store.hold());
    }
    servers
}

#[tokio::test]
async fn changes_of_different_keys_and_puts_without_a_version_all_get_through() {
    for hears in [true, false] {
        let servers = slow_servers(hears).await;
        create(&servers[0], config_map("shared", "k", "v"), false).await.expect("made");
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..8usize {
            let server = servers[writer % 2].clone();
            writers.spawn(async move {
                for round in 0..10 {
                    let key = format!("k{writer}");
                    set(&server, "shared", &key, &round.to_string()).await.expect("nobody else has this key");
                }
            });
        }
        while let Some(done) = writers.join_next().await {
            done.expect("it wins its races");
        }
        let found = parse(servers[0].get(NAMESPACE, "shared", ReadAt::Latest).await.expect("there").bytes());
        for writer in 0..8 {
            assert_eq!(found.str_at(&["data", &format!("k{writer}")]), Some("9"), "no change is lost");
        }
        for writer in 0..32usize {
            let server = servers[writer % 2].clone();
            writers.spawn(async move {
                put(&server, "shared", config_map("shared", "k", &writer.to_string())).await.expect("it wins");
            });
        }
        while let Some(done) = writers.join_next().await {
            done.expect("it wins its races");
        }
    }
}

#[tokio::test]
async fn a_document_that_names_a_version_loses_to_another_write() {
    let servers = slow_servers(true).await;
    let made = create(&servers[0], config_map("c", "k", "v"), false).await.expect("made");
    let mut object = config_map("c", "k", "new");
    object.set(&["metadata", "resourceVersion"], version(&made));
    let both = tokio::join!(put(&servers[0], "c", object.clone()), put(&servers[1], "c", object));
    let mut codes = [code(&both.0), code(&both.1)];
    codes.sort_unstable();
    assert_eq!(codes, [200, 409]);
}

#[tokio::test]
async fn of_applies_that_race_one_creates_and_the_others_change() {
    for hears in [true, false] {
        let servers = slow_servers(hears).await;
        let apply = async |at: usize, key: &'static str| {
            let config = config_map("new", key, "v");
            servers[at].apply_as(key, (NAMESPACE, "new", ""), &config).await.expect("it wins").created
        };
        let created = tokio::join!(apply(0, "a"), apply(1, "b"), apply(0, "c"), apply(1, "d"));
        let created = <[bool; 4]>::from(created);
        assert_eq!(created.iter().filter(|created| **created).count(), 1, "{created:?}");
        let found = parse(servers[0].get(NAMESPACE, "new", ReadAt::Latest).await.expect("there").bytes());
        assert_eq!(found.get("data").and_then(Value::as_object).map(|data| data.len()), Some(4));
        let managers = found.at(&["metadata", "managedFields"]).and_then(Value::as_array).map(<[_]>::len);
        assert_eq!(managers, Some(4));
    }
}

#[tokio::test]
async fn finalizers_and_deletions_are_judged_by_what_the_store_holds() {
    let memory = Memory::new();
    let stores = [Late::new(&memory, 0), Late::new(&memory, 0)];
    let servers = [config_maps(&stores[0]).await, config_maps(&stores[1]).await];
    create(&servers[0], config_map("c", "k", "v"), false).await.expect("made");
    stores.iter().for_each(|store| store.hold());
    let mut held = config_map("c", "k", "v");
    held.set(&["metadata", "finalizers"], machinery::array!["example.com/x"]);
    put(&servers[0], "c", held).await.expect("written");
    // Another server, whose cache knows no finalizer.
    let gone = delete(&servers[1], "c", &DeleteOptions::default()).await.expect("deleted");
    assert!(matches!(gone, Deleted::Marked(_)), "{gone:?}");
    // And one that knows neither: the object goes with its last finalizer.
    put(&servers[0], "c", config_map("c", "k", "v")).await.expect("written");
    assert_eq!(code(&servers[1].get(NAMESPACE, "c", ReadAt::Latest).await), 404);
    assert_eq!(code(&put(&servers[1], "c", config_map("c", "k", "v")).await), 404);
}

#[tokio::test]
async fn namespaces_are_judged_by_what_the_store_holds() {
    let memory = Memory::new();
    let stores = [Late::new(&memory, 0), Late::new(&memory, 0)];
    let mut servers = Vec::new();
    for store in &stores {
        let namespaces = registry(store.clone(), "namespaces", Arc::new(Chain::default())).await;
        let lifecycle = Arc::new(NamespaceLifecycle::new(namespaces.lister().clone()));
        let all = registry(store.clone(), "namespaces", lifecycle.clone()).await;
        servers.push((all, registry(store.clone(), "configmaps", lifecycle).await));
    }
    stores.iter().for_each(|store| store.hold());
    let make = async |at: usize, name: &str| {
        let mut object = config_map(name, "k", "v");
        object.set(&["metadata", "namespace"], "team");
        let registry = &servers[at].1;
        write(registry, false, async |write| {
            write.namespace = "team";
            registry.create(write, object).await
        })
        .await
    };
    assert_eq!(code(&make(0, "c").await), 404, "there is no such namespace");
    let namespace = object! { "kind" => "Namespace", "apiVersion" => "v1", "metadata" => object! { "name" => "team" } };
    servers[0].0.create_as_server(namespace).await.expect("made");
    make(1, "c").await.expect("another server has just made the namespace");
    for store in &stores {
        (0..9).for_each(|_| store.tell_one());
    }
    servers[0].0.delete_as_server("", "team").await.expect("it is on its way out");
    assert_eq!(code(&make(0, "d").await), 403, "no cache knows yet that the namespace is on its way out");
}
