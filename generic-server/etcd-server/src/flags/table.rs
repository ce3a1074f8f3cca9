//! etcd's flags: one table, which the parser and the help read.

/// What a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing, or `=true` and `=false`.
    Bool,
    /// A value.
    Value,
}

/// What a flag does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// What it does with etcd.
    Used,
    /// Nothing: it is about what there is none of here (peers, raft, another storage engine), or about details that are
    /// always as they are.
    Ignored,
    /// It stops the start, unless it says what is so anyway: nobody should rely on what is not there.
    Refused,
}

/// One flag.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) effect: Effect,
    pub(super) help: &'static str,
}

const fn row(name: &'static str, kind: Kind, effect: Effect, help: &'static str) -> Row {
    Row { name, kind, effect, help }
}

use Effect::{Ignored, Refused, Used};
use Kind::{Bool, Value};

const PEERS: &str = "Of no effect: there are no peers.";
const RAFT: &str = "Of no effect: there is no raft.";
const STORE: &str = "Of no effect: the store looks after that.";
const FIXED: &str = "Of no effect: always as it is.";

/// All flags.
#[rustfmt::skip]
pub(super) const FLAGS: &[Row] = &[
    row("name", Value, Used, "How the member is called."),
    row("data-dir", Value, Used, "The folder with the data; by default NAME.etcd."),
    row("auto-compaction-mode", Value, Used, "What --auto-compaction-retention counts: 'periodic' (default) or 'revision'."),
    row("auto-compaction-retention", Value, Used, "For how long history is kept: hours or a duration (30m), or how many revisions. 0 (default): clients compact, as API servers do."),
    row("from-snapshot", Value, Used, "Starts on this snapshot, if the data folder holds nothing yet. (Not etcd's: what etcdutl does there.)"),
    row("listen-client-urls", Value, Used, "Where clients connect, separated by commas."),
    row("advertise-client-urls", Value, Used, "Where clients find this server."),
    row("listen-metrics-urls", Value, Used, "Where metrics and health are served as well."),
    row("listen-peer-urls", Value, Used, "Checked, and not listened on: there are no peers."),
    row("initial-advertise-peer-urls", Value, Used, "Where peers would find this server."),
    row("initial-cluster", Value, Used, "The members: this one alone."),
    row("initial-cluster-state", Value, Used, "new or existing."),
    row("initial-cluster-token", Value, Ignored, PEERS),
    row("cert-file", Value, Used, "The server's certificate, in PEM."),
    row("key-file", Value, Used, "Its key, in PEM."),
    row("trusted-ca-file", Value, Used, "Who signs clients' certificates, in PEM."),
    row("client-cert-auth", Bool, Used, "Clients must show a certificate."),
    row("max-txn-ops", Value, Used, "The most operations in a transaction."),
    row("max-request-bytes", Value, Used, "The most bytes of a request."),
    row("quota-backend-bytes", Value, Used, "Bytes on the disk from which on nothing is put any more; 0: 2 GiB, negative: no limit."),
    row("unsafe-no-fsync", Bool, Used, "Brings nothing to the disk: a machine that loses power may lose everything."),
    row("watch-progress-notify-interval", Value, Used, "How often quiet watches are told how far they are."),
    row("experimental-watch-progress-notify-interval", Value, Used, "The same, under its older name."),
    row("log-level", Value, Used, "debug, info, warn, error, panic or fatal."),
    row("peer-cert-file", Value, Ignored, PEERS),
    row("peer-key-file", Value, Ignored, PEERS),
    row("peer-trusted-ca-file", Value, Ignored, PEERS),
    row("peer-client-cert-auth", Bool, Ignored, PEERS),
    row("peer-cert-allowed-cn", Value, Ignored, PEERS),
    row("peer-cert-allowed-hostname", Value, Ignored, PEERS),
    row("peer-crl-file", Value, Ignored, PEERS),
    row("peer-auto-tls", Bool, Ignored, PEERS),
    row("strict-reconfig-check", Bool, Ignored, PEERS),
    row("heartbeat-interval", Value, Ignored, RAFT),
    row("election-timeout", Value, Ignored, RAFT),
    row("initial-election-tick-advance", Bool, Ignored, RAFT),
    row("pre-vote", Bool, Ignored, RAFT),
    row("snapshot-count", Value, Ignored, RAFT),
    row("max-snapshots", Value, Ignored, RAFT),
    row("max-wals", Value, Ignored, RAFT),
    row("experimental-snapshot-catchup-entries", Value, Ignored, RAFT),
    row("snapshot-catchup-entries", Value, Ignored, RAFT),
    row("backend-batch-interval", Value, Ignored, STORE),
    row("backend-batch-limit", Value, Ignored, STORE),
    row("backend-bbolt-freelist-type", Value, Ignored, STORE),
    row("compaction-batch-limit", Value, Ignored, STORE),
    row("experimental-compaction-batch-limit", Value, Ignored, STORE),
    row("compaction-sleep-interval", Value, Ignored, STORE),
    row("experimental-compaction-sleep-interval", Value, Ignored, STORE),
    row("bootstrap-defrag-threshold-megabytes", Value, Ignored, STORE),
    row("experimental-bootstrap-defrag-threshold-megabytes", Value, Ignored, STORE),
    row("corrupt-check-time", Value, Ignored, PEERS),
    row("experimental-corrupt-check-time", Value, Ignored, PEERS),
    row("experimental-initial-corrupt-check", Bool, Ignored, PEERS),
    row("experimental-compact-hash-check-enabled", Bool, Ignored, PEERS),
    row("experimental-compact-hash-check-time", Value, Ignored, PEERS),
    row("compact-hash-check-time", Value, Ignored, PEERS),
    row("feature-gates", Value, Ignored, FIXED),
    row("logger", Value, Ignored, FIXED),
    row("log-format", Value, Ignored, FIXED),
    row("log-outputs", Value, Ignored, "Of no effect: logs go to standard error."),
    row("enable-log-rotation", Bool, Ignored, FIXED),
    row("log-rotation-config-json", Value, Ignored, FIXED),
    row("metrics", Value, Ignored, FIXED),
    row("enable-pprof", Bool, Ignored, FIXED),
    row("grpc-keepalive-min-time", Value, Ignored, FIXED),
    row("grpc-keepalive-interval", Value, Ignored, FIXED),
    row("grpc-keepalive-timeout", Value, Ignored, FIXED),
    row("max-concurrent-streams", Value, Ignored, FIXED),
    row("socket-reuse-port", Bool, Ignored, FIXED),
    row("socket-reuse-address", Bool, Ignored, FIXED),
    row("cors", Value, Ignored, FIXED),
    row("host-whitelist", Value, Ignored, FIXED),
    row("cipher-suites", Value, Ignored, FIXED),
    row("tls-min-version", Value, Ignored, FIXED),
    row("tls-max-version", Value, Ignored, FIXED),
    row("warning-apply-duration", Value, Ignored, FIXED),
    row("experimental-warning-apply-duration", Value, Ignored, FIXED),
    row("warning-unary-request-duration", Value, Ignored, FIXED),
    row("experimental-warning-unary-request-duration", Value, Ignored, FIXED),
    row("enable-grpc-gateway", Bool, Ignored, "Of no effect: ranges, puts, deletes and compaction are served as JSON."),
    row("auth-token", Value, Ignored, "Of no effect: there are no users."),
    row("bcrypt-cost", Value, Ignored, "Of no effect: there are no users."),
    row("config-file", Value, Refused, "Flags alone are read."),
    row("auto-tls", Bool, Refused, "Certificates are not made here."),
    row("client-crl-file", Value, Refused, "Revoked certificates are not known here."),
    row("client-cert-allowed-cn", Value, Refused, "Names of clients are not looked at."),
    row("client-cert-allowed-hostname", Value, Refused, "Names of clients are not looked at."),
    row("discovery", Value, Refused, PEERS),
    row("discovery-srv", Value, Refused, PEERS),
    row("discovery-endpoints", Value, Refused, PEERS),
    row("force-new-cluster", Bool, Refused, "A data folder of another etcd cannot be read."),
    row("wal-dir", Value, Refused, "The journal is in the data folder."),
    row("experimental-enable-distributed-tracing", Bool, Refused, "No traces are sent."),
    row("enable-distributed-tracing", Bool, Refused, "No traces are sent."),
    row("enable-v2", Bool, Refused, "There is the v3 API alone."),
];
