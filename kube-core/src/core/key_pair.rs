//! Whether a certificate and a private key in PEM go together, in Go's words where they do not.

use aws_lc_rs::{
    rsa,
    signature::{
        ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING, EcdsaKeyPair,
        Ed25519KeyPair, KeyPair,
    },
};
use x509_parser::{pem::Pem, public_key::PublicKey};

/// A public key, by what tells it from others of its kind.
#[derive(Debug, PartialEq)]
enum Public {
    /// The modulus.
    Rsa(Vec<u8>),
    /// The point, uncompressed.
    Ecdsa(Vec<u8>),
    /// The key's bytes.
    Ed25519(Vec<u8>),
}

const ED25519: &str = "1.3.101.112";

/// The labels of the PEM blocks in a text, in order, with what they hold.
fn blocks(text: &[u8]) -> Vec<Pem> {
    Pem::iter_from_buffer(text).map_while(Result::ok).collect()
}

fn is_private_key(label: &str) -> bool {
    label == "PRIVATE KEY" || label.ends_with(" PRIVATE KEY")
}

/// What is wrong with the pair, if anything is.
pub(super) fn problem(certificate: &[u8], key: &[u8]) -> Option<String> {
    let (certificates, keys) = (blocks(certificate), blocks(key));
    let Some(certificate) = certificates.iter().find(|block| block.label == "CERTIFICATE") else {
        return Some(no_certificate(&certificates));
    };
    let Some(key) = keys.iter().find(|block| is_private_key(&block.label)) else { return Some(no_key(&keys)) };
    let Ok((_, certificate)) = x509_parser::parse_x509_certificate(&certificate.contents) else {
        return Some("x509: malformed certificate".to_owned());
    };
    let public = certified(certificate.public_key());
    let private = match private(&key.contents) {
        Some(private) => private,
        None if may_be_key(&key.contents) => return None,
        None => return Some("tls: failed to parse private key".to_owned()),
    };
    let why = match public {
        None => "tls: unknown public key algorithm",
        Some(public) if public == private => return None,
        Some(public) if std::mem::discriminant(&public) == std::mem::discriminant(&private) => {
            "tls: private key does not match public key"
        }
        Some(_) => "tls: private key type does not match public key type",
    };
    Some(why.to_owned())
}

fn no_certificate(found: &[Pem]) -> String {
    match found {
        [] => "tls: failed to find any PEM data in certificate input".to_owned(),
        [only] if is_private_key(&only.label) => {
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have \
             been switched"
                .to_owned()
        }
        skipped => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following \
             types: {}",
            labels(skipped)
        ),
    }
}

fn no_key(found: &[Pem]) -> String {
    match found {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [only] if only.label == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        skipped => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the \
             following types: {}",
            labels(skipped)
        ),
    }
}

fn labels(blocks: &[Pem]) -> String {
    format!("[{}]", blocks.iter().map(|block| block.label.as_str()).collect::<Vec<_>>().join(" "))
}

fn certified(key: &x509_parser::x509::SubjectPublicKeyInfo<'_>) -> Option<Public> {
    if key.algorithm.algorithm.to_id_string() == ED25519 {
        return Some(Public::Ed25519(key.subject_public_key.data.to_vec()));
    }
    match key.parsed() {
        Ok(PublicKey::RSA(rsa)) => Some(Public::Rsa(without_zeros(rsa.modulus))),
        Ok(PublicKey::EC(point)) => Some(Public::Ecdsa(point.data().to_vec())),
        _ => None,
    }
}

/// The public half of a key in one of the forms that Go reads: PKCS #1, PKCS #8, SEC 1.
fn private(der: &[u8]) -> Option<Public> {
    if let Ok(pair) = rsa::KeyPair::from_der(der).or_else(|_| rsa::KeyPair::from_pkcs8(der)) {
        return Some(Public::Rsa(without_zeros(pair.public_key().modulus().big_endian_without_leading_zero())));
    }
    for curve in [&ECDSA_P256_SHA256_ASN1_SIGNING, &ECDSA_P384_SHA384_ASN1_SIGNING, &ECDSA_P521_SHA512_ASN1_SIGNING] {
        if let Ok(pair) = EcdsaKeyPair::from_private_key_der(curve, der) {
            return Some(Public::Ecdsa(pair.public_key().as_ref().to_vec()));
        }
    }
    let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok()?;
    Some(Public::Ed25519(pair.public_key().as_ref().to_vec()))
}

fn without_zeros(number: &[u8]) -> Vec<u8> {
    number.iter().copied().skip_while(|byte| *byte == 0).collect()
}

/// Whether this begins as keys do, so that it may be one of a size or on a curve that is not read here: a sequence that begins
/// with a version.
fn may_be_key(der: &[u8]) -> bool {
    const SEQUENCE: u8 = 0x30;
    const INTEGER: u8 = 0x02;
    let [SEQUENCE, length, rest @ ..] = der else { return false };
    let header = if *length < 0x80 { 0 } else { usize::from(length & 0x7f) };
    rest.get(header) == Some(&INTEGER)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n";
    const KEY: &[u8] = b"-----BEGIN EC PRIVATE KEY-----\nAQID\n-----END EC PRIVATE KEY-----\n";

    fn check(certificate: &[u8], key: &[u8], expect: Option<&str>) {
        assert_eq!(problem(certificate, key).as_deref(), expect);
    }

    #[test]
    fn a_pair_is_a_certificate_and_a_private_key() {
        check(CERTIFICATE, KEY, Some("x509: malformed certificate"));
        check(b"x", KEY, Some("tls: failed to find any PEM data in certificate input"));
        check(CERTIFICATE, b"", Some("tls: failed to find any PEM data in key input"));
        let switched = "tls: found a certificate rather than a key in the PEM for the private key";
        check(CERTIFICATE, CERTIFICATE, Some(switched));
        assert!(problem(KEY, KEY).is_some_and(|why| why.contains("may have been switched")));
    }

    #[test]
    fn the_key_is_the_certificates_own() {
        let made = |algorithm| {
            let key = rcgen::KeyPair::generate_for(algorithm).expect("a key");
            let certificate = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).expect("valid names");
            let certificate = certificate.self_signed(&key).expect("signed");
            (certificate.pem(), key.serialize_pem())
        };
        let (first, second) = (made(&rcgen::PKCS_ECDSA_P256_SHA256), made(&rcgen::PKCS_ECDSA_P256_SHA256));
        let (third, rsa) = (made(&rcgen::PKCS_ED25519), made(&rcgen::PKCS_RSA_SHA256));
        for (certificate, key) in [&first, &second, &third, &rsa] {
            check(certificate.as_bytes(), key.as_bytes(), None);
        }
        let other = Some("tls: private key does not match public key");
        check(first.0.as_bytes(), second.1.as_bytes(), other);
        let kind = Some("tls: private key type does not match public key type");
        check(first.0.as_bytes(), third.1.as_bytes(), kind);
        check(rsa.0.as_bytes(), first.1.as_bytes(), kind);
        check(first.0.as_bytes(), KEY, Some("tls: failed to parse private key"));
    }

    #[test]
    fn keys_that_are_not_read_here_are_let_be() {
        assert!(may_be_key(&[0x30, 0x03, 0x02, 0x01, 0x00]));
        assert!(may_be_key(&[0x30, 0x82, 0x01, 0x00, 0x02, 0x01, 0x00]));
        assert!(!may_be_key(&[0x30, 0x03, 0x30, 0x01, 0x00]));
        assert!(!may_be_key(&[0x30]));
    }
}
