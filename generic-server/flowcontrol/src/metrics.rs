//! Metrics, under upstream's names (`apiserver_flowcontrol_*`).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use histograms::{Histogram, HistogramVec};
use prometheus::{Gauge, GaugeVec, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use crate::{
    Nanos, Rejection, Work,
    queue_set::QueueSet,
    timing::{TimingHistogram, TimingHistograms},
};

const SECONDS: [f64; 13] = [0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];
const LENGTHS: [f64; 8] = [0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];
const SEATS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0];
const WATCHERS: [f64; 6] = [0.0, 1.0, 10.0, 100.0, 1000.0, 10000.0];
const USED: [f64; 13] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];
const REQUESTS: [f64; 10] = [0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0];
const DEMANDS: [f64; 12] = [0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0, 6.0];
const KINDS: [f64; 15] = [0.0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];

const FLOW: [&str; 2] = ["priority_level", "flow_schema"];
const LEVEL: [&str; 1] = ["priority_level"];

/// All families.
pub struct Metrics {
    dispatched: IntCounterVec,
    rejected: IntCounterVec,
    inqueue: IntGaugeVec,
    inqueue_seats: IntGaugeVec,
    executing: IntGaugeVec,
    executing_seats: IntGaugeVec,
    queue_length: HistogramVec,
    wait: HistogramVec,
    execution: HistogramVec,
    estimated: HistogramVec,
    watchers: HistogramVec,
    current_r: GaugeVec,
    pub(crate) nominal: GaugeVec,
    pub(crate) lower: GaugeVec,
    pub(crate) upper: GaugeVec,
    pub(crate) current: GaugeVec,
    pub(crate) demand_high: GaugeVec,
    pub(crate) demand_average: GaugeVec,
    pub(crate) demand_deviation: GaugeVec,
    pub(crate) demand_smoothed: GaugeVec,
    pub(crate) target: GaugeVec,
    pub(crate) fair_fraction: Gauge,
    seat_utilization: TimingHistograms,
    request_utilization: TimingHistograms,
    demand: TimingHistograms,
    kinds: TimingHistograms,
    flows: Mutex<HashMap<(String, String), Arc<FlowMetrics>>>,
}

/// The counters of one flow schema on one level, looked up once.
pub struct FlowMetrics {
    level: String,
    schema: String,
    dispatched: IntCounter,
    rejected: IntCounterVec,
    inqueue: IntGauge,
    inqueue_seats: IntGauge,
    executing: IntGauge,
    executing_seats: IntGauge,
    queue_length: Histogram,
    waited: [Histogram; 2],
    execution: [Histogram; 2],
    estimated: Histogram,
    watchers: Histogram,
}

/// What one level observes of itself.
pub(crate) struct LevelMetrics {
    current_r: Gauge,
    seats: TimingHistogram,
    requests_executing: TimingHistogram,
    requests_waiting: TimingHistogram,
    demand: TimingHistogram,
    kinds: [[TimingHistogram; 2]; 2],
}

fn counters(name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    IntCounterVec::new(Opts::new(format!("apiserver_flowcontrol_{name}"), help), labels).expect(VALID)
}

fn gauges(name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
    IntGaugeVec::new(Opts::new(format!("apiserver_flowcontrol_{name}"), help), labels).expect(VALID)
}

fn level_gauges(name: &str, help: &str) -> GaugeVec {
    GaugeVec::new(Opts::new(format!("apiserver_flowcontrol_{name}"), help), &LEVEL).expect(VALID)
}

fn histograms(name: &str, help: &str, buckets: &[f64], labels: &[&str]) -> HistogramVec {
    let opts = HistogramOpts::new(format!("apiserver_flowcontrol_{name}"), help).buckets(buckets.to_vec());
    HistogramVec::new(opts, labels).expect(VALID)
}

