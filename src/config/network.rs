//! Services' addresses and ports, and how the server reaches kubelets, aggregated servers and webhooks.

use std::{net::IpAddr, num::NonZeroU64, path::PathBuf, time::Duration};

use generic_server::serve::CertificateFiles;
use kube_core::service_network::Reconciler;

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
    /// `--kubernetes-service-node-port`; `None`: the service has none.
    pub kubernetes_node_port: Option<u16>,
    /// `--endpoint-reconciler-type`.
    pub reconciler: Reconciler,
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
        let node_ports = (ports.first, ports.last);
        let kubernetes_node_port = kubernetes_node_port(flags, node_ports, findings);
        let reconciler = reconciler(flags, findings);
        Self { cluster_ip_ranges: ranges, node_ports, kubernetes_node_port, reconciler }
    }
}

fn kubernetes_node_port(flags: &Parsed, (first, last): (u16, u16), findings: &mut Findings) -> Option<u16> {
    let port = flags.int("kubernetes-service-node-port");
    if port == 0 {
        return None;
    }
    let port = u16::try_from(port).ok().filter(|port| (first..=last).contains(port));
    if port.is_none() {
        findings.error("--kubernetes-service-node-port must be a port of --service-node-port-range");
    }
    port
}

fn reconciler(flags: &Parsed, findings: &mut Findings) -> Reconciler {
    match flags.text("endpoint-reconciler-type").as_str() {
        "lease" => Reconciler::Lease,
        "master-count" => Reconciler::MasterCount,
        "none" => Reconciler::None,
        _ => {
            findings.error("--endpoint-reconciler-type must be one of lease, master-count, none");
            Reconciler::None
        }
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
    /// `--max-connection-bytes-per-sec`; `None`: no limit.
    pub rate: Option<NonZeroU64>,
}

impl Kubelet {
    pub(super) fn from_flags(flags: &Parsed, findings: &mut Findings) -> Self {
        Self {
            ca: findings.file(flags, "kubelet-certificate-authority"),
            certificate: findings.pair(flags, "kubelet-client-certificate", "kubelet-client-key"),
            address_types: flags.list("kubelet-preferred-address-types"),
            timeout: findings.duration(flags, "kubelet-timeout"),
            // As upstream: what is no limit is none, whatever its sign.
            rate: u64::try_from(flags.int("max-connection-bytes-per-sec")).ok().and_then(NonZeroU64::new),
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
