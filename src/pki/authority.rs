//! A certificate authority of our own, and what it issues. ECDSA P-256 throughout: its keys are made in a tenth of a
//! millisecond, where RSA's would take the whole time of a first start.

use std::{
    net::IpAddr,
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use generic_server::serve::CertificateFiles;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_RSA_SHA256, PublicKeyData as _, RsaKeySize, SanType, date_time_ymd,
};
use x509_parser::{
    certificate::X509Certificate,
    extensions::{GeneralName, ParsedExtension},
    pem::Pem,
};

use super::store::{Folder, PkiError};

const DAY: Duration = Duration::from_secs(24 * 3600);
const AUTHORITY_DAYS: u32 = 3650;
const LEAF_DAYS: u32 = 365;
/// Leaves are renewed when less than this is left of them.
const RENEW_BEFORE: Duration = DAY.saturating_mul(30);

/// An authority with its key in hand.
pub(super) struct Authority {
    certificate: PathBuf,
    /// Identifies the key that signs: what it issued carries the same.
    key_identifier: Vec<u8>,
    issuer: Issuer<'static, KeyPair>,
}

/// What a certificate is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Server,
    Client,
}

/// A certificate to be issued.
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) common_name: String,
    pub(super) organization: Option<String>,
    pub(super) names: Vec<String>,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) used_for: Use,
}

impl Leaf {
    pub(super) fn client(common_name: &str, organization: Option<&str>) -> Self {
        Self {
            common_name: common_name.to_owned(),
            organization: organization.map(str::to_owned),
            names: Vec::new(),
            addresses: Vec::new(),
            used_for: Use::Client,
        }
    }
}

impl Authority {
    /// The authority that is kept under this name, or a new one when there is none or it has expired.
    pub(super) fn ensure(folder: &Folder, file: &str, common_name: &str) -> Result<Self, PkiError> {
        let (certificate, key) = (format!("{file}.crt"), format!("{file}.key"));
        if let (Some(pem), Some(key_pem)) = (folder.read(&certificate)?, folder.read(&key)?) {
            let wrong = |what: String| PkiError::new(&folder.path(&certificate), what);
            let parsed = Pem::iter_from_buffer(pem.as_bytes()).next();
            let parsed = parsed.ok_or_else(|| wrong("no certificate in it".to_owned()))?;
            let parsed = parsed.map_err(|error| wrong(error.to_string()))?;
            let x509 = parsed.parse_x509().map_err(|error| wrong(error.to_string()))?;
            let key = KeyPair::from_pem(&key_pem).map_err(|error| PkiError::new(&folder.path(&key), error))?;
            if x509.public_key().subject_public_key.data.as_ref() != key.der_bytes() {
                return Err(wrong("the key beside it is another's".to_owned()));
            }
            if time_left(&x509) > DAY {
                let key_identifier = subject_key_identifier(&x509).unwrap_or_default();
                let issuer = Issuer::from_ca_cert_pem(&pem, key).map_err(|error| wrong(error.to_string()))?;
                return Ok(Self { certificate: folder.path(&certificate), key_identifier, issuer });
            }
            tracing::warn!(certificate = %folder.path(&certificate).display(), "the authority has expired: making a new one");
        }
        Self::make(folder, &certificate, &key, common_name)
    }

    fn make(folder: &Folder, certificate: &str, key: &str, common_name: &str) -> Result<Self, PkiError> {
        let failed = |error: rcgen::Error| PkiError::new(&folder.path(certificate), error);
        let pair = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = subject(common_name, None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::CrlSign];
        set_validity(&mut params, AUTHORITY_DAYS);
        let made = params.self_signed(&pair).map_err(failed)?;
        let key_identifier = params.key_identifier(&pair);
        // The key first: a certificate without its key would be taken for one that was kept elsewhere on purpose.
        folder.write(key, &pair.serialize_pem())?;
        folder.write(certificate, &made.pem())?;
        Ok(Self { certificate: folder.path(certificate), key_identifier, issuer: Issuer::new(params, pair) })
    }

    /// Where its certificate is.
    pub(super) fn certificate_path(&self) -> PathBuf {
        self.certificate.clone()
    }

