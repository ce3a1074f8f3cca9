//! Step: whose turn is it? By priority and fairness, or by a plain limit of requests at once.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderValue, StatusCode, header::RETRY_AFTER};
use tokio::sync::Semaphore;

use crate::response::{self, Response};
use crate::{
    flow_control::{Flow, FlowControl, is_mutating},
    metrics::Metrics,
    request::Request,
    table::ResourceTable,
};
use auth::User;
use machinery::request::Verb;

/// Nobody waits longer for a turn.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// How many requests run at once.
pub enum Concurrency {
    /// By flow schemas and priority levels.
    Fair {
        /// These.
        control: Arc<FlowControl>,
        /// Where resources are looked up, to estimate what a request needs.
        tables: Vec<Arc<ArcSwap<ResourceTable>>>,
        /// How long a request may wait that has no deadline of its own.
        patience: Duration,
    },
    /// So many at once, the others are refused (`--max-requests-inflight`, `--max-mutating-requests-inflight`).
    InFlight {
        /// Requests that only read.
        reads: Option<Arc<Semaphore>>,
        /// The others.
        writes: Option<Arc<Semaphore>>,
    },
}

/// A request that was sorted into a flow, or has a place.
pub(super) struct Admitted {
    flow: Option<Arc<Flow>>,
    place: Option<Place>,
    watch: bool,
}

/// What a request keeps while it runs: a seat or a permit, which is free again when this is dropped.
type Place = Box<dyn std::any::Any + Send + Sync>;

impl Concurrency {
    /// A limit of requests at once; 0: none.
    pub fn in_flight(reads: u64, writes: u64) -> Self {
        let limit = |limit: u64| {
            let permits = usize::try_from(limit).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
            (limit > 0).then(|| Arc::new(Semaphore::new(permits)))
        };
        Concurrency::InFlight { reads: limit(reads), writes: limit(writes) }
    }

    /// Waits for the request's turn. What it belongs to; and the answer, if it may not run.
    pub(super) async fn admit(
        &self,
        request: &Request,
        received: Instant,
        metrics: &Metrics,
    ) -> (Option<Admitted>, Option<Response>) {
        let watch = request.info.verb == Verb::Watch && request.info.is_resource;
        let lasts = request.deadline.is_none();
        match self {
            _ if lasts && !watch => (None, None),
            Concurrency::InFlight { .. } if lasts => (None, None),
            Concurrency::InFlight { reads, writes } => {
                let limit = if is_mutating(&request.info) { writes } else { reads };
                let Some(limit) = limit else { return (None, None) };
                match limit.clone().try_acquire_owned() {
                    Ok(permit) => (Some(Admitted { flow: None, place: Some(Box::new(permit)), watch }), None),
                    // Who is to mend an overload must not be kept out by it.
                    Err(_) if request.user.in_group(User::MASTERS) => (None, None),
                    Err(_) => (None, Some(too_many_requests(1))),
                }
            }
            Concurrency::Fair { control, tables, patience } => {
                let Some(flow) = control.classify(&request.user, &request.info) else { return (None, None) };
                let work = flow.estimate(request, tables);
                let patience = request.deadline.map_or(*patience, |deadline| (deadline - received) / 4).min(MAX_WAIT);
                let patience = patience.saturating_sub(received.elapsed());
                match counted(flow.admit(request, work, patience), request, metrics).await {
                    Ok(seat) => (Some(Admitted { flow: Some(flow), place: Some(Box::new(seat)), watch }), None),
                    Err(rejected) => {
                        let admitted = Admitted { flow: Some(flow), place: None, watch };
                        (Some(admitted), Some(too_many_requests(rejected.retry_after)))
                    }
                }
            }
        }
    }
}

/// The turn, for which the request is counted as waiting if it does not come at once.
async fn counted<T>(turn: impl Future<Output = T>, request: &Request, metrics: &Metrics) -> T {
    let mut turn = pin!(turn);
    match turn.as_mut().now_or_never() {
        Some(at_once) => at_once,
        None => {
            let _waits = metrics.waiting(request);
            turn.await
        }
    }
}

impl Admitted {
    /// Says in the answer's headers which flow its request belonged to.
    pub(super) fn mark(&self, headers: &mut HeaderMap) {
        if let Some(flow) = &self.flow {
            flow.mark(headers);
        }
    }

    /// What is to be kept until the answer is sent. A watch has begun when it answers, and keeps nothing.
    pub(super) fn lasting(self) -> Option<Place> {
        self.place.filter(|_| !self.watch)
    }
}

fn too_many_requests(retry_after: u64) -> Response {
    let mut response = response::text(StatusCode::TOO_MANY_REQUESTS, "Too many requests, please try again later.\n");
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(retry_after));
    response
}
