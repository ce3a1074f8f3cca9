//! The PEM in requests and in what is issued.

use machinery::Str;
use rustls_pki_types::{
    CertificateDer,
    pem::{PemObject as _, SectionKind},
};
use x509_parser::{
    certification_request::X509CertificationRequest, error::X509Error, prelude::FromDer as _,
    x509::AttributeTypeAndValue,
};

/// What a request for a certificate (PKCS #10) says of whom it is for.
#[derive(Debug, PartialEq)]
pub(crate) struct Subject {
    pub(crate) common_name: Str,
    pub(crate) organizations: Vec<Str>,
}

/// Reads a request and checks that who made it has the key.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn subject(pem: &[u8]) -> Result<Subject, String> {
    let no_request = || "PEM block type must be CERTIFICATE REQUEST".to_owned();
    let first = <(SectionKind, Vec<u8>)>::pem_slice_iter(pem).next();
    let Some(Ok((SectionKind::Csr, der))) = first else { return Err(no_request()) };
    let (rest, request) = X509CertificationRequest::from_der(&der).map_err(|e| format!("asn1: {e}"))?;
    if !rest.is_empty() {
        return Err("asn1: syntax error: trailing data".to_owned());
    }
    request.verify_signature().map_err(|error| match error {
        X509Error::SignatureUnsupportedAlgorithm => "x509: cannot verify signature: algorithm unimplemented".to_owned(),
        _ => "x509: the signature of the request is not its key's".to_owned(),
    })?;
    let subject = &request.certification_request_info.subject;
    let text = |attribute: &AttributeTypeAndValue<'_>| attribute.as_str().map(Str::from).ok();
    Ok(Subject {
        common_name: subject.iter_common_name().filter_map(text).last().unwrap_or_default(),
        organizations: subject.iter_organization().filter_map(text).collect(),
    })
}

/// Whether PEM holds certificates and nothing else; none at all is no certificate yet, and fine.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check_certificates(pem: &[u8]) -> Result<(), String> {
    if pem.is_empty() {
        return Ok(());
    }
    let mut blocks = 0;
    for (label, headers) in labels(pem) {
        if label != "CERTIFICATE" {
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {label:?}"));
        }
        if headers {
            return Err("no PEM block headers are permitted".to_owned());
        }
        blocks += 1;
    }
    if blocks == 0 {
        return Err("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    for der in CertificateDer::pem_slice_iter(pem) {
        let der = der.map_err(|e| e.to_string())?;
        x509_parser::parse_x509_certificate(&der).map_err(|e| format!("x509: malformed certificate: {e}"))?;
    }
    Ok(())
}

/// The labels of the blocks that are begun and ended, and whether a block has headers.
fn labels(pem: &[u8]) -> Vec<(String, bool)> {
    let text = String::from_utf8_lossy(pem);
    let mut labels = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let begun = line.trim_end().strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----"));
        let Some(label) = begun else { continue };
        let end = format!("-----END {label}-----");
        let mut headers = false;
        for line in lines.by_ref() {
            if line.trim_end() == end {
                labels.push((label.to_owned(), headers));
                break;
            }
            headers |= line.contains(':');
        }
    }
    labels
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A request of somebody in some groups.
    pub(in crate::certificates) fn made(common_name: &str, organizations: &[&str]) -> String {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for organization in organizations {
            params.distinguished_name.push(rcgen::DnType::OrganizationName, *organization);
        }
        params.distinguished_name.push(rcgen::DnType::CommonName, common_name);
        let key = rcgen::KeyPair::generate().expect("a key");
        params.serialize_request(&key).expect("a request").pem().expect("PEM")
    }

    #[test]
    fn a_request_says_whom_it_is_for_and_is_signed() {
        let pem = made("jane", &["dev"]);
        let jane = Subject { common_name: "jane".into(), organizations: vec!["dev".into()] };
        assert_eq!(subject(pem.as_bytes()), Ok(jane));

        let no_request = Err("PEM block type must be CERTIFICATE REQUEST".to_owned());
        assert_eq!(subject(b""), no_request);
        assert_eq!(subject(b"not a pem"), no_request);
        assert_eq!(subject(pem.replace("CERTIFICATE REQUEST", "CERTIFICATE").as_bytes()), no_request);

        // Another signature of the same length.
        let (_, mut der) = <(SectionKind, Vec<u8>)>::pem_slice_iter(pem.as_bytes()).next().expect("one").expect("PEM");
        let last = der.len() - 1;
        der[last] ^= 1;
        let changed = pem_of("CERTIFICATE REQUEST", &der);
        assert!(subject(changed.as_bytes()).is_err());
    }

    fn pem_of(label: &str, der: &[u8]) -> String {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
    }

    #[test]
    fn what_is_issued_is_certificates() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = rcgen::CertificateParams::default().self_signed(&key).expect("a certificate");
        let check = |pem: &str, expect: Result<(), &str>| match (check_certificates(pem.as_bytes()), expect) {
            (Err(why), Err(start)) => assert!(why.starts_with(start), "{why}"),
            (found, expect) => assert_eq!(found.is_ok(), expect.is_ok(), "{pem}"),
        };
        check("", Ok(()));
        check(&certificate.pem(), Ok(()));
        check(&format!("{0}{0}", certificate.pem()), Ok(()));
        check("abc", Err("must contain at least one CERTIFICATE PEM block"));
        check(&key.serialize_pem(), Err("only CERTIFICATE PEM blocks are allowed, found \"PRIVATE KEY\""));
        check(&pem_of("CERTIFICATE", b"nonsense"), Err("x509: malformed certificate: "));
    }
}
