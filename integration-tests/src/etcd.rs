//! A real etcd, as a process.

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{scratch, server::free_port};

/// A running etcd (the one on PATH, or `ETCD`) with a data folder of its own. It is killed when this is dropped.
pub struct Etcd {
    child: Option<Child>,
    dir: TempDir,
    port: u16,
    peer: u16,
}

impl Etcd {
    /// Starts a fresh one and waits until it serves.
    pub fn start() -> Self {
        let mut etcd = Etcd { child: None, dir: scratch::folder(), port: free_port(), peer: free_port() };
        etcd.run();
        etcd
    }

    /// Starts the process on the data there is.
    pub fn run(&mut self) {
        let binary = std::env::var("ETCD").unwrap_or_else(|_| "etcd".into());
        let (client, peer) = (self.url(), format!("http://127.0.0.1:{}", self.peer));
        let child = Command::new(&binary)
            .arg("--data-dir")
            .arg(self.dir.path().join("data"))
            .arg("--name=m0")
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster=m0={peer}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("these tests need etcd ({binary}: {error})"));
        self.child = Some(child);
        let since = Instant::now();
        while self.call("/v3/kv/range", &json!({"key": STANDARD.encode("a")})).is_err() {
            assert!(since.elapsed() < Duration::from_secs(120), "etcd does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops the process where it is, or lets it go on: it keeps its connections and says nothing meanwhile.
    pub fn freeze(&self, freeze: bool) {
        let pid = self.child.as_ref().expect("it runs").id().to_string();
        let signal = if freeze { "-STOP" } else { "-CONT" };
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill runs").success());
    }

    /// Ends the process at once.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("killed");
            child.wait().expect("waited for");
        }
    }

    /// Where it serves clients.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Writes a key.
    pub fn put(&self, key: &str, value: &[u8]) {
        let put = json!({"key": STANDARD.encode(key), "value": STANDARD.encode(value)});
        self.call("/v3/kv/put", &put).expect("written");
    }

    /// Reads a key.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let answer = self.call("/v3/kv/range", &json!({"key": STANDARD.encode(key)})).expect("read");
        STANDARD.decode(answer["kvs"][0]["value"].as_str()?).ok()
    }

    /// How often a key was written since it was made.
    pub fn version_of(&self, key: &str) -> u64 {
        let answer = self.call("/v3/kv/range", &json!({"key": STANDARD.encode(key)})).expect("read");
        answer["kvs"][0]["version"].as_str().and_then(|version| version.parse().ok()).unwrap_or(0)
    }

    /// Whether what was at a revision can still be read.
    pub fn remembers(&self, revision: u64) -> bool {
        self.call("/v3/kv/range", &json!({"key": STANDARD.encode("a"), "revision": revision.to_string()})).is_ok()
    }

    /// Removes a key.
    pub fn delete(&self, key: &str) {
        self.call("/v3/kv/deleterange", &json!({"key": STANDARD.encode(key)})).expect("removed");
    }

    /// Its data folder.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn call(&self, path: &str, body: &Value) -> std::io::Result<Value> {
        let body = body.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        write!(
            stream,
            "POST {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let text = String::from_utf8_lossy(&answer);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or(("", ""));
        if !head.contains(" 200 ") {
            return Err(std::io::Error::other(text.into_owned()));
        }
        serde_json::from_str(body).map_err(std::io::Error::other)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}
