//! X.509 certificates, judged as Go's crypto/x509 judges them: clusters are full of certificates that other verifiers refuse
//! (of version 1, self-signed ones that are authorities, authorities that show themselves).
//!
//! [`Certificate`] is a parsed certificate, [`Roots`] are those that are believed, and [`Roots::verify`] finds a chain from one
//! to the other. `handshake` gives rustls what it needs of this, on both sides.
//!
//! ```
//! use x509::{Certificate, Purpose, Roots};
//!
//! let key = rcgen::KeyPair::generate().unwrap();
//! let parameters = rcgen::CertificateParams::new(vec!["api.example".to_owned()]).unwrap();
//! let made = parameters.self_signed(&key).unwrap();
//!
//! let roots = Roots::from_pem(made.pem().as_bytes()).unwrap();
//! let certificate = Certificate::parse(made.der()).unwrap();
//! let now = certificate.not_after() - 60;
//! assert!(roots.verify(&certificate, &[], Purpose::Server("api.example"), now).is_ok());
//! let other = roots.verify(&certificate, &[], Purpose::Server("www.example"), now).unwrap_err();
//! assert_eq!(other.to_string(), "x509: certificate is valid for api.example, not www.example");
//! ```

mod certificate;
mod chain;
mod constraints;
mod der;
mod flaws;
mod handshake;
mod issue;
mod key;
mod names;
mod request;
mod signature;

use std::fmt;

pub use certificate::{Certificate, Subject};
pub use chain::{BundleError, Purpose, Roots, RootsError};
pub use flaws::Flaws;
pub use handshake::{CertifiedKeyError, ClientVerifier, PrivateKeyError, ServerVerifier, certified_key};
pub use issue::{Issuer, IssuerError, Terms};
pub use key::{KeyKind, SubjectKey};
pub use names::AlternativeNames;
pub use request::CertificateRequest;

/// Why a certificate is not good, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct X509Error(String);

impl X509Error {
    fn new(why: impl fmt::Display) -> Self {
        X509Error(format!("x509: {why}"))
    }
}

impl fmt::Display for X509Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for X509Error {}

#[cfg(test)]
mod tests;