    /// The certificate that is kept under this name, or a new one when there is none, it is about to expire, another
    /// authority issued it, or it lacks a name.
    pub(super) fn issue(&self, folder: &Folder, file: &str, leaf: &Leaf) -> Result<CertificateFiles, PkiError> {
        let (certificate, key) = (format!("{file}.crt"), format!("{file}.key"));
        let files = CertificateFiles { certificate: folder.path(&certificate), key: folder.path(&key) };
        let kept = match (folder.read(&certificate)?, folder.read(&key)?) {
            (Some(certificate), Some(key)) => self.is_good(&certificate, &key, leaf),
            _ => false,
        };
        if kept {
            return Ok(files);
        }
        let failed = |error: rcgen::Error| PkiError::new(&files.certificate, error);
        let pair = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = subject(&leaf.common_name, leaf.organization.as_deref());
        for name in &leaf.names {
            params.subject_alt_names.push(SanType::DnsName(name.as_str().try_into().map_err(failed)?));
        }
        params.subject_alt_names.extend(leaf.addresses.iter().copied().map(SanType::IpAddress));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = match leaf.used_for {
            Use::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
            Use::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
        };
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, LEAF_DAYS);
        let made = params.signed_by(&pair, &self.issuer).map_err(failed)?;
        folder.write(&key, &pair.serialize_pem())?;
        folder.write(&certificate, &made.pem())?;
        Ok(files)
    }

    fn is_good(&self, certificate: &str, key: &str, leaf: &Leaf) -> bool {
        let Some(Ok(pem)) = Pem::iter_from_buffer(certificate.as_bytes()).next() else { return false };
        let (Ok(x509), Ok(key)) = (pem.parse_x509(), KeyPair::from_pem(key)) else { return false };
        x509.public_key().subject_public_key.data.as_ref() == key.der_bytes()
            && time_left(&x509) > RENEW_BEFORE
            && authority_key_identifier(&x509).is_some_and(|issuer| issuer == self.key_identifier)
            && has_names(&x509, leaf)
    }
}

/// The key that signs service account tokens: made once, never renewed, for tokens outlive certificates.
pub(super) fn service_account_key(folder: &Folder) -> Result<PathBuf, PkiError> {
    if folder.read(SERVICE_ACCOUNT_KEY)?.is_none() {
        let made = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048);
        let pair = made.map_err(|error| PkiError::new(&folder.path(SERVICE_ACCOUNT_KEY), error))?;
        folder.write("sa.pub", &pair.public_key_pem())?;
        folder.write(SERVICE_ACCOUNT_KEY, &pair.serialize_pem())?;
    }
    Ok(folder.path(SERVICE_ACCOUNT_KEY))
}

/// The file of the key that signs service account tokens.
pub(super) const SERVICE_ACCOUNT_KEY: &str = "sa.key";

/// The common name of the first certificate in a file, empty without one; `None` when there is no certificate.
pub(super) fn common_name(file: &std::path::Path) -> Option<String> {
    let pem = std::fs::read(file).ok()?;
    let pem = Pem::iter_from_buffer(&pem).next()?.ok()?;
    let certificate = pem.parse_x509().ok()?;
    let name = certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
    Some(name.unwrap_or_default().to_owned())
}

fn subject(common_name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name.push(DnType::CommonName, common_name);
    name
}

/// From yesterday (clocks differ) for so many days.
fn set_validity(params: &mut CertificateParams, days: u32) {
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + (since_epoch() - DAY);
    params.not_after = epoch + (since_epoch() + DAY * days);
}

fn since_epoch() -> Duration {
    // Whole seconds: certificates have no finer ones.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(DAY);
    Duration::from_secs(now.as_secs()).max(DAY)
}

fn time_left(certificate: &X509Certificate<'_>) -> Duration {
    let end = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0);
    Duration::from_secs(end).saturating_sub(since_epoch())
}

fn subject_key_identifier(certificate: &X509Certificate<'_>) -> Option<Vec<u8>> {
    certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(identifier) => Some(identifier.0.to_vec()),
        _ => None,
    })
}

fn authority_key_identifier(certificate: &X509Certificate<'_>) -> Option<Vec<u8>> {
    certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(identifier) => {
            identifier.key_identifier.as_ref().map(|id| id.0.to_vec())
        }
        _ => None,
    })
}

fn has_names(certificate: &X509Certificate<'_>, leaf: &Leaf) -> bool {
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let names = alternatives.map(|names| names.value.general_names.as_slice()).unwrap_or_default();
    let has_name =
        |wanted: &String| names.iter().any(|name| matches!(name, GeneralName::DNSName(name) if name == wanted));
    let has_address = |wanted: &IpAddr| {
        let bytes = match wanted {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        names.iter().any(|name| matches!(name, GeneralName::IPAddress(address) if *address == bytes))
    };
    let subject = certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
    subject == Some(&leaf.common_name) && leaf.names.iter().all(has_name) && leaf.addresses.iter().all(has_address)
}
