//! What is counted, under upstream's names.

mod access;
mod shown;
mod watches;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use http::StatusCode;
use machinery::meta::status::Status;
use prometheus::{
    Encoder, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder,
    process_collector::ProcessCollector,
};

pub(crate) use access::AccessMetrics;
pub use shown::ShownMetrics;
pub(crate) use watches::WatchMetrics;

use crate::{
    endpoint::Endpoint,
    request::Request,
    resource::Resource,
    response::{self, Response},
    serve::HANDSHAKE_ERRORS,
};
use machinery::request::Verb;

/// The server's metrics.
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    durations: HistogramVec,
    sizes: HistogramVec,
    long_running: IntGaugeVec,
    inflight: IntGaugeVec,
    slis: HistogramVec,
    body_sizes: HistogramVec,
    deprecated: IntGaugeVec,
    terminations: IntCounterVec,
    pub(crate) access: AccessMetrics,
    pub(crate) watches: WatchMetrics,
}

const BUCKETS: [f64; 27] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0, 90.0, 120.0, 180.0, 300.0,
];

impl Metrics {
    /// Metrics that count nothing yet.
    pub fn new() -> Arc<Self> {
        let registry = Registry::new();
        register(&registry, Ok(HANDSHAKE_ERRORS.clone()));
        registry.register(Box::new(ProcessCollector::for_self())).expect("each name is registered once");
        let labels = ["verb", "group", "version", "resource", "subresource", "scope", "component"];
        let with = |more: &[&'static str]| labels.iter().chain(more).copied().collect::<Vec<_>>();
        let metrics = Metrics {
            requests: register(
                &registry,
                IntCounterVec::new(
                    Opts::new("apiserver_request_total", "Requests by verb, resource, scope and HTTP status code."),
                    &with(&["code", "dry_run"]),
                ),
            ),
            durations: register(
                &registry,
                HistogramVec::new(
                    HistogramOpts::new("apiserver_request_duration_seconds", "Time to the answer, in seconds.")
                        .buckets(BUCKETS.to_vec()),
                    &with(&["dry_run"]),
                ),
            ),
            sizes: register(
                &registry,
                HistogramVec::new(
                    HistogramOpts::new("apiserver_response_sizes", "Bytes of answers whose size is known.")
                        .buckets(prometheus::exponential_buckets(1000.0, 10.0, 7).expect("constant arguments")),
                    &labels,
                ),
            ),
            long_running: register(
                &registry,
                IntGaugeVec::new(
                    Opts::new("apiserver_longrunning_requests", "Watches and other requests that last."),
                    &labels,
                ),
            ),
            inflight: register(
                &registry,
                IntGaugeVec::new(
                    Opts::new("apiserver_current_inflight_requests", "Requests being answered now."),
                    &["request_kind"],
                ),
            ),
            slis: register(
                &registry,
                HistogramVec::new(
                    HistogramOpts::new(
                        "apiserver_request_sli_duration_seconds",
                        "Time to the answer in seconds, without what a request has waited for its turn.",
                    )
                    .buckets(BUCKETS[2..23].to_vec()),
                    &labels,
                ),
            ),
            body_sizes: register(
                &registry,
                HistogramVec::new(
                    HistogramOpts::new(
                        "apiserver_request_body_size_bytes",
                        "Bytes of request bodies whose size is known.",
                    )
                    .buckets(prometheus::linear_buckets(50_000.0, 100_000.0, 31).expect("constant arguments")),
                    &["group", "resource", "verb"],
                ),
            ),
            deprecated: register(
                &registry,
                IntGaugeVec::new(
                    Opts::new("apiserver_requested_deprecated_apis", "Deprecated APIs that have been requested."),
                    &["group", "version", "resource", "subresource", "removed_release"],
                ),
            ),
            terminations: register(
                &registry,
                IntCounterVec::new(
                    Opts::new(
                        "apiserver_request_terminations_total",
                        "Requests that the server has ended to protect itself: too many at once, or too long.",
                    ),
                    &with(&["code"]),
                ),
            ),
            access: AccessMetrics::new(&registry),
            watches: WatchMetrics::new(&registry),
            registry,
        };
        Arc::new(metrics)
    }

    /// Where other parts of the server register theirs.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Notes that a request begins.
    pub(crate) fn start(self: &Arc<Self>, request: &Request) -> Label {
        let info = &request.info;
        let kind = if info.verb.is_read_only() || !info.is_resource { "readOnly" } else { "mutating" };
        let dry_run = if request.query.has("dryRun") { "All" } else { "" };
        self.inflight.with_label_values(&[kind]).inc();
        let size = request.body.as_ref().and_then(|body| http_body::Body::size_hint(body).exact());
        let writes = info.is_resource && matches!(info.verb, Verb::Create | Verb::Update | Verb::Patch);
        let body = size.filter(|_| writes).map(|size| (info.verb, size));
        Label { metrics: self.clone(), labels: labels(request), kind, dry_run, body }
    }

    /// Notes that a deprecated resource was asked for.
    pub(crate) fn deprecated(&self, row: &Resource, subresource: &str) {
        self.deprecated.with_label_values(&[&*row.group, &*row.version, &*row.plural, subresource, ""]).set(1);
    }

    /// Counts a watch (or another request that lasts) until the guard is dropped.
    pub(crate) fn long_running(&self, request: &Request) -> LongRunning {
        let labels = labels(request);
        let gauge = self.long_running.with_label_values(&labels);
        gauge.inc();
        LongRunning(gauge)
    }
}

/// A request that lasts.
pub(crate) struct LongRunning(prometheus::IntGauge);

impl Drop for LongRunning {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn labels(request: &Request) -> [String; 7] {
    let info = &request.info;
    let scope = match (info.is_resource, info.name.is_empty(), info.namespace.is_empty()) {
        (false, ..) => "",
        (_, false, _) => "resource",
        (_, true, false) => "namespace",
        (_, true, true) => "cluster",
    };
    let verb = match info.verb {
        _ if !info.is_resource => request.method.as_str().to_owned(),
        Verb::Create => "POST".to_owned(),
        Verb::Update => "PUT".to_owned(),
        verb => verb.name().to_ascii_uppercase(),
    };
    [
        verb,
        info.group.to_string(),
        info.version.to_string(),
        info.resource.to_string(),
        info.subresource.to_string(),
        scope.to_owned(),
        "apiserver".to_owned(),
    ]
}

/// What became of a request before and beside what it asks for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Turn {
    /// How long it had to wait for its turn.
    pub(crate) waited: Duration,
    /// It got none, or its time was over before it was done.
    pub(crate) ended: bool,
}

/// One request's labels.
pub(crate) struct Label {
    metrics: Arc<Metrics>,
    labels: [String; 7],
    kind: &'static str,
    dry_run: &'static str,
    /// The size of the body that it came with, if it writes.
    body: Option<(Verb, u64)>,
}

impl Label {
    /// Notes the answer, and how the request came to its turn.
    pub(crate) fn finish(mut self, response: &Response, elapsed: Duration, turn: &Turn) {
        if response.status() == StatusCode::NOT_FOUND || response.status() == StatusCode::METHOD_NOT_ALLOWED {
            // What does not exist must not make a series for each name that somebody tries.
            self.body = None;
            self.labels[3] = String::new();
            self.labels[4] = String::new();
            self.labels[1] = String::new();
            self.labels[2] = String::new();
        }
        let with = |more: &[&str]| {
            self.labels.iter().map(String::as_str).chain(more.iter().copied()).map(str::to_owned).collect::<Vec<_>>()
        };
        let labels: Vec<&str> = self.labels.iter().map(String::as_str).collect();
        let code = response.status().as_str().to_owned();
        self.metrics.requests.with_label_values(&with(&[&code, self.dry_run])).inc();
        self.metrics.durations.with_label_values(&with(&[self.dry_run])).observe(elapsed.as_secs_f64());
        if turn.ended {
            self.metrics.terminations.with_label_values(&with(&[&code])).inc();
        }
        if let Some((verb, size)) = self.body {
            self.metrics.body_sizes.with_label_values(&[labels[1], labels[3], verb.name()]).observe(size as f64);
        }
        self.metrics.slis.with_label_values(&labels).observe(elapsed.saturating_sub(turn.waited).as_secs_f64());
        if let Some(size) = http_body::Body::size_hint(response.body()).exact() {
            self.metrics.sizes.with_label_values(&labels).observe(size as f64);
        }
    }
}

impl Drop for Label {
    fn drop(&mut self) {
        self.metrics.inflight.with_label_values(&[self.kind]).dec();
    }
}

pub(crate) fn register<C: prometheus::core::Collector + Clone + 'static>(
    registry: &Registry,
    collector: prometheus::Result<C>,
) -> C {
    let collector = collector.expect("constant names and labels are valid");
    registry.register(Box::new(collector.clone())).expect("each name is registered once");
    collector
}

/// `/metrics`
pub struct MetricsEndpoint(pub Arc<Metrics>, pub ShownMetrics);

#[async_trait]
impl Endpoint for MetricsEndpoint {
    async fn serve(&self, _request: Request) -> Result<Response, Status> {
        let mut out = Vec::new();
        let encoder = TextEncoder::new();
        encoder.encode(&self.1.apply(self.0.registry.gather()), &mut out).map_err(Status::internal_error)?;
        Ok(response::bytes(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", out.into()))
    }
}
