//! What is counted of requests to other servers, under the names of upstream's client.

use std::{sync::LazyLock, time::Duration};

use http::{Method, StatusCode};
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, core::Collector};

use crate::certificates;

/// The families, which are one in a process.
struct Families {
    requests: IntCounterVec,
    durations: HistogramVec,
    request_sizes: HistogramVec,
    response_sizes: HistogramVec,
}

/// Seconds.
const SECONDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
const BYTES: [f64; 11] =
    [64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0];

static FAMILIES: LazyLock<Families> = LazyLock::new(|| {
    let histogram = |name: &str, help: &str, buckets: &[f64]| {
        let opts = HistogramOpts::new(format!("rest_client_{name}"), help).buckets(buckets.to_vec());
        HistogramVec::new(opts, &["verb", "host"]).expect("constant names are valid")
    };
    let requests = Opts::new("rest_client_requests_total", "Requests to other servers by what came of them.");
    Families {
        requests: IntCounterVec::new(requests, &["code", "method", "host"]).expect("constant names are valid"),
        durations: histogram("request_duration_seconds", "Time of requests to other servers, in seconds.", &SECONDS),
        request_sizes: histogram("request_size_bytes", "Bytes of the bodies that other servers were sent.", &BYTES),
        response_sizes: histogram("response_size_bytes", "Bytes of the answers of other servers.", &BYTES),
    }
});

/// Has what is counted of requests to other servers, and of their certificates, shown among these metrics.
pub fn register_requests(registry: &Registry) {
    let Families { requests, durations, request_sizes, response_sizes } = &*FAMILIES;
    let all: [Box<dyn Collector>; 4] = [
        Box::new(requests.clone()),
        Box::new(durations.clone()),
        Box::new(request_sizes.clone()),
        Box::new(response_sizes.clone()),
    ];
    for family in all {
        // Another server in the same process (of a test) may have shown its own.
        let _ = registry.register(family);
    }
    certificates::register(registry);
}

/// A request with a body of so many bytes has an answer, or none.
pub(crate) fn sent(method: &Method, host: &str, bytes: usize, answer: Option<StatusCode>) {
    let code = answer.as_ref().map_or("<error>", StatusCode::as_str);
    FAMILIES.requests.with_label_values(&[code, method.as_str(), host]).inc();
    if bytes > 0 {
        FAMILIES.request_sizes.with_label_values(&[method.as_str(), host]).observe(bytes as f64);
    }
}

/// A call, with all its requests, took so long.
pub(crate) fn took(method: &Method, host: &str, time: Duration) {
    FAMILIES.durations.with_label_values(&[method.as_str(), host]).observe(time.as_secs_f64());
}

/// An answer has so many bytes.
pub(crate) fn received(method: &Method, host: &str, bytes: usize) {
    FAMILIES.response_sizes.with_label_values(&[method.as_str(), host]).observe(bytes as f64);
}
