//! etcd's v3 gRPC API over the embedded store: a server for one member, for development, tests and single-node clusters.
//!
//! Keys and their history are [`database::Database`]; `services` are the API, and [`Server`] listens for clients. The
//! binary `etcd` takes etcd's flags. There is no raft here: a cluster of several members is refused.

pub mod database;
pub mod error;
pub mod flags;
mod key;
mod lease;
mod metrics;
mod proto;
mod record;
mod run;
mod serve;
mod services;
mod state;
mod txn;
mod watch;
mod window;

pub use run::main;
pub use serve::{Config, Listen, Server, TlsFiles};

/// The release of etcd whose API this is.
pub const VERSION: &str = "3.6.6";
/// The version of the cluster, as etcd tells it.
pub const CLUSTER_VERSION: &str = "3.6.0";
