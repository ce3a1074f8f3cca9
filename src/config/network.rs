//! Services' addresses and ports, and how the server reaches kubelets, aggregated servers and webhooks.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use generic_server::serve::CertificateFiles;

use super::{Cidr, Findings};
use crate::flags::Parsed;

/// The smallest network that still has addresses for services (upstream: the same).
const SMALLEST_FREE_BITS: u8 = 2;

/// Addresses and ports of services.
#[derive(Clone, Debug)]
pub struct Services {
    /// `--service-cluster-ip-range`: one network, or two of different families; the first is the preferred one.
    pub cluster_ip_ranges: Vec<Cidr>,
    /// `--service-node-port-range`, inclusive.
    pub node_ports: (u16, u16),
}

impl Services {
    /// The address of the `kubernetes` service.
    pub fn api_server_ip(&self) -> Option<IpAddr> {
        self.cluster_ip_ranges.first()?.nth(1)
    }

    pub(super) fn from_flags(flags: &Parsed, findings: &mut Findings) -> Self {
        let text = flags.text("service-cluster-ip-range");
        let text = if text.is_empty() { "10.0.0.0/24" } else { &text };
        let mut ranges: Vec<Cidr> = Vec::new();
        for part in text.split(',') {
            match part.trim().parse() {
                Ok(range) => ranges.push(range),
                Err(error) => findings.error(format!("--service-cluster-ip-range: {error}")),
            }
        }
        if ranges.len() > 2 {
            findings.error("--service-cluster-ip-range must not contain more than two entries");
        }
        if let [first, second] = ranges[..]
            && first.network.is_ipv4() == second.network.is_ipv4()
        {
            findings.error(
                "--service-cluster-ip-range and --secondary-service-cluster-ip-range must be of different IP family",
            );
        }
        for range in &ranges {
            let bits = if range.network.is_ipv4() { 32 } else { 128 };
            if bits - range.prefix < SMALLEST_FREE_BITS {
                findings.error(format!("--service-cluster-ip-range: {range} is too small"));
            }
        }
        let ports = flags.ports("service-node-port-range");
        if ports.first == 0 {
            findings.error("--service-node-port-range must not contain port 0");
        }
        Self { cluster_ip_ranges: ranges, node_ports: (ports.first, ports.last) }
    }
}

/// How kubelets are reached.
#[derive(Clone, Debug)]
pub struct Kubelet {
    /// `--kubelet-certificate-authority`; `None`: their certificates are not checked, as upstream does.
    pub ca: Option<PathBuf>,
    /// `--kubelet-client-certificate` and `--kubelet-client-key`; `None`: the server's own.
    pub certificate: Option<CertificateFiles>,
    /// `--kubelet-preferred-address-types`.
    pub address_types: Vec<String>,
    /// `--kubelet-timeout`.
    pub timeout: Duration,
}

impl Kubelet {
    pub(super) fn from_flags(flags: &Parsed, findings: &mut Findings) -> Self {
        Self {
            ca: findings.file(flags, "kubelet-certificate-authority"),
            certificate: findings.pair(flags, "kubelet-client-certificate", "kubelet-client-key"),
            address_types: flags.list("kubelet-preferred-address-types"),
            timeout: findings.duration(flags, "kubelet-timeout"),
        }
    }
}

/// How aggregated servers and webhooks are reached.
#[derive(Clone, Debug)]
pub struct Proxying {
    /// `--proxy-client-cert-file` and `--proxy-client-key-file`; `None`: the server's own.
    pub certificate: Option<CertificateFiles>,
    /// `--enable-aggregator-routing`.
    pub route_to_endpoints: bool,
    /// `--aggregator-reject-forwarding-redirect`.
    pub reject_redirects: bool,
}

impl Proxying {
    pub(super) fn from_flags(flags: &Parsed, findings: &mut Findings) -> Self {
        Self {
            certificate: findings.pair(flags, "proxy-client-cert-file", "proxy-client-key-file"),
            route_to_endpoints: flags.bool("enable-aggregator-routing"),
            reject_redirects: flags.bool("aggregator-reject-forwarding-redirect"),
        }
    }
}
