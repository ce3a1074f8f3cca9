//! The signature algorithms of tokens (RFC 7518, 3.1) that use a public key.

use aws_lc_rs::signature::{self, VerificationAlgorithm};

use super::KeyType;

/// A signature algorithm. There is none that shares a secret, and no `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are RFC 7518's")]
pub enum Algorithm {
    Es256,
    Es384,
    Es512,
    Ps256,
    Ps384,
    Ps512,
    Rs256,
    Rs384,
    Rs512,
}

use Algorithm::*;

impl Algorithm {
    /// All of them, sorted by name.
    pub const ALL: [Algorithm; 9] = [Es256, Es384, Es512, Ps256, Ps384, Ps512, Rs256, Rs384, Rs512];

    /// The name in a token's header.
    pub fn name(self) -> &'static str {
        match self {
            Es256 => "ES256",
            Es384 => "ES384",
            Es512 => "ES512",
            Ps256 => "PS256",
            Ps384 => "PS384",
            Ps512 => "PS512",
            Rs256 => "RS256",
            Rs384 => "RS384",
            Rs512 => "RS512",
        }
    }

    /// The algorithm of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// The keys that it works with.
    pub fn key_type(self) -> KeyType {
        match self {
            Es256 => KeyType::P256,
            Es384 => KeyType::P384,
            Es512 => KeyType::P521,
            Ps256 | Ps384 | Ps512 | Rs256 | Rs384 | Rs512 => KeyType::Rsa,
        }
    }

    pub(super) fn verification(self) -> &'static dyn VerificationAlgorithm {
        match self {
            Es256 => &signature::ECDSA_P256_SHA256_FIXED,
            Es384 => &signature::ECDSA_P384_SHA384_FIXED,
            Es512 => &signature::ECDSA_P521_SHA512_FIXED,
            Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        }
    }
}
