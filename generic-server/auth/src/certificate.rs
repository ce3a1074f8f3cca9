//! Identity from client certificates, and from a front proxy's headers behind one.

use std::{
    any::Any,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use aws_lc_rs::digest::{SHA256, digest};
use http::{HeaderMap, HeaderName};
use machinery::Str;
use rustls_pki_types::CertificateDer;

use super::User;
use crate::header_text;
use x509::{Certificate, Purpose, Roots, RootsError, X509Error};

/// Why a certificate names no user. Shown, it is what upstream's server logs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// There is none.
    #[error("no certificate")]
    Missing,
    /// It cannot be read or is not believed, or one of those that came with it cannot be read.
    #[error(transparent)]
    NotBelieved(#[from] X509Error),
    /// Its subject has a UID without content.
    #[error("UID cannot be an empty string")]
    EmptyUid,
    /// Its subject has several UIDs.
    #[error("expected 1 UID, but found multiple: {0:?}")]
    SeveralUids(Vec<String>),
    /// It is believed, and is not one of those by which a front proxy may be known. This is its common name.
    #[error("x509: subject with cn={0} is not in the allowed list")]
    NoFrontProxy(String),
}

/// A bundle of certificate authorities that client certificates are judged by. Replaced as a whole when its file changes.
pub struct ClientCertificates {
    roots: ArcSwap<Roots>,
}

/// The key of the extra fact that says by which credential a user came.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

impl ClientCertificates {
    /// From PEM text with one or more certificates.
    ///
    /// # Errors
    /// It has none, or one that cannot be read.
    pub fn from_pem(pem: &[u8]) -> Result<Self, RootsError> {
        Ok(ClientCertificates { roots: ArcSwap::from_pointee(Roots::from_pem(pem)?) })
    }

    /// Takes another bundle from now on.
    ///
    /// # Errors
    /// As [`Self::from_pem`]; then the old one stays.
    pub fn replace(&self, pem: &[u8]) -> Result<(), RootsError> {
        self.roots.store(Arc::new(Roots::from_pem(pem)?));
        Ok(())
    }

    /// Checks that the chain leads to one of the authorities, is in its time, and is meant for clients; answers the client's
    /// own certificate, with which `chain` starts, and until when that holds.
    fn verify(roots: &Roots, chain: &[CertificateDer<'_>]) -> Result<(Certificate, i64), CertificateError> {
        let parse = |der: &CertificateDer<'_>| Certificate::parse(der);
        let [leaf, intermediates @ ..] = chain else { return Err(CertificateError::Missing) };
        let leaf = parse(leaf)?;
        let intermediates = intermediates.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let until = roots.verify(&leaf, &intermediates, Purpose::Client, now())?;
        Ok((leaf, until))
    }

    /// The user of a connection's certificate, see [`Self::authenticate`]. It is verified once a connection, as long as the
    /// authorities and the certificates stay what they are.
    ///
    /// # Errors
    /// As [`Self::authenticate`].
    pub fn user_of(
        &self,
        chain: &[CertificateDer<'_>],
        memo: &ArcSwapOption<Box<dyn Any + Send + Sync>>,
        reads_uid: bool,
    ) -> Result<Option<Arc<User>>, CertificateError> {
        let roots = self.roots.load_full();
        let kept = memo.load();
        if let Some(kept) = kept.as_ref().and_then(|kept| kept.downcast_ref::<Verified>())
            && Arc::ptr_eq(&kept.roots, &roots)
            && now() <= kept.until
        {
            return Ok(Some(kept.user.clone()));
        }
        let (user, until) = Self::user(&roots, chain, reads_uid)?;
        Ok(user.map(|user| {
            let user = Arc::new(user);
            memo.store(Some(Arc::new(Box::new(Verified { roots, until, user: user.clone() }))));
            user
        }))
    }

    /// The user that a certificate names: CN is the name, each O a group, and the attribute for it the UID if `reads_uid`.
    /// None if it names nobody.
    ///
    /// # Errors
    /// Why it is not believed.
    pub fn authenticate(
        &self,
        chain: &[CertificateDer<'_>],
        reads_uid: bool,
    ) -> Result<Option<User>, CertificateError> {
        Self::user(&self.roots.load(), chain, reads_uid).map(|(user, _)| user)
    }

    fn user(
        roots: &Roots,
        chain: &[CertificateDer<'_>],
        reads_uid: bool,
    ) -> Result<(Option<User>, i64), CertificateError> {
        let (leaf, until) = Self::verify(roots, chain)?;
        let subject = leaf.subject();
        if subject.common_name.is_empty() {
            return Ok((None, until));
        }
        let uid = match subject.uids.as_slice() {
            _ if !reads_uid => "",
            [] => "",
            [uid] if uid.is_empty() => return Err(CertificateError::EmptyUid),
            [uid] => uid,
            several => return Err(CertificateError::SeveralUids(several.to_vec())),
        };
        let print: String = digest(&SHA256, &chain[0]).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let user = User {
            name: subject.common_name.as_str().into(),
            uid: uid.into(),
            groups: subject.organizations.iter().map(|group| group.as_str().into()).collect(),
            extra: vec![(CREDENTIAL_ID.into(), vec![format!("X509SHA256={print}").into()])],
        };
        Ok((Some(user.authenticated()), until))
    }
}

/// What is known of a connection's certificate.
#[derive(Debug)]
struct Verified {
    roots: Arc<Roots>,
    /// In seconds since 1970.
    until: i64,
    user: Arc<User>,
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs().cast_signed())
}

/// `--requestheader-*`: which headers a front proxy (an aggregator before this server) names the user in.
#[derive(Clone, Debug, Default)]
pub struct RequestHeaderOptions {
    /// Common names that the proxy's certificate may have; none means any.
    pub allowed_names: Vec<Str>,
    /// Headers with the user's name.
    pub username_headers: Vec<Str>,
    /// Headers with the user's uid.
    pub uid_headers: Vec<Str>,
    /// Headers with the user's groups.
    pub group_headers: Vec<Str>,
    /// What headers with further facts start with.
    pub extra_prefixes: Vec<Str>,
}

/// The headers that every front proxy may use.
const STANDARD: [&str; 3] = ["x-remote-user", "x-remote-uid", "x-remote-group"];
const STANDARD_EXTRA: &str = "x-remote-extra-";

/// Believes headers of requests that come with the front proxy's certificate.
pub struct RequestHeader {
    /// The proxy's authorities.
    pub authorities: Arc<ClientCertificates>,
    /// The headers.
    pub options: RequestHeaderOptions,
}

impl RequestHeader {
    /// The user that the headers name; `None` if there is none, or if the request is not from the proxy. The headers
    /// are taken out of the request either way once the proxy is believed.
    ///
    /// # Errors
    /// The certificate is no front proxy's.
    pub fn authenticate(
        &self,
        chain: &[CertificateDer<'_>],
        headers: &mut HeaderMap,
    ) -> Result<Option<User>, CertificateError> {
        let name = first_value(headers, &self.options.username_headers);
        let Some(name) = name else { return Ok(None) };
        if chain.is_empty() {
            return Ok(None);
        }
        let (leaf, _) = ClientCertificates::verify(&self.authorities.roots.load(), chain)?;
        let proxy = &leaf.subject().common_name;
        if !self.options.allowed_names.is_empty() && !self.options.allowed_names.iter().any(|name| name == proxy) {
            return Err(CertificateError::NoFrontProxy(proxy.clone()));
        }
        let user = User {
            name,
            uid: first_value(headers, &self.options.uid_headers).unwrap_or_default(),
            groups: self.options.group_headers.iter().flat_map(|h| all_values(headers, h)).collect(),
            extra: self.extra(headers),
        };
        for header in [&self.options.username_headers, &self.options.uid_headers, &self.options.group_headers] {
            for name in header {
                headers.remove(name.as_str());
            }
        }
        Ok(Some(user.authenticated()))
    }

    /// Takes everything out of a request that names a user in headers, in upstream's or in the configured ones: whoever was
    /// authenticated by something else has no say in it either.
    pub fn clear(options: Option<&RequestHeaderOptions>, headers: &mut HeaderMap) {
        let is_one = |name: &str, names: &[Str]| names.iter().any(|known| name.eq_ignore_ascii_case(known));
        let starts = |name: &str, prefixes: &[Str]| {
            prefixes.iter().any(|p| name.get(..p.len()).is_some_and(|start| start.eq_ignore_ascii_case(p)))
        };
        let is_claim = |name: &HeaderName| {
            let name = name.as_str();
            STANDARD.contains(&name)
                || name.starts_with(STANDARD_EXTRA)
                || options.is_some_and(|o| {
                    is_one(name, &o.username_headers)
                        || is_one(name, &o.uid_headers)
                        || is_one(name, &o.group_headers)
                        || starts(name, &o.extra_prefixes)
                })
        };
        let claims: Vec<HeaderName> = headers.keys().filter(|name| is_claim(name)).cloned().collect();
        for name in claims {
            headers.remove(name);
        }
    }

    fn extra(&self, headers: &mut HeaderMap) -> Vec<(Str, Vec<Str>)> {
        let mut extra = Vec::new();
        for prefix in &self.options.extra_prefixes {
            let prefix = prefix.to_ascii_lowercase();
            let names: Vec<_> = headers.keys().filter(|k| k.as_str().starts_with(&prefix)).cloned().collect();
            for name in names {
                let key = name.as_str()[prefix.len()..].to_owned();
                let key = machinery::request::strict_percent_decode(&key)
                    .and_then(|bytes| String::from_utf8(bytes).ok())
                    .unwrap_or(key);
                extra.push((Str::from(key), all_values(headers, name.as_str())));
                headers.remove(&name);
            }
        }
        extra
    }
}

fn first_value(headers: &HeaderMap, names: &[Str]) -> Option<Str> {
    names.iter().find_map(|name| headers.get(name.as_str()).map(header_text).filter(|v| !v.is_empty()).map(Str::from))
}

fn all_values(headers: &HeaderMap, name: &str) -> Vec<Str> {
    headers.get_all(name).iter().map(|v| Str::from(header_text(v))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority() -> (rcgen::CertifiedIssuer<'static, rcgen::KeyPair>, Vec<u8>) {
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let issuer =
            rcgen::CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate().expect("a key")).expect("a CA");
        let pem = issuer.pem().into_bytes();
        (issuer, pem)
    }

    fn client(
        issuer: &rcgen::CertifiedIssuer<'static, rcgen::KeyPair>,
        usage: rcgen::ExtendedKeyUsagePurpose,
    ) -> CertificateDer<'static> {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, "jane");
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "dev");
        params.extended_key_usages = vec![usage];
        let key = rcgen::KeyPair::generate().expect("a key");
        params.signed_by(&key, issuer).expect("a certificate").der().clone()
    }

    #[test]
    fn a_certificate_names_user_and_groups() {
        let (ca, pem) = authority();
        let authenticator = ClientCertificates::from_pem(&pem).expect("a bundle");
        let jane = client(&ca, rcgen::ExtendedKeyUsagePurpose::ClientAuth);
        let user = authenticator.authenticate(std::slice::from_ref(&jane), true).expect("known").expect("named");
        assert_eq!(user.name, "jane");
        assert_eq!(user.groups, ["dev", "system:authenticated"]);
        let [(key, values)] = user.extra.as_slice() else { panic!("{:?}", user.extra) };
        let id = values[0].strip_prefix("X509SHA256=").expect("a fingerprint");
        assert_eq!((key.as_str(), values.len(), id.len()), ("authentication.kubernetes.io/credential-id", 1, 64));
        assert!(id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{id}");

        let server = client(&ca, rcgen::ExtendedKeyUsagePurpose::ServerAuth);
        assert!(authenticator.authenticate(&[server], true).is_err(), "a serving certificate is no client's");
        let (_, other) = authority();
        let stranger = ClientCertificates::from_pem(&other).expect("a bundle");
        assert!(stranger.authenticate(&[jane], true).is_err(), "of another authority");
    }

    #[test]
    fn a_connections_certificate_is_verified_again_when_the_authorities_change() {
        let (ca, pem) = authority();
        let authenticator = ClientCertificates::from_pem(&pem).expect("a bundle");
        let jane = client(&ca, rcgen::ExtendedKeyUsagePurpose::ClientAuth);
        let memo = ArcSwapOption::empty();
        let ask = || authenticator.user_of(std::slice::from_ref(&jane), &memo, true);
        let first = ask().expect("known").expect("named");
        assert!(Arc::ptr_eq(&first, &ask().expect("known").expect("named")), "kept");
        authenticator.replace(&pem).expect("a bundle");
        assert!(!Arc::ptr_eq(&first, &ask().expect("known").expect("named")), "verified again");
        authenticator.replace(&authority().1).expect("a bundle");
        assert!(ask().is_err(), "of another authority now");
    }

    #[test]
    fn a_certificate_names_one_uid_or_none() {
        let (ca, pem) = authority();
        let authenticator = ClientCertificates::from_pem(&pem).expect("a bundle");
        let check = |name: &str, uid: Option<&str>, reads: bool, expect: Result<Option<&str>, &str>| {
            let mut params = rcgen::CertificateParams::default();
            params.distinguished_name = rcgen::DistinguishedName::new();
            if !name.is_empty() {
                params.distinguished_name.push(rcgen::DnType::CommonName, name);
            }
            if let Some(uid) = uid {
                let kind = rcgen::DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
                params.distinguished_name.push(kind, uid);
            }
            let key = rcgen::KeyPair::generate().expect("a key");
            let certificate = params.signed_by(&key, &ca).expect("a certificate").der().clone();
            let found = authenticator.authenticate(&[certificate], reads).map(|user| user.map(|user| user.uid));
            let found = found.map_err(|why| why.to_string());
            assert_eq!(found, expect.map(|uid| uid.map(Str::from)).map_err(str::to_owned), "{name} {uid:?}");
        };
        check("jane", Some("1001"), true, Ok(Some("1001")));
        check("jane", Some("1001"), false, Ok(Some("")));
        check("jane", None, true, Ok(Some("")));
        check("jane", Some(""), true, Err("UID cannot be an empty string"));
        check("", Some("1001"), true, Ok(None));
    }

    #[test]
    fn a_front_proxy_is_believed_by_its_certificate() {
        let (ca, pem) = authority();
        let options = RequestHeaderOptions {
            allowed_names: vec!["jane".into()],
            username_headers: vec!["X-Remote-User".into()],
            group_headers: vec!["X-Remote-Group".into()],
            extra_prefixes: vec!["X-Remote-Extra-".into()],
            ..RequestHeaderOptions::default()
        };
        let proxy =
            RequestHeader { authorities: Arc::new(ClientCertificates::from_pem(&pem).expect("a bundle")), options };
        let headers = || {
            let mut h = HeaderMap::new();
            h.insert("x-remote-user", "bob".parse().expect("a value"));
            h.append("x-remote-group", "a".parse().expect("a value"));
            h.append("x-remote-group", "b".parse().expect("a value"));
            h.insert("x-remote-extra-scopes%2fx", "s".parse().expect("a value"));
            h
        };
        let jane = client(&ca, rcgen::ExtendedKeyUsagePurpose::ClientAuth);
        let mut sent = headers();
        let user = proxy.authenticate(&[jane], &mut sent).expect("believed").expect("named");
        assert_eq!(user.name, "bob");
        assert_eq!(user.groups, ["a", "b", "system:authenticated"]);
        assert_eq!(user.extra, [(Str::from("scopes/x"), vec![Str::from("s")])]);
        assert!(sent.is_empty());
        assert_eq!(proxy.authenticate(&[], &mut headers()), Ok(None), "without a certificate headers mean nothing");
    }

    #[test]
    fn what_names_a_user_in_headers_goes_no_further() {
        let texts = |texts: &[&'static str]| texts.iter().copied().map(Str::new_static).collect::<Vec<_>>();
        let options = RequestHeaderOptions {
            username_headers: texts(&["X-User"]),
            group_headers: texts(&["X-Remote-Group", "X-Other-Group"]),
            extra_prefixes: texts(&["X-More-"]),
            ..RequestHeaderOptions::default()
        };
        let check = |options: Option<&RequestHeaderOptions>, expect: &[&str]| {
            let mut headers = HeaderMap::new();
            for name in [
                "accept",
                "x-remote-user",
                "x-remote-uid",
                "x-remote-group",
                "x-remote-extra-scopes",
                "x-remote-other",
                "x-user",
                "x-other-group",
                "x-more-scopes",
                "x-mor",
            ] {
                headers.append(name, http::HeaderValue::from_static("v"));
                headers.append(name, http::HeaderValue::from_static("w"));
            }
            RequestHeader::clear(options, &mut headers);
            let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
            left.sort_unstable();
            assert_eq!(left, expect);
        };
        check(Some(&options), &["accept", "x-mor", "x-remote-other"]);
        check(None, &["accept", "x-mor", "x-more-scopes", "x-other-group", "x-remote-other", "x-user"]);
    }
}
