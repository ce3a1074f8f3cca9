//! Public keys that check tokens, from JSON Web Keys (RFC 7517) or certificates' key infos (RFC 5280).

use std::sync::OnceLock;

use aws_lc_rs::signature::ParsedPublicKey;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use machinery::{Str, Value, object};
use x509_parser::{prelude::FromDer as _, public_key::PublicKey as X509Key, x509::SubjectPublicKeyInfo};

use super::Algorithm;

/// Why bytes are no key that checks tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyingKeyError {
    /// They are no SubjectPublicKeyInfo; what the parser says.
    #[error("{0}")]
    Malformed(String),
    /// A key of a curve that no algorithm of tokens has, of so many bits.
    #[error("a curve of {0} bits is not supported")]
    Curve(usize),
    /// A key of another kind.
    #[error("neither an RSA nor an ECDSA key")]
    OtherType,
    /// It is of a right kind, and the cryptography library does not take it.
    #[error("the key cannot be used")]
    Unusable,
}

/// Why a document is no JSON Web Key Set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// It is no object.
    #[error("no object")]
    NoObject,
    /// What should be its keys are no list.
    #[error("the keys are no list")]
    NoList,
}

/// What kind of key, which says what it can verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// RSA.
    Rsa,
    /// The curve P-256.
    P256,
    /// The curve P-384.
    P384,
    /// The curve P-521.
    P521,
}

impl KeyType {
    /// A curve's name in JSON Web Keys, and the length of a coordinate in bytes.
    fn curve(self) -> Option<(&'static str, usize)> {
        match self {
            KeyType::Rsa => None,
            KeyType::P256 => Some(("P-256", 32)),
            KeyType::P384 => Some(("P-384", 48)),
            KeyType::P521 => Some(("P-521", 66)),
        }
    }

    /// The algorithm that this server signs with such a key.
    pub fn usual_algorithm(self) -> Algorithm {
        match self {
            KeyType::Rsa => Algorithm::Rs256,
            KeyType::P256 => Algorithm::Es256,
            KeyType::P384 => Algorithm::Es384,
            KeyType::P521 => Algorithm::Es512,
        }
    }
}

