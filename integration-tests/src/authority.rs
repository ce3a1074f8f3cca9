//! Certificates for tests: an authority, and what it signs.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

/// An authority with a key of its own.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl Authority {
    /// An authority of this name.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        Authority(CertifiedIssuer::self_signed(params, key).expect("an authority"))
    }

    /// Its own certificate.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for a subject of up to two organizations, with the names or addresses of a server.
    pub fn issue(&self, common_name: &str, organizations: &[&str], names: &[&str]) -> Issued {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name.push(DnType::CommonName, common_name);
        // Of a type there is one in a name; by its number it is another type.
        let types = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
        assert!(organizations.len() <= types.len(), "{organizations:?}");
        for (of_type, organization) in types.into_iter().zip(organizations) {
            params.distinguished_name.push(of_type, *organization);
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        Issued { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

impl Issued {
    /// The certificate as DER.
    pub fn der(&self) -> Vec<u8> {
        self.parsed().0[0].to_vec()
    }

    /// As rustls takes them.
    pub(crate) fn parsed(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let chain = vec![CertificateDer::from_pem_slice(self.certificate.as_bytes()).expect("PEM")];
        (chain, PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("PEM"))
    }
}
