//! How long it took to tell whether a write changes nothing but when it was made.

use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

use machinery::{
    Value,
    patch::apply::{Compared, keep_times},
};
use prometheus::{Histogram, HistogramOpts, HistogramVec};

/// Seconds.
const BUCKETS: [f64; 10] = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0];

/// The family, which is one in a process, and what is counted by the outcome.
pub(super) static COMPARISONS: LazyLock<(HistogramVec, [Histogram; 3])> = LazyLock::new(|| {
    let opts = HistogramOpts::new(
        "apiserver_request_timestamp_comparison_time",
        "Time to tell whether an update changes nothing but times, in seconds.",
    );
    let family = HistogramVec::new(opts.buckets(BUCKETS.to_vec()), &["code_path"]).expect("constant names are valid");
    let paths = ["unequal_objects_fast", "unequal_objects_slow", "equal_objects"];
    let of_paths = paths.map(|path| family.with_label_values(&[path]));
    (family, of_paths)
});

/// [`keep_times`], timed.
pub(crate) fn keep_times_timed(old: &Value, new: &mut Value) {
    let begun = Instant::now();
    let outcome = keep_times(old, new);
    note(outcome, begun.elapsed());
}

fn note(outcome: Compared, took: Duration) {
    COMPARISONS.1[outcome as usize].observe(took.as_secs_f64());
}
