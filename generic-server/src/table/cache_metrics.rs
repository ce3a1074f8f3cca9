//! What the watch caches of all resources have seen and done, read when somebody looks.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use arc_swap::ArcSwap;
use prometheus::{
    core::{Collector, Desc},
    proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType},
};
use storage::cache::{FoundBy, Metrics, Waits};

use super::ResourceTable;
use crate::registry::Lister;

/// What the caches of the resources in these tables have seen.
pub struct CacheMetrics {
    tables: Vec<Arc<ArcSwap<ResourceTable>>>,
    described: Vec<Desc>,
}

/// A family of metrics.
struct Family {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    /// The labels beside [`LABELS`].
    labels: &'static [&'static str],
    read: Read,
}

/// How it is read of a cache.
enum Read {
    /// One number.
    One(fn(&Metrics) -> u64),
    /// One number, if it is not zero.
    Any(fn(&Metrics) -> u64),
    /// Numbers by the values of the other labels.
    Several(fn(&Metrics, &Lister) -> Labelled),
    /// How long reads have waited.
    Waits,
}

/// Numbers by the values of labels.
type Labelled = Vec<(Vec<String>, u64)>;

const LABELS: [&str; 2] = ["group", "resource"];

const fn family(name: &'static str, help: &'static str, kind: MetricType, read: Read) -> Family {
    Family { name, help, kind, labels: &[], read }
}

const fn counter(name: &'static str, help: &'static str, read: fn(&Metrics) -> u64) -> Family {
    family(name, help, MetricType::COUNTER, Read::One(read))
}

const fn gauge(name: &'static str, help: &'static str, read: fn(&Metrics) -> u64) -> Family {
    family(name, help, MetricType::GAUGE, Read::One(read))
}

const fn of_few(name: &'static str, help: &'static str, read: fn(&Metrics) -> u64) -> Family {
    family(name, help, MetricType::COUNTER, Read::Any(read))
}

const FAMILIES: [Family; 19] = [
    gauge("apiserver_resource_objects", "Stored objects by resource.", |m| m.objects),
    gauge("apiserver_resource_size_estimate_bytes", "Bytes of the JSON of stored objects.", |m| m.object_bytes),
    gauge("apiserver_watch_cache_resource_version", "The resource version of a watch cache.", |m| {
        m.revision % 1_000_000_000_000_000
    }),
    gauge("watch_cache_capacity", "Changes that a watch cache keeps.", |m| m.window_changes),
    counter("apiserver_storage_events_received_total", "Changes that came from the storage.", |m| m.changes),
    counter("apiserver_watch_cache_events_received_total", "Changes that a watch cache has taken up.", |m| m.changes),
    counter("apiserver_watch_cache_events_dispatched_total", "Changes that a watch cache has shown to watches.", |m| {
        m.changes
    }),
    counter("apiserver_watch_cache_initializations_total", "Times that a watch cache was filled.", |m| m.lists),
    of_few("etcd_bookmark_total", "Times that the storage has told how far it is.", |m| m.bookmarks),
    of_few("apiserver_init_events_total", "Objects that watches have begun with.", |m| m.initial_events),
    counter("apiserver_storage_list_total", "Lists that were read from the storage.", |m| m.lists + m.store_reads),
    counter("apiserver_storage_list_fetched_objects_total", "Objects that lists have read from the storage.", |m| {
        m.store_objects
    }),
    counter("apiserver_storage_list_evaluated_objects_total", "Objects of the storage that lists have tested.", |m| {
        m.store_objects
    }),
    counter("apiserver_storage_list_returned_objects_total", "Objects that lists of the storage have given.", |m| {
        m.store_objects
    }),
    Family {
        labels: &["index"],
        ..family(
            "apiserver_cache_list_total",
            "Lists that a watch cache has answered.",
            MetricType::COUNTER,
            Read::Several(|m, lister| searches(m, lister, |(lists, _)| lists)),
        )
    },
    Family {
        labels: &["index"],
        ..family(
            "apiserver_cache_list_fetched_objects_total",
            "Objects that a watch cache has looked at for lists.",
            MetricType::COUNTER,
            Read::Several(|m, lister| searches(m, lister, |(_, objects)| objects)),
        )
    },
    of_few("apiserver_cache_list_returned_objects_total", "Objects that a watch cache has listed.", |m| m.listed),
    Family {
        labels: &["success", "fallback"],
        ..family(
            "apiserver_watch_cache_consistent_read_total",
            "Reads of the latest state, by whether a watch cache has answered them.",
            MetricType::COUNTER,
            Read::Several(|m, _| latest_reads(m)),
        )
    },
    family(
        "apiserver_watch_cache_read_wait_seconds",
        "Time that reads have waited for a watch cache to be fresh, in seconds.",
        MetricType::HISTOGRAM,
        Read::Waits,
    ),
];

/// Of the searches that there were, by the index.
fn searches(metrics: &Metrics, lister: &Lister, read: fn((u64, u64)) -> u64) -> Labelled {
    let kinds = [FoundBy::Walk, FoundBy::Field, FoundBy::Label];
    let there = kinds.iter().zip(metrics.searches).filter(|(_, (lists, _))| *lists > 0);
    there.map(|(by, search)| (vec![index(*by, lister)], read(search))).collect()
}

