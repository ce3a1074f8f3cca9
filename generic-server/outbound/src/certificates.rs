//! Servers whose certificates are of a kind that is believed no more: counted, and told in the audit log, so that operators
//! find them.

use std::sync::{Arc, LazyLock};

use prometheus::{IntCounter, Registry};
use x509::{Flaws, X509Error};

/// Who asks such servers.
#[derive(Clone, Copy, Debug)]
pub enum Asker {
    /// Calls of webhooks.
    Webhooks,
    /// Requests that are handed to aggregated servers.
    Aggregator,
}

/// The families, which are one in a process: by who asks, those without names and those signed with SHA-1.
static FAMILIES: LazyLock<[[IntCounter; 2]; 2]> = LazyLock::new(|| {
    let counter = |asker: &str, name: &str, help: &str| {
        IntCounter::new(format!("apiserver_{asker}_x509_{name}_total"), help).expect("constant names are valid")
    };
    ["webhooks", "kube_aggregator"].map(|asker| {
        [
            counter(asker, "missing_san", "Requests to servers whose certificates say no names but the common one."),
            counter(asker, "insecure_sha1", "Requests to servers whose certificates are signed with SHA-1."),
        ]
    })
});

pub(crate) fn register(registry: &Registry) {
    for family in FAMILIES.iter().flatten() {
        // Another server in the same process (of a test) may have shown its own.
        let _ = registry.register(Box::new(family.clone()));
    }
}

/// The certificates of one server.
#[derive(Clone)]
pub struct ServerCertificates {
    asker: Asker,
    pub(crate) shown: Arc<Flaws>,
}

impl ServerCertificates {
    /// None were seen yet.
    pub fn new(asker: Asker) -> Self {
        ServerCertificates { asker, shown: Arc::default() }
    }

    /// The server has answered a request. Tells, by annotations of the audit log, what is wrong with its certificates.
    pub fn answered(&self, host: &str, annotate: impl FnMut(String, &'static str)) {
        self.count(host, [self.shown.is_nameless(), self.shown.is_sha1()], annotate);
    }

    /// A request has failed, for a reason that may be such a certificate.
    pub fn failed(&self, host: &str, why: &str, annotate: impl FnMut(String, &'static str)) {
        self.count(host, [X509Error::tells_nameless(why), X509Error::tells_sha1(why)], annotate);
    }

    fn count(&self, host: &str, flaws: [bool; 2], mut annotate: impl FnMut(String, &'static str)) {
        for (place, _) in flaws.into_iter().enumerate().filter(|(_, there)| *there) {
            let (id, why) = KINDS[place];
            tracing::info!(host, why, "the certificate of a server is of a kind that is believed no more");
            annotate(format!("{id}.invalid-cert.kubernetes.io/{host}"), why);
            FAMILIES[self.asker as usize][place].inc();
        }
    }
}

/// As annotations name them, and why they are told.
const KINDS: [(&str, &str); 2] = [
    ("missing-san", "relies on a legacy Common Name field instead of the SAN extension for subject validation"),
    ("insecure-sha1", "uses an insecure SHA-1 signature"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_tell_of_certificates_that_are_believed_no_more() {
        let server = ServerCertificates::new(Asker::Webhooks);
        let told = |why: &str| {
            let mut told = Vec::new();
            server.failed("a.example", why, |key, _| told.push(key));
            told
        };
        let nameless =
            "tls: failed to verify certificate: x509: certificate relies on legacy Common Name field, use SANs instead";
        assert_eq!(told(nameless), ["missing-san.invalid-cert.kubernetes.io/a.example"]);
        let sha1 = "x509: certificate signed by unknown authority (possibly because of \"x509: cannot verify signature: \
                    insecure algorithm SHA1-RSA\" while trying to verify candidate authority certificate \"ca\")";
        assert_eq!(told(sha1), ["insecure-sha1.invalid-cert.kubernetes.io/a.example"]);
        let md5 = sha1.replace("SHA1", "MD5");
        assert!(told(&md5).is_empty() && told("connection refused").is_empty());
    }
}
