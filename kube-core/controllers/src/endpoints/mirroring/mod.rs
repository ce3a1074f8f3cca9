//! The endpointslicemirroring-controller: EndpointSlices that say what Endpoints say which somebody has made for a service without a
//! selector.

mod metrics;
mod reconcile;

use std::{sync::Arc, time::Duration};

use machinery::{
    Value,
    json::scan,
    meta::{GrRef, Meta, status::Status},
};
use storage::cache::Object;
use tokio::time::Instant;

use super::{
    ENDPOINTS, LEADER, SERVICES, SLICES, compute,
    service::selector,
    slices::{self, slice::Slice},
};
use crate::{
    events::{About, Events},
    follow::follow,
    objects::{self, Key},
    per_namespace::is_terminating,
    ready::Ready,
    shared::Shared,
    workqueue::{Backoff, Outcome, Queue},
};
use metrics::Metrics;
use reconcile::Plan;

const CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// So many addresses of a subset are mirrored (`--mirroring-max-endpoints-per-subset`).
const MAX_ADDRESSES: usize = 1000;
/// Endpoints that are looked at at once (`--mirroring-concurrent-service-endpoint-syncs`).
const WORKERS: usize = 5;
const BACKOFF: Backoff = Backoff { base: Duration::from_secs(1), max: Duration::from_secs(100) };

struct Controller {
    shared: Arc<Shared>,
    events: Events,
    metrics: Metrics,
}

/// Keeps the mirrors as Endpoints and services are.
pub(crate) async fn run(shared: Arc<Shared>, ready: Ready) {
    let queue: Queue<Key> = Queue::new("endpoint_slice_mirroring", BACKOFF, &shared.metrics);
    let lister = |of: GrRef<'static>| shared.lister(of.group, of.resource).clone();
    let (endpoints, services, slices) = (lister(ENDPOINTS), lister(SERVICES), lister(SLICES));
    let (of_endpoints, of_service, of_slice) = (queue.clone(), queue.clone(), queue.clone());
    let endpoints_changed = move |old: Option<&Arc<Object>>, new: Option<&Arc<Object>>| {
        if let Some(endpoints) = old.into_iter().chain(new).find(|endpoints| may_be_mirrored(endpoints)) {
            of_endpoints.add(Key::of(endpoints));
        }
    };
    let service_changed = move |old: Option<&Arc<Object>>, new: Option<&Arc<Object>>| {
        let selects =
            |service: &Arc<Object>| scan::field(service.bytes(), &["spec", "selector"]).is_some_and(|s| s != b"{}");
        let differs = match (old, new) {
            (Some(old), Some(new)) => selects(old) != selects(new),
            (old, new) => new.or(old).is_some_and(|service| !selects(service)),
        };
        if let Some(service) = new.or(old).filter(|_| differs) {
            of_service.add(Key::of(service));
        }
    };
    let slice_changed = move |old: Option<&Arc<Object>>, new: Option<&Arc<Object>>| {
        for slice in old.into_iter().chain(new) {
            if let Some(key) = slices::service_of(slice, CONTROLLER) {
                of_slice.add(key);
            }
        }
    };
    let known = [endpoints.clone(), services.clone(), slices.clone()];
    let controller = Arc::new(Controller {
        events: shared.events("endpoint-slice-mirroring-controller"),
        metrics: shared.families.get(Metrics::new),
        shared,
    });
    let sync = move |key: Key| {
        let controller = controller.clone();
        async move {
            let began = Instant::now();
            let result = controller.sync(&key).await;
            controller.metrics.duration.observe(began.elapsed().as_secs_f64());
            result
        }
    };
    let work = async {
        for lister in known {
            if lister.cache().ready().await.is_err() {
                return;
            }
        }
        queue.work(WORKERS, sync).await;
    };
    tokio::select! {
        () = follow(&endpoints, endpoints_changed, || ready.synced()) => {}
        () = follow(&services, service_changed, || {}) => {}
        () = follow(&slices, slice_changed, || {}) => {}
        () = work => {}
    }
}

