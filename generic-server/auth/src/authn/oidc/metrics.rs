//! Metrics of identity providers, under upstream's names.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus::{GaugeVec, HistogramOpts, HistogramVec, IntGaugeVec, Opts, Registry};

use crate::reload::hash;

const BUCKETS: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The metrics of all providers.
#[derive(Clone)]
pub struct OidcMetrics {
    latency: HistogramVec,
    fetched: GaugeVec,
    key_sets: IntGaugeVec,
    server: String,
}

impl OidcMetrics {
    /// Metrics of the server with this identity.
    pub fn new(registry: &Registry, server: &str) -> Self {
        let name = |name: &str| format!("apiserver_authentication_jwt_authenticator_{name}");
        let latency = HistogramOpts::new(name("latency_seconds"), "Time to the verdict on a token that is not cached.");
        let fetched = Opts::new(name("jwks_fetch_last_timestamp_seconds"), "When keys were fetched last.");
        let key_sets = Opts::new(name("jwks_fetch_last_key_set_info"), "The hash of the keys that were fetched last.");
        let issuer = ["jwt_issuer_hash", "apiserver_id_hash"];
        let metrics = OidcMetrics {
            latency: HistogramVec::new(latency.buckets(BUCKETS.to_vec()), &["result", "jwt_issuer_hash"])
                .expect("valid names"),
            fetched: GaugeVec::new(fetched, &["result", issuer[0], issuer[1]]).expect("valid names"),
            key_sets: IntGaugeVec::new(key_sets, &[issuer[0], issuer[1], "hash"]).expect("valid names"),
            server: hash(server.as_bytes()),
        };
        for collector in [
            Box::new(metrics.latency.clone()) as Box<dyn prometheus::core::Collector>,
            Box::new(metrics.fetched.clone()),
            Box::new(metrics.key_sets.clone()),
        ] {
            registry.register(collector).expect("there is one set of identity providers");
        }
        metrics
    }

    /// Those of one provider.
    pub(super) fn of(&self, issuer: &str) -> IssuerMetrics {
        IssuerMetrics { all: self.clone(), issuer: hash(issuer.as_bytes()), key_set: Default::default() }
    }
}

/// The metrics of one provider.
pub(super) struct IssuerMetrics {
    all: OidcMetrics,
    issuer: String,
    /// The hash of the keys that were fetched last.
    key_set: std::sync::Mutex<String>,
}

impl Clone for IssuerMetrics {
    fn clone(&self) -> Self {
        IssuerMetrics { all: self.all.clone(), issuer: self.issuer.clone(), key_set: Default::default() }
    }
}

impl IssuerMetrics {
    pub(super) fn judged(&self, good: bool, took: Duration) {
        let result = if good { "success" } else { "failure" };
        self.all.latency.with_label_values(&[result, &self.issuer]).observe(took.as_secs_f64());
    }

    pub(super) fn keys_fetched(&self, document: &[u8]) {
        let mut last = self.key_set.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // A family without a member of these labels has nothing to remove.
        let _ = self.all.key_sets.remove_label_values(&[&self.issuer, &self.all.server, &last]);
        *last = hash(document);
        self.all.key_sets.with_label_values(&[&self.issuer, &self.all.server, &last]).set(1);
        self.fetch("success");
    }

    pub(super) fn keys_failed(&self) {
        self.fetch("failure");
    }

    fn fetch(&self, result: &str) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64());
        self.all.fetched.with_label_values(&[result, &self.issuer, &self.all.server]).set(now);
    }

    /// Forgets the provider, which is no longer configured.
    pub(super) fn remove(&self) {
        let last = self.key_set.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _ = self.all.key_sets.remove_label_values(&[&self.issuer, &self.all.server, &last]);
        for result in ["success", "failure"] {
            let _ = self.all.fetched.remove_label_values(&[result, &self.issuer, &self.all.server]);
        }
    }
}
