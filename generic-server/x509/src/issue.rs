//! Certificates that an authority issues for requests, as Go's crypto/x509 writes them: the subject anew from its known
//! attributes, the names of the request, nothing else that the request asks for.

use std::{net::IpAddr, sync::Arc};

use rustls::{SignatureScheme, sign::SigningKey};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

use super::{Certificate, CertificateRequest, X509Error, der};

/// An authority with its key.
#[derive(Debug)]
pub struct Issuer {
    certificate: Certificate,
    key: Arc<dyn SigningKey>,
}

/// What an issued certificate is good for, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Seconds since 1970, both inclusive.
    pub not_before: i64,
    /// The last second.
    pub not_after: i64,
    /// The bits of KeyUsage, by their numbers in RFC 5280.
    pub key_usage: u16,
    /// Object identifiers of extended usages.
    pub extended: Vec<&'static [u64]>,
}

/// How keys of each kind sign, and its identifier.
const SCHEMES: [(SignatureScheme, &[u64]); 5] = [
    (SignatureScheme::RSA_PKCS1_SHA256, &[1, 2, 840, 113_549, 1, 1, 11]),
    (SignatureScheme::ECDSA_NISTP256_SHA256, &[1, 2, 840, 10045, 4, 3, 2]),
    (SignatureScheme::ECDSA_NISTP384_SHA384, &[1, 2, 840, 10045, 4, 3, 3]),
    (SignatureScheme::ECDSA_NISTP521_SHA512, &[1, 2, 840, 10045, 4, 3, 4]),
    (SignatureScheme::ED25519, &[1, 3, 101, 112]),
];

/// Why a certificate and a key are no authority: which of the two is wrong, and how.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssuerError {
    /// The certificate.
    #[error("{0}")]
    Certificate(String),
    /// The key.
    #[error("{0}")]
    Key(String),
}

impl Issuer {
    /// Reads one certificate and its key from PEM.
    ///
    /// # Errors
    /// Which of the two is wrong, and how.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, IssuerError> {
        let wrong = IssuerError::Certificate;
        let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| wrong(error.to_string()))?;
        let [only] = chain.as_slice() else {
            return Err(wrong(format!("expected 1 certificate, found {}", chain.len())));
        };
        let certificate = Certificate::parse(only).map_err(|error| wrong(error.to_string()))?;
        let key =
            PrivateKeyDer::from_pem_slice(key).map_err(|error| IssuerError::Key(format!("no private key: {error}")))?;
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let key = provider.key_provider.load_private_key(key).map_err(|error| IssuerError::Key(error.to_string()))?;
        if key.public_key().is_some_and(|public| *public != *certificate.raw_key) {
            return Err(IssuerError::Key("private key does not match public key".to_owned()));
        }
        Ok(Issuer { certificate, key })
    }

    /// The last second of the authority's own time, since 1970.
    pub fn not_after(&self) -> i64 {
        self.certificate.not_after
    }

    /// Issues a certificate for a request. The caller judges whether the request may have it.
    ///
    /// # Errors
    /// Whoever made the request does not have its key, or the authority's key cannot sign.
    pub fn issue(&self, request: &CertificateRequest, terms: &Terms) -> Result<Vec<u8>, X509Error> {
        let check = request.check_signature();
        check.map_err(|error| X509Error(format!("unable to verify certificate request signature: {error}")))?;
        let schemes = SCHEMES.map(|(scheme, _)| scheme);
        let signer = self.key.choose_scheme(&schemes).ok_or_else(|| X509Error::new("unsupported public key type"))?;
        let scheme = SCHEMES.iter().find(|(scheme, _)| *scheme == signer.scheme());
        let (scheme, algorithm) = scheme.ok_or_else(|| X509Error::new("unsupported signature scheme"))?;
        let mut algorithm = vec![der::oid(algorithm)];
        if *scheme == SignatureScheme::RSA_PKCS1_SHA256 {
            algorithm.push(der::value(der::NULL, &[]));
        }
        let algorithm = der::sequence(&algorithm);
        let subject = request.subject().to_der();
        let extensions = self.extensions(request, &subject, terms)?;
        let mut serial = [0; 16];
        aws_lc_rs::rand::fill(&mut serial).map_err(|_| X509Error::new("no random numbers"))?;
        let signed = der::sequence(&[
            der::value(0xa0, &der::unsigned(&[2])), // version 3
            der::unsigned(&serial),
            algorithm.clone(),
            self.certificate.raw_subject.clone(),
            der::sequence(&[der::time(terms.not_before), der::time(terms.not_after)]),
            subject,
            request.raw_key().to_vec(),
            der::value(0xa3, &der::sequence(&extensions)),
        ]);
        let signature = signer.sign(&signed).map_err(X509Error::new)?;
        Ok(der::sequence(&[signed, algorithm, der::bits(&signature)]))
    }

    /// The extensions, in the order in which Go writes them.
    fn extensions(
        &self,
        request: &CertificateRequest,
        subject: &[u8],
        terms: &Terms,
    ) -> Result<Vec<Vec<u8>>, X509Error> {
        let mut extensions = Vec::new();
        if terms.key_usage != 0 {
            extensions.push(extension(15, true, &der::flags(terms.key_usage)));
        }
        if !terms.extended.is_empty() {
            let usages: Vec<Vec<u8>> = terms.extended.iter().map(|usage| der::oid(usage)).collect();
            extensions.push(extension(37, false, &der::sequence(&usages)));
        }
        extensions.push(extension(19, true, &der::sequence(&[]))); // no authority
        let issuer = &self.certificate;
        if *subject != *issuer.raw_subject && !issuer.extensions.subject_key_id.is_empty() {
            let id = der::value(0x80, &issuer.extensions.subject_key_id);
            extensions.push(extension(35, false, &der::sequence(&[id])));
        }
        if !request.names().is_empty() {
            let is_nobody = subject == der::sequence(&[]);
            extensions.push(extension(17, is_nobody, &alternative_names(request)));
        }
        Ok(extensions)
    }
}

