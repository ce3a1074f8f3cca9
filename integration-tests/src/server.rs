//! The server under test, as a process.

use std::{
    fs::File,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::Once,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    client::{Reply, raw, send},
    scratch,
};

/// A running `kube-apiserver` with a data folder of its own. It is killed when this is dropped.
pub struct Server {
    child: Option<Child>,
    dir: TempDir,
    port: u16,
    data: PathBuf,
    arguments: Vec<String>,
    binary: Option<PathBuf>,
    kubectl: Option<PathBuf>,
}

impl Server {
    /// Starts a fresh server and waits until it says that it is ready.
    pub fn start() -> Self {
        let mut server = Self::prepare();
        server.run();
        server
    }

    /// A server that is not started yet: [`Server::run`] does.
    pub fn prepare() -> Self {
        let dir = scratch::folder(); // what is killed keeps it
        std::fs::write(dir.path().join("tokens.csv"), "admintoken,admin,admin,\"system:masters\"\nbobtoken,bob,bob,\n")
            .expect("written");
        let data = dir.path().join("data");
        Server { child: None, dir, port: free_port(), data, arguments: Vec::new(), binary: None, kubectl: None }
    }

    /// Sets what is on the command line beside what all servers have, from the next start on.
    pub fn set_arguments(&mut self, arguments: &[&str]) {
        self.arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    }

    /// Runs this binary instead of the one beside the test.
    pub fn set_binary(&mut self, binary: PathBuf) {
        self.binary = Some(binary);
    }

    /// Runs this kubectl instead of the first one there is.
    pub fn set_kubectl(&mut self, kubectl: PathBuf) {
        self.kubectl = Some(kubectl);
    }