fn timing(name: &str, help: &str, bounds: &'static [f64], labels: &'static [&'static str]) -> TimingHistograms {
    TimingHistograms::new(&format!("apiserver_flowcontrol_{name}"), help, bounds, labels)
}

const VALID: &str = "constant names and labels are valid";

impl Metrics {
    /// All families, registered.
    pub fn new(registry: &Registry) -> Self {
        let wait_labels = ["priority_level", "flow_schema", "execute"];
        let type_labels = ["priority_level", "flow_schema", "type"];
        let fair = Opts::new("apiserver_flowcontrol_seat_fair_frac", "Fraction of what they want that levels get.");
        let metrics = Metrics {
            dispatched: counters("dispatched_requests_total", "Requests that ran.", &FLOW),
            rejected: counters(
                "rejected_requests_total",
                "Requests that were refused.",
                &["priority_level", "flow_schema", "reason"],
            ),
            inqueue: gauges("current_inqueue_requests", "Requests that wait.", &FLOW),
            inqueue_seats: gauges("current_inqueue_seats", "Seats that requests wait for.", &FLOW),
            executing: gauges("current_executing_requests", "Requests that run.", &FLOW),
            executing_seats: gauges("current_executing_seats", "Seats of requests that run.", &FLOW),
            queue_length: histograms(
                "request_queue_length_after_enqueue",
                "Length of a queue, as each request finds it.",
                &LENGTHS,
                &FLOW,
            ),
            wait: histograms(
                "request_wait_duration_seconds",
                "Time that requests waited, in seconds.",
                &SECONDS,
                &wait_labels,
            ),
            execution: histograms(
                "request_execution_seconds",
                "Time that requests ran, in seconds.",
                &SECONDS,
                &type_labels,
            ),
            estimated: histograms("work_estimated_seats", "Seats that requests were estimated to take.", &SEATS, &FLOW),
            watchers: histograms("watch_count_samples", "Watchers of what requests change.", &WATCHERS, &FLOW),
            current_r: level_gauges("current_r", "Virtual time of the last change, in seat seconds."),
            nominal: level_gauges("nominal_limit_seats", "Nominal seats of each level."),
            lower: level_gauges("lower_limit_seats", "Seats that a level never lends."),
            upper: level_gauges("upper_limit_seats", "Seats that a level has at most with what it borrows."),
            current: level_gauges("current_limit_seats", "Seats that a level has now."),
            demand_high: level_gauges("demand_seats_high_watermark", "Greatest demand for seats in the last period."),
            demand_average: level_gauges("demand_seats_average", "Mean demand for seats in the last period."),
            demand_deviation: level_gauges(
                "demand_seats_stdev",
                "Standard deviation of the demand for seats in the last period.",
            ),
            demand_smoothed: level_gauges("demand_seats_smoothed", "Smoothed demand for seats."),
            target: level_gauges("target_seats", "Seats that a level would be given if all could be."),
            fair_fraction: Gauge::with_opts(fair).expect(VALID),
            seat_utilization: timing(
                "priority_level_seat_utilization",
                "Part of the seats in use, at the end of every nanosecond.",
                &USED,
                &["priority_level", "phase"],
            ),
            request_utilization: timing(
                "priority_level_request_utilization",
                "Requests as a part of the limit, at the end of every nanosecond.",
                &REQUESTS,
                &["phase", "priority_level"],
            ),
            demand: timing(
                "demand_seats",
                "Demand for seats as a part of the nominal ones, at the end of every nanosecond.",
                &DEMANDS,
                &LEVEL,
            ),
            kinds: timing(
                "read_vs_write_current_requests",
                "Requests as a part of the limit, at the end of every nanosecond.",
                &KINDS,
                &["phase", "request_kind"],
            ),
            flows: Mutex::default(),
        };
        metrics.register(registry);
        metrics
    }

    fn register(&self, registry: &Registry) {
        let collectors: Vec<Box<dyn prometheus::core::Collector>> = vec![
            Box::new(self.dispatched.clone()),
            Box::new(self.rejected.clone()),
            Box::new(self.inqueue.clone()),
            Box::new(self.inqueue_seats.clone()),
            Box::new(self.executing.clone()),
            Box::new(self.executing_seats.clone()),
            Box::new(self.queue_length.clone()),
            Box::new(self.wait.clone()),
            Box::new(self.execution.clone()),
            Box::new(self.estimated.clone()),
            Box::new(self.watchers.clone()),
            Box::new(self.current_r.clone()),
            Box::new(self.nominal.clone()),
            Box::new(self.lower.clone()),
            Box::new(self.upper.clone()),
            Box::new(self.current.clone()),
            Box::new(self.demand_high.clone()),
            Box::new(self.demand_average.clone()),
            Box::new(self.demand_deviation.clone()),
            Box::new(self.demand_smoothed.clone()),
            Box::new(self.target.clone()),
            Box::new(self.fair_fraction.clone()),
            Box::new(self.seat_utilization.clone()),
            Box::new(self.request_utilization.clone()),
            Box::new(self.demand.clone()),
            Box::new(self.kinds.clone()),
        ];
        for collector in collectors {
            registry.register(collector).expect("each name is registered once");
        }
    }

    /// The counters of a flow schema on a level.
    pub fn flow(&self, level: &str, schema: &str) -> Arc<FlowMetrics> {
        let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let labels = [level, schema];
            let of_wait = |execute| self.wait.with_label_values(&[level, schema, execute]);
            let of_type = |kind| self.execution.with_label_values(&[level, schema, kind]);
            Arc::new(FlowMetrics {
                level: level.to_owned(),
                schema: schema.to_owned(),
                dispatched: self.dispatched.with_label_values(&labels),
                rejected: self.rejected.clone(),
                inqueue: self.inqueue.with_label_values(&labels),
                inqueue_seats: self.inqueue_seats.with_label_values(&labels),
                executing: self.executing.with_label_values(&labels),
                executing_seats: self.executing_seats.with_label_values(&labels),
                queue_length: self.queue_length.with_label_values(&labels),
                waited: [of_wait("false"), of_wait("true")],
                execution: [of_type("regular"), of_type("watch")],
                estimated: self.estimated.with_label_values(&labels),
                watchers: self.watchers.with_label_values(&labels),
            })
        };
        flows.entry((level.to_owned(), schema.to_owned())).or_insert_with(make).clone()
    }

    pub(crate) fn level(&self, level: &str) -> LevelMetrics {
        let kind = |phase, kind| self.kinds.with(&[phase, kind]);
        LevelMetrics {
            current_r: self.current_r.with_label_values(&[level]),
            seats: self.seat_utilization.with(&[level, "executing"]),
            requests_executing: self.request_utilization.with(&["executing", level]),
            requests_waiting: self.request_utilization.with(&["waiting", level]),
            demand: self.demand.with(&[level]),
            kinds: [
                [kind("waiting", "readOnly"), kind("waiting", "mutating")],
                [kind("executing", "readOnly"), kind("executing", "mutating")],
            ],
        }
    }

    /// What all levels together are compared with.
    pub(crate) fn set_totals(&self, waiting: u64, executing: u64) {
        let now = crate::timing::now();
        for kind in ["readOnly", "mutating"] {
            self.kinds.with(&["waiting", kind]).set_denominator(now, waiting as f64);
            self.kinds.with(&["executing", kind]).set_denominator(now, executing as f64);
        }
    }
}

