//! Metrics of work queues, under client-go's names.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use prometheus::{
    GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};

/// Who tells for how long work has gone on: all of it together, and the longest.
pub(super) trait Unfinished: Send + Sync {
    fn unfinished(&self) -> (Duration, Duration);
}

/// The families; clones count into the same ones.
#[derive(Clone)]
pub(crate) struct Metrics {
    depth: IntGaugeVec,
    adds: IntCounterVec,
    retries: IntCounterVec,
    queued: HistogramVec,
    worked: HistogramVec,
    running: Running,
}

/// One queue's.
pub(super) struct OfQueue {
    pub(super) depth: IntGauge,
    pub(super) adds: IntCounter,
    pub(super) retries: IntCounter,
    pub(super) queued: prometheus::Histogram,
    pub(super) worked: prometheus::Histogram,
}

/// What is measured when it is asked for.
#[derive(Clone)]
struct Running {
    unfinished: GaugeVec,
    longest: GaugeVec,
    queues: Arc<Mutex<HashMap<&'static str, Weak<dyn Unfinished>>>>,
}

impl Metrics {
    /// Families that are registered; none of a registry that has them already.
    pub(crate) fn new(registry: &Registry) -> Self {
        let buckets = prometheus::exponential_buckets(1e-8, 10.0, 10).expect("constant arguments");
        let histogram = |name: &str, help: &str| {
            let options = HistogramOpts::new(name, help).buckets(buckets.clone());
            HistogramVec::new(options, &["name"]).expect("a valid name")
        };
        let counter =
            |name: &str, help: &str| IntCounterVec::new(Opts::new(name, help), &["name"]).expect("a valid name");
        let gauge = |name: &str, help: &str| GaugeVec::new(Opts::new(name, help), &["name"]).expect("a valid name");
        let depth = Opts::new("workqueue_depth", "Keys that wait in a work queue.");
        let metrics = Metrics {
            depth: IntGaugeVec::new(depth, &["name"]).expect("a valid name"),
            adds: counter("workqueue_adds_total", "Keys that were added to a work queue."),
            retries: counter("workqueue_retries_total", "Keys that were added again because work on them has failed."),
            queued: histogram("workqueue_queue_duration_seconds", "How long keys wait before they are worked on."),
            worked: histogram("workqueue_work_duration_seconds", "How long the work on a key takes."),
            running: Running {
                unfinished: gauge(
                    "workqueue_unfinished_work_seconds",
                    "Seconds of work that is not finished: large numbers show workers that are stuck.",
                ),
                longest: gauge(
                    "workqueue_longest_running_processor_seconds",
                    "For how many seconds the longest work has been going on.",
                ),
                queues: Arc::default(),
            },
        };
        let families: [Box<dyn Collector>; 6] = [
            Box::new(metrics.depth.clone()),
            Box::new(metrics.adds.clone()),
            Box::new(metrics.retries.clone()),
            Box::new(metrics.queued.clone()),
            Box::new(metrics.worked.clone()),
            Box::new(metrics.running.clone()),
        ];
        for family in families {
            registry.register(family).expect("each name is registered once");
        }
        metrics
    }

    /// Those of a queue.
    pub(super) fn queue(&self, name: &'static str, queue: Weak<dyn Unfinished>) -> OfQueue {
        self.running.queues.lock().unwrap_or_else(PoisonError::into_inner).insert(name, queue);
        let name = &[name];
        OfQueue {
            depth: self.depth.with_label_values(name),
            adds: self.adds.with_label_values(name),
            retries: self.retries.with_label_values(name),
            queued: self.queued.with_label_values(name),
            worked: self.worked.with_label_values(name),
        }
    }
}

impl Collector for Running {
    fn desc(&self) -> Vec<&Desc> {
        self.unfinished.desc().into_iter().chain(self.longest.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        for (name, queue) in self.queues.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let (sum, longest) = queue.upgrade().map(|queue| queue.unfinished()).unwrap_or_default();
            self.unfinished.with_label_values(&[*name]).set(sum.as_secs_f64());
            self.longest.with_label_values(&[*name]).set(longest.as_secs_f64());
        }
        self.unfinished.collect().into_iter().chain(self.longest.collect()).collect()
    }
}
