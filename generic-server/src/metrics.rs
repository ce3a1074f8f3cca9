//! Metrics, under upstream's names.

mod access;
mod comparisons;
mod protobuf;
mod series;
mod shown;
mod steps;
mod summary;
mod watches;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use histograms::HistogramVec;
use http::{HeaderValue, Method, StatusCode, header::USER_AGENT};
use machinery::{Str, meta::status::Status};
use prometheus::{
    Encoder, HistogramOpts, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
    process_collector::ProcessCollector,
};

pub(crate) use access::AccessMetrics;
pub(crate) use comparisons::keep_times_timed;
use series::{AllSeries, SeriesKey};
pub use shown::ShownMetrics;
pub(crate) use steps::{Laps, Step, note as step_took};
pub(crate) use summary::{Summaries, Summary};
pub(crate) use watches::WatchMetrics;

use crate::{
    endpoint::Endpoint,
    negotiate::MetricsFormat,
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
    inflight: [IntGauge; 2],
    inqueue: [IntGauge; 2],
    own: IntCounterVec,
    aborts: IntCounterVec,
    slis: HistogramVec,
    body_sizes: HistogramVec,
    deprecated: IntGaugeVec,
    terminations: IntCounterVec,
    series: AllSeries,
    pub(crate) access: AccessMetrics,
    pub(crate) watches: WatchMetrics,
}

/// Seconds.
pub(crate) const BUCKETS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];

/// Kinds of requests that are counted while they are here.
const KINDS: [&str; 2] = ["readOnly", "mutating"];