fn may_be_mirrored(endpoints: &Object) -> bool {
    let is_a_leaders = scan::field(endpoints.bytes(), &["metadata", "annotations", LEADER]).is_some();
    endpoints.labels().get(SKIP) != Some("true") && !is_a_leaders
}

impl Controller {
    /// The Endpoints to be mirrored; none if there is nothing to mirror.
    async fn mirrored(&self, key: &Key) -> Result<Option<Value>, Status> {
        let Some(endpoints) = objects::read(&self.shared, ENDPOINTS, key).await? else { return Ok(None) };
        let meta = Meta::of(&endpoints);
        if meta.label(SKIP) == Some("true") || meta.annotation(LEADER).is_some() {
            return Ok(None);
        }
        let service = objects::read(&self.shared, SERVICES, key).await?;
        let is_bare = service.is_some_and(|service| selector(&service).is_none());
        Ok(is_bare.then_some(endpoints))
    }

    async fn sync(&self, key: &Key) -> Result<Outcome, Status> {
        let endpoints = self.mirrored(key).await?;
        let existing = slices::managed(&self.shared, key, CONTROLLER).await?;
        let Some(endpoints) = endpoints else {
            self.metrics.totals.forget(key);
            let plan = Plan { delete: existing, ..Plan::default() };
            return self.write(key, false, &plan).await;
        };
        let computed = compute(move || {
            let plan = reconcile::reconcile(&endpoints, existing);
            (endpoints, plan)
        });
        let (endpoints, plan) = computed.await?;
        let Some(mut plan) = plan else {
            let what = "The ports and addresses of all subsets together are too many to be mirrored to EndpointSlices";
            self.tell(key, &endpoints, "TooManyAddressesToMirror", what).await;
            return Ok(Outcome::Done);
        };
        self.metrics.observe(key, &plan);
        self.tell_skipped(key, &endpoints, &plan).await;
        reconcile::recycle(&mut plan);
        self.write(key, !Meta::of(&endpoints).is_terminating(), &plan).await
    }

    async fn tell_skipped(&self, key: &Key, endpoints: &Value, plan: &Plan) {
        if plan.invalid > 0 {
            let what = format!("Skipped {} invalid IP addresses when mirroring to EndpointSlices", plan.invalid);
            self.tell(key, endpoints, "InvalidIPAddress", &what).await;
        }
        if plan.skipped > plan.invalid {
            let what = format!(
                "A max of {MAX_ADDRESSES} addresses can be mirrored to EndpointSlices per Endpoints subset. {} addresses were skipped",
                plan.skipped
            );
            self.tell(key, endpoints, "TooManyAddressesToMirror", &what).await;
        }
    }

    async fn tell(&self, key: &Key, endpoints: &Value, reason: &str, what: &str) {
        let about = About {
            api_version: "v1",
            kind: "Endpoints",
            namespace: &key.namespace,
            name: &key.name,
            uid: Meta::of(endpoints).uid(),
        };
        self.events.make(&about, "Warning", reason, what).await;
    }

    async fn write(&self, key: &Key, makes: bool, plan: &Plan) -> Result<Outcome, Status> {
        let (client, all) = (self.shared.client(), slices::slices_of(&key.namespace));
        let count = |operation: &str| self.metrics.changes.with_label_values(&[operation]).inc();
        let none: &[Slice] = &[];
        for slice in if makes { plan.create.as_slice() } else { none } {
            match client.create(&all, &slice.body()).await {
                Ok(_) => count("create"),
                Err(status) if is_terminating(&status) => return Ok(Outcome::Done),
                Err(status) => return Err(status),
            }
        }
        for slice in &plan.update {
            slices::update(&client, &all, slice).await?;
            count("update");
        }
        for slice in &plan.delete {
            slices::delete(&client, &all, slice.name()).await?;
            count("delete");
        }
        Ok(Outcome::Done)
    }
}