    /// The process's number, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// KiB of memory that the running process holds.
    pub fn resident_kib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.pid().expect("it runs"));
        let status = std::fs::read_to_string(path).expect("procfs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Puts the data folder elsewhere.
    pub fn set_data(&mut self, data: PathBuf) {
        self.data = data;
    }

    /// Starts the process on the folder there is.
    pub fn run(&mut self) {
        self.run_until(|line| line == "ready");
    }

    /// Starts the process, and waits until it has said a certain line.
    pub fn run_until(&mut self, says: impl Fn(&str) -> bool) {
        self.spawn();
        let since = Instant::now();
        while !self.log().lines().any(&says) {
            let ended = self.child.as_mut().is_some_and(|c| c.try_wait().ok().flatten().is_some());
            assert!(!ended && since.elapsed() < Duration::from_secs(120), "not ready:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Starts a process that is expected to refuse to run, and gives what it says.
    pub fn run_in_vain(&mut self) -> String {
        self.spawn();
        let status = loop {
            let ended = self.child.as_mut().and_then(|child| child.try_wait().expect("waited for"));
            if let Some(status) = ended {
                break status;
            }
            assert!(!self.log().lines().any(|line| line == "ready"), "it runs:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(2));
        };
        self.child = None;
        assert!(!status.success(), "{}", self.log());
        self.log()
    }

    fn spawn(&mut self) {
        let log = File::create(self.log_path()).expect("a log");
        let child = Command::new(self.binary.clone().unwrap_or_else(binary))
            .args(["--bind-address=127.0.0.1", "--allow-privileged=true"])
            .args(self.mode())
            .arg(format!("--secure-port={}", self.port))
            .arg(format!("--data-dir={}", self.data().display()))
            .arg(format!("--token-auth-file={}", self.dir.path().join("tokens.csv").display()))
            .args(&self.arguments)
            .stdout(log.try_clone().expect("a handle"))
            .stderr(log)
            .spawn()
            .expect("the server starts");
        self.child = Some(child);
    }

    /// How requests are authorized, unless a file says it.
    fn mode(&self) -> Option<&'static str> {
        let by_file = self.arguments.iter().any(|argument| argument.starts_with("--authorization-config="));
        (!by_file).then_some("--authorization-mode=RBAC")
    }

    /// Adds users whom tokens are of: lines of a token file.
    pub fn add_tokens(&self, lines: &str) {
        let path = self.dir.path().join("tokens.csv");
        let before = std::fs::read_to_string(&path).expect("it was written");
        std::fs::write(path, before + lines).expect("written");
    }

    /// A request with somebody's token.
    pub fn ask(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> Reply {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
             Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        raw(self.port, request.as_bytes()).unwrap_or_else(|error| panic!("{method} {path}: {error}\n{}", self.log()))
    }

    /// The value of a series of `/metrics`, by the text before it; 0 if there is none.
    pub fn metric(&self, series: &str) -> f64 {
        let text = self.request("GET", "/metrics", None).text();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok());
        value.unwrap_or(0.0)
    }

    /// Ends the process at once, as a power cut would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("killed");
            child.wait().expect("waited for");
        }
    }

    /// Asks the process to end, and waits until it has, without an error.
    pub fn terminate(&mut self) {
        if let Some(mut child) = self.child.take() {
            let pid = child.id().to_string();
            assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
            assert!(child.wait().expect("waited for").success(), "{}", self.log());
        }
    }

    /// The port it serves on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its data folder.
    pub fn data(&self) -> PathBuf {
        self.data.clone()
    }

    /// The folder that goes away with it.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// A request as the administrator.
    pub fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Reply {
        let body = body.map(|b| b.to_string()).unwrap_or_default();
        let content_type = match method {
            "PATCH" => "application/merge-patch+json",
            _ if body.is_empty() => "",
            _ => "application/json",
        };
        send(self.port, method, path, content_type, body.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{}", self.log()))
    }

    /// Waits until something holds that comes by itself, and says what it was about if it never does.
    pub fn in_the_end(&self, what: &str, holds: impl Fn() -> bool) {
        let since = Instant::now();
        while !holds() {
            assert!(since.elapsed() < Duration::from_secs(180), "{what}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Makes an object: as it is then.
    pub fn made(&self, path: &str, body: Value) -> Value {
        let reply = self.request("POST", path, Some(&body));
        assert_eq!(reply.status, 201, "{path}: {}", reply.text());
        reply.json()
    }

    /// Runs kubectl with the server's own kubeconfig and gives what it prints; panics if it fails.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.kubectl_with(arguments, "")
    }

    /// Runs kubectl with something on its standard input.
    pub fn kubectl_with(&self, arguments: &[&str], input: &str) -> String {
        let output = self.try_kubectl(arguments, input);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "kubectl {}\n{}{}",
            arguments.join(" "),
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// kubectl with the server's own kubeconfig, to be run.
    pub fn kubectl_command(&self, arguments: &[&str]) -> Command {
        self.client_command("kubectl", arguments)
    }

    /// A client with the server's own kubeconfig, to be run.
    pub fn client_command(&self, client: &str, arguments: &[&str]) -> Command {
        let own = self.kubectl.clone().filter(|_| client == "kubectl");
        let mut command = Command::new(own.unwrap_or_else(|| client_path(client)));
        command.args(arguments).env("KUBECONFIG", self.data().join("admin.kubeconfig")).env("HOME", self.dir.path()); // its discovery cache is this server's alone
        command
    }

    /// Runs kubectl, whatever becomes of it.
    pub fn try_kubectl(&self, arguments: &[&str], input: &str) -> Output {
        use std::io::Write;
        let mut child = self
            .kubectl_command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("written");
        child.wait_with_output().expect("kubectl ends")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that nobody listens on now.
pub fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).and_then(|l| l.local_addr()).expect("a port").port()
}

/// An address of this machine that is not the loopback's: from it, packets to elsewhere would go. None are sent.
pub fn own_address() -> String {
    let socket = std::net::UdpSocket::bind(("0.0.0.0", 0)).expect("a socket");
    socket.connect(("203.0.113.1", 9)).expect("tests need a machine with a network");
    socket.local_addr().expect("bound").ip().to_string()
}

/// The built server: beside the test's own executable. Built once if it is not there.
pub fn binary() -> PathBuf {
    static BUILD: Once = Once::new();
    built(&BUILD, "kube-apiserver", "kube-apiserver")
}

/// Our own `etcd`, in the same place.
pub fn etcd_binary() -> PathBuf {
    static BUILD: Once = Once::new();
    built(&BUILD, "etcd-server", "etcd")
}

fn built(build: &Once, package: &str, name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let profile = test.parent().and_then(Path::parent).expect("target/PROFILE/deps/TEST");
    let path = profile.join(name);
    build.call_once(|| {
        if !path.exists() {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", &format!("--package={package}"), &format!("--bin={name}")]);
            cargo.arg(format!("--target-dir={}", profile.parent().expect("target").display()));
            if profile.ends_with("release") {
                cargo.arg("--release");
            }
            assert!(
                cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).status().expect("cargo runs").success()
            );
        }
    });
    path
}

/// kubectl: the one on PATH, else the one that `tools/install-test-deps` has put into the cache.
pub fn kubectl_path() -> PathBuf {
    client_path("kubectl")
}

/// Calls `run` with a fresh server for each kubectl there is: the one on PATH and the one in the cache, of two releases.
pub fn with_each_kubectl(run: impl Fn(Server)) {
    let mut found: Vec<PathBuf> = client_paths("kubectl");
    found.dedup_by_key(|path| path.canonicalize().unwrap_or_default());
    let (first, last) = (found.first().cloned(), found.last().cloned());
    assert!(first.is_some(), "kubectl: run tools/install-test-deps");
    for kubectl in if first == last { vec![first] } else { vec![first, last] }.into_iter().flatten() {
        let mut server = Server::start();
        server.set_kubectl(kubectl);
        run(server);
    }
}

/// A client's program: the one on PATH, else the one that `tools/install-test-deps` has put into the cache.
pub fn client_path(name: &str) -> PathBuf {
    client_paths(name).into_iter().next().unwrap_or_else(|| panic!("{name}: run tools/install-test-deps"))
}

/// The programs of this name on PATH, and then the one in the cache.
fn client_paths(name: &str) -> Vec<PathBuf> {
    let on_path = std::env::var_os("PATH")
        .into_iter()
        .flat_map(|path| std::env::split_paths(&path).map(|dir| dir.join(name)).collect::<Vec<_>>());
    let cached =
        std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/kube-apiserver-tests/kubectl").join(name));
    on_path.chain(cached).filter(|p| p.is_file()).collect()
}
