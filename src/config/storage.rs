//! Configuration of storage: the embedded store, or etcd.

use std::{path::PathBuf, time::Duration};

use generic_server::serve::CertificateFiles;

use super::Findings;
use crate::flags::Parsed;

/// Where objects are kept.
#[derive(Clone, Debug)]
pub struct Storage {
    /// The etcd servers; `None`: the embedded store in the data folder.
    pub etcd: Option<Etcd>,
    /// `--etcd-prefix`: what all keys start with, without a slash at the end.
    pub prefix: String,
    /// `--etcd-compaction-interval`; zero: never.
    pub compaction_interval: Duration,
    /// `--event-ttl`.
    pub event_ttl: Duration,
    /// `--lease-reuse-duration-seconds`.
    pub lease_reuse: Duration,
    /// `--etcd-healthcheck-timeout`.
    pub health_timeout: Duration,
    /// `--etcd-readycheck-timeout`.
    pub ready_timeout: Duration,
    /// `--storage-initialization-timeout`.
    pub initialization_timeout: Duration,
    /// `--etcd-count-metric-poll-period`; zero: never.
    pub count_period: Duration,
    /// `--etcd-db-metric-poll-interval`; zero: never.
    pub size_period: Duration,
    /// How values are encrypted.
    pub encryption: Option<Encryption>,
    /// `--etcd-servers-overrides`: other etcd servers for some resources.
    pub overrides: Vec<Override>,
    /// `--storage-media-type`: whether objects are written to etcd as protobuf.
    pub protobuf: bool,
    /// `--history`: for how long what was can be read; zero: as compaction has it.
    pub history: Duration,
    /// `--from-snapshot`: what the embedded store begins as.
    pub from_snapshot: Option<PathBuf>,
}

/// Other etcd servers for one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural name.
    pub resource: String,
    /// The servers, at least one.
    pub servers: Vec<String>,
}

/// Encryption at rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encryption {
    /// `--encryption-provider-config`.
    pub file: PathBuf,
    /// `--encryption-provider-config-automatic-reload`.
    pub reload: bool,
}

/// How etcd is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Etcd {
    /// `--etcd-servers`, at least one.
    pub servers: Vec<String>,
    /// `--etcd-cafile`.
    pub ca: Option<PathBuf>,
    /// `--etcd-certfile` and `--etcd-keyfile`.
    pub certificate: Option<CertificateFiles>,
}

impl Storage {
    pub(super) fn from_flags(flags: &Parsed, findings: &mut Findings) -> Self {
        let servers = flags.list("etcd-servers");
        for server in &servers {
            if !["http://", "https://", "unix://"].iter().any(|scheme| server.starts_with(scheme)) {
                findings.error(format!("--etcd-servers: {server:?} must be of the form scheme://host:port"));
            }
        }
        if !["", "etcd3"].contains(&flags.text("storage-backend").as_str()) {
            findings.error(
                "--storage-backend invalid, allowed values: etcd3. If not specified, it will default to 'etcd3'",
            );
        }
        let overrides = overrides(flags, findings);
        if !overrides.is_empty() && servers.is_empty() {
            findings.error("--etcd-servers-overrides must be set with --etcd-servers");
        }
        let reload = flags.bool("encryption-provider-config-automatic-reload");
        let encryption = findings.file(flags, "encryption-provider-config").map(|file| Encryption { file, reload });
        if reload && encryption.is_none() {
            findings
                .error("--encryption-provider-config-automatic-reload must be set with --encryption-provider-config");
        }
        let media_type = flags.text("storage-media-type");
        let known = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf", ""];
        if !known.contains(&media_type.as_str()) {
            findings.error(format!(
                "--storage-media-type {media_type:?} invalid, allowed values: {}",
                known[..3].join(", ")
            ));
        }
        if media_type == known[1] {
            findings.error(format!("--storage-media-type: this server does not write {media_type}"));
        }
        // Nothing said is JSON here: what was written as it is sent is read without being converted.
        let protobuf = flags.is_given("storage-media-type") && media_type == known[2];
        let event_ttl = findings.duration(flags, "event-ttl");
        if event_ttl.is_zero() {
            findings.error("--event-ttl must be positive");
        }
        let from_snapshot = findings.file(flags, "from-snapshot");
        if from_snapshot.is_some() && !servers.is_empty() {
            findings.error("--from-snapshot is for the embedded store, and --etcd-servers chooses etcd");
        }
        let history = findings.duration(flags, "history");
        if !history.is_zero() && !servers.is_empty() {
            findings.error("--history is for the embedded store, and --etcd-servers chooses etcd");
        }
        let ca = findings.file(flags, "etcd-cafile");
        let certificate = findings.pair(flags, "etcd-certfile", "etcd-keyfile");
        Self {
            etcd: (!servers.is_empty()).then_some(Etcd { servers, ca, certificate }),
            prefix: format!("/{}", flags.text("etcd-prefix").trim_matches('/')),
            compaction_interval: findings.duration(flags, "etcd-compaction-interval"),
            event_ttl,
            lease_reuse: Duration::from_secs(findings.count(flags, "lease-reuse-duration-seconds")),
            health_timeout: findings.duration(flags, "etcd-healthcheck-timeout"),
            ready_timeout: findings.duration(flags, "etcd-readycheck-timeout"),
            initialization_timeout: findings.duration(flags, "storage-initialization-timeout"),
            count_period: findings.duration(flags, "etcd-count-metric-poll-period"),
            size_period: findings.duration(flags, "etcd-db-metric-poll-interval"),
            encryption,
            overrides,
            protobuf,
            history,
            from_snapshot,
        }
    }
}

fn overrides(flags: &Parsed, findings: &mut Findings) -> Vec<Override> {
    let mut all = Vec::new();
    for given in flags.list("etcd-servers-overrides") {
        let Some(read) = read_override(&given) else {
            findings.error(
                "--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are URLs, \
                 semicolon separated",
            );
            continue;
        };
        all.push(read);
    }
    all
}

/// `group/resource#server1;server2`
fn read_override(text: &str) -> Option<Override> {
    let (resource, servers) = text.split_once('#')?;
    let (group, resource) = resource.split_once('/').filter(|(_, resource)| !resource.contains('/'))?;
    let servers: Vec<String> = servers.split(';').map(str::to_owned).collect();
    let is_url = |server: &String| ["http://", "https://", "unix://"].iter().any(|scheme| server.starts_with(scheme));
    let read = Override { group: group.to_owned(), resource: resource.to_owned(), servers };
    read.servers.iter().all(is_url).then_some(read)
}
