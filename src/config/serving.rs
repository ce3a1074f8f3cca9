//! The port, TLS, connections, and the end of the server.

use std::{net::IpAddr, path::PathBuf};

use generic_server::serve::{
    BindOptions, CertificateFiles, ConnectionOptions, ShutdownOptions, SniCertificate, known_cipher_suites,
};
use http::{HeaderValue, header};

use super::{Findings, Requests};
use crate::flags::Parsed;

/// Cipher suites that Go knows and this server never speaks: accepted in lists, without effect.
const WEAK_SUITES: [&str; 16] = [
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
];

/// Names without the hash that older releases used, and what they are called now.
const OLD_SUITES: [(&str, &str); 2] = [
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
];

/// The port, TLS, connections and their end.
#[derive(Clone, Debug)]
pub struct Serving {
    /// Where to listen.
    pub bind: BindOptions,
    /// `--tls-cert-file` and its key; `None`: the server makes one.
    pub certificate: Option<CertificateFiles>,
    /// `--cert-dir`, when it was given: where the certificate that the server makes is kept.
    pub certificate_dir: Option<PathBuf>,
    /// `--tls-sni-cert-key`.
    pub sni: Vec<SniCertificate>,
    /// `--tls-min-version=VersionTLS13`.
    pub only_tls13: bool,
    /// `--tls-cipher-suites`, as far as this server has them; empty: all.
    pub cipher_suites: Vec<String>,
    /// `--tls-curve-preferences`, IANA numbers; empty: all.
    pub curves: Vec<u16>,
    /// Not `--disable-http2-serving`.
    pub http2: bool,
    /// Streams, GOAWAY, headers of every response.
    pub connection: ConnectionOptions,
    /// The `--shutdown-*` flags.
    pub shutdown: ShutdownOptions,
    /// `--advertise-address`.
    pub advertise_address: Option<IpAddr>,
    /// `--external-hostname`, empty when unset.
    pub external_hostname: String,
}

impl Serving {
    /// Where other members of the cluster reach this server: as the operator has said, else the address it listens on, else
    /// the host's own. `None`: nowhere that is known.
    pub fn public_address(&self) -> Option<IpAddr> {
        let is_public = |address: &IpAddr| !address.is_unspecified() && !address.is_loopback();
        self.advertise_address.or_else(|| Some(self.bind.address).filter(is_public)).or_else(host_address)
    }

    pub(super) fn from_flags(flags: &Parsed, requests: &Requests, findings: &mut Findings) -> Self {
        Self {
            bind: bind(flags, findings),
            certificate: findings.pair(flags, "tls-cert-file", "tls-private-key-file"),
            certificate_dir: flags.is_given("cert-dir").then(|| flags.text("cert-dir").into()),
            sni: sni(flags, findings),
            only_tls13: only_tls13(flags, findings),
            cipher_suites: cipher_suites(flags, findings),
            curves: curves(flags, findings),
            http2: !flags.bool("disable-http2-serving"),
            connection: connection(flags, findings),
            shutdown: ShutdownOptions {
                delay: findings.duration(flags, "shutdown-delay-duration"),
                drain: requests.timeout,
                stream_grace: stream_grace(flags, findings),
                retry_after: flags.bool("shutdown-send-retry-after"),
            },
            advertise_address: advertise_address(flags, findings),
            external_hostname: flags.text("external-hostname"),
        }
    }
}

/// The address that this host would send from to the outside. Asking for it sends nothing.
fn host_address() -> Option<IpAddr> {
    let from = |own: &str, other: &str| {
        let socket = std::net::UdpSocket::bind((own, 0)).ok()?;
        socket.connect((other, 9)).ok()?;
        let address = socket.local_addr().ok()?.ip();
        (!address.is_unspecified() && !address.is_loopback()).then_some(address)
    };
    from("0.0.0.0", "203.0.113.1").or_else(|| from("::", "2001:db8::1"))
}

fn bind(flags: &Parsed, findings: &mut Findings) -> BindOptions {
    let port = flags.int("secure-port");
    let port = u16::try_from(port).unwrap_or_else(|_| {
        findings.error(format!("--secure-port {port} must be between 0 and 65535, inclusive"));
        0
    });
    let address = flags.ip("bind-address").unwrap_or(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED));
    BindOptions { address, port, share_port: flags.bool("permit-port-sharing") }
}