impl Metrics {
    /// Metrics that count nothing yet.
    pub fn new() -> Arc<Self> {
        let registry = Registry::new();
        register(&registry, Ok(HANDSHAKE_ERRORS.clone()));
        register(&registry, Ok(comparisons::COMPARISONS.0.clone()));
        registry.register(Box::new(steps::StepTimes::new())).expect("each name is registered once");
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
            inflight: by_kind(&registry, "apiserver_current_inflight_requests", "Requests being answered now."),
            inqueue: by_kind(&registry, "apiserver_current_inqueue_requests", "Requests that wait for their turn now."),
            own: register(
                &registry,
                IntCounterVec::new(
                    Opts::new("apiserver_selfrequest_total", "Requests that this server's own parts have made."),
                    &["verb", "group", "resource", "subresource"],
                ),
            ),
            aborts: register(
                &registry,
                IntCounterVec::new(
                    Opts::new(
                        "apiserver_request_aborts_total",
                        "Answers that were cut short: their time was over, or what they were made of has failed.",
                    ),
                    &labels[..6],
                ),
            ),
            slis: register(
                &registry,
                HistogramVec::new(
                    HistogramOpts::new(
                        "apiserver_request_sli_duration_seconds",
                        "Time to the answer in seconds, without what a request has waited for its turn.",
                    )
                    .buckets(BUCKETS[2..].to_vec()),
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
            series: AllSeries::default(),
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
        let dry_run = if request.query.has("dryRun") { "All" } else { "" };
        let running = Counted::begin(&self.inflight, request);
        let size = request.body.as_ref().and_then(|body| http_body::Body::size_hint(body).exact());
        let writes = info.is_resource && matches!(info.verb, Verb::Create | Verb::Update | Verb::Patch);
        let body = size.filter(|_| writes).map(|size| (info.verb, size));
        let is_own = request.headers.get(USER_AGENT).is_some_and(is_own_agent);
        let lasts_on = info.is_resource && info.verb == Verb::Watch;
        Label { metrics: self.clone(), labels: Labels::of(request), dry_run, body, is_own, lasts_on, _running: running }
    }

    /// Counts a request that waits for its turn until the guard is dropped.
    pub(crate) fn waiting(&self, request: &Request) -> Counted {
        Counted::begin(&self.inqueue, request)
    }

    /// Notes that a deprecated resource was asked for, and which version of Kubernetes will be without it.
    pub(crate) fn deprecated(&self, row: &Resource, subresource: &str, removed_in: &str) {
        self.deprecated.with_label_values(&[&*row.group, &*row.version, &*row.plural, subresource, removed_in]).set(1);
    }

    /// Counts a watch (or another request that lasts) until the guard is dropped.
    pub(crate) fn long_running(&self, request: &Request) -> Counted {
        Counted::on(self.long_running.with_label_values(&Labels::of(request).values()))
    }
}

/// A request that is counted while this is there.
pub(crate) struct Counted(IntGauge);

impl Counted {
    fn on(gauge: IntGauge) -> Self {
        gauge.inc();
        Counted(gauge)
    }

    /// On the gauge of its kind.
    fn begin(gauges: &[IntGauge; 2], request: &Request) -> Self {
        let info = &request.info;
        Self::on(gauges[usize::from(info.is_resource && !info.verb.is_read_only())].clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Gauges by the kind of a request, in the order of [`KINDS`].
fn by_kind(registry: &Registry, name: &str, help: &str) -> [IntGauge; 2] {
    let family = register(registry, IntGaugeVec::new(Opts::new(name, help), &["request_kind"]));
    KINDS.map(|kind| family.with_label_values(&[kind]))
}

/// Whether servers of a cluster call themselves so, or controllers that are in one.
fn is_own_agent(agent: &HeaderValue) -> bool {
    agent.as_bytes().starts_with(b"kube-apiserver/") || agent.as_bytes().ends_with(b" (in kube-apiserver)")
}

/// Pages that have series of their own among those that are no resources.
const PAGES: [&str; 5] = ["/healthz", "/livez", "/readyz", "/statusz", "/flagz"];

/// What most families of metrics tell requests apart by. Making it allocates nothing, as the texts are short.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Labels {
    verb: &'static str,
    group: Str,
    version: Str,
    resource: Str,
    subresource: Str,
    scope: &'static str,
    component: &'static str,
}

impl Labels {
    fn of(request: &Request) -> Self {
        let info = &request.info;
        if !info.is_resource {
            let page = PAGES.into_iter().find(|page| info.path == *page).unwrap_or_default();
            return Labels::bare(method(&request.method), "", page);
        }
        let scope = match (info.name.is_empty() && info.verb != Verb::Create, info.namespace.is_empty()) {
            (false, _) => "resource",
            (true, false) => "namespace",
            (true, true) => "cluster",
        };
        Labels {
            verb: Some(verb_of(request)).filter(|verb| !verb.is_empty()).unwrap_or(OTHER),
            group: info.group.clone(),
            version: info.version.clone(),
            resource: info.resource.clone(),
            subresource: info.subresource.clone(),
            scope,
            component: "apiserver",
        }
    }

    /// Of what is no resource, or none that exists.
    fn bare(verb: &'static str, scope: &'static str, page: &'static str) -> Self {
        let none = Str::default;
        let subresource = Str::new_static(page);
        Labels { verb, group: none(), version: none(), resource: none(), subresource, scope, component: "" }
    }

    fn values(&self) -> [&str; 7] {
        let Labels { verb, group, version, resource, subresource, scope, component } = self;
        [verb, group, version, resource, subresource, scope, component]
    }
}

/// The verb of a request for a resource as upstream's metrics, logs and traces name it: an apply is no patch there.
pub(crate) fn verb_of(request: &Request) -> &'static str {
    let info = &request.info;
    match info.verb {
        Verb::Patch if request.header("content-type") == Some("application/apply-patch+yaml") => "APPLY",
        Verb::DeleteCollection => "DELETE",
        _ if matches!(info.subresource.as_str(), "log" | "exec" | "attach" | "portforward" | "proxy") => "CONNECT",
        known => verb(known),
    }
}

/// What metrics call a method that nobody knows.
const OTHER: &str = "other";

/// Methods as metrics name them: those that nobody knows are one.
fn method(method: &Method) -> &'static str {
    const KNOWN: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
    match method.as_str() {
        "HEAD" => "GET",
        name => KNOWN.into_iter().find(|known| name == *known).unwrap_or(OTHER),
    }
}

/// Verbs as metrics name them: some by their method.
const fn verb(verb: Verb) -> &'static str {
    match verb {
        Verb::Create => "POST",
        Verb::Delete => "DELETE",
        Verb::DeleteCollection => "DELETECOLLECTION",
        Verb::Get => "GET",
        Verb::List => "LIST",
        Verb::Patch => "PATCH",
        Verb::Update => "PUT",
        Verb::Watch => "WATCH",
        Verb::Connect => "CONNECT",
        Verb::Other => "",
    }
}

/// What became of a request before and beside what it asks for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Turn {
    /// How long it had to wait for its turn.
    pub(crate) waited: Duration,
    /// It got none, or its time was over before it was done.
    pub(crate) ended: bool,
    /// It was allowed, and so came to whoever serves it.
    pub(crate) served: bool,
}

