//! A controller as they are written with kube-rs: it watches a custom resource and what it owns, makes children by
//! server-side apply, reports in the status, and cleans up behind a finalizer.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt;
use integration_tests::Server;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::GroupVersionKind,
    runtime::{
        Controller,
        controller::Action,
        finalizer::{self, Event, finalizer},
        watcher,
    },
};
use serde_json::{Value, json};

const FINALIZER: &str = "caches.operator.test/cleanup";

#[derive(Debug)]
struct Failure(String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        Failure(error.to_string())
    }
}

struct Context {
    client: Client,
    resource: ApiResource,
    cleaned: AtomicUsize,
}

impl Context {
    fn caches(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), "default", &self.resource)
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn apply(&self, cache: &DynamicObject) -> Result<Action, Failure> {
        let name = cache.name_any();
        let size = cache.data["spec"]["size"].as_i64().unwrap_or(0);
        let owner = cache.controller_owner_ref(&self.resource);
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "ownerReferences": [owner]}, "data": {"size": size.to_string()},
        });
        let params = PatchParams::apply("cache-operator").force();
        self.maps().patch(&name, &params, &Patch::Apply(&map)).await?;
        let status = json!({"status": {"ready": size, "observedGeneration": cache.meta().generation}});
        self.caches().patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await?;
        Ok(Action::requeue(Duration::from_secs(300)))
    }

    async fn clean_up(&self, cache: &DynamicObject) -> Result<Action, Failure> {
        self.maps().delete(&cache.name_any(), &DeleteParams::default()).await?;
        self.cleaned.fetch_add(1, Ordering::SeqCst);
        Ok(Action::await_change())
    }
}

async fn reconcile(cache: Arc<DynamicObject>, context: Arc<Context>) -> Result<Action, finalizer::Error<Failure>> {
    finalizer(&context.caches(), FINALIZER, cache, |event| async {
        match event {
            Event::Apply(cache) => context.apply(&cache).await,
            Event::Cleanup(cache) => context.clean_up(&cache).await,
        }
    })
    .await
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "caches.operator.test"},
        "spec": {
            "group": "operator.test", "scope": "Namespaced", "names": {"kind": "Cache", "plural": "caches"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 1}}},
                    "status": {"type": "object", "properties": {
                        "ready": {"type": "integer"}, "observedGeneration": {"type": "integer"},
                    }},
                }}},
            }],
        },
    })
}

/// Looks until `done` is satisfied with what it finds.
async fn wait_for<F: Future<Output = bool>>(what: &str, mut done: impl FnMut() -> F) {
    for _ in 0..2400 {
        if done().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_runs_its_loop() {
    let server = Server::start();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(server.request("POST", path, Some(&definition())).status, 201);
    let kubeconfig = Kubeconfig::read_from(server.data().join("admin.kubeconfig")).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("a config");
    let client = Client::try_from(config).expect("a client");
    let kind = GroupVersionKind::gvk("operator.test", "v1", "Cache");
    // The resource is discovered as soon as the definition is there.
    let (resource, _) = kube::discovery::pinned_kind(&client, &kind).await.expect("discovered");
    let context = Arc::new(Context { client, resource: resource.clone(), cleaned: AtomicUsize::new(0) });
    let controller = Controller::new_with(context.caches(), watcher::Config::default(), resource.clone())
        .owns(context.maps(), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(200)), context.clone());
    let running = tokio::spawn(controller.for_each(|_| std::future::ready(())));

    let (caches, maps) = (context.caches(), context.maps());
    for (name, size) in [("a", 2), ("b", 3)] {
        let cache = DynamicObject::new(name, &resource).data(json!({"spec": {"size": size}}));
        caches.create(&PostParams::default(), &cache).await.expect("created");
    }
    let ready = |name: &'static str, size: i64| {
        let caches = caches.clone();
        async move { caches.get(name).await.is_ok_and(|cache| cache.data["status"]["ready"] == size) }
    };
    wait_for("a and b are ready", || async { ready("a", 2).await && ready("b", 3).await }).await;
    assert_eq!(maps.get("b").await.expect("a map").data.expect("data")["size"], "3");

    let change = json!({"spec": {"size": 7}});
    caches.patch("a", &PatchParams::default(), &Patch::Merge(&change)).await.expect("changed");
    wait_for("the change is seen", || ready("a", 7)).await;
    maps.delete("b", &DeleteParams::default()).await.expect("deleted");
    wait_for("the child is made again", || async { maps.get("b").await.is_ok() }).await;

    caches.delete("a", &DeleteParams::default()).await.expect("deleted");
    wait_for("the finalizer ran", || async { caches.get("a").await.is_err() && maps.get("a").await.is_err() }).await;
    assert_eq!(context.cleaned.load(Ordering::SeqCst), 1);
    assert!(ready("b", 3).await);
    running.abort();
    assert!(!server.log().contains("panicked"), "{}", server.log());
}
