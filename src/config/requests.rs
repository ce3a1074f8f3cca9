//! What a request may take, and the headers that browsers need.

use std::time::Duration;

use super::Findings;
use crate::flags::Parsed;

/// Limits and headers of requests.
#[derive(Clone, Debug)]
pub struct Requests {
    /// `--max-requests-inflight`: reads at once; 0: no limit.
    pub max_reads: u64,
    /// `--max-mutating-requests-inflight`: writes at once; 0: no limit.
    pub max_writes: u64,
    /// `--enable-priority-and-fairness`: whether requests take turns by priority levels and flows.
    pub priority_and_fairness: bool,
    /// `--request-timeout`.
    pub timeout: Duration,
    /// `--min-request-timeout`: the shortest time that a watch is given.
    pub min_watch_timeout: Duration,
    /// `--cors-allowed-origins`: regular expressions in Go's syntax; empty: CORS is off.
    pub cors_allowed_origins: Vec<String>,
    /// `--livez-grace-period`.
    pub livez_grace_period: Duration,
    /// `--send-retry-after-while-not-ready-once`: whether requests are refused until the server is ready for the first time.
    pub refused_until_ready: bool,
    /// `--delete-collection-workers`, at least 1.
    pub delete_collection_workers: u64,
}

impl Requests {
    pub(super) fn from_flags(flags: &Parsed, findings: &mut Findings) -> Self {
        let cors_allowed_origins = flags.list("cors-allowed-origins");
        for pattern in &cors_allowed_origins {
            // Without anchors a pattern matches inside the origins of strangers; upstream warns in the same way.
            if !(pattern.starts_with('^') || pattern.contains("//")) || !pattern.ends_with('$') {
                findings.warn(format!(
                    "--cors-allowed-origins: {pattern:?} is not anchored at both ends and may match more origins than meant"
                ));
            }
        }
        let livez_grace_period = flags.duration("livez-grace-period");
        if livez_grace_period.0 < 0 {
            findings.error("--livez-grace-period can not be a negative value");
        }
        Self {
            max_reads: findings.count(flags, "max-requests-inflight"),
            max_writes: findings.count(flags, "max-mutating-requests-inflight"),
            priority_and_fairness: flags.bool("enable-priority-and-fairness"),
            timeout: findings.duration(flags, "request-timeout"),
            min_watch_timeout: Duration::from_secs(findings.count(flags, "min-request-timeout")),
            cors_allowed_origins,
            refused_until_ready: flags.bool("send-retry-after-while-not-ready-once"),
            livez_grace_period: livez_grace_period.positive(),
            delete_collection_workers: findings.count(flags, "delete-collection-workers").max(1),
        }
    }
}
