//! The keys of tokens: one signs, all of them check.

use std::{
    io,
    path::{Path, PathBuf},
};

use auth::jwt::{Algorithm, VerifyingKey, VerifyingKeyError};
use aws_lc_rs::{
    digest,
    encoding::{AsDer, PublicKeyX509Der},
    rand::SystemRandom,
    signature::{self, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair as _, RsaKeyPair},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use machinery::{Str, Value, object};
use rustls_pki_types::pem::{self, PemObject as _, SectionKind};
use x509_parser::{certificate::X509Certificate, prelude::FromDer as _};

/// A file whose keys cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", .file.display())]
pub struct KeyFileError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub fault: KeyFault,
}

/// What is wrong with a file of keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyFault {
    /// It cannot be read.
    #[error("{0}")]
    Read(io::Error),
    /// It is no PEM.
    #[error("{0}")]
    Pem(pem::Error),
    /// It has no key that signs.
    #[error("data does not contain a valid RSA or ECDSA private key")]
    NoPrivateKey,
    /// It has no key that checks.
    #[error("data does not contain any valid RSA or ECDSA public keys")]
    NoPublicKeys,
    /// A private key of which the public half cannot be told.
    #[error("the key has no public half")]
    NoPublicHalf,
    /// A certificate cannot be read; what the parser says.
    #[error("{0}")]
    Certificate(String),
    /// A public key cannot be used.
    #[error(transparent)]
    PublicKey(#[from] VerifyingKeyError),
}

impl KeyFault {
    fn of(self, file: &Path) -> KeyFileError {
        KeyFileError { file: file.to_owned(), fault: self }
    }
}

/// The keys of a server.
pub struct Keys {
    signing: Option<Signer>,
    checking: Vec<VerifyingKey>,
}

impl Keys {
    /// Reads keys: the one that signs, if there is one, and those that check.
    ///
    /// # Errors
    /// A file that cannot be read, that holds no key, or one of a kind that tokens are not signed with.
    pub fn read(signing: Option<&Path>, checking: &[impl AsRef<Path>]) -> Result<Self, KeyFileError> {
        let text = |file: &Path| std::fs::read(file).map_err(|error| KeyFault::Read(error).of(file));
        let signing = match signing {
            Some(file) => Some(Signer::of_pem(&text(file)?).map_err(|fault| fault.of(file))?),
            None => None,
        };
        let mut keys = Keys { signing, checking: Vec::new() };
        for file in checking.iter().map(AsRef::as_ref) {
            let found = public_keys(&text(file)?).map_err(|fault| fault.of(file))?;
            if found.is_empty() {
                return Err(KeyFault::NoPublicKeys.of(file));
            }
            for key in found {
                if keys.checking.iter().all(|known| known.id != key.id) {
                    keys.checking.push(key);
                }
            }
        }
        Ok(keys)
    }

    /// The key that signs.
    pub(super) fn signer(&self) -> Option<&Signer> {
        self.signing.as_ref()
    }

    /// The keys that may have signed a token: the one that it names, and all if it names none.
    pub(super) fn candidates<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a VerifyingKey> {
        self.checking.iter().filter(move |key| id.is_empty() || key.id == id)
    }

    /// The signature algorithms in use, each once.
    pub(super) fn algorithms(&self) -> Vec<&'static str> {
        algorithms(&self.checking)
    }

    /// The public keys as a JSON Web Key Set (RFC 7517).
    pub(super) fn jwks(&self) -> Value {
        jwks(&self.checking)
    }
}

/// The signature algorithms of keys, each once.
pub(super) fn algorithms<'a>(keys: impl IntoIterator<Item = &'a VerifyingKey>) -> Vec<&'static str> {
    let mut names: Vec<_> = keys.into_iter().map(|key| key.key_type.usual_algorithm().name()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Keys as a JSON Web Key Set (RFC 7517).
pub(super) fn jwks<'a>(keys: impl IntoIterator<Item = &'a VerifyingKey>) -> Value {
    object! { "keys" => keys.into_iter().map(VerifyingKey::jwk).collect::<Vec<_>>() }
}

/// The name of a key: the hash of its public half.
fn key_id(der: &[u8]) -> Str {
    BASE64.encode(digest::digest(&digest::SHA256, der)).into()
}

/// A key that signs.
pub(super) struct Signer {
    pub(super) id: Str,
    pub(super) algorithm: &'static str,
    key: PrivateKey,
}

enum PrivateKey {
    Rsa(RsaKeyPair),
    Ecdsa(EcdsaKeyPair),
}

impl Signer {
    fn of_pem(pem: &[u8]) -> Result<Self, KeyFault> {
        let section = sections(pem)?.into_iter().find_map(|(kind, der)| private_key(kind, &der));
        let (key, algorithm) = section.ok_or(KeyFault::NoPrivateKey)?;
        let id = key_id(&key.public_der()?);
        Ok(Signer { id, algorithm: algorithm.name(), key })
    }

    /// Signs a message.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, &'static str> {
        let random = SystemRandom::new();
        let failed = "the token cannot be signed";
        match &self.key {
            PrivateKey::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&signature::RSA_PKCS1_SHA256, &random, message, &mut signature).map_err(|_| failed)?;
                Ok(signature)
            }
            PrivateKey::Ecdsa(key) => {
                key.sign(&random, message).map(|signature| signature.as_ref().to_vec()).map_err(|_| failed)
            }
        }
    }
}

