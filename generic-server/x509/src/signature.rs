//! Signatures of certificates: which algorithms count, and whether one is good.

use aws_lc_rs::signature::{self as algorithms, UnparsedPublicKey, VerificationAlgorithm};
use rustls_pki_types::alg_id;
use x509_parser::{
    oid_registry::Oid,
    x509::{AlgorithmIdentifier, SubjectPublicKeyInfo},
};

use super::X509Error;

/// A public key that signatures can be checked with.
#[derive(Clone, Debug)]
pub(super) struct PublicKey {
    kind: Key,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Rsa,
    P256,
    P384,
    P521,
    Ed25519,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

/// How a certificate is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignatureAlgorithm {
    RsaPkcs1(Hash),
    RsaPss(Hash),
    Ecdsa(Hash),
    Ed25519,
    /// By a hash that can be forged.
    Insecure(&'static str),
    Unknown,
}

impl PublicKey {
    pub(super) fn of(info: &SubjectPublicKeyInfo<'_>) -> Self {
        let curve = || info.algorithm.parameters.as_ref().and_then(|curve| curve.as_oid().ok());
        let kind = match id(&info.algorithm.algorithm).as_str() {
            "1.2.840.113549.1.1.1" => Key::Rsa,
            "1.2.840.10045.2.1" => match curve().map(|curve| id(&curve)).as_deref() {
                Some("1.2.840.10045.3.1.7") => Key::P256,
                Some("1.3.132.0.34") => Key::P384,
                Some("1.3.132.0.35") => Key::P521,
                _ => Key::Unknown,
            },
            "1.3.101.112" => Key::Ed25519,
            _ => Key::Unknown,
        };
        PublicKey { kind, bytes: info.subject_public_key.data.to_vec() }
    }
}

fn id(oid: &Oid<'_>) -> String {
    oid.to_id_string()
}

impl SignatureAlgorithm {
    pub(super) fn of(identifier: &AlgorithmIdentifier<'_>) -> Self {
        match id(&identifier.algorithm).as_str() {
            "1.2.840.113549.1.1.4" => Self::Insecure("MD5-RSA"),
            "1.2.840.113549.1.1.5" | "1.3.14.3.2.29" => Self::Insecure("SHA1-RSA"),
            "1.2.840.113549.1.1.11" => Self::RsaPkcs1(Hash::Sha256),
            "1.2.840.113549.1.1.12" => Self::RsaPkcs1(Hash::Sha384),
            "1.2.840.113549.1.1.13" => Self::RsaPkcs1(Hash::Sha512),
            "1.2.840.113549.1.1.10" => pss(identifier).map_or(Self::Unknown, Self::RsaPss),
            "1.2.840.10045.4.1" => Self::Insecure("ECDSA-SHA1"),
            "1.2.840.10045.4.3.2" => Self::Ecdsa(Hash::Sha256),
            "1.2.840.10045.4.3.3" => Self::Ecdsa(Hash::Sha384),
            "1.2.840.10045.4.3.4" => Self::Ecdsa(Hash::Sha512),
            "1.3.101.112" => Self::Ed25519,
            _ => Self::Unknown,
        }
    }
}

/// The hash of a PSS signature whose parameters are the usual ones: the same hash in the mask, a salt of its length.
fn pss(identifier: &AlgorithmIdentifier<'_>) -> Option<Hash> {
    let given = identifier.parameters.as_ref()?;
    let usual = [
        (alg_id::RSA_PSS_SHA256, Hash::Sha256),
        (alg_id::RSA_PSS_SHA384, Hash::Sha384),
        (alg_id::RSA_PSS_SHA512, Hash::Sha512),
    ];
    // The whole identifier ends with the content of its parameters.
    usual
        .into_iter()
        .find(|(whole, _)| whole.as_ref().ends_with(given.data) && given.data.len() > 16)
        .map(|(_, hash)| hash)
}

/// Checks that the holder of `key` has signed `message`.
pub(super) fn check(
    algorithm: SignatureAlgorithm,
    key: &PublicKey,
    message: &[u8],
    signature: &[u8],
) -> Result<(), X509Error> {
    let unsupported = || X509Error::new("cannot verify signature: algorithm unimplemented");
    let (verifier, failure): (&'static dyn VerificationAlgorithm, &str) = match (algorithm, key.kind) {
        (SignatureAlgorithm::Insecure(name), _) => {
            return Err(X509Error::new(format!("cannot verify signature: insecure algorithm {name}")));
        }
        (SignatureAlgorithm::RsaPkcs1(hash), Key::Rsa) => (pkcs1(hash), "crypto/rsa: verification error"),
        (SignatureAlgorithm::RsaPss(hash), Key::Rsa) => (pss_of(hash), "crypto/rsa: verification error"),
        (SignatureAlgorithm::Ecdsa(hash), curve) => {
            (ecdsa(curve, hash).ok_or_else(unsupported)?, "x509: ECDSA verification failure")
        }
        (SignatureAlgorithm::Ed25519, Key::Ed25519) => (&algorithms::ED25519, "x509: Ed25519 verification failure"),
        _ => return Err(unsupported()),
    };
    let verified = UnparsedPublicKey::new(verifier, &key.bytes).verify(message, signature);
    verified.map_err(|_| X509Error(failure.to_owned()))
}

/// [`check`], for signatures that may be made with SHA-1, too.
pub(super) fn check_with_sha1(
    algorithm: SignatureAlgorithm,
    key: &PublicKey,
    message: &[u8],
    signature: &[u8],
) -> Result<(), X509Error> {
    let (verifier, failure): (&'static dyn VerificationAlgorithm, &str) = match (algorithm, key.kind) {
        (SignatureAlgorithm::Insecure("SHA1-RSA"), Key::Rsa) => {
            (&algorithms::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY, "crypto/rsa: verification error")
        }
        (SignatureAlgorithm::Insecure("ECDSA-SHA1"), Key::P256) => {
            (&algorithms::ECDSA_P256_SHA1_ASN1, "x509: ECDSA verification failure")
        }
        (SignatureAlgorithm::Insecure("ECDSA-SHA1"), Key::P521) => {
            (&algorithms::ECDSA_P521_SHA1_ASN1, "x509: ECDSA verification failure")
        }
        _ => return check(algorithm, key, message, signature),
    };
    let verified = UnparsedPublicKey::new(verifier, &key.bytes).verify(message, signature);
    verified.map_err(|_| X509Error(failure.to_owned()))
}

/// Keys of 1024 bits count, as they do for Go; where the library cannot, from 2048 on.
fn pkcs1(hash: Hash) -> &'static dyn VerificationAlgorithm {
    match hash {
        Hash::Sha256 => &algorithms::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
        Hash::Sha384 => &algorithms::RSA_PKCS1_2048_8192_SHA384,
        Hash::Sha512 => &algorithms::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
    }
}

