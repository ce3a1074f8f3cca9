//! A control plane for a test, started as controller-runtime's envtest starts it: the same flags, files, checks and signals.

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

use crate::{
    client::raw,
    server::{binary, etcd_binary, free_port},
};

/// Between two health checks. envtest itself waits for 100 ms, which would be most of what is measured.
const POLL: Duration = Duration::from_millis(1);
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// The programs, as `KUBEBUILDER_ASSETS` names them.
#[derive(Clone, Debug)]
pub struct Assets {
    /// `kube-apiserver`.
    pub api_server: PathBuf,
    /// `etcd`.
    pub etcd: PathBuf,
}

impl Assets {
    /// Those that were built with the tests.
    pub fn built() -> Assets {
        Assets { api_server: binary(), etcd: etcd_binary() }
    }
}

/// A running control plane. [`Environment::stop`] ends it as envtest does; it is killed when this is dropped.
pub struct Environment {
    etcd: Process,
    api_server: Process,
    port: u16,
    kubeconfig: String,
    /// From the start of the first process until the server is healthy.
    pub took: Duration,
}

impl Environment {
    /// Starts it, with a folder for each of the two processes in `temp`.
    pub fn start(assets: &Assets, temp: &Path, number: usize) -> Environment {
        let folder = |name: &str| {
            let folder = temp.join(format!("k8s_test_framework_{number}_{name}"));
            std::fs::create_dir_all(&folder).expect("a folder");
            folder
        };
        let (etcd_dir, certificates) = (folder("etcd"), folder("apiserver"));
        let (etcd_port, peer_port, port) = (free_port(), free_port(), free_port());
        let kubeconfig = write_certificates(&certificates, port);
        // It looks for flags in the help before it passes them.
        let unsafe_no_fsync = has_flag(&assets.etcd, "unsafe-no-fsync").then_some("--unsafe-no-fsync=true");
        assert!(!has_flag(&assets.api_server, "insecure-port"), "that would have to be set to 0");
        let (began, url) = (Instant::now(), format!("http://127.0.0.1:{etcd_port}"));
        let mut arguments = vec![
            format!("--advertise-client-urls={url}"),
            format!("--data-dir={}", etcd_dir.display()),
            format!("--listen-client-urls={url}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peer_port}"),
        ];
        arguments.extend(unsafe_no_fsync.map(str::to_owned));
        let mut etcd = Process::start(&assets.etcd, &arguments, etcd_dir);
        etcd.wait(|| plain_get(etcd_port, "/health") == Some(200));
        let mut api_server =
            Process::start(&assets.api_server, &api_server_arguments(&certificates, &url, port), certificates);
        let healthz = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        api_server.wait(|| raw(port, healthz).is_ok_and(|reply| reply.status == 200));
        Environment { etcd, api_server, port, kubeconfig, took: began.elapsed() }
    }

    /// Where the server serves.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What its administrator's clients need.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// Ends both with the signal that envtest sends, the server first, and removes their folders. Both must end well.
    pub fn stop(self) {
        self.api_server.stop();
        self.etcd.stop();
    }
}

struct Process {
    child: Child,
    /// Removed in the end.
    folder: PathBuf,
}

impl Process {
    fn start(program: &Path, arguments: &[String], folder: PathBuf) -> Process {
        let log = std::fs::File::create(folder.join("log")).expect("a log");
        let child = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(log).spawn();
        Process { child: child.expect("the program starts"), folder }
    }

    fn wait(&mut self, is_healthy: impl Fn() -> bool) {
        let since = Instant::now();
        while !is_healthy() {
            let ended = self.child.try_wait().expect("waited for").is_some();
            assert!(!ended && since.elapsed() < PATIENCE, "not healthy:\n{}", self.log());
            std::thread::sleep(POLL);
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn stop(mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
        let status = self.child.wait().expect("waited for");
        assert!(status.success(), "{status}:\n{}", self.log());
        std::fs::remove_dir_all(&self.folder).expect("removed");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The flags that envtest passes without being told anything.
fn api_server_arguments(certificates: &Path, etcd: &str, port: u16) -> Vec<String> {
    let file = |name: &str| certificates.join(name).display().to_string();
    vec![
        "--allow-privileged=true".into(),
        "--authorization-mode=RBAC".into(),
        "--bind-address=127.0.0.1".into(),
        format!("--cert-dir={}", certificates.display()),
        format!("--client-ca-file={}", file("client-cert-auth-ca.crt")),
        "--disable-admission-plugins=ServiceAccount".into(),
        format!("--etcd-servers={etcd}"),
        format!("--secure-port={port}"),
        format!("--service-account-issuer=https://127.0.0.1:{port}/"),
        format!("--service-account-key-file={}", file("sa-signer.crt")),
        format!("--service-account-signing-key-file={}", file("sa-signer.key")),
        "--service-cluster-ip-range=10.0.0.0/24".into(),
    ]
}

/// Whether the help names a flag at the beginning of a line.
fn has_flag(program: &Path, flag: &str) -> bool {
    let output = Command::new(program).arg("--help").output().expect("the program runs");
    assert!(output.status.success(), "{} --help", program.display());
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let wanted = format!("--{flag}");
    text.lines()
        .filter_map(|line| line.trim_start().strip_prefix(&wanted))
        .any(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
}

fn plain_get(port: u16, path: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}

/// An authority that signs itself, with the names that envtest gives it.
struct Authority {
    pem: String,
    key_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let key = KeyPair::generate().expect("a key");
        let mut params = named("envtest-environment", &["envtest"]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        let (certificate, key_pem) = (params.self_signed(&key).expect("signed"), key.serialize_pem());
        Authority { pem: certificate.pem(), key_pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate and its key, in PEM.
    fn sign(&self, mut params: CertificateParams, usage: ExtendedKeyUsagePurpose) -> (String, String) {
        params.extended_key_usages = vec![usage];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        let key = KeyPair::generate().expect("a key");
        (params.signed_by(&key, &self.issuer).expect("signed").pem(), key.serialize_pem())
    }
}

fn named(name: &str, organizations: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    for organization in organizations {
        params.distinguished_name.push(DnType::OrganizationName, *organization);
    }
    params
}

/// Writes the files that envtest writes, and makes the administrator's kubeconfig.
fn write_certificates(folder: &Path, port: u16) -> String {
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("written");
    let (serving, service_accounts, clients) = (Authority::new(), Authority::new(), Authority::new());
    let mut server = CertificateParams::new(vec!["localhost".into(), "127.0.0.1".into()]).expect("names");
    server.distinguished_name = named("localhost", &["envtest"]).distinguished_name;
    let (certificate, key) = serving.sign(server, ExtendedKeyUsagePurpose::ServerAuth);
    write("apiserver.crt", &certificate);
    write("apiserver.key", &key);
    write("sa-signer.crt", &service_accounts.pem);
    write("sa-signer.key", &service_accounts.key_pem);
    write("client-cert-auth-ca.crt", &clients.pem);
    let admin = named("default", &["system:masters"]);
    let (certificate, key) = clients.sign(admin, ExtendedKeyUsagePurpose::ClientAuth);
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: envtest\n\
         clusters: [{{name: envtest, cluster: {{server: 'https://127.0.0.1:{port}', certificate-authority-data: {}}}}}]\n\
         users: [{{name: envtest, user: {{client-certificate-data: {}, client-key-data: {}}}}}]\n\
         contexts: [{{name: envtest, context: {{cluster: envtest, user: envtest}}}}]\n",
        STANDARD.encode(&serving.pem),
        STANDARD.encode(certificate),
        STANDARD.encode(key),
    )
}
