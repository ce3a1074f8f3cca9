//! Requests for certificates (PKCS #10): whom they are for, and whether who asks has the key.

use x509_parser::{
    asn1_rs::{Any, Class},
    certification_request::X509CertificationRequest,
    extensions::ParsedExtension,
    prelude::FromDer,
};

use super::{
    X509Error, der,
    names::{AlternativeNames, directory_string},
    signature::{self, PublicKey, SignatureAlgorithm},
};

/// A parsed request.
#[derive(Clone, Debug)]
pub struct CertificateRequest {
    subject: Name,
    names: AlternativeNames,
    raw_key: Vec<u8>,
    key: PublicKey,
    signed: Vec<u8>,
    algorithm: SignatureAlgorithm,
    signature: Vec<u8>,
}

/// A subject, as far as Go's pkix.Name knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) countries: Vec<String>,
    pub(crate) organizations: Vec<String>,
    pub(crate) units: Vec<String>,
    pub(crate) localities: Vec<String>,
    pub(crate) provinces: Vec<String>,
    pub(crate) streets: Vec<String>,
    pub(crate) postal_codes: Vec<String>,
    pub(crate) common_name: String,
    pub(crate) serial_number: String,
}

impl Name {
    /// Takes note of an attribute (2.5.4); of what there is one of the last counts.
    fn add(&mut self, attribute: u64, text: String) {
        match attribute {
            3 => self.common_name = text,
            5 => self.serial_number = text,
            6 => self.countries.push(text),
            7 => self.localities.push(text),
            8 => self.provinces.push(text),
            9 => self.streets.push(text),
            10 => self.organizations.push(text),
            11 => self.units.push(text),
            17 => self.postal_codes.push(text),
            _ => {}
        }
    }

    /// The name as Go encodes it: all values of an attribute are one set.
    pub(crate) fn to_der(&self) -> Vec<u8> {
        let one = |text: &String| Some(text).filter(|text| !text.is_empty()).cloned().into_iter().collect::<Vec<_>>();
        let attributes = [
            (6, self.countries.clone()),
            (8, self.provinces.clone()),
            (7, self.localities.clone()),
            (9, self.streets.clone()),
            (17, self.postal_codes.clone()),
            (10, self.organizations.clone()),
            (11, self.units.clone()),
            (3, one(&self.common_name)),
            (5, one(&self.serial_number)),
        ];
        let given = attributes.into_iter().filter(|(_, values)| !values.is_empty());
        let set = |(attribute, values): (u64, Vec<String>)| {
            let value = |text: &String| der::sequence(&[der::oid(&[2, 5, 4, attribute]), der::text(text)]);
            der::set(values.iter().map(value).collect())
        };
        der::sequence(&given.map(set).collect::<Vec<_>>())
    }
}

impl CertificateRequest {
    /// Parses a request.
    ///
    /// # Errors
    /// It is none, or a name in it is not of its type.
    pub fn parse(der: &[u8]) -> Result<Self, X509Error> {
        let (rest, parsed) =
            X509CertificationRequest::from_der(der).map_err(|error| X509Error(format!("asn1: {error}")))?;
        if !rest.is_empty() {
            return Err(X509Error("asn1: syntax error: trailing data".to_owned()));
        }
        let info = &parsed.certification_request_info;
        let mut subject = Name::default();
        for attribute in info.subject.iter_attributes() {
            let Some(text) = text(attribute.attr_value())? else { continue };
            if let [0x55, 4, kind] = attribute.attr_type().as_bytes() {
                subject.add((*kind).into(), text);
            }
        }
        let mut names = AlternativeNames::default();
        for extension in parsed.requested_extensions().into_iter().flatten() {
            if let ParsedExtension::SubjectAlternativeName(found) = extension {
                names = AlternativeNames::read(&found.general_names)?;
            }
        }
        Ok(CertificateRequest {
            subject,
            names,
            raw_key: info.subject_pki.raw.to_vec(),
            key: PublicKey::of(&info.subject_pki),
            signed: info.raw.to_vec(),
            algorithm: SignatureAlgorithm::of(&parsed.signature_algorithm),
            signature: parsed.signature_value.data.to_vec(),
        })
    }

    /// The last CN.
    pub fn common_name(&self) -> &str {
        &self.subject.common_name
    }

    /// Each O.
    pub fn organizations(&self) -> &[String] {
        &self.subject.organizations
    }

    /// Whom it is for.
    pub(crate) fn subject(&self) -> &Name {
        &self.subject
    }

