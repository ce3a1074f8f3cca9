//! What is wrong with certificates of servers that were believed for long: no names but the common one, signatures with SHA-1.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Certificate, X509Error, signature::SignatureAlgorithm};

/// What is wrong with the certificates that a server has shown last, whether or not they are believed.
#[derive(Debug, Default)]
pub struct Flaws {
    nameless: AtomicBool,
    sha1: AtomicBool,
}

impl Flaws {
    /// The server's own certificate says no names that it may have.
    pub fn is_nameless(&self) -> bool {
        self.nameless.load(Ordering::Relaxed)
    }

    /// A certificate of those that were shown is signed with SHA-1 by somebody else.
    pub fn is_sha1(&self) -> bool {
        self.sha1.load(Ordering::Relaxed)
    }

    pub(super) fn note(&self, leaf: &Certificate, others: &[Certificate]) {
        let is_sha1 = |shown: &Certificate| match shown.algorithm {
            SignatureAlgorithm::Insecure(name) => name.contains("SHA1") && shown.raw_issuer != shown.raw_subject,
            _ => false,
        };
        self.nameless.store(leaf.extensions.raw_names.is_none(), Ordering::Relaxed);
        self.sha1.store(std::iter::once(leaf).chain(others).any(is_sha1), Ordering::Relaxed);
    }
}

impl X509Error {
    /// Whether an error's text says that a certificate has no names but the common one.
    pub fn tells_nameless(text: &str) -> bool {
        text.contains("x509: certificate relies on legacy Common Name field")
    }

    /// Whether an error's text says that a certificate may not be believed because it is signed with SHA-1.
    pub fn tells_sha1(text: &str) -> bool {
        let insecure = text.split_once("x509: cannot verify signature: insecure algorithm");
        insecure.is_some_and(|(_, algorithm)| algorithm.contains("SHA1"))
    }
}
