//! A certificate, parsed once.

use rustls_pki_types::CertificateDer;
use x509_parser::{
    certificate::X509Certificate,
    extensions::{ExtendedKeyUsage, GeneralName, ParsedExtension, X509Extension},
    oid_registry::{OID_X509_COMMON_NAME, OID_X509_ORGANIZATION_NAME, Oid},
    prelude::FromDer,
    x509::X509Name,
};

use super::{
    X509Error,
    constraints::Constraints,
    names::{AlternativeNames, directory_string},
    signature::{PublicKey, SignatureAlgorithm},
};

/// A certificate. Its signature says nothing until a chain is verified.
#[derive(Clone, Debug)]
pub struct Certificate {
    pub(super) der: CertificateDer<'static>,
    pub(super) version: u32,
    pub(super) serial: String,
    /// The names as they are encoded, which is how they are compared.
    pub(super) raw_subject: Vec<u8>,
    pub(super) raw_issuer: Vec<u8>,
    pub(super) subject: Subject,
    /// Seconds since 1970, both inclusive.
    pub(super) not_before: i64,
    pub(super) not_after: i64,
    pub(super) raw_key: Vec<u8>,
    pub(super) key: PublicKey,
    pub(super) signed: Vec<u8>,
    pub(super) algorithm: SignatureAlgorithm,
    pub(super) signature: Vec<u8>,
    pub(super) extensions: Extensions,
}

/// Whom a certificate is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The last CN.
    pub common_name: String,
    /// Every O.
    pub organizations: Vec<String>,
    /// Every UID of Kubernetes' own kind.
    pub uids: Vec<String>,
}

