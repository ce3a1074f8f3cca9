//! Writes and reads of one resource over a store in memory.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use async_trait::async_trait;
use audit::OFF;
use auth::User;
use machinery::{
    Value,
    codec::json,
    meta::{FieldError, Meta, status::Status},
    object,
    value::Path,
};
use storage::{Memory, cache::ReadAt};

use super::{
    Backing, Consult, Deleted, Judged, Lister, Listers, Registries, Registry, RegistrySettings, Replace, Reservation,
    Reserve, Write, Written,
};
use crate::{
    admission::{Admission, Attributes, Chain, Steps},
    options::{DeleteOptions, WriteOptions},
    testing,
};

const NAMESPACE: &str = "default";

fn backing() -> Backing {
    Backing { store: Memory::new(), encryption: None, root: "/registry".into(), settings: RegistrySettings::default() }
}

fn lister() -> Arc<Lister> {
    Lister::start(testing::config_maps(), &backing())
}

fn registry(admission: impl Admission + 'static) -> Registry {
    Registry::new(lister(), Arc::new(admission))
}

fn config_map(name: &str, value: &str) -> Value {
    object! {
        "kind" => "ConfigMap", "apiVersion" => "v1",
        "metadata" => object! { "name" => name }, "data" => object! { "k" => value },
    }
}

