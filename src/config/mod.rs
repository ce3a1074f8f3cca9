//! From flags as typed to a configuration that holds together. Everything that is wrong is found before a port is bound,
//! and all of it is said at once.

mod admission;
mod audit;
mod authentication;
mod authorization;
mod cidr;
mod compatibility;
mod controllers;
mod egress;
mod features;
mod identity_providers;
mod logging;
mod manifests;
mod metrics;
mod network;
mod peers;
mod requests;
mod serving;
mod storage;
mod tracer;

use std::{collections::BTreeMap, path::PathBuf};

pub use admission::Admission;
pub use audit::{Audit, AuditLog, AuditWebhook};
pub use authentication::{Authentication, RequestHeader, ServiceAccounts, TokenWebhook};
pub use authorization::Authorization;
pub use cidr::Cidr;
pub use controllers::Controllers;
pub use egress::Selections as EgressSelections;
pub use identity_providers::IdentityProviders;
pub use logging::{LogFormat, Logging};
pub use network::{Kubelet, Proxying, Services};
pub use peers::Peers;
pub use requests::Requests;
pub use serving::Serving;
pub use storage::{Encryption, Etcd, Override, Storage};
pub use tracer::Tracing;

use generic_server::{
    features::{GateState, Versions},
    metrics::ShownMetrics,
};

use kube_core::LeadershipTimers;

use crate::{VERSION, flags::Parsed};

/// What the server was told to be.
#[derive(Clone, Debug)]
pub struct Config {
    /// `--data-dir`: the embedded store, certificates, keys, the admin's kubeconfig.
    pub data_dir: PathBuf,
    /// The port, TLS, connections and their end.
    pub serving: Serving,
    /// Limits and headers of requests.
    pub requests: Requests,
    /// Who a client is.
    pub authentication: Authentication,
    /// What it may do.
    pub authorization: Authorization,
    /// What is audited, and where the events go.
    pub audit: Audit,
    /// Where objects are kept.
    pub storage: Storage,
    /// Which admission plugins run.
    pub admission: Admission,
    /// Which API versions are served.
    pub apis: generic_server::resource::Enablement,
    /// Feature gates that were set.
    pub features: GateState,
    /// Which version of Kubernetes the server behaves like, and which others must be able to work beside it.
    pub versions: Versions,
    /// Addresses and ports of services.
    pub services: Services,
    /// How kubelets are reached.
    pub kubelet: Kubelet,
    /// How aggregated servers and webhooks are reached.
    pub proxying: Proxying,
    /// The other API servers of the cluster.
    pub peers: Peers,
    /// Which metrics are shown.
    pub shown_metrics: ShownMetrics,
    /// `--enable-garbage-collector`.
    pub collects_garbage: bool,
    /// Which controllers run in this process.
    pub controllers: Controllers,
    /// `--coordinated-leadership-…`: how long leases of coordinated leader election last.
    pub leadership: LeadershipTimers,
    /// `--allow-privileged`.
    pub allow_privileged: bool,
    /// `--version=v…`: the version that is reported.
    pub version: String,
    /// `--egress-selector-config-file`: through which proxies connections leave.
    pub egress: Option<EgressSelections>,
    /// `--tracing-config-file`: which requests are traced, and where that goes.
    pub tracing: Option<Tracing>,
    /// What is logged, and how.
    pub logging: Logging,
    /// `--profiling`: whether profiles and the verbosity of logs are served below `/debug`.
    pub profiling: bool,
    /// `--debug-socket-path`: the Unix socket that serves them to whoever may open it.
    pub debug_socket: Option<PathBuf>,
    /// `--enable-logs-handler`: whether the host's logs are served below `/logs`.
    pub shows_logs: bool,
    /// All flags with their values, as operators see them.
    pub flags: BTreeMap<&'static str, String>,
    /// Flags that were given and have no effect: one warning each at start.
    pub without_effect: Vec<&'static str>,
    /// What else the operator should know, said once at start.
    pub warnings: Vec<String>,
}

/// Everything that is wrong with the flags, as upstream prints it.
#[derive(Debug, thiserror::Error)]
#[error("{}", if self.0.len() == 1 { self.0[0].clone() } else { format!("[{}]", self.0.join(", ")) })]
pub struct ConfigError(pub Vec<String>);

/// Collects what is wrong and what is worth a warning while the parts are read.
#[derive(Default)]
struct Findings {
    errors: Vec<String>,
    warnings: Vec<String>,
}

impl Findings {
    fn error(&mut self, message: impl Into<String>) {
        self.errors.push(message.into());
    }