/// What extensions say, as far as it is looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct Extensions {
    pub(super) basic_constraints: Option<BasicConstraints>,
    /// Whether the key may sign certificates; none if nothing is said.
    pub(super) may_sign: Option<bool>,
    /// None if nothing is said.
    pub(super) usages: Option<Usages>,
    pub(super) names: Option<AlternativeNames>,
    pub(super) raw_names: Option<Vec<u8>>,
    pub(super) constraints: Option<Constraints>,
    pub(super) subject_key_id: Vec<u8>,
    pub(super) authority_key_id: Vec<u8>,
    /// There is something critical that is not understood.
    pub(super) unhandled_critical: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct BasicConstraints {
    pub(super) is_authority: bool,
    pub(super) max_path: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Usages {
    pub(super) any: bool,
    pub(super) server: bool,
    pub(super) client: bool,
}

impl Certificate {
    /// Parses a certificate.
    ///
    /// # Errors
    /// It is none, or holds what cannot be read.
    pub fn parse(der: &[u8]) -> Result<Self, X509Error> {
        let (rest, parsed) = X509Certificate::from_der(der).map_err(|_| X509Error::new("malformed certificate"))?;
        if !rest.is_empty() {
            return Err(X509Error::new("trailing data"));
        }
        if parsed.signature_algorithm != parsed.tbs_certificate.signature {
            return Err(X509Error::new("inner and outer signature algorithm identifiers don't match"));
        }
        let version = parsed.version().0 + 1;
        if version > 3 {
            return Err(X509Error::new("invalid version"));
        }
        name(parsed.issuer())?;
        let key = parsed.public_key();
        Ok(Certificate {
            der: CertificateDer::from(der.to_vec()),
            version,
            serial: parsed.tbs_certificate.serial.to_string(),
            raw_subject: parsed.subject().as_raw().to_vec(),
            raw_issuer: parsed.issuer().as_raw().to_vec(),
            subject: name(parsed.subject())?,
            not_before: parsed.validity().not_before.timestamp(),
            not_after: parsed.validity().not_after.timestamp(),
            raw_key: key.raw.to_vec(),
            key: PublicKey::of(key),
            signed: parsed.tbs_certificate.as_ref().to_vec(),
            algorithm: SignatureAlgorithm::of(&parsed.signature_algorithm),
            signature: parsed.signature_value.data.to_vec(),
            extensions: extensions(parsed.extensions())?,
        })
    }

    /// The names that a server with this certificate may have: its DNS names, else its common name.
    pub fn server_names(&self) -> Vec<String> {
        let names = self.extensions.names.as_ref().map(|names| names.dns.clone()).unwrap_or_default();
        if !names.is_empty() {
            return names;
        }
        Some(self.subject.common_name.clone()).filter(|name| !name.is_empty()).into_iter().collect()
    }

    /// The last second of its time, since 1970.
    pub fn not_after(&self) -> i64 {
        self.not_after
    }

    /// Whose it is.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The subject as it is encoded, as hints to clients have it.
    pub fn raw_subject(&self) -> &[u8] {
        &self.raw_subject
    }
}

/// The attribute that carries a user's UID.
const UID: [u64; 8] = [1, 3, 6, 1, 4, 1, 57683, 2];

/// Reads a name. An attribute that cannot be read makes it unreadable: a part of it would be somebody else.
fn name(name: &X509Name<'_>) -> Result<Subject, X509Error> {
    let mut subject = Subject::default();
    let uid = Oid::from(&UID).map_err(|_| X509Error::new("internal error: the UID's object identifier"))?;
    for attribute in name.iter_attributes() {
        let value = attribute.attr_value();
        let text = directory_string(value.tag(), value.data)
            .map_err(|why| X509Error::new(format!("invalid RDNSequence: invalid attribute value: {why}")))?;
        let kind = attribute.attr_type();
        if *kind == OID_X509_COMMON_NAME {
            subject.common_name = text;
        } else if *kind == OID_X509_ORGANIZATION_NAME {
            subject.organizations.push(text);
        } else if *kind == uid {
            subject.uids.push(text);
        }
    }
    Ok(subject)
}

fn extensions(list: &[X509Extension<'_>]) -> Result<Extensions, X509Error> {
    let mut out = Extensions::default();
    for (at, extension) in list.iter().enumerate() {
        if list[..at].iter().any(|before| before.oid == extension.oid) {
            let why = format!("certificate contains duplicate extension with OID {:?}", extension.oid.to_id_string());
            return Err(X509Error::new(why));
        }
        let handled = match extension.parsed_extension() {
            ParsedExtension::BasicConstraints(basic) => {
                out.basic_constraints =
                    Some(BasicConstraints { is_authority: basic.ca, max_path: basic.path_len_constraint });
                true
            }
            ParsedExtension::KeyUsage(usage) => {
                out.may_sign = (usage.flags != 0).then(|| usage.key_cert_sign());
                true
            }
            ParsedExtension::ExtendedKeyUsage(usage) => {
                out.usages = usages(usage);
                true
            }
            ParsedExtension::SubjectAlternativeName(names) => {
                let names = AlternativeNames::read(&names.general_names)?;
                let any = !names.is_empty();
                out.raw_names = Some(extension.value.to_vec());
                out.names = Some(names);
                any
            }
            ParsedExtension::NameConstraints(constraints) => {
                let (constraints, all) = Constraints::read(constraints)?;
                out.constraints = Some(constraints);
                all
            }
            ParsedExtension::SubjectKeyIdentifier(id) => {
                out.subject_key_id = id.0.to_vec();
                true
            }
            ParsedExtension::AuthorityKeyIdentifier(id) => {
                out.authority_key_id = id.key_identifier.as_ref().map(|id| id.0.to_vec()).unwrap_or_default();
                true
            }
            ParsedExtension::CertificatePolicies(_) | ParsedExtension::CRLDistributionPoints(_) => true,
            ParsedExtension::ParseError { .. } => {
                return Err(X509Error::new(format!("malformed extension {}", extension.oid.to_id_string())));
            }
            // Differs: constraints on policies are not followed, so that critical ones are refused.
            _ => false,
        };
        out.unhandled_critical |= extension.critical && !handled;
    }
    Ok(out)
}

fn usages(usage: &ExtendedKeyUsage<'_>) -> Option<Usages> {
    let others = usage.code_signing || usage.email_protection || usage.time_stamping || usage.ocsp_signing;
    let says = usage.any || usage.server_auth || usage.client_auth || others || !usage.other.is_empty();
    says.then_some(Usages { any: usage.any, server: usage.server_auth, client: usage.client_auth })
}

impl AlternativeNames {
    pub(super) fn read(names: &[GeneralName<'_>]) -> Result<Self, X509Error> {
        let mut out = AlternativeNames::default();
        let ascii = |kind: &str, text: &str| {
            let good = text.is_ascii().then(|| text.to_owned());
            good.ok_or_else(|| X509Error::new(format!("SAN {kind} is malformed")))
        };
        for name in names {
            match name {
                GeneralName::DNSName(name) => out.dns.push(ascii("dNSName", name)?),
                GeneralName::RFC822Name(name) => out.emails.push(ascii("rfc822Name", name)?),
                GeneralName::URI(uri) => out.uris.push(ascii("uniformResourceIdentifier", uri)?),
                GeneralName::IPAddress(bytes) => out.ips.push(super::names::ip(bytes)?),
                GeneralName::Invalid(..) => return Err(X509Error::new("invalid subject alternative name")),
                _ => {}
            }
        }
        Ok(out)
    }
}
