//! Real etcd servers for tests, and a proxy that can be cut.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::Notify,
};

/// An etcd process and its data.
pub(crate) struct Server {
    child: Child,
    arguments: Vec<String>,
    folder: tempfile::TempDir,
    scheme: &'static str,
    /// Where it serves clients.
    pub(crate) port: u16,
}

/// PEM files of a CA, and a certificate that serves both sides.
pub(crate) struct Certificates {
    pub(crate) ca: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn spawn(folder: &Path, arguments: &[String]) -> Child {
    let binary = std::env::var("ETCD").unwrap_or_else(|_| "etcd".into());
    let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).unwrap();
    Command::new(&binary)
        .args(arguments)
        .arg("--data-dir")
        .arg(folder.join("data"))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("these tests need etcd ({binary}: {error})"))
}

impl Server {
    /// One server.
    pub(crate) async fn start() -> Server {
        cluster(1).await.remove(0)
    }

    /// One server that wants client certificates.
    pub(crate) async fn start_with_tls(certificates: &Certificates) -> Server {
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        let tls = vec![
            format!("--cert-file={}", path(&certificates.certificate)),
            format!("--key-file={}", path(&certificates.key)),
            format!("--trusted-ca-file={}", path(&certificates.ca)),
            "--client-cert-auth".into(),
        ];
        let mut servers = start("https", 1, &tls);
        servers[0].ready().await;
        servers.remove(0)
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port)
    }

    /// Kills it.
    pub(crate) async fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again on the same data.
    pub(crate) async fn restart(&mut self) {
        self.child = spawn(self.folder.path(), &self.arguments);
        self.ready().await;
    }

    /// Stops it without ending it, or lets it go on.
    pub(crate) fn stall(&self, stall: bool) {
        let signal = if stall { rustix::process::Signal::STOP } else { rustix::process::Signal::CONT };
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    async fn ready(&mut self) {
        for _ in 0..2400 {
            assert!(self.child.try_wait().unwrap().is_none(), "{}", self.log());
            if TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("etcd does not start: {}", self.log());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A cluster of so many servers.
pub(crate) async fn cluster(size: usize) -> Vec<Server> {
    let mut servers = start("http", size, &[]);
    for server in &mut servers {
        server.ready().await;
    }
    servers
}

fn start(scheme: &'static str, size: usize, more: &[String]) -> Vec<Server> {
    let ports: Vec<(u16, u16)> = (0..size).map(|_| (free_port(), free_port())).collect();
    let members = ports.iter().enumerate().map(|(n, (_, peer))| format!("m{n}=http://127.0.0.1:{peer}"));
    let members = members.collect::<Vec<_>>().join(",");
    let start = |(n, (port, peer)): (usize, &(u16, u16))| {
        let folder = crate::scratch::folder(); // what is killed keeps it
        let mut arguments = vec![
            format!("--name=m{n}"),
            format!("--listen-client-urls={scheme}://127.0.0.1:{port}"),
            format!("--advertise-client-urls={scheme}://127.0.0.1:{port}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
            format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
            format!("--initial-cluster={members}"),
        ];
        arguments.extend_from_slice(more);
        Server { child: spawn(folder.path(), &arguments), arguments, folder, scheme, port: *port }
    };
    ports.iter().enumerate().map(start).collect()
}

/// Makes certificates in a folder.
pub(crate) fn certificates(folder: &Path) -> Certificates {
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let authority_certificate = authority.self_signed(&authority_key).unwrap();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let mut both = rcgen::CertificateParams::new(vec!["127.0.0.1".into(), "localhost".into()]).unwrap();
    both.extended_key_usages =
        vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth, rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = both.signed_by(&key, &issuer).unwrap();
    let write = |name: &str, text: String| {
        std::fs::write(folder.join(name), text).unwrap();
        folder.join(name)
    };
    Certificates {
        ca: write("ca.pem", authority_certificate.pem()),
        certificate: write("both.pem", certificate.pem()),
        key: write("key.pem", key.serialize_pem()),
    }
}

/// A way to a server that can be cut.
pub(crate) struct Proxy {
    port: u16,
    cut: Arc<AtomicBool>,
    changed: Arc<Notify>,
}

impl Proxy {
    /// A proxy to a local port.
    pub(crate) async fn start(to: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (cut, changed) = (Arc::<AtomicBool>::default(), Arc::<Notify>::default());
        let proxy = Proxy { port, cut: cut.clone(), changed: changed.clone() };
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                if cut.load(Ordering::SeqCst) {
                    continue;
                }
                let changed = changed.clone();
                tokio::spawn(async move {
                    let ended = changed.notified();
                    let Ok(mut server) = TcpStream::connect(("127.0.0.1", to)).await else { return };
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => {}
                        () = ended => {}
                    }
                });
            }
        });
        proxy
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Cuts all connections and takes no more, or lets new ones through.
    pub(crate) fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::SeqCst);
        self.changed.notify_waiters();
    }
}
