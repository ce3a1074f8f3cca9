//! A kubelet that is none: it serves logs, runs commands and forwards ports as kubelets do, on this machine. Whoever asks for
//! a command gets it run, so it listens on the loopback address alone.

mod command;
mod forward;
mod serve;

use std::{net::SocketAddr, sync::Arc};

use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use tokio::{net::TcpListener, runtime::Runtime, sync::mpsc};
use tokio_rustls::TlsAcceptor;

/// A kubelet that serves until it is dropped.
pub struct Kubelet {
    _runtime: Runtime,
    port: u16,
    asked: std::sync::Mutex<mpsc::UnboundedReceiver<String>>,
}

impl Default for Kubelet {
    fn default() -> Self {
        Self::start(0)
    }
}

impl Kubelet {
    /// Starts it on this port; 0: any.
    pub fn start(port: u16) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let listener =
            runtime.block_on(TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port)))).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let (asking, asked) = mpsc::unbounded_channel();
        runtime.spawn(accept(listener, asking));
        Self { _runtime: runtime, port, asked: std::sync::Mutex::new(asked) }
    }

    /// The port that it serves on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The requests since the last call: method and path, and the protocols that an upgrade is asked for to.
    pub fn asked(&self) -> Vec<String> {
        let mut asked = self.asked.lock().expect("nobody panics with it");
        std::iter::from_fn(|| asked.try_recv().ok()).collect()
    }
}

async fn accept(listener: TcpListener, asked: mpsc::UnboundedSender<String>) {
    let acceptor = TlsAcceptor::from(Arc::new(tls()));
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, asked) = (acceptor.clone(), asked.clone());
        tokio::spawn(async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                serve::connection(stream, asked).await;
            }
        });
    }
}

fn tls() -> ServerConfig {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has suites")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("a certificate and its key")
}