/// A key that checks signatures. The algorithms are those of its type: what a token says of itself must be one of them.
#[derive(Debug)]
pub struct VerifyingKey {
    /// The name by which tokens refer to it; may be empty.
    pub id: Str,
    /// Its type.
    pub key_type: KeyType,
    /// As the cryptography library reads it: a SubjectPublicKeyInfo, an RSAPublicKey or a point.
    material: Vec<u8>,
    /// Of each algorithm, what was read; when it is first needed.
    parsed: [OnceLock<Option<ParsedPublicKey>>; Algorithm::ALL.len()],
    /// The parameters of the JSON Web Key.
    parameters: Vec<(&'static str, String)>,
}

impl VerifyingKey {
    fn new(
        id: Str,
        key_type: KeyType,
        material: Vec<u8>,
        parameters: Vec<(&'static str, String)>,
    ) -> Result<Self, VerifyingKeyError> {
        let key = VerifyingKey { id, key_type, material, parsed: Default::default(), parameters };
        match key.parsed(key_type.usual_algorithm()) {
            Some(_) => Ok(key),
            None => Err(VerifyingKeyError::Unusable),
        }
    }

    /// From a SubjectPublicKeyInfo (RFC 5280).
    ///
    /// # Errors
    /// Another kind of key, or none.
    pub fn of_spki(id: Str, der: &[u8]) -> Result<Self, VerifyingKeyError> {
        let (_, info) = SubjectPublicKeyInfo::from_der(der).map_err(|e| VerifyingKeyError::Malformed(e.to_string()))?;
        match info.parsed().map_err(|e| VerifyingKeyError::Malformed(e.to_string()))? {
            X509Key::RSA(key) => {
                let parameters = rsa_parameters(key.modulus, key.exponent);
                VerifyingKey::new(id, KeyType::Rsa, der.to_vec(), parameters)
            }
            X509Key::EC(point) => {
                let key_type = match point.key_size() {
                    256 => KeyType::P256,
                    384 => KeyType::P384,
                    // 521 bits do not fill their bytes.
                    521..=528 => KeyType::P521,
                    bits => return Err(VerifyingKeyError::Curve(bits)),
                };
                let coordinates = point.data().get(1..).unwrap_or_default();
                let (x, y) = coordinates.split_at(coordinates.len() / 2);
                VerifyingKey::new(id, key_type, der.to_vec(), curve_parameters(key_type, x, y))
            }
            _ => Err(VerifyingKeyError::OtherType),
        }
    }

    /// From a JSON Web Key. `None` for keys of types that tokens are not checked with here (a shared secret, Ed25519), and
    /// for what is no key.
    pub fn of_jwk(jwk: &Value) -> Option<Self> {
        let text = |name: &str| jwk.str_at(&[name]);
        let number = |name: &str| BASE64.decode(text(name)?).ok().filter(|bytes| !bytes.is_empty());
        let id = Str::from(text("kid").unwrap_or_default());
        match text("kty")? {
            "RSA" => {
                let (modulus, exponent) = (number("n")?, number("e")?);
                let material = der_sequence(&[der_integer(&modulus), der_integer(&exponent)].concat());
                VerifyingKey::new(id, KeyType::Rsa, material, rsa_parameters(&modulus, &exponent)).ok()
            }
            "EC" => {
                let curves = [KeyType::P256, KeyType::P384, KeyType::P521];
                let key_type = curves.into_iter().find(|t| t.curve().map(|(name, _)| name) == text("crv"))?;
                let (_, length) = key_type.curve()?;
                let (x, y) = (number("x")?, number("y")?);
                if x.len() > length || y.len() > length {
                    return None;
                }
                let mut point = vec![0; 1 + 2 * length];
                point[0] = 4; // not compressed
                point[1 + length - x.len()..=length].copy_from_slice(&x);
                point[1 + 2 * length - y.len()..].copy_from_slice(&y);
                VerifyingKey::new(id, key_type, point, curve_parameters(key_type, &x, &y)).ok()
            }
            _ => None,
        }
    }

    fn parsed(&self, algorithm: Algorithm) -> Option<&ParsedPublicKey> {
        let read = || ParsedPublicKey::new(algorithm.verification(), &self.material).ok();
        self.parsed[algorithm as usize].get_or_init(read).as_ref()
    }

    /// Whether the key signed `message` with this algorithm.
    pub fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        algorithm.key_type() == self.key_type
            && self.parsed(algorithm).is_some_and(|key| key.verify_sig(message, signature).is_ok())
    }

    /// The key as a JSON Web Key.
    pub fn jwk(&self) -> Value {
        let algorithm = self.key_type.usual_algorithm().name();
        let mut jwk = object! { "use" => "sig", "kid" => &self.id, "alg" => algorithm };
        for (name, value) in &self.parameters {
            jwk.set(&[name], value.as_str());
        }
        jwk
    }
}

/// The keys of a JSON Web Key Set that can check tokens; keys for encryption alone cannot.
///
/// # Errors
/// What is no such set.
pub fn keys_of_set(document: &Value) -> Result<Vec<VerifyingKey>, KeySetError> {
    let keys = match document.get("keys") {
        None | Some(Value::Null) if document.as_object().is_some() => return Ok(Vec::new()),
        Some(keys) => keys.as_array().ok_or(KeySetError::NoList)?,
        None => return Err(KeySetError::NoObject),
    };
    Ok(keys.iter().filter(|key| key.str_at(&["use"]) != Some("enc")).filter_map(VerifyingKey::of_jwk).collect())
}

fn rsa_parameters(modulus: &[u8], exponent: &[u8]) -> Vec<(&'static str, String)> {
    let number = |bytes: &[u8]| BASE64.encode(significant(bytes));
    vec![("kty", "RSA".to_owned()), ("n", number(modulus)), ("e", number(exponent))]
}

fn curve_parameters(key_type: KeyType, x: &[u8], y: &[u8]) -> Vec<(&'static str, String)> {
    let curve = key_type.curve().map_or("", |(name, _)| name);
    vec![("kty", "EC".to_owned()), ("crv", curve.to_owned()), ("x", BASE64.encode(x)), ("y", BASE64.encode(y))]
}

/// A number without its leading zeros.
fn significant(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len())..]
}