impl FlowMetrics {
    /// The flow schema's name.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// Notes how many watch what a request changes.
    pub fn watchers(&self, count: u64) {
        self.watchers.observe(count as f64);
    }

    pub(crate) fn estimated(&self, work: &Work) {
        self.estimated.observe(work.max_seats() as f64);
    }

    pub(crate) fn queued(&self, change: i64, work: &Work, length: usize) {
        self.inqueue.add(change);
        self.inqueue_seats.add(change * signed(work.max_seats()));
        if change > 0 {
            self.queue_length.observe(length as f64);
        }
    }

    pub(crate) fn began(&self, work: &Work) {
        self.dispatched.inc();
        self.executing.inc();
        self.executing_seats.add(signed(work.max_seats()));
    }

    pub(crate) fn ended(&self, work: &Work, watch: bool, took: Duration) {
        self.executing.dec();
        self.executing_seats.sub(signed(work.max_seats()));
        self.execution[usize::from(watch)].observe(took.as_secs_f64());
    }

    pub(crate) fn waited(&self, time: Duration, executes: bool) {
        self.waited[usize::from(executes)].observe(time.as_secs_f64());
    }

    pub(crate) fn rejected(&self, reason: Rejection) {
        self.rejected.with_label_values(&[&self.level, &self.schema, reason.name()]).inc();
    }
}

fn signed(seats: u64) -> i64 {
    i64::try_from(seats).unwrap_or(i64::MAX)
}

impl LevelMetrics {
    pub(crate) fn waiting(&self, mutating: bool, change: i64) {
        self.kinds[0][usize::from(mutating)].add(crate::timing::now(), change as f64);
    }

    pub(crate) fn executing(&self, mutating: bool, change: i64) {
        self.kinds[1][usize::from(mutating)].add(crate::timing::now(), change as f64);
    }

    /// What the level looks like now.
    pub(crate) fn observe(&self, now: Nanos, set: &QueueSet) {
        self.current_r.set(set.virtual_time() as f64 / 1e9);
        self.seats.set(now, set.seats_in_use() as f64);
        self.requests_executing.set(now, set.executing() as f64);
        self.requests_waiting.set(now, set.waiting() as f64);
        self.demand.set(now, set.demand() as f64);
    }

    /// What it is compared with: its seats, and its places in queues.
    pub(crate) fn set_limits(&self, now: Nanos, seats: u64, places: u64) {
        self.seats.set_denominator(now, seats as f64);
        self.requests_executing.set_denominator(now, seats as f64);
        self.demand.set_denominator(now, seats as f64);
        self.requests_waiting.set_denominator(now, places as f64);
    }
}