    /// The names that it asks for.
    pub fn names(&self) -> &AlternativeNames {
        &self.names
    }

    /// The key, as it is encoded.
    pub(crate) fn raw_key(&self) -> &[u8] {
        &self.raw_key
    }

    /// Checks that who made the request has its key. SHA-1 counts here: the request vouches for nobody else.
    ///
    /// # Errors
    /// Why not.
    pub fn check_signature(&self) -> Result<(), X509Error> {
        signature::check_with_sha1(self.algorithm, &self.key, &self.signed, &self.signature)
    }
}

/// The text of a value. Other than in certificates, one that is no text is passed over.
fn text(value: &Any<'_>) -> Result<Option<String>, X509Error> {
    if value.header.class() != Class::Universal || value.header.is_constructed() {
        return Ok(None);
    }
    match directory_string(value.tag(), value.data) {
        Ok(text) => Ok(Some(text)),
        Err("unsupported string type") => Ok(None),
        Err(why @ "invalid BMPString") => Err(X509Error(why.to_owned())),
        Err(why @ "invalid UTF-8 string") => Err(X509Error(format!("asn1: {why}"))),
        Err(why) => {
            let kind = why.strip_prefix("invalid ").unwrap_or(why);
            Err(X509Error(format!("asn1: syntax error: {kind} contains invalid character")))
        }
    }
}

#[cfg(test)]
mod tests {
    use machinery::codec::pem;

    use super::*;

    fn made(algorithm: &'static rcgen::SignatureAlgorithm) -> Vec<u8> {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "system:masters");
        params.distinguished_name.push(rcgen::DnType::CommonName, "jane");
        let key = rcgen::KeyPair::generate_for(algorithm).expect("a key");
        let request = params.serialize_request(&key).expect("a request").pem().expect("PEM");
        pem::first(request.as_bytes()).expect("a block").0.der
    }

    #[test]
    fn keys_of_every_kind_sign_requests() {
        for (algorithm, failure) in [
            (&rcgen::PKCS_ECDSA_P256_SHA256, "x509: ECDSA verification failure"),
            (&rcgen::PKCS_ECDSA_P384_SHA384, "x509: ECDSA verification failure"),
            (&rcgen::PKCS_ECDSA_P521_SHA512, "x509: ECDSA verification failure"),
            (&rcgen::PKCS_ED25519, "x509: Ed25519 verification failure"),
            (&rcgen::PKCS_RSA_SHA256, "crypto/rsa: verification error"),
        ] {
            let mut der = made(algorithm);
            let check = |der: &[u8]| CertificateRequest::parse(der).expect("a request").check_signature();
            assert_eq!(check(&der), Ok(()), "{algorithm:?}");
            let last = der.len() - 1;
            der[last] ^= 1;
            assert_eq!(check(&der), Err(X509Error(failure.to_owned())), "{algorithm:?}");
        }
    }

    #[test]
    fn names_are_read_in_every_type_of_text() {
        // The O in another type of text of the same length: the signature is not looked at here.
        let der = made(&rcgen::PKCS_ECDSA_P256_SHA256);
        let at = der.windows(14).position(|part| part == b"system:masters").expect("it is there");
        let with = |tag: u8, text: &[u8; 14]| {
            let mut der = der.clone();
            der[at - 2] = tag;
            der[at..at + 14].copy_from_slice(text);
            CertificateRequest::parse(&der).map(|request| request.organizations().to_vec())
        };
        for tag in [0x0c, 0x13, 0x14, 0x16] {
            assert_eq!(with(tag, b"system:masters"), Ok(vec!["system:masters".to_owned()]), "{tag:#x}");
        }
        assert_eq!(with(0x1e, b"\0m\0a\0s\0t\0e\0r\0s"), Ok(vec!["masters".to_owned()]));
        assert_eq!(with(0x1e, b"\0m\0a\0s\0t\0e\0r\0\0"), Ok(vec!["master".to_owned()]));
        assert_eq!(with(0x1c, b"system:masters"), Ok(Vec::new()), "a UniversalString is no text");
        assert_eq!(with(0x2c, b"\x0c\x0csystem:maste"), Ok(Vec::new()), "nor is one in pieces");
        for (tag, text) in [(0x13, b"system@masters"), (0x12, b"system:masters"), (0x16, b"system:master\xff")] {
            let fault = with(tag, text).expect_err("not of its type").to_string();
            assert!(fault.contains("contains invalid character"), "{fault}");
        }
        assert_eq!(with(0x0c, b"system:master\xff"), Err(X509Error("asn1: invalid UTF-8 string".to_owned())));
    }
}