fn pss_of(hash: Hash) -> &'static dyn VerificationAlgorithm {
    match hash {
        Hash::Sha256 => &algorithms::RSA_PSS_2048_8192_SHA256,
        Hash::Sha384 => &algorithms::RSA_PSS_2048_8192_SHA384,
        Hash::Sha512 => &algorithms::RSA_PSS_2048_8192_SHA512,
    }
}

fn ecdsa(curve: Key, hash: Hash) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match (curve, hash) {
        (Key::P256, Hash::Sha256) => &algorithms::ECDSA_P256_SHA256_ASN1,
        (Key::P256, Hash::Sha384) => &algorithms::ECDSA_P256_SHA384_ASN1,
        (Key::P256, Hash::Sha512) => &algorithms::ECDSA_P256_SHA512_ASN1,
        (Key::P384, Hash::Sha256) => &algorithms::ECDSA_P384_SHA256_ASN1,
        (Key::P384, Hash::Sha384) => &algorithms::ECDSA_P384_SHA384_ASN1,
        (Key::P384, Hash::Sha512) => &algorithms::ECDSA_P384_SHA512_ASN1,
        (Key::P521, Hash::Sha256) => &algorithms::ECDSA_P521_SHA256_ASN1,
        (Key::P521, Hash::Sha384) => &algorithms::ECDSA_P521_SHA384_ASN1,
        (Key::P521, Hash::Sha512) => &algorithms::ECDSA_P521_SHA512_ASN1,
        _ => return None,
    })
}
