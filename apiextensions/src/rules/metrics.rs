//! How long custom resources' rules take, and to tell what of an object is as it was. Upstream's names.

use std::{sync::LazyLock, time::Duration};

use prometheus::{Histogram, HistogramOpts, Registry, exponential_buckets};

/// The families, which are one in a process.
static FAMILIES: LazyLock<[Histogram; 3]> = LazyLock::new(|| {
    let compilations =
        HistogramOpts::new("apiserver_cel_compilation_duration_seconds", "Time to compile rules, in seconds.");
    let evaluations =
        HistogramOpts::new("apiserver_cel_evaluation_duration_seconds", "Time to evaluate rules, in seconds.");
    let comparisons = HistogramOpts::new(
        "apiextensions_apiserver_validation_ratcheting_seconds",
        "Time of updates to compare what is wrong with what was there before, in seconds.",
    );
    let comparisons = comparisons.buckets(exponential_buckets(0.00001, 4.0, 10).expect("constant arguments"));
    [compilations, evaluations, comparisons].map(|opts| Histogram::with_opts(opts).expect("constant names are valid"))
});

/// Adds them to those that the server shows.
pub(crate) fn register(registry: &Registry) {
    for family in &*FAMILIES {
        registry.register(Box::new(family.clone())).expect("each name is registered once");
    }
}

/// The rules of a schema were compiled.
pub(super) fn compiled(took: Duration) {
    FAMILIES[0].observe(took.as_secs_f64());
}

/// The rules of a schema were evaluated on a value.
pub(super) fn evaluated(took: Duration) {
    FAMILIES[1].observe(took.as_secs_f64());
}

/// What is wrong with an update was compared with what was there before.
pub(crate) fn compared(took: Duration) {
    FAMILIES[2].observe(took.as_secs_f64());
}