impl PrivateKey {
    /// The public half, as a SubjectPublicKeyInfo.
    fn public_der(&self) -> Result<Vec<u8>, KeyFault> {
        let der = match self {
            PrivateKey::Rsa(key) => {
                AsDer::<PublicKeyX509Der<'_>>::as_der(key.public_key()).map(|der| der.as_ref().to_vec())
            }
            PrivateKey::Ecdsa(key) => {
                AsDer::<PublicKeyX509Der<'_>>::as_der(key.public_key()).map(|der| der.as_ref().to_vec())
            }
        };
        der.map_err(|_| KeyFault::NoPublicHalf)
    }
}

fn sections(pem: &[u8]) -> Result<Vec<(SectionKind, Vec<u8>)>, KeyFault> {
    <(SectionKind, Vec<u8>)>::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(KeyFault::Pem)
}

/// How keys sign on the curves.
const CURVES: [(Algorithm, &EcdsaSigningAlgorithm); 3] = [
    (Algorithm::Es256, &signature::ECDSA_P256_SHA256_FIXED_SIGNING),
    (Algorithm::Es384, &signature::ECDSA_P384_SHA384_FIXED_SIGNING),
    (Algorithm::Es512, &signature::ECDSA_P521_SHA512_FIXED_SIGNING),
];

fn private_key(kind: SectionKind, der: &[u8]) -> Option<(PrivateKey, Algorithm)> {
    let rsa = match kind {
        SectionKind::RsaPrivateKey => RsaKeyPair::from_der(der).ok(),
        SectionKind::PrivateKey => RsaKeyPair::from_pkcs8(der).ok(),
        _ => None,
    };
    if let Some(key) = rsa {
        return Some((PrivateKey::Rsa(key), Algorithm::Rs256));
    }
    CURVES.into_iter().find_map(|(algorithm, signing)| {
        let key = match kind {
            SectionKind::PrivateKey => EcdsaKeyPair::from_pkcs8(signing, der).ok(),
            SectionKind::EcPrivateKey => EcdsaKeyPair::from_private_key_der(signing, der).ok(),
            _ => None,
        };
        key.map(|key| (PrivateKey::Ecdsa(key), algorithm))
    })
}

/// The public keys in a file: those it holds, those of its certificates, and the public halves of its private ones.
fn public_keys(pem: &[u8]) -> Result<Vec<VerifyingKey>, KeyFault> {
    let mut keys = Vec::new();
    for (kind, der) in sections(pem)? {
        let info = match kind {
            SectionKind::PublicKey => Some(der),
            SectionKind::Certificate => {
                let (_, certificate) =
                    X509Certificate::from_der(&der).map_err(|e| KeyFault::Certificate(e.to_string()))?;
                Some(certificate.public_key().raw.to_vec())
            }
            kind => private_key(kind, &der).map(|(key, _)| key.public_der()).transpose()?,
        };
        if let Some(info) = info {
            keys.push(VerifyingKey::of_spki(key_id(&info), &info)?);
        }
    }
    Ok(keys)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Keys of a curve, made for a test.
    pub(in crate::service_accounts) fn made(algorithm: &'static rcgen::SignatureAlgorithm) -> Keys {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("sa.key");
        let pair = rcgen::KeyPair::generate_for(algorithm).expect("a key");
        std::fs::write(&file, pair.serialize_pem()).expect("written");
        Keys::read(Some(&file), &[&file]).expect("a key")
    }

    #[test]
    fn every_kind_of_key_signs_what_its_public_half_checks() {
        for (algorithm, name, key_type) in [
            (&rcgen::PKCS_ECDSA_P256_SHA256, "ES256", "EC"),
            (&rcgen::PKCS_ECDSA_P384_SHA384, "ES384", "EC"),
            (&rcgen::PKCS_ECDSA_P521_SHA512, "ES512", "EC"),
            (&rcgen::PKCS_RSA_SHA256, "RS256", "RSA"),
        ] {
            let keys = made(algorithm);
            let signer = keys.signer().expect("a signer");
            assert_eq!((signer.algorithm, keys.algorithms()), (name, vec![name]));
            let signature = signer.sign(b"message").expect("signed");
            let key = keys.candidates(&signer.id).next().expect("its public half");
            assert_eq!(key.id, signer.id);
            let algorithm = Algorithm::of_name(name).expect("an algorithm");
            assert!(key.verifies(algorithm, b"message", &signature), "{name}");
            assert!(!key.verifies(algorithm, b"another", &signature), "{name}");
            let jwks = keys.jwks();
            let jwk = &jwks.at(&["keys"]).and_then(Value::as_array).expect("a list")[0];
            assert_eq!((jwk.str_at(&["kty"]), jwk.str_at(&["alg"])), (Some(key_type), Some(name)));
        }
    }

    #[test]
    fn what_holds_no_key_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("text");
        std::fs::write(&file, "no key").expect("written");
        assert!(Keys::read(Some(&file), &[] as &[&Path]).is_err());
        assert!(Keys::read(None, &[&file]).is_err());
        assert!(Keys::read(None, &[dir.path().join("absent")]).is_err());
    }
}
