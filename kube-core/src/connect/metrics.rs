//! Metrics of streams, under upstream's names.

use prometheus::{IntCounterVec, Opts, Registry};

use super::stream::Streamed;

/// Counters of streams.
#[derive(Clone)]
pub struct StreamMetrics {
    translated: IntCounterVec,
    tunnelled: IntCounterVec,
    routed: IntCounterVec,
}

impl Default for StreamMetrics {
    fn default() -> Self {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            IntCounterVec::new(Opts::new(name, help), labels).expect("a constant name and constant labels are valid")
        };
        StreamMetrics {
            translated: counter(
                "apiserver_stream_translator_requests_total",
                "Commands that were translated from WebSocket to SPDY, by the code that they came to.",
                &["code"],
            ),
            tunnelled: counter(
                "apiserver_stream_tunnel_requests_total",
                "Requests that forward ports by SPDY through a WebSocket, by the code of their answer.",
                &["code"],
            ),
            routed: counter(
                "apiserver_websocket_streaming_requests_total",
                "Requests for streams, by subresource and by who would speak WebSocket: this server, or the kubelet.",
                &["subresource", "proxy_type"],
            ),
        }
    }
}

impl StreamMetrics {
    /// Counters that the server shows.
    pub fn registered(registry: &Registry) -> Self {
        let metrics = StreamMetrics::default();
        for counter in [&metrics.translated, &metrics.tunnelled, &metrics.routed] {
            registry.register(Box::new(counter.clone())).expect("each name is registered once");
        }
        metrics
    }

    pub(super) fn translated(&self, code: u16) {
        self.translated.with_label_values(&[&code.to_string()]).inc();
    }

    pub(super) fn tunnelled(&self, code: u16) {
        self.tunnelled.with_label_values(&[&code.to_string()]).inc();
    }

    pub(super) fn routed(&self, what: Streamed, by_kubelet: bool) {
        let subresource = match what {
            Streamed::Exec => "exec",
            Streamed::Attach => "attach",
            Streamed::PortForward => "portforward",
        };
        let who = if by_kubelet { "proxied_to_kubelet" } else { "translated_at_apiserver" };
        self.routed.with_label_values(&[subresource, who]).inc();
    }
}
