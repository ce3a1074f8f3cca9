//! Metrics of connections through proxies, under upstream's names.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry};

use super::packet::PacketType;

/// The families.
#[derive(Clone)]
pub struct EgressMetrics {
    starts: IntCounterVec,
    durations: HistogramVec,
    failures: IntCounterVec,
    packets: IntCounterVec,
    stream_errors: IntCounterVec,
    dial_failures: IntCounterVec,
    connections: IntGaugeVec,
}

impl Default for EgressMetrics {
    fn default() -> Self {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            IntCounterVec::new(Opts::new(name, help), labels).expect("constant names are valid")
        };
        let durations =
            HistogramOpts::new("apiserver_egress_dialer_dial_duration_seconds", "Time to a connection, in seconds.");
        let durations = durations.buckets(vec![0.005, 0.025, 0.1, 0.5, 2.5, 12.5]);
        let connections =
            Opts::new("konnectivity_network_proxy_client_client_connections", "Open connections, by their state.");
        EgressMetrics {
            starts: counter(
                "apiserver_egress_dialer_dial_start_total",
                "Connections that were begun.",
                &["protocol", "transport"],
            ),
            durations: HistogramVec::new(durations, &["protocol", "transport"]).expect("constant names are valid"),
            failures: counter(
                "apiserver_egress_dialer_dial_failure_count",
                "Connections that failed: to the proxy, or behind it.",
                &["protocol", "transport", "stage"],
            ),
            packets: counter(
                "konnectivity_network_proxy_client_stream_packets_total",
                "Packets, by direction and type.",
                &["segment", "packet_type"],
            ),
            stream_errors: counter(
                "konnectivity_network_proxy_client_stream_errors_total",
                "Errors of streams, by direction, code and type of packet.",
                &["segment", "grpc_code", "packet_type"],
            ),
            dial_failures: counter(
                "konnectivity_network_proxy_client_dial_failure_total",
                "Connections that failed, by reason.",
                &["reason"],
            ),
            connections: IntGaugeVec::new(connections, &["status"]).expect("constant names are valid"),
        }
    }
}

impl EgressMetrics {
    /// Has them shown among these metrics.
    pub fn registered(registry: &Registry) -> Self {
        let metrics = Self::default();
        let all: [Box<dyn prometheus::core::Collector>; 7] = [
            Box::new(metrics.starts.clone()),
            Box::new(metrics.durations.clone()),
            Box::new(metrics.failures.clone()),
            Box::new(metrics.packets.clone()),
            Box::new(metrics.stream_errors.clone()),
            Box::new(metrics.dial_failures.clone()),
            Box::new(metrics.connections.clone()),
        ];
        for family in all {
            // Another server in the same process (of a test) may have shown its own.
            let _ = registry.register(family);
        }
        metrics
    }

    /// The families of connections that were begun and that failed.
    #[cfg(test)]
    pub(super) fn starts_for_tests(&self) -> (IntCounterVec, IntCounterVec) {
        (self.starts.clone(), self.failures.clone())
    }

    pub(super) fn started(&self, labels: [&str; 2]) {
        self.starts.with_label_values(&labels).inc();
    }

    pub(super) fn took(&self, labels: [&str; 2], time: Duration) {
        self.durations.with_label_values(&labels).observe(time.as_secs_f64());
    }

    pub(super) fn failed(&self, [protocol, transport]: [&str; 2], stage: &str) {
        self.failures.with_label_values(&[protocol, transport, stage]).inc();
    }

    pub(super) fn sent(&self, kind: PacketType) {
        self.packets.with_label_values(&["from_client", kind.name()]).inc();
    }

    pub(super) fn received(&self, kind: PacketType) {
        self.packets.with_label_values(&["to_client", kind.name()]).inc();
    }

    pub(super) fn broken(&self, code: tonic::Code) {
        self.stream_errors.with_label_values(&["to_client", &format!("{code:?}"), ""]).inc();
    }

    pub(super) fn not_dialed(&self, reason: &str) {
        self.dial_failures.with_label_values(&[reason]).inc();
    }

    /// Counts a connection in a state until the guard is dropped.
    pub(super) fn connection(&self, status: &'static str) -> Connection {
        let gauge = self.connections.with_label_values(&[status]);
        gauge.inc();
        Connection(gauge)
    }
}

/// A connection that is counted.
pub(super) struct Connection(prometheus::IntGauge);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.dec();
    }
}
