//! The other API servers of the cluster: `--peer-*`.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use generic_server::features::GateState;

use super::Findings;
use crate::flags::Parsed;

const GATE: &str = "UnknownVersionInteroperabilityProxy";

/// The other API servers.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    /// Whether servers tell each other where they are.
    pub meets: bool,
    /// `--peer-ca-file`: whose certificates they have; `None`: nothing is handed on to them.
    pub authorities: Option<PathBuf>,
    /// `--peer-advertise-ip` and `--peer-advertise-port`, if both are given: where they reach this server.
    pub advertised: Option<SocketAddr>,
}

impl Peers {
    pub(super) fn from_flags(flags: &Parsed, features: &GateState, findings: &mut Findings) -> Self {
        let meets = features.is_on(GATE);
        for flag in ["peer-ca-file", "peer-advertise-ip", "peer-advertise-port"] {
            if !meets && !flags.text(flag).is_empty() {
                findings.error(format!("--{flag} requires {GATE} feature to be turned on"));
            }
        }
        let (ip, port) = (flags.text("peer-advertise-ip"), flags.text("peer-advertise-port"));
        if !ip.is_empty() && ip.parse::<IpAddr>().is_err() {
            findings.error(format!("--peer-advertise-ip: {ip:?} is not an IP address"));
        }
        if !port.is_empty() && !port.parse::<u16>().is_ok_and(|port| port > 0) {
            findings.error(format!("--peer-advertise-port: {port:?} is not a port"));
        }
        let advertised = ip.parse().ok().zip(port.parse().ok()).map(|(ip, port)| SocketAddr::new(ip, port));
        Peers { meets, authorities: findings.file(flags, "peer-ca-file"), advertised }
    }
}
