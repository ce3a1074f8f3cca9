//! Publishes the authority of this server as a ClusterTrustBundle (of kubernetes.io/kube-apiserver-serving), where there are such.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use generic_server::registry::Lister;
use machinery::{
    Str, Value,
    meta::{GrRef, status::Status},
    object,
};
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, exponential_buckets};
use storage::cache::{CacheEntry, Object, ReadAt};
use tokio::time::Instant;

use crate::{
    client::{Client, Deletion, segment},
    families::Families,
    follow::follow,
    kinds::StoredKind,
    ready::Ready,
    shared::Shared,
    workqueue::{Backoff, Outcome, Queue},
};

const BUNDLES: GrRef<'static> = GrRef::new("certificates.k8s.io", "clustertrustbundles");
const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";
/// The versions that are written, the better one first.
const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];

#[derive(Clone)]
struct Metrics {
    syncs: IntCounterVec,
    latency: HistogramVec,
}

impl Metrics {
    fn new(registry: &Registry) -> Self {
        let syncs = Opts::new("clustertrustbundle_publisher_sync_total", "Syncs of the trust bundle.");
        let buckets = exponential_buckets(0.001, 2.0, 15).expect("constant arguments");
        let latency = HistogramOpts::new(
            "clustertrustbundle_publisher_sync_duration_seconds",
            "How long the sync of the trust bundle takes.",
        );
        let metrics = Metrics {
            syncs: IntCounterVec::new(syncs, &["code"]).expect("a valid name"),
            latency: HistogramVec::new(latency.buckets(buckets), &["code"]).expect("a valid name"),
        };
        for family in
            [Box::new(metrics.syncs.clone()) as Box<dyn prometheus::core::Collector>, Box::new(metrics.latency.clone())]
        {
            registry.register(family).expect("each name is registered once");
        }
        metrics
    }

    fn of(families: &Families) -> Self {
        families.get(Self::new)
    }
}

/// Keeps the bundle, and none but it.
pub(crate) async fn run(shared: Arc<Shared>, ready: Ready) {
    let Some(kind) = served(&shared) else {
        tracing::debug!("ClusterTrustBundles are not served: there is nothing to publish");
        ready.synced();
        return std::future::pending().await;
    };
    let queue: Queue<()> = Queue::new("ca_cert_publisher_cluster_trust_bundles", Backoff::default(), &shared.metrics);
    queue.add(());
    let metrics = Metrics::of(&shared.families);
    let (added, lister) = (queue.clone(), kind.lister.clone());
    let changed = move |old: Option<&Arc<Object>>, new: Option<&Arc<Object>>| {
        if old.into_iter().chain(new).any(|bundle| is_ours(bundle)) {
            added.add(());
        }
    };
    let known = lister.clone();
    let sync = move |()| {
        let (shared, kind, metrics) = (shared.clone(), kind.clone(), metrics.clone());
        async move {
            let began = Instant::now();
            let result = sync(&shared, &kind).await;
            let code = result.as_ref().err().map_or(200, |status| status.code).to_string();
            metrics.syncs.with_label_values(&[&code]).inc();
            metrics.latency.with_label_values(&[&code]).observe(began.elapsed().as_secs_f64());
            result
        }
    };
    let work = async {
        if known.cache().ready().await.is_ok() {
            queue.work(1, sync).await;
        }
    };
    tokio::select! {
        () = follow(&lister, changed, || ready.synced()) => {}
        () = work => {}
    }
}

/// The resource, in the version that is written.
fn served(shared: &Shared) -> Option<Arc<Served>> {
    let list = shared.kinds.list();
    let kind: &Arc<StoredKind> = list.resource(BUNDLES)?;
    let version = VERSIONS.into_iter().find(|version| kind.versions.iter().any(|served| served == version))?;
    Some(Arc::new(Served { lister: kind.lister.clone(), version }))
}

struct Served {
    lister: Arc<Lister>,
    version: &'static str,
}

fn is_ours(bundle: &Object) -> bool {
    machinery::json::scan::text(bundle.bytes(), &["spec", "signerName"]).as_deref() == Some(SIGNER)
}

async fn sync(shared: &Shared, served: &Served) -> Result<Outcome, Status> {
    let (client, lister) = (shared.client(), &served.lister);
    let bundles = format!("/apis/{}/{}/{}", BUNDLES.group, served.version, BUNDLES.resource);
    let (authority, name) = (shared.root_ca.clone(), name(&shared.root_ca));
    let snapshot = lister.cache().read(ReadAt::Latest).await;
    let snapshot = snapshot.map_err(|error| Status::internal_error(error.to_string()))?;
    let known: Vec<Arc<Object>> =
        snapshot.range("", None).filter_map(CacheEntry::object).filter(|b| is_ours(b)).cloned().collect();
    match known.iter().find(|bundle| bundle.name() == name) {
        None => create(&client, &bundles, (served.version, &name), authority).await?,
        Some(bundle) => {
            let mut bundle = lister.decode(bundle.bytes())?;
            if bundle.str_at(&["spec", "trustBundle"]) != Some(authority.as_str()) {
                bundle.set(&["apiVersion"], format!("{}/{}", BUNDLES.group, served.version));
                bundle.set(&["spec", "trustBundle"], authority);
                client.update(&format!("{bundles}/{}", segment(&name)), &bundle).await?;
            }
        }
    }
    // What was published before.
    let mut failed = None;
    for other in known.iter().filter(|bundle| bundle.name() != name) {
        match client.delete(&format!("{bundles}/{}", segment(other.name())), Deletion::default()).await {
            Err(status) if !status.is_not_found() => failed = Some(status),
            _ => {}
        }
    }
    failed.map_or(Ok(Outcome::Done), Err)
}

async fn create(client: &Client, bundles: &str, of: (&str, &str), authority: Str) -> Result<(), Status> {
    let bundle: Value = object! {
        "kind" => "ClusterTrustBundle", "apiVersion" => format!("{}/{}", BUNDLES.group, of.0),
        "metadata" => object! { "name" => of.1 },
        "spec" => object! { "signerName" => SIGNER, "trustBundle" => authority },
    };
    client.create(bundles, &bundle).await.map(drop)
}

/// The name of the bundle that holds this.
fn name(bundle: &str) -> String {
    let hash = digest(&SHA256, bundle.as_bytes());
    let hash: String = hash.as_ref()[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}:{hash}", SIGNER.replace('/', ":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_is_named_after_what_it_holds() {
        // The first 12 bytes of SHA-256 of "abc".
        assert_eq!(name("abc"), "kubernetes.io:kube-apiserver-serving:ba7816bf8f01cfea414140de");
    }
}