    fn warn(&mut self, message: impl Into<String>) {
        self.warnings.push(message.into());
    }

    /// A duration that must not be negative.
    fn duration(&mut self, flags: &Parsed, name: &str) -> std::time::Duration {
        let duration = flags.duration(name);
        if duration.0 < 0 {
            self.error(format!("--{name} can not be negative value"));
        }
        duration.positive()
    }

    /// A number that must not be negative.
    fn count(&mut self, flags: &Parsed, name: &str) -> u64 {
        u64::try_from(flags.int(name)).unwrap_or_else(|_| {
            self.error(format!("--{name} can not be negative value"));
            0
        })
    }

    /// A file that must be there when it is named.
    fn file(&mut self, flags: &Parsed, name: &str) -> Option<PathBuf> {
        let path = PathBuf::from(Some(flags.text(name)).filter(|text| !text.is_empty())?);
        self.check_file(name, &path);
        Some(path)
    }

    fn check_file(&mut self, name: &str, path: &std::path::Path) {
        if let Err(error) = std::fs::File::open(path) {
            self.error(format!("--{name}: {}: {}", path.display(), crate::plain_io_error(&error)));
        }
    }

    /// Two files that only make sense together.
    fn pair(
        &mut self,
        flags: &Parsed,
        certificate: &str,
        key: &str,
    ) -> Option<generic_server::serve::CertificateFiles> {
        match (self.file(flags, certificate), self.file(flags, key)) {
            (Some(certificate), Some(key)) => Some(generic_server::serve::CertificateFiles { certificate, key }),
            (None, None) => None,
            _ => {
                self.error(format!("--{certificate} and --{key} must be given together"));
                None
            }
        }
    }
}

impl Config {
    /// Checks the flags and makes a configuration of them. Reads no more than whether named files can be opened.
    ///
    /// # Errors
    /// All that is wrong.
    pub(crate) fn from_flags(flags: &Parsed) -> Result<Self, ConfigError> {
        let mut findings = Findings::default();
        let data_dir = PathBuf::from(flags.text("data-dir"));
        if data_dir.as_os_str().is_empty() {
            findings.error("--data-dir must not be empty");
        }
        let requests = Requests::from_flags(flags, &mut findings);
        let serving = Serving::from_flags(flags, &requests, &mut findings);
        let authorization = Authorization::from_flags(flags, &mut findings);
        let versions = compatibility::versions(flags, &mut findings);
        let features = features::gates(flags, versions, &mut findings);
        let authentication = Authentication::from_flags(flags, &authorization, &features, &mut findings);
        let logging = Logging::from_flags(flags, &features, &mut findings);
        let peers = Peers::from_flags(flags, &features, &mut findings);
        let config = Self {
            data_dir,
            serving,
            requests,
            authentication,
            authorization,
            audit: Audit::from_flags(flags, &mut findings),
            storage: Storage::from_flags(flags, &mut findings),
            admission: Admission::from_flags(flags, &features, &mut findings),
            apis: features::apis(flags, versions, &features, &mut findings),
            features,
            versions,
            services: Services::from_flags(flags, &mut findings),
            kubelet: Kubelet::from_flags(flags, &mut findings),
            proxying: Proxying::from_flags(flags, &mut findings),
            peers,
            collects_garbage: flags.bool("enable-garbage-collector"),
            controllers: Controllers::from_flags(flags, &mut findings),
            leadership: LeadershipTimers {
                duration: findings.duration(flags, "coordinated-leadership-lease-duration"),
                deadline: findings.duration(flags, "coordinated-leadership-renew-deadline"),
                retry: findings.duration(flags, "coordinated-leadership-retry-period"),
            },
            allow_privileged: flags.bool("allow-privileged"),
            shown_metrics: metrics::shown(flags, &mut findings),
            version: Some(flags.text("version")).filter(|v| !v.is_empty()).unwrap_or_else(|| VERSION.to_owned()),
            egress: egress::selections(flags, &mut findings),
            tracing: Tracing::from_flags(flags, &mut findings),
            logging,
            profiling: flags.bool("profiling"),
            debug_socket: Some(PathBuf::from(flags.text("debug-socket-path")))
                .filter(|path| !path.as_os_str().is_empty()),
            shows_logs: flags.bool("enable-logs-handler"),
            flags: flags.all(),
            without_effect: flags.without_effect().collect(),
            warnings: findings.warnings,
        };
        if findings.errors.is_empty() { Ok(config) } else { Err(ConfigError(findings.errors)) }
    }
}

#[cfg(test)]
mod tests;