/// A positive number in DER.
fn der_integer(bytes: &[u8]) -> Vec<u8> {
    let bytes = significant(bytes);
    let sign = bytes.first().is_none_or(|byte| byte & 0x80 != 0);
    let content = [if sign { &[0][..] } else { &[] }, bytes].concat();
    der(0x02, &content)
}

fn der_sequence(content: &[u8]) -> Vec<u8> {
    der(0x30, content)
}

fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match content.len() {
        length @ 0..0x80 => out.push(length as u8),
        length => {
            let bytes = length.to_be_bytes();
            let bytes = significant(&bytes);
            out.push(0x80 | bytes.len() as u8);
            out.extend_from_slice(bytes);
        }
    }
    out.extend_from_slice(content);
    out
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::{
        encoding::{AsDer, PublicKeyX509Der},
        rand::SystemRandom,
        rsa::KeySize,
        signature::{self, EcdsaKeyPair, KeyPair as _, RsaKeyPair},
    };

    use super::*;

    #[test]
    fn every_algorithm_is_checked_by_a_key_of_its_type() {
        let random = SystemRandom::new();
        let rsa = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
        let der = AsDer::<PublicKeyX509Der<'_>>::as_der(rsa.public_key()).expect("a key");
        let spki = VerifyingKey::of_spki("k".into(), der.as_ref()).expect("a key");
        let jwk = VerifyingKey::of_jwk(&spki.jwk()).expect("a key");
        for (algorithm, padding) in [
            (Algorithm::Rs256, &signature::RSA_PKCS1_SHA256 as &dyn signature::RsaEncoding),
            (Algorithm::Rs384, &signature::RSA_PKCS1_SHA384),
            (Algorithm::Rs512, &signature::RSA_PKCS1_SHA512),
            (Algorithm::Ps256, &signature::RSA_PSS_SHA256),
            (Algorithm::Ps384, &signature::RSA_PSS_SHA384),
            (Algorithm::Ps512, &signature::RSA_PSS_SHA512),
        ] {
            let mut signed = vec![0; rsa.public_modulus_len()];
            rsa.sign(padding, &random, b"message", &mut signed).expect("signed");
            for key in [&spki, &jwk] {
                for other in Algorithm::ALL {
                    assert_eq!(key.verifies(other, b"message", &signed), other == algorithm, "{algorithm:?} {other:?}");
                }
                assert!(!key.verifies(algorithm, b"another", &signed));
            }
        }
        for (algorithm, signing) in [
            (Algorithm::Es256, &signature::ECDSA_P256_SHA256_FIXED_SIGNING),
            (Algorithm::Es384, &signature::ECDSA_P384_SHA384_FIXED_SIGNING),
            (Algorithm::Es512, &signature::ECDSA_P521_SHA512_FIXED_SIGNING),
        ] {
            let pair = EcdsaKeyPair::generate(signing).expect("a key");
            let der = AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key()).expect("a key");
            let spki = VerifyingKey::of_spki("k".into(), der.as_ref()).expect("a key");
            let jwk = VerifyingKey::of_jwk(&spki.jwk()).expect("a key");
            let signed = pair.sign(&random, b"message").expect("signed");
            for key in [&spki, &jwk] {
                for other in Algorithm::ALL {
                    let verifies = key.verifies(other, b"message", signed.as_ref());
                    assert_eq!(verifies, other == algorithm, "{algorithm:?} {other:?}");
                }
            }
            assert_eq!(Algorithm::of_name(algorithm.name()), Some(algorithm));
        }
        assert_eq!(Algorithm::of_name("none"), None);
        assert_eq!(Algorithm::of_name("HS256"), None);
    }

    #[test]
    fn a_set_gives_the_keys_that_can_be_used() {
        let read = |text: &str| {
            let document = machinery::codec::json::decode(text.as_bytes()).expect("JSON");
            keys_of_set(&document).map(|keys| keys.len())
        };
        assert_eq!(read("{}"), Ok(0));
        assert_eq!(
            read(r#"{"keys":[{"kty":"oct","k":"c2VjcmV0"},{"kty":"RSA","n":"AQAB"},{"kty":"EC","crv":"P-256"}, 1]}"#),
            Ok(0)
        );
        assert!(read(r#"{"keys":{}}"#).is_err());
        assert!(read("[]").is_err());
    }
}
