//! Public keys by themselves: of which kind they are, and whether somebody has the private half.

use aws_lc_rs::signature::{self as algorithms, UnparsedPublicKey, VerificationAlgorithm};
use x509_parser::{prelude::FromDer, public_key, x509::SubjectPublicKeyInfo};

use super::{Certificate, CertificateRequest};

/// A public key, as certificates hold it.
#[derive(Clone, Debug)]
pub struct SubjectKey {
    /// Its encoding.
    raw: Vec<u8>,
    kind: KeyKind,
    bytes: Vec<u8>,
}

/// The kinds of keys that Go knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Ed25519.
    Ed25519,
    /// An elliptic curve, by Go's name for it.
    Curve(&'static str),
    /// RSA with a modulus of so many bits, in whole bytes.
    Rsa(usize),
    /// Any other.
    Other,
}

impl SubjectKey {
    /// Reads a key (PKIX).
    pub fn parse(der: &[u8]) -> Option<Self> {
        let (rest, info) = SubjectPublicKeyInfo::from_der(der).ok()?;
        if !rest.is_empty() {
            return None;
        }
        let curve = || info.algorithm.parameters.as_ref().and_then(|curve| curve.as_oid().ok());
        let kind = match info.algorithm.algorithm.to_id_string().as_str() {
            "1.2.840.113549.1.1.1" => match info.parsed().ok()? {
                public_key::PublicKey::RSA(key) => KeyKind::Rsa(key.key_size()),
                _ => return None,
            },
            "1.2.840.10045.2.1" => match curve()?.to_id_string().as_str() {
                "1.3.132.0.33" => KeyKind::Curve("P-224"),
                "1.2.840.10045.3.1.7" => KeyKind::Curve("P-256"),
                "1.3.132.0.34" => KeyKind::Curve("P-384"),
                "1.3.132.0.35" => KeyKind::Curve("P-521"),
                _ => return None,
            },
            "1.3.101.112" => KeyKind::Ed25519,
            _ => KeyKind::Other,
        };
        Some(SubjectKey { raw: info.raw.to_vec(), kind, bytes: info.subject_public_key.data.to_vec() })
    }

    /// The key of a request for a certificate.
    pub fn of_request(request: &CertificateRequest) -> Option<Self> {
        Self::parse(request.raw_key())
    }

    /// Of which kind it is.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Whether a certificate is for this key.
    pub fn is_of(&self, certificate: &Certificate) -> bool {
        self.raw == certificate.raw_key
    }

    /// Whether whoever has the key has signed a message: with PSS for RSA, over SHA-256 where something is hashed first.
    pub fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let verifier: &'static dyn VerificationAlgorithm = match self.kind {
            KeyKind::Ed25519 => &algorithms::ED25519,
            KeyKind::Curve("P-256") => &algorithms::ECDSA_P256_SHA256_ASN1,
            KeyKind::Curve("P-384") => &algorithms::ECDSA_P384_SHA256_ASN1,
            KeyKind::Curve("P-521") => &algorithms::ECDSA_P521_SHA256_ASN1,
            KeyKind::Rsa(_) => &algorithms::RSA_PSS_2048_8192_SHA256,
            KeyKind::Curve(_) | KeyKind::Other => return false,
        };
        UnparsedPublicKey::new(verifier, &self.bytes).verify(message, signature).is_ok()
    }
}

impl Certificate {
    /// Whether it says to be an authority's.
    pub fn is_authority(&self) -> bool {
        self.extensions.basic_constraints.is_some_and(|basic| basic.is_authority)
    }

    /// From when to when it counts, in seconds since 1970.
    pub fn validity(&self) -> (i64, i64) {
        (self.not_before, self.not_after)
    }

    /// The hosts that it is for.
    pub fn dns_names(&self) -> &[String] {
        self.extensions.names.as_ref().map(|names| names.dns.as_slice()).unwrap_or_default()
    }

    /// The mail addresses that it is for.
    pub fn email_addresses(&self) -> &[String] {
        self.extensions.names.as_ref().map(|names| names.emails.as_slice()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_knows_its_kind_and_its_certificates() {
        for (algorithm, kind) in [
            (&rcgen::PKCS_ECDSA_P256_SHA256, KeyKind::Curve("P-256")),
            (&rcgen::PKCS_ECDSA_P384_SHA384, KeyKind::Curve("P-384")),
            (&rcgen::PKCS_ED25519, KeyKind::Ed25519),
        ] {
            let pair = rcgen::KeyPair::generate_for(algorithm).expect("a key");
            let certificate = rcgen::CertificateParams::default().self_signed(&pair).expect("a certificate");
            let certificate = Certificate::parse(certificate.der()).expect("a certificate");
            let key = SubjectKey::parse(&certificate.raw_key).expect("a key");
            assert_eq!(key.kind(), kind);
            assert!(key.is_of(&certificate));
            assert!(!key.has_signed(b"message", b"signature"));
        }
        assert!(SubjectKey::parse(b"nonsense").is_none());
    }
}