fn sni(flags: &Parsed, findings: &mut Findings) -> Vec<SniCertificate> {
    let pairs = flags.pairs("tls-sni-cert-key").into_iter();
    pairs
        .map(|pair| {
            let files = CertificateFiles { certificate: pair.certificate.into(), key: pair.key.into() };
            findings.check_file("tls-sni-cert-key", &files.certificate);
            findings.check_file("tls-sni-cert-key", &files.key);
            SniCertificate { files, names: pair.names }
        })
        .collect()
}

fn only_tls13(flags: &Parsed, findings: &mut Findings) -> bool {
    match flags.text("tls-min-version").as_str() {
        "VersionTLS13" => true,
        "" | "VersionTLS12" => false,
        old @ ("VersionTLS10" | "VersionTLS11") => {
            findings.warn(format!("--tls-min-version={old}: TLS older than 1.2 is never spoken"));
            false
        }
        other => {
            findings.error(format!("unknown tls version {other:?}"));
            false
        }
    }
}

fn cipher_suites(flags: &Parsed, findings: &mut Findings) -> Vec<String> {
    let known = known_cipher_suites();
    let mut usable = Vec::new();
    let mut given = false;
    for name in flags.list("tls-cipher-suites") {
        given = true;
        let name = OLD_SUITES.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| (*new).to_owned());
        if known.contains(&name) {
            usable.push(name);
        } else if WEAK_SUITES.contains(&name.as_str()) {
            findings.warn(format!("--tls-cipher-suites: {name} is not secure and never spoken"));
        } else {
            findings.error(format!("Cipher suite {name} not supported or doesn't exist"));
        }
    }
    if given && usable.is_empty() {
        findings.error("--tls-cipher-suites: none of the given cipher suites can be used");
    }
    usable
}

fn curves(flags: &Parsed, findings: &mut Findings) -> Vec<u16> {
    // P-256, P-384, P-521, X25519 and X25519MLKEM768: those that Go knows.
    const KNOWN: [u16; 5] = [23, 24, 25, 29, 4588];
    let mut curves = Vec::new();
    for number in flags.ints("tls-curve-preferences") {
        match u16::try_from(number).ok().filter(|number| KNOWN.contains(number)) {
            Some(25) => findings.warn("--tls-curve-preferences: P-521 (25) is not offered"),
            Some(curve) => curves.push(curve),
            None => findings.error(format!("--tls-curve-preferences: {number} is not a known curve")),
        }
    }
    curves
}

fn connection(flags: &Parsed, findings: &mut Findings) -> ConnectionOptions {
    let max_streams = match u32::try_from(findings.count(flags, "http2-max-streams-per-connection")) {
        Ok(0) => ConnectionOptions::DEFAULT_MAX_STREAMS,
        Ok(streams) => streams,
        Err(_) => u32::MAX,
    };
    let goaway_chance = flags.float("goaway-chance");
    if !(0.0..=0.02).contains(&goaway_chance) {
        findings.error("--goaway-chance can not be less than 0 or greater than 0.02");
    }
    let directives = flags.list("strict-transport-security-directives");
    let mut response_headers = Vec::new();
    if !directives.is_empty() {
        match hsts(&directives) {
            Some(value) => response_headers.push((header::STRICT_TRANSPORT_SECURITY, value)),
            None => findings.error(format!(
                "--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, \
                 preload. see https://tools.ietf.org/html/rfc6797#section-6.1 for more information: {}",
                directives.join(",")
            )),
        }
    }
    ConnectionOptions { max_streams, goaway_chance, response_headers, ..ConnectionOptions::default() }
}

fn hsts(directives: &[String]) -> Option<HeaderValue> {
    let is_known = |directive: &String| match directive.split_once('=') {
        Some(("max-age", seconds)) => !seconds.is_empty() && seconds.bytes().all(|byte| byte.is_ascii_digit()),
        _ => directive == "includeSubDomains" || directive == "preload",
    };
    directives.iter().all(is_known).then(|| HeaderValue::from_str(&directives.join("; ")).ok()).flatten()
}

fn stream_grace(flags: &Parsed, findings: &mut Findings) -> std::time::Duration {
    let grace = flags.duration("shutdown-watch-termination-grace-period");
    if grace.0 < 0 {
        findings.error("shutdown-watch-termination-grace-period, if provided, can not be a negative value");
    }
    grace.positive()
}

fn advertise_address(flags: &Parsed, findings: &mut Findings) -> Option<IpAddr> {
    let address = flags.ip("advertise-address")?;
    if address.is_unspecified() || address.is_multicast() {
        findings.error(format!("--advertise-address: {address} is not an address that others can reach"));
    }
    Some(address)
}
