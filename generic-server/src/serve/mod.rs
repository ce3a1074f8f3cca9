//! Serving: from a TCP connection to a request with its peer, and back. Knows TLS and HTTP, nothing of Kubernetes' API.
//!
//! `listener` accepts, `tls` decides how a connection is encrypted, `connection` speaks HTTP/1.1 or HTTP/2 on it and calls
//! the service, `refuse` and `head` say what is no request
//! (`target` what is one all the same), `usage` when a connection is closed, `lifecycle` when all of this
//! ends.

mod connection;
mod head;
mod lifecycle;
mod listener;
mod refuse;
mod target;
mod tls;

pub(crate) use connection::HANDSHAKE_ERRORS;
pub use connection::{ConnectionOptions, Lasting, Memo, Peer, PeerInfo, serve};
pub use lifecycle::{Lifecycle, ShutdownOptions};
pub use listener::{BindOptions, Listener};
pub use tls::{CertificateFiles, CipherSuiteError, SniCertificate, Tls, TlsError, TlsOptions, known_cipher_suites};
