//! Where services are served: Endpoints and EndpointSlices of services that select pods, and EndpointSlices that mirror
//! Endpoints made by hand.
//!
//! Each sync reads the latest state of what it needs, computes what should be there away from the reactor, and writes what
//! differs. Differs: no resource versions are tracked against stale caches, since nothing is computed from one.

mod controller;
mod go_hash;
mod mirroring;
mod pod;
mod ports;
mod selection;
mod service;
mod slices;
mod subsets;
mod trigger_time;

use std::sync::Arc;

use generic_server::registry::Lister;
use machinery::{
    Value,
    meta::{GrRef, status::Status},
};
use storage::cache::{CacheEntry, Object, ReadAt, Snapshot, Term};

pub(crate) use controller::run;
pub(crate) use mirroring::run as mirror;
pub(crate) use slices::run as slices;

const SERVICES: GrRef<'static> = GrRef::new("", "services");
const ENDPOINTS: GrRef<'static> = GrRef::new("", "endpoints");
const SLICES: GrRef<'static> = GrRef::new("discovery.k8s.io", "endpointslices");
/// When what an object of endpoints tells has last changed.
const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// The label of what belongs to a service without an address.
const HEADLESS: &str = "service.kubernetes.io/headless";
/// Once a leader was elected by an annotation of Endpoints.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

/// So many labels are looked for in the index: the rarest of these is rare enough.
const MAX_TERMS: usize = 8;

/// The latest state of a resource.
async fn latest(lister: &Lister) -> Result<Snapshot, Status> {
    let read = lister.cache().read(ReadAt::Latest).await;
    read.map_err(|error| Status::internal_error(error.to_string()))
}

/// The objects of a namespace that have all of these labels.
fn labelled<'a>(
    lister: &Lister,
    snapshot: &'a Snapshot,
    namespace: &str,
    labels: &[(&str, &str)],
) -> Vec<&'a Arc<Object>> {
    let term = |(key, value): &(&str, &str)| Term::Label((*key).into(), (*value).into());
    let terms: Vec<Term> = labels.iter().take(MAX_TERMS).map(term).collect();
    let prefix = lister.namespace_prefix(namespace);
    let holds = |object: &&Arc<Object>| labels.iter().all(|(key, value)| object.labels().get(key) == Some(value));
    match snapshot.by_terms(&terms, &prefix, None) {
        Some(found) => found.into_iter().filter(holds).collect(),
        None => snapshot.range(&prefix, None).filter_map(CacheEntry::object).filter(holds).collect(),
    }
}

/// Does work that may take long for a service with many pods.
async fn compute<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Status> {
    tokio::task::spawn_blocking(work).await.map_err(Status::internal_error)
}

/// The text of a member; absent and null ones are empty.
fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    value.str_at(path).unwrap_or_default()
}

/// The items of a member; absent and null ones are none.
fn items<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    value.at(path).and_then(Value::as_array).unwrap_or_default()
}
