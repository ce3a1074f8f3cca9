//! The PEM in requests and in what is issued.

use machinery::{
    codec::pem::{self, Block},
    meta::go_text::quote,
};
use x509::CertificateRequest;

/// Reads a request for a certificate: the one block that signers look at, the first.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse(text: &[u8]) -> Result<CertificateRequest, String> {
    let block = pem::first(text).map(|(block, _)| block).filter(|block| block.label == b"CERTIFICATE REQUEST");
    let block = block.ok_or("PEM block type must be CERTIFICATE REQUEST")?;
    CertificateRequest::parse(&block.der).map_err(|error| error.to_string())
}

/// Checks a request, and that who made it has the key.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check_request(text: &[u8]) -> Result<(), String> {
    parse(text)?.check_signature().map_err(|error| error.to_string())
}

/// Whether PEM holds certificates and nothing else; none at all is no certificate yet, and fine.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check_certificates(text: &[u8]) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    let mut count = 0;
    for Block { label, headers, der } in pem::blocks(text) {
        if label != b"CERTIFICATE" {
            let label = quote(&String::from_utf8_lossy(label));
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {label}"));
        }
        if headers {
            return Err("no PEM block headers are permitted".to_owned());
        }
        if der.is_empty() {
            return Err("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
        let mut rest = &der[..];
        while !rest.is_empty() {
            (rest, _) =
                x509_parser::parse_x509_certificate(rest).map_err(|e| format!("x509: malformed certificate: {e}"))?;
        }
        count += 1;
    }
    if count == 0 {
        return Err("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD};

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
        let jane = parse(pem.as_bytes()).expect("a request");
        assert_eq!((jane.common_name(), jane.organizations()), ("jane", &["dev".to_owned()][..]));
        assert_eq!(check_request(pem.as_bytes()), Ok(()));

        let no_request = |text: &str| {
            let why = parse(text.as_bytes()).expect_err("no request");
            assert_eq!(why, "PEM block type must be CERTIFICATE REQUEST");
        };
        no_request("");
        no_request("not a pem");
        no_request(&pem_of_text("CERTIFICATE REQUEST", "NOTHING"));
        no_request(&pem.replace("CERTIFICATE REQUEST", "CERTIFICATE"));

        // Another signature of the same length.
        let (Block { mut der, .. }, _) = pem::first(pem.as_bytes()).expect("one");
        let last = der.len() - 1;
        der[last] ^= 1;
        let changed = pem_of("CERTIFICATE REQUEST", &der);
        assert!(parse(changed.as_bytes()).is_ok() && check_request(changed.as_bytes()).is_err());
    }

    #[test]
    fn the_block_that_signers_take_is_the_first_that_is_one() {
        let (masters, other) = (made("jane", &["system:masters"]), made("jane", &["dev"]));
        let check = |text: &str| {
            assert_eq!(parse(text.as_bytes()).expect("a request").organizations(), ["system:masters"], "{text}");
        };
        check(&format!("{masters}{other}"));
        check(&format!(" {other}{masters}"));
        check(&format!("-----BEGIN CERTIFICATE REQUEST-----\n{masters}{other}"));
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
        let two = [&certificate.der()[..], certificate.der()].concat();
        check(&pem_of("CERTIFICATE", &two), Ok(()));
        check(&pem_of("CERTIFICATE", &two[..two.len() - 1]), Err("x509: malformed certificate: "));
        check(
            "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
            Err("found CERTIFICATE PEM block containing 0"),
        );
        let headers = certificate.pem().replacen("-----\n", "-----\nKey: value\n\n", 1);
        check(&headers, Err("no PEM block headers are permitted"));
        check("abc", Err("must contain at least one CERTIFICATE PEM block"));
        check(&key.serialize_pem(), Err("only CERTIFICATE PEM blocks are allowed, found \"PRIVATE KEY\""));
        check(&pem_of("CERTIFICATE", b"nonsense"), Err("x509: malformed certificate: "));
    }
}
