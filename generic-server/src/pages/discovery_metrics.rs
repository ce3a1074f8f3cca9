//! How often discovery was made anew, and for whom, under upstream's names.

use std::sync::LazyLock;

use prometheus::{IntCounter, Registry};

/// What is counted.
#[derive(Clone, Copy)]
pub(super) enum Event {
    /// The documents were made anew.
    Made,
    /// A client asked for what this server alone serves.
    Alone,
    /// A client was given what is known of all servers.
    Hit,
    /// That was made anew for it.
    Miss,
}

/// The families, which are one in a process, in the order of [`Event`].
static FAMILIES: LazyLock<[IntCounter; 4]> = LazyLock::new(|| {
    [
        ("aggregation_count", "Times that discovery was made anew."),
        ("nopeer_requests", "Requests for discovery of this server alone."),
        ("peer_aggregated_cache_hits", "Requests for discovery of all servers that found it made."),
        ("peer_aggregated_cache_misses", "Requests for discovery of all servers for which it was made anew."),
    ]
    .map(|(name, help)| {
        IntCounter::new(format!("aggregator_discovery_{name}_total"), help).expect("constant names are valid")
    })
});

pub(super) fn count(event: Event) {
    FAMILIES[event as usize].inc();
}

/// Has them shown among these metrics.
pub fn register_discovery(registry: &Registry) {
    for family in &*FAMILIES {
        crate::metrics::register(registry, Ok(family.clone()));
    }
}