/// One request's labels.
pub(crate) struct Label {
    metrics: Arc<Metrics>,
    labels: Labels,
    dry_run: &'static str,
    /// The size of the body that it came with, if it writes.
    body: Option<(Verb, u64)>,
    /// A part of a server of this cluster asks.
    is_own: bool,
    /// Its answer is only the beginning.
    lasts_on: bool,
    _running: Counted,
}

impl Label {
    /// The answer, of which it is counted when it is cut short. What is in memory never is.
    pub(crate) fn watch_over(&self, response: Response) -> Response {
        if response.body().is_in_memory() {
            return response;
        }
        let (metrics, labels) = (self.metrics.clone(), self.labels.clone());
        response
            .map(|body| body.cut_short(Box::new(move || metrics.aborts.with_label_values(&labels.values()[..6]).inc())))
    }

    /// Notes the answer, and how the request came to its turn.
    pub(crate) fn finish(mut self, response: &Response, elapsed: Duration, turn: &Turn) {
        let exists = ![StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED].contains(&response.status());
        if !turn.served || !exists {
            // What does not exist, or was refused before anybody looked, must not make a series for each name that a
            // stranger tries.
            self.body = None;
            self.labels = Labels::bare(self.labels.verb, self.labels.scope, "");
        }
        let Label { metrics, labels, dry_run, body, is_own, lasts_on, .. } = self;
        let key = SeriesKey { labels, code: response.status(), dry_run };
        let [verb, group, version, resource, subresource, scope, component] = key.labels.values();
        metrics.count(&key, |series| {
            series.requests.inc();
            series.durations.observe(elapsed.as_secs_f64());
            if dry_run.is_empty() && !lasts_on {
                series.slis(&metrics, &key).observe(elapsed.saturating_sub(turn.waited).as_secs_f64());
            }
            if matches!(verb, "GET" | "LIST")
                && let Some(size) = http_body::Body::size_hint(response.body()).exact()
            {
                series.sizes(&metrics, &key).observe(size as f64);
            }
        });
        if turn.ended {
            let with_code = [verb, group, version, resource, subresource, scope, component, key.code.as_str()];
            metrics.terminations.with_label_values(&with_code).inc();
        }
        if let Some((verb, size)) = body {
            metrics.body_sizes.with_label_values(&[group, resource, verb.name()]).observe(size as f64);
        }
        if is_own {
            metrics.own.with_label_values(&[verb, group, resource, subresource]).inc();
        }
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
    async fn serve(&self, request: Request) -> Result<Response, Status> {
        let format = MetricsFormat::of(request.header("accept").unwrap_or_default());
        let (families, natives) = self.1.apply(self.0.registry.gather());
        let out = if format.protobuf {
            protobuf::encode(&families, &natives)
        } else {
            let mut out = Vec::new();
            TextEncoder::new().encode(&families, &mut out).map_err(Status::internal_error)?;
            out
        };
        Ok(response::bytes(StatusCode::OK, &format.name(), out.into()))
    }
}
