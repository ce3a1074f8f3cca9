//! Metrics as Prometheus reads them in protobuf: messages `io.prometheus.client.MetricFamily`, each behind its length.
//!
//! Differs: nothing tells when a counter was made.

use histograms::{Buckets, ZERO_THRESHOLD, labels_of};
use machinery::codec::protobuf::wire::{BYTES, FIXED64, VARINT, key, put_bytes, put_varint};
use prometheus::proto::{self, Metric, MetricFamily, MetricType};

use super::shown::Natives;

/// The families, with the native buckets that there are.
pub(super) fn encode(families: &[MetricFamily], natives: &Natives) -> Vec<u8> {
    let (mut out, mut message) = (Vec::new(), Vec::new());
    for family in families {
        message.clear();
        put_family(&mut message, family, natives);
        put_varint(&mut out, message.len() as u64);
        out.extend_from_slice(&message);
    }
    out
}

fn put_family(out: &mut Vec<u8>, family: &MetricFamily, natives: &Natives) {
    let kind = family.get_field_type();
    put_bytes(out, key(1, BYTES), family.name().as_bytes());
    put_bytes(out, key(2, BYTES), family.help().as_bytes());
    put_number(out, 3, number(kind));
    let natives = natives.get(family.name());
    for metric in family.get_metric() {
        let native = natives.and_then(|series| series.get(&labels_of(metric)));
        put_message(out, 4, |out| put_metric(out, kind, metric, native));
    }
}

/// A kind of metrics as it is numbered.
const fn number(kind: MetricType) -> u64 {
    match kind {
        MetricType::COUNTER => 0,
        MetricType::GAUGE => 1,
        MetricType::SUMMARY => 2,
        MetricType::UNTYPED => 3,
        MetricType::HISTOGRAM => 4,
    }
}

fn put_metric(out: &mut Vec<u8>, kind: MetricType, metric: &Metric, native: Option<&Buckets>) {
    for label in metric.get_label() {
        put_message(out, 1, |out| {
            put_bytes(out, key(1, BYTES), label.name().as_bytes());
            put_bytes(out, key(2, BYTES), label.value().as_bytes());
        });
    }
    match kind {
        MetricType::GAUGE => put_message(out, 2, |out| put_double(out, 1, metric.get_gauge().get_value())),
        MetricType::COUNTER => put_message(out, 3, |out| put_double(out, 1, metric.get_counter().get_value())),
        MetricType::HISTOGRAM => put_message(out, 7, |out| put_histogram(out, metric.get_histogram(), native)),
        MetricType::SUMMARY => put_message(out, 4, |out| put_summary(out, metric.get_summary())),
        // There are none here.
        MetricType::UNTYPED => {}
    }
}

fn put_summary(out: &mut Vec<u8>, summary: &proto::Summary) {
    put_number(out, 1, summary.sample_count());
    put_double(out, 2, summary.sample_sum());
    for quantile in summary.get_quantile() {
        put_message(out, 3, |out| {
            put_double(out, 1, quantile.quantile());
            put_double(out, 2, quantile.value());
        });
    }
}

fn put_histogram(out: &mut Vec<u8>, histogram: &proto::Histogram, native: Option<&Buckets>) {
    put_number(out, 1, histogram.get_sample_count());
    put_double(out, 2, histogram.get_sample_sum());
    for bucket in histogram.get_bucket() {
        put_message(out, 3, |out| {
            put_number(out, 1, bucket.cumulative_count());
            put_double(out, 2, bucket.upper_bound());
        });
    }
    let Some(native) = native else { return };
    put_number(out, 5, zigzag(native.schema().into()));
    put_double(out, 6, ZERO_THRESHOLD);
    put_number(out, 7, native.zero());
    let (spans, deltas) = native.spans();
    for (offset, length) in spans {
        put_message(out, 12, |out| {
            put_number(out, 1, zigzag(offset.into()));
            put_number(out, 2, length.into());
        });
    }
    for delta in deltas {
        put_number(out, 13, zigzag(delta));
    }
}

const fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn put_number(out: &mut Vec<u8>, field: u32, number: u64) {
    put_varint(out, key(field, VARINT).into());
    put_varint(out, number);
}

fn put_double(out: &mut Vec<u8>, field: u32, number: f64) {
    put_varint(out, key(field, FIXED64).into());
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_message(out: &mut Vec<u8>, field: u32, write: impl FnOnce(&mut Vec<u8>)) {
    let mut message = Vec::new();
    write(&mut message);
    put_bytes(out, key(field, BYTES), &message);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use prometheus::{Histogram, HistogramOpts, IntCounterVec, IntGauge, Opts, Registry};

    use super::*;

    /// Families of each kind, the histogram with native buckets, as upstream's server sends the like.
    #[test]
    fn families_are_encoded_as_prometheus_reads_them() {
        let registry = Registry::new();
        let counter = IntCounterVec::new(Opts::new("a", "A"), &["l"]).expect("a family");
        let (gauge, opts) = (IntGauge::new("b", "B").expect("a family"), HistogramOpts::new("c", "C"));
        let histogram = Histogram::with_opts(opts.buckets(vec![1.0])).expect("a family");
        counter.with_label_values(&["v"]).inc();
        histogram.observe(0.5);
        registry.register(Box::new(counter)).expect("new");
        registry.register(Box::new(gauge)).expect("new");
        registry.register(Box::new(histogram)).expect("new");
        let mut native = Buckets::default();
        native.observe(0.5);
        let natives = Natives::from([("c".to_owned(), BTreeMap::from([(Vec::new(), native)]))]);
        let half = 0.5f64.to_le_bytes();
        let mut expect = b"\x1d\x0a\x01a\x12\x01A\x18\x00\x22\x13\x0a\x06\x0a\x01l\x12\x01v\x1a\x09\x09".to_vec();
        expect.extend_from_slice(&1f64.to_le_bytes());
        expect.extend_from_slice(b"\x15\x0a\x01b\x12\x01B\x18\x01\x22\x0b\x12\x09\x09");
        expect.extend_from_slice(&0f64.to_le_bytes());
        expect.extend_from_slice(b"\x39\x0a\x01c\x12\x01C\x18\x04\x22\x2f\x3a\x2d\x08\x01\x11");
        expect.extend_from_slice(&half);
        expect.extend_from_slice(b"\x1a\x0b\x08\x01\x11");
        expect.extend_from_slice(&1f64.to_le_bytes());
        expect.extend_from_slice(b"\x28\x06\x31");
        expect.extend_from_slice(&ZERO_THRESHOLD.to_le_bytes());
        expect.extend_from_slice(b"\x38\x00\x62\x04\x08\x0f\x10\x01\x68\x02");
        assert_eq!(encode(&registry.gather(), &natives), expect);
    }
}
