//! Black-box tests over HTTPS, with real clients.
//!
//! [`Server`] is the built `kube-apiserver` as a process of its own, with a folder of its own; [`Reply`] is what it says to
//! a request that is written by hand, so that malformed ones can be sent too. [`Etcd`] is a real etcd, and an
//! [`Environment`] is our `etcd` and our server, started as controller-runtime's envtest starts them. `src/bin/sample-apiserver.rs` is an
//! aggregated server, and [`Aggregated`] is one that keeps objects. [`scenario`] plays what `scenarios/` says in text.

mod aggregated;
mod authority;
mod client;
mod collector;
mod envtest;
mod etcd;
mod kubelet;
mod proxy;
pub mod scenario;
#[path = "../../generic-server/storage/tests/scratch/mod.rs"]
mod scratch;
mod server;
mod tokens;
mod webhook;
mod websocket;

pub use aggregated::Aggregated;
pub use authority::{Authority, Issued};
pub use client::{Reply, Watch, raw, raw_with, send, shown_certificate, switched, tls_config};
pub use collector::{Collected, Collector, text};
pub use envtest::{Assets, Environment};
pub use etcd::Etcd;
pub use kubelet::Kubelet;
pub use proxy::Proxy;
pub use server::{Server, binary, client_path, etcd_binary, free_port, kubectl_path, own_address, with_each_kubectl};
pub use tokens::{Issuer, Mood, TokenKey, claims, current};
pub use webhook::{Answer, Webhook};
pub use websocket::WebSocket;