/// An extension of X.509 itself (2.5.29).
fn extension(number: u64, is_critical: bool, content: &[u8]) -> Vec<u8> {
    let mut parts = vec![der::oid(&[2, 5, 29, number])];
    if is_critical {
        parts.push(der::value(der::BOOLEAN, &[0xff]));
    }
    parts.push(der::value(der::OCTET_STRING, content));
    der::sequence(&parts)
}

fn alternative_names(request: &CertificateRequest) -> Vec<u8> {
    let names = request.names();
    let address = |ip: &IpAddr| match ip.to_canonical() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let texts =
        |tag: u8, texts: &[String]| texts.iter().map(|text| der::value(tag, text.as_bytes())).collect::<Vec<_>>();
    let mut all = texts(0x82, &names.dns);
    all.extend(texts(0x81, &names.emails));
    all.extend(names.ips.iter().map(|ip| der::value(0x87, &address(ip))));
    all.extend(texts(0x86, &names.uris));
    der::sequence(&all)
}

#[cfg(test)]
mod tests {
    use machinery::codec::pem;
    use rcgen::{
        BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair, KeyUsagePurpose, SanType,
    };

    use super::*;
    use crate::{Purpose, Roots};

    const DAY: i64 = 86_400;

    fn authority(algorithm: &'static rcgen::SignatureAlgorithm) -> (String, String) {
        let key = KeyPair::generate_for(algorithm).expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        (params.self_signed(&key).expect("a certificate").pem(), key.serialize_pem())
    }

    fn request() -> CertificateRequest {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
        params.distinguished_name.push(DnType::CommonName, "system:node:a*b");
        params.subject_alt_names = vec![
            SanType::DnsName("a.example".try_into().expect("a name")),
            SanType::IpAddress("10.0.0.1".parse().expect("an address")),
            SanType::IpAddress("fd00::1".parse().expect("an address")),
        ];
        let key = KeyPair::generate().expect("a key");
        let text = params.serialize_request(&key).expect("a request").pem().expect("PEM");
        CertificateRequest::parse(&pem::first(text.as_bytes()).expect("a block").0.der).expect("a request")
    }

    #[test]
    fn what_is_issued_is_believed_for_what_was_asked() {
        const NOW: i64 = 1_800_000_000;
        for algorithm in [
            &rcgen::PKCS_ECDSA_P256_SHA256,
            &rcgen::PKCS_ECDSA_P384_SHA384,
            &rcgen::PKCS_ED25519,
            &rcgen::PKCS_RSA_SHA256,
        ] {
            let (certificate, key) = authority(algorithm);
            let issuer = Issuer::from_pem(certificate.as_bytes(), key.as_bytes()).expect("an authority");
            let terms = Terms {
                not_before: NOW - DAY,
                not_after: NOW + DAY,
                key_usage: 0b101,
                extended: vec![&[1, 3, 6, 1, 5, 5, 7, 3, 1]],
            };
            let issued = issuer.issue(&request(), &terms).expect("a certificate");
            let issued = Certificate::parse(&issued).expect("it can be read");
            assert_eq!(issued.subject().common_name, "system:node:a*b");
            assert_eq!(issued.subject().organizations, ["system:nodes"]);
            assert_eq!(issued.validity(), (NOW - DAY, NOW + DAY));
            assert!(!issued.is_authority());
            let roots = Roots::from_pem(certificate.as_bytes()).expect("roots");
            for host in ["a.example", "10.0.0.1", "fd00::1"] {
                assert_eq!(roots.verify(&issued, &[], Purpose::Server(host), NOW).map(drop), Ok(()), "{host}");
            }
            assert!(roots.verify(&issued, &[], Purpose::Server("b.example"), NOW).is_err());
            assert!(roots.verify(&issued, &[], Purpose::Client, NOW).is_err(), "it is for servers alone");
        }
    }

    #[test]
    fn each_organization_stays_and_unknown_attributes_go() {
        let organizations = ["dev".to_owned(), "ops".to_owned(), "qa&x".to_owned()].to_vec();
        let mut subject = crate::request::Name { organizations, ..Default::default() };
        subject.common_name = "jane".to_owned();
        subject.localities = vec!["Town".to_owned()];
        let der = subject.to_der();
        let read = x509_parser::x509::X509Name::from_der(&der).expect("a name").1;
        let all: Vec<String> = read.iter_attributes().filter_map(|a| a.as_str().ok().map(str::to_owned)).collect();
        assert_eq!(all, ["Town", "dev", "ops", "qa&x", "jane"], "places come first");
        assert_eq!(read.iter_rdn().count(), 3, "all organizations are one set, as Go writes them");
    }

    #[test]
    fn an_authority_is_one_certificate_with_its_key() {
        let ((one, key), (two, other)) = (authority(&rcgen::PKCS_ED25519), authority(&rcgen::PKCS_ED25519));
        let check = |certificate: &str, key: &str, expect: IssuerError| {
            let why = Issuer::from_pem(certificate.as_bytes(), key.as_bytes()).expect_err("no authority");
            assert_eq!(why, expect);
        };
        let found = |count: usize| IssuerError::Certificate(format!("expected 1 certificate, found {count}"));
        check(&format!("{one}{two}"), &key, found(2));
        check("", &key, found(0));
        check(&one, &other, IssuerError::Key("private key does not match public key".to_owned()));
    }

    use x509_parser::prelude::FromDer as _;
}
