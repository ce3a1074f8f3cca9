//! etcd's v3 gRPC API over the embedded store: a server for one member, for development, tests and single-node clusters.
//!
//! Keys and their history are [`database::Database`]; `services` are the API, and [`Server`] listens for clients. The
//! binary `etcd` takes etcd's flags. There is no raft here: a cluster of several members is refused.
//!
//! ```
//! use etcd_server::{Server, flags::{Asked, Flags}};
//! use tokio_util::sync::CancellationToken;
//!
//! # let folder = tempfile::tempdir().unwrap();
//! let flags = [
//!     format!("--data-dir={}", folder.path().join("data").display()),
//!     "--listen-client-urls=http://127.0.0.1:0".into(),
//!     "--advertise-client-urls=http://127.0.0.1:0".into(),
//! ];
//! let Ok(Asked::Run(flags)) = Flags::parse(flags.into_iter(), std::iter::empty()) else { unreachable!("they are good") };
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
//! let (server, stop) = (Server::start(flags.config).await.unwrap(), CancellationToken::new());
//! let url = format!("http://{}", server.addresses()[0]);
//! let running = tokio::spawn(server.run(stop.clone()));
//! let mut client = etcd_client::Client::connect([url], None).await.unwrap();
//! client.put("colour", "green", None).await.unwrap();
//! assert_eq!(client.get("colour", None).await.unwrap().kvs()[0].value(), b"green");
//! stop.cancel();
//! running.await.unwrap().unwrap();
//! # });
//! ```

mod compaction;
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

pub use compaction::{Retention, RetentionError};
pub use run::main;
pub use serve::{Config, Listen, Server, TlsFiles};

/// The release of etcd whose API this is.
pub const VERSION: &str = "3.6.6";
/// The version of the cluster, as etcd tells it.
pub const CLUSTER_VERSION: &str = "3.6.0";