/// What an index is called. All labels are one, for keys of labels are anybody's.
fn index(by: FoundBy, lister: &Lister) -> String {
    let name = |field: &usize| lister.row.selectable_fields[*field].name.to_string();
    match by {
        FoundBy::Walk => String::new(),
        FoundBy::Field => format!("f:{}", lister.indexed_fields().first().map(name).unwrap_or_default()),
        FoundBy::Label => "l".to_owned(),
    }
}

fn latest_reads(metrics: &Metrics) -> Labelled {
    let flags = [false, true];
    let all = flags.into_iter().flat_map(|success| flags.map(|fallback| (success, fallback)));
    let read = |(success, fallback): (bool, bool)| {
        let count = metrics.latest_reads[usize::from(success)][usize::from(fallback)];
        (count > 0).then(|| (vec![success.to_string(), fallback.to_string()], count))
    };
    all.filter_map(read).collect()
}

impl CacheMetrics {
    /// Of the resources in these tables.
    pub fn new(tables: Vec<Arc<ArcSwap<ResourceTable>>>) -> Self {
        let describe = |family: &Family| {
            let labels = LABELS.iter().chain(family.labels).map(|label| (*label).to_owned()).collect();
            let desc = Desc::new(family.name.to_owned(), family.help.to_owned(), labels, HashMap::new());
            desc.expect("constant names are valid")
        };
        CacheMetrics { tables, described: FAMILIES.iter().map(describe).collect() }
    }

    /// The listers of all resources whose caches run, each once, and what the caches say.
    fn read(&self) -> Vec<(Arc<Lister>, Metrics)> {
        let mut seen: HashSet<(machinery::Str, machinery::Str)> = HashSet::new();
        let mut all = Vec::new();
        for table in &self.tables {
            for registry in table.load().entries().filter_map(|entry| entry.registry.as_ref()) {
                let lister = registry.lister();
                let Some(cache) = lister.running_cache() else { continue };
                if seen.insert((lister.row.group.clone(), lister.row.plural.clone())) {
                    all.push((lister.clone(), cache.metrics()));
                }
            }
        }
        all
    }
}

impl Collector for CacheMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.described.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let caches = self.read();
        let collect = |family: &Family| {
            let mut metrics = Vec::new();
            for (lister, seen) in &caches {
                let mut add = |others: &[String], set: &dyn Fn(&mut Metric)| {
                    let mut metric = Metric::from_label(labels(lister, family.labels, others));
                    set(&mut metric);
                    metrics.push(metric);
                };
                match family.read {
                    Read::One(read) => add(&[], &|metric| number(metric, family.kind, read(seen))),
                    Read::Any(read) if read(seen) > 0 => add(&[], &|metric| number(metric, family.kind, read(seen))),
                    Read::Several(read) => {
                        for (others, value) in read(seen, lister) {
                            add(&others, &|metric| number(metric, family.kind, value));
                        }
                    }
                    Read::Waits if seen.waits != Waits::default() => {
                        add(&[], &|metric| metric.set_histogram(histogram(&seen.waits)));
                    }
                    Read::Any(_) | Read::Waits => {}
                }
            }
            let mut all = MetricFamily::default();
            all.set_name(family.name.to_owned());
            all.set_help(family.help.to_owned());
            all.set_field_type(family.kind);
            all.set_metric(metrics);
            all
        };
        FAMILIES.iter().map(collect).filter(|family| !family.get_metric().is_empty()).collect()
    }
}

fn labels(lister: &Lister, others: &[&str], values: &[String]) -> Vec<LabelPair> {
    let own = LABELS.into_iter().zip([lister.row.group.as_str(), lister.row.plural.as_str()]);
    let all = own.chain(others.iter().copied().zip(values.iter().map(String::as_str)));
    let mut pairs: Vec<LabelPair> = all
        .map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name(name.to_owned());
            pair.set_value(value.to_owned());
            pair
        })
        .collect();
    pairs.sort_by(|a, b| a.name().cmp(b.name()));
    pairs
}

fn number(metric: &mut Metric, kind: MetricType, value: u64) {
    if kind == MetricType::GAUGE {
        let mut gauge = Gauge::default();
        gauge.set_value(value as f64);
        metric.set_gauge(gauge);
    } else {
        let mut counter = Counter::default();
        counter.set_value(value as f64);
        metric.set_counter(counter);
    }
}

fn histogram(waits: &Waits) -> Histogram {
    let mut count = 0;
    let buckets = Waits::BOUNDS.iter().zip(waits.counts).map(|(bound, here)| {
        count += here;
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(*bound);
        bucket.set_cumulative_count(count);
        bucket
    });
    let mut histogram = Histogram::default();
    histogram.set_bucket(buckets.collect());
    histogram.set_sample_count(waits.counts.iter().sum());
    histogram.set_sample_sum(waits.sum.as_secs_f64());
    histogram
}