async fn run<T>(registry: &Registry, dry_run: bool, act: impl AsyncFnOnce(&mut Write<'_>) -> T) -> T {
    let options = WriteOptions { dry_run, field_manager: "test".into(), ..WriteOptions::default() };
    let (user, mut warnings) = (User::anonymous(), Vec::new());
    let mut write = Write {
        row: &registry.row,
        namespace: NAMESPACE,
        subresource: "",
        user: &user,
        audit: OFF,
        options: &options,
        warnings: &mut warnings,
    };
    act(&mut write).await
}

async fn create(registry: &Registry, object: Value) -> Result<Value, Status> {
    let written = run(registry, false, async |write| registry.create(write, object).await).await;
    written.map(|written| value(&written))
}

async fn update(registry: &Registry, object: Value) -> Result<Value, Status> {
    let name = Meta::of(&object).name().to_owned();
    let written = run(registry, false, async |write| registry.update(write, &name, &Replace(object)).await).await;
    written.map(|written| value(&written))
}

async fn delete(registry: &Registry, name: &str, options: &DeleteOptions) -> Result<Deleted, Status> {
    run(registry, false, async |write| registry.delete(write, name, options).await).await
}

fn value(written: &Written) -> Value {
    json::decode(&written.bytes).expect("the server's own JSON")
}

fn code<T: std::fmt::Debug>(answer: Result<T, Status>) -> (u16, String) {
    let status = answer.expect_err("it is refused");
    (status.code, status.reason.to_string())
}

#[tokio::test]
async fn the_server_gives_a_new_object_what_clients_cannot() {
    let registry = registry(Chain::default());
    let mut sent = config_map("a", "1");
    sent.set(&["metadata", "uid"], "mine");
    sent.set(&["metadata", "creationTimestamp"], "2001-01-01T00:00:00Z");
    sent.set(&["metadata", "selfLink"], "/here");
    let made = create(&registry, sent).await.expect("made");
    let meta = Meta::of(&made);
    assert_eq!(meta.namespace(), NAMESPACE);
    assert_ne!((meta.uid(), meta.uid()), ("mine", ""));
    assert!(!meta.resource_version().is_empty());
    assert_ne!(made.str_at(&["metadata", "creationTimestamp"]), Some("2001-01-01T00:00:00Z"));
    assert_eq!(made.at(&["metadata", "selfLink"]), None);
    assert_eq!(meta.managed_fields().len(), 1);
    let read = registry.get_value(NAMESPACE, "a").await.expect("it is there");
    assert_eq!(read, made, "what was answered is what is read");
}

#[tokio::test]
async fn names_are_taken_once_and_generated_on_demand() {
    let registry = registry(Chain::default());
    create(&registry, config_map("a", "1")).await.expect("made");
    assert_eq!(code(create(&registry, config_map("a", "2")).await), (409, "AlreadyExists".into()));
    let mut nameless = config_map("", "1");
    nameless.set(&["metadata", "generateName"], "b-");
    let made = create(&registry, nameless).await.expect("made");
    let name = Meta::of(&made).name().to_owned();
    assert!(name.starts_with("b-") && name.len() == "b-".len() + 5, "{name}");
    assert_eq!(code(create(&registry, config_map("", "1")).await), (422, "Invalid".into()));
}

#[tokio::test]
async fn a_dry_run_answers_and_writes_nothing() {
    let registry = registry(Chain::default());
    let object = config_map("a", "1");
    let written = run(&registry, true, async |write| registry.create(write, object).await).await.expect("it would do");
    assert!(written.created && Meta::of(&value(&written)).resource_version().is_empty());
    assert_eq!(code(registry.get(NAMESPACE, "a", ReadAt::Latest).await), (404, "NotFound".into()));
}

#[tokio::test]
async fn an_update_names_the_state_that_it_is_about_or_takes_any() {
    let registry = registry(Chain::default());
    let first = create(&registry, config_map("a", "1")).await.expect("made");
    let mut second = first.clone();
    second.set(&["data", "k"], "2");
    let second = update(&registry, second).await.expect("it is the latest");
    let mut stale = first.clone();
    stale.set(&["data", "k"], "3");
    assert_eq!(code(update(&registry, stale).await), (409, "Conflict".into()));
    let mut other = config_map("a", "4");
    other.set(&["metadata", "uid"], "another");
    assert_eq!(code(update(&registry, other).await), (409, "Conflict".into()));
    let third = update(&registry, config_map("a", "4")).await.expect("any state will do");
    assert_eq!(third.str_at(&["data", "k"]), Some("4"));
    assert_eq!(Meta::of(&third).uid(), Meta::of(&second).uid());
    assert_eq!(code(update(&registry, config_map("b", "1")).await), (404, "NotFound".into()));
}

#[tokio::test]
async fn an_update_that_changes_nothing_writes_nothing() {
    let registry = registry(Chain::default());
    let made = create(&registry, config_map("a", "1")).await.expect("made");
    let same = update(&registry, made.clone()).await.expect("fine");
    assert_eq!(Meta::of(&same).resource_version(), Meta::of(&made).resource_version());
}

#[tokio::test]
async fn finalizers_keep_an_object_until_the_last_is_gone() {
    let registry = registry(Chain::default());
    let mut held = config_map("a", "1");
    held.set(&["metadata", "finalizers"], machinery::array!["example.com/x"]);
    create(&registry, held).await.expect("made");
    let wrong = DeleteOptions { uid: Some("another".into()), ..DeleteOptions::default() };
    assert_eq!(code(delete(&registry, "a", &wrong).await), (409, "Conflict".into()));
    let marked = delete(&registry, "a", &DeleteOptions::default()).await.expect("deleted");
    let Deleted::Marked(bytes) = marked else { panic!("{marked:?}") };
    let marked = json::decode(&bytes).expect("JSON");
    assert!(Meta::of(&marked).is_terminating());
    // What goes on is no new life.
    let mut free = marked.clone();
    free.set(&["metadata", "finalizers"], Vec::<Value>::new());
    free.set(&["metadata", "deletionTimestamp"], Value::Null);
    update(&registry, free).await.expect("the last finalizer goes");
    assert_eq!(code(registry.get(NAMESPACE, "a", ReadAt::Latest).await), (404, "NotFound".into()));
    assert_eq!(code(delete(&registry, "a", &DeleteOptions::default()).await), (404, "NotFound".into()));
}

/// Labels what it mutates, and refuses what says so.
struct Labeller;

#[async_trait]
impl Admission for Labeller {
    fn steps(&self) -> Steps {
        Steps::Both
    }

    async fn mutate(&self, _a: &Attributes<'_>, object: &mut Value, _: &mut Vec<String>) -> Result<(), Status> {
        object.set(&["metadata", "labels", "by"], "admission");
        Ok(())
    }

    async fn validate(&self, a: &Attributes<'_>, object: &Value, _: &mut Vec<String>) -> Result<(), Status> {
        assert_eq!(Meta::of(object).label("by"), Some("admission"), "all mutate before any validates");
        if object.str_at(&["data", "k"]) == Some("bad") { Err(a.forbidden(object, "it is bad")) } else { Ok(()) }
    }
}

#[tokio::test]
async fn admission_changes_what_is_stored_and_refuses_what_is_not() {
    let chain = Chain::new(vec![("Labeller", Arc::new(Labeller))], None);
    let registry = registry(chain);
    let made = create(&registry, config_map("a", "1")).await.expect("made");
    assert_eq!(Meta::of(&made).label("by"), Some("admission"));
    assert_eq!(code(create(&registry, config_map("b", "bad")).await), (403, "Forbidden".into()));
    assert_eq!(code(registry.get(NAMESPACE, "b", ReadAt::Latest).await), (404, "NotFound".into()));
}

/// One place: it is taken, kept and given back.
#[derive(Default)]
struct Pool {
    taken: AtomicUsize,
    kept: AtomicUsize,
    back: AtomicUsize,
}

struct Place(Arc<Pool>);

#[async_trait]
impl Reserve for Arc<Pool> {
    async fn reserve(&self, _: &mut Value, _: Option<&Value>, _: bool) -> Result<Box<dyn Reservation>, Status> {
        self.taken.fetch_add(1, Relaxed);
        Ok(Box::new(Place(self.clone())))
    }

    async fn release(&self, _object: &Value) {
        self.back.fetch_add(1, Relaxed);
    }
}

#[async_trait]
impl Reservation for Place {
    async fn commit(self: Box<Self>) {
        self.0.kept.fetch_add(1, Relaxed);
    }

    async fn roll_back(self: Box<Self>) {
        self.0.back.fetch_add(1, Relaxed);
    }
}

#[tokio::test]
async fn what_a_write_has_reserved_is_kept_or_given_back() {
    let pool = Arc::new(Pool::default());
    let registry = registry(Chain::default()).reserving(Arc::new(pool.clone()));
    let counts = || [&pool.taken, &pool.kept, &pool.back].map(|count| count.load(Relaxed));
    create(&registry, config_map("a", "1")).await.expect("made");
    assert_eq!(counts(), [1, 1, 0]);
    assert_eq!(code(create(&registry, config_map("a", "2")).await).0, 409);
    assert_eq!(counts(), [2, 1, 1], "the name was taken");
    delete(&registry, "a", &DeleteOptions::default()).await.expect("deleted");
    assert_eq!(counts(), [2, 1, 2], "the object held it");
}

/// Finds fault with everything.
struct Critic;

#[async_trait]
impl Consult for Critic {
    async fn findings(&self, _: Judged<'_>, _: &Value, _: Option<&Value>) -> Vec<FieldError> {
        vec![FieldError::forbidden(Path::ROOT.field("data"), "not today")]
    }
}

#[tokio::test]
async fn registries_over_one_lister_differ_in_their_rules_alone() {
    let rows = [testing::config_maps()];
    let listers = Listers::start(&rows, &backing());
    let admission: Arc<dyn Admission> = Arc::new(Chain::default());
    let plain = Registries::new(&listers, &admission);
    let mut strict = Registries::new(&listers, &admission);
    strict.change("", "configmaps", |registry| registry.consulting(Arc::new(Critic)));
    strict.change("", "secrets", |_| unreachable!("there is no such row"));
    let (plain, strict) = (plain.of("", "configmaps"), strict.of("", "configmaps"));
    create(plain, config_map("a", "1")).await.expect("made");
    assert!(strict.get(NAMESPACE, "a", ReadAt::Any).await.is_ok(), "both read the same cache");
    let refused = create(strict, config_map("b", "1")).await.expect_err("refused");
    assert_eq!(refused.message, "ConfigMap \"b\" is invalid: data: Forbidden: not today");
}
