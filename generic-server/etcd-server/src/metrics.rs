//! Metrics, under the names that etcd's dashboards and alerts know.

use prometheus::{
    Encoder as _, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
    process_collector::ProcessCollector,
};

use crate::{VERSION, database::Database};

/// See the module.
#[derive(Clone)]
pub(crate) struct Metrics {
    registry: Registry,
    /// Calls that were answered, by service, method and code.
    pub(crate) handled: IntCounterVec,
    keys: IntGauge,
    revision: IntGauge,
    compacted: IntGauge,
    size: IntGauge,
    /// Streams of watches that are open.
    pub(crate) streams: IntGauge,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let registry = Registry::new();
        let handled = IntCounterVec::new(
            Opts::new("grpc_server_handled_total", "Calls that were answered."),
            &["grpc_service", "grpc_method", "grpc_code"],
        )
        .expect("the names are valid");
        let version = IntGaugeVec::new(Opts::new("etcd_server_version", "The version, 1."), &["server_version"]);
        let version = version.expect("the names are valid");
        version.with_label_values(&[VERSION]).set(1);
        let gauge = |name: &str, help: &str| {
            let gauge = IntGauge::new(name, help).expect("the name is valid");
            registry.register(Box::new(gauge.clone())).expect("each is registered once");
            gauge
        };
        gauge("etcd_server_has_leader", "Whether there is a leader.").set(1);
        gauge("etcd_server_is_leader", "Whether this member is the leader.").set(1);
        let metrics = Metrics {
            keys: gauge("etcd_debugging_mvcc_keys_total", "Keys."),
            revision: gauge("etcd_debugging_mvcc_current_revision", "The current revision."),
            compacted: gauge("etcd_debugging_mvcc_compact_revision", "The revision that was compacted to."),
            size: gauge("etcd_mvcc_db_total_size_in_bytes", "Bytes on the disk."),
            streams: gauge("etcd_debugging_mvcc_watch_stream_total", "Open streams of watches."),
            handled,
            registry,
        };
        let more: [Box<dyn prometheus::core::Collector>; 3] =
            [Box::new(metrics.handled.clone()), Box::new(version), Box::new(ProcessCollector::for_self())];
        for collector in more {
            metrics.registry.register(collector).expect("each is registered once");
        }
        metrics
    }

    /// All metrics as text.
    pub(crate) async fn text(&self, database: &Database) -> Vec<u8> {
        self.keys.set(database.keys() as i64);
        self.revision.set(database.revision());
        self.compacted.set(database.compacted());
        // A store that is closed has no size.
        self.size.set(database.size().await.map_or(0, |size| size as i64));
        let mut text = Vec::new();
        // Writing to memory does not fail.
        let _ = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        text
    }
}
