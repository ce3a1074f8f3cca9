//! The PEM in requests and in what is issued.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use machinery::Str;
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
    let first = blocks(pem).into_iter().next();
    let Some(Block { der, .. }) = first.filter(|block| block.label == "CERTIFICATE REQUEST") else {
        return Err(no_request());
    };
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
    let blocks = blocks(pem);
    for Block { label, headers, der } in &blocks {
        if label != "CERTIFICATE" {
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {label:?}"));
        }
        if *headers {
            return Err("no PEM block headers are permitted".to_owned());
        }
        x509_parser::parse_x509_certificate(der).map_err(|e| format!("x509: malformed certificate: {e}"))?;
    }
    if blocks.is_empty() {
        return Err("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    Ok(())
}

/// One block of PEM.
struct Block {
    label: String,
    headers: bool,
    der: Vec<u8>,
}

/// The blocks that are begun and ended, and whose base64 is sound: what is not, is passed over.
fn blocks(pem: &[u8]) -> Vec<Block> {
    let text = String::from_utf8_lossy(pem);
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let begun = line.trim_end().strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----"));
        let Some(label) = begun else { continue };
        let end = format!("-----END {label}-----");
        let (mut headers, mut base64) = (false, String::new());
        for line in lines.by_ref() {
            if line.trim_end() == end {
                if let Ok(der) = STANDARD.decode(&base64) {
                    blocks.push(Block { label: label.to_owned(), headers, der });
                }
                break;
            }
            match line.contains(':') {
                true => headers = true,
                false => base64.extend(line.split([' ', '\t'])),
            }
        }
    }
    blocks
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
        assert_eq!(subject(pem_of_text("CERTIFICATE REQUEST", "NOTHING").as_bytes()), no_request);
        assert_eq!(subject(pem.replace("CERTIFICATE REQUEST", "CERTIFICATE").as_bytes()), no_request);

        // Another signature of the same length.
        let Block { mut der, .. } = blocks(pem.as_bytes()).pop().expect("one");
        let last = der.len() - 1;
        der[last] ^= 1;
        let changed = pem_of("CERTIFICATE REQUEST", &der);
        assert!(subject(changed.as_bytes()).is_err());
    }

    fn pem_of(label: &str, der: &[u8]) -> String {
        pem_of_text(label, &STANDARD.encode(der))
    }

    fn pem_of_text(label: &str, base64: &str) -> String {
        format!("-----BEGIN {label}-----\n{base64}\n-----END {label}-----\n")
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
