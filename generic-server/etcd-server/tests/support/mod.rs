//! Servers for tests: ours in this process, ours and etcd as processes.
#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part; a test that cannot go on fails")]

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use etcd_client::Client;
use etcd_server::{Config, Listen, Server, database::Limits};
use storage::embedded::EmbeddedOptions;
use tokio::{net::TcpStream, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// Our server in this process.
pub(crate) struct Own {
    pub(crate) address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

/// What it takes by default.
pub(crate) fn config(data_dir: &Path) -> Config {
    Config {
        data_dir: data_dir.to_owned(),
        from_snapshot: None,
        store: EmbeddedOptions::default(),
        limits: Limits { txn_ops: 128, request_bytes: 1536 << 10, quota: 0 },
        listen: vec![Listen { address: "127.0.0.1:0".into(), tls: false, metrics_only: false }],
        tls: None,
        name: "default".into(),
        peer_urls: vec!["http://127.0.0.1:2380".into()],
        client_urls: vec!["http://127.0.0.1:2379".into()],
        progress_interval: Duration::from_secs(600),
        retention: None,
    }
}

impl Own {
    pub(crate) async fn start(config: Config) -> Own {
        let server = Server::start(config).await.unwrap();
        let (address, stop) = (server.addresses()[0], CancellationToken::new());
        Own { address, task: tokio::spawn(server.run(stop.clone())), stop }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect([self.url()], None).await.unwrap()
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}

/// A server in a process of its own.
pub(crate) struct Process {
    child: Child,
    binary: PathBuf,
    pub(crate) port: u16,
    dir: PathBuf,
}

pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Process {
    /// Our binary.
    pub(crate) async fn own(dir: &Path) -> Process {
        Process::start(env!("CARGO_BIN_EXE_etcd").into(), dir).await
    }

    /// The real one.
    pub(crate) async fn real(dir: &Path) -> Process {
        Process::start(std::env::var_os("ETCD").unwrap_or_else(|| "etcd".into()).into(), dir).await
    }

    async fn start(binary: PathBuf, dir: &Path) -> Process {
        let port = free_port();
        let mut process = Process { child: spawn(&binary, port, dir), binary, port, dir: dir.to_owned() };
        process.ready().await;
        process
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn wait(&mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) async fn restart(&mut self) {
        self.child = spawn(&self.binary, self.port, &self.dir);
        self.ready().await;
    }

    async fn ready(&mut self) {
        for _ in 0..6000 {
            assert!(self.child.try_wait().unwrap().is_none(), "it ended: see {}", self.dir.join("log").display());
            if TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{} does not start", self.binary.display());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(binary: &Path, port: u16, dir: &Path) -> Child {
    std::fs::create_dir_all(dir).unwrap();
    let log = std::fs::OpenOptions::new().create(true).append(true).open(dir.join("log")).unwrap();
    Command::new(binary)
        .arg(format!("--listen-client-urls=http://127.0.0.1:{port}"))
        .arg(format!("--advertise-client-urls=http://127.0.0.1:{port}"))
        .arg("--listen-peer-urls=http://127.0.0.1:0")
        .arg("--data-dir")
        .arg(dir.join("data"))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", binary.display()))
}
