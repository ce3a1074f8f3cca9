//! Chains: from a certificate to one that is believed.

use std::collections::HashMap;

use rustls_pki_types::{
    CertificateDer,
    pem::{self, PemObject},
};

use super::{Certificate, X509Error, signature};

/// So many signatures are checked for one certificate, and no more: whoever sends it chooses what it comes with.
const MAX_SIGNATURES: u32 = 100;

/// What a certificate is shown for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// A client says who it is.
    Client,
    /// A server of this name says who it is.
    Server(&'a str),
}

/// Why a file holds no certificates to believe.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// It is no PEM.
    #[error("{0}")]
    Pem(pem::Error),
    /// A certificate in it cannot be read.
    #[error(transparent)]
    Certificate(#[from] X509Error),
    /// There is no certificate in it.
    #[error("no certificate in it")]
    NoCertificate,
}

/// Why a bundle holds no certificate to believe. Shown, it is what Go's clients say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// None of its certificates can be read, the first for this reason.
    #[error("unable to load root certificates: failed to parse certificate: {0}")]
    Certificate(X509Error),
    /// It has none.
    #[error("unable to load root certificates: unable to parse bytes as PEM block")]
    NoCertificate,
}

/// The certificates that are believed, by their subjects.
#[derive(Debug, Default)]
pub struct Roots {
    all: Vec<Certificate>,
    by_subject: HashMap<Vec<u8>, Vec<usize>>,
}

/// One search for a chain.
struct Search<'a> {
    roots: &'a Roots,
    intermediates: &'a [Certificate],
    purpose: Purpose<'a>,
    now: i64,
    signatures: u32,
    /// When the first certificate of the chain that was found ends.
    until: i64,
    /// Whether there was a chain, and why it did not count.
    refused: Option<X509Error>,
}

/// Why no chain was found.
enum Dead {
    /// Nothing leads on from here.
    End(X509Error),
    /// The search has taken too long.
    Limit,
}

impl Roots {
    /// From PEM text, all of whose certificates must be readable.
    ///
    /// # Errors
    /// What is wrong with it; that there are none.
    pub fn from_pem(pem: &[u8]) -> Result<Self, RootsError> {
        let read = |der: Result<CertificateDer<'static>, _>| Ok(Certificate::parse(&der.map_err(RootsError::Pem)?)?);
        let all = CertificateDer::pem_slice_iter(pem).map(read).collect::<Result<Vec<_>, RootsError>>()?;
        if all.is_empty() { Err(RootsError::NoCertificate) } else { Ok(Self::new(all)) }
    }

    /// From a bundle, as the objects of users hold it: what cannot be read in it does not count.
    ///
    /// # Errors
    /// There is no certificate in it that can be read.
    pub fn from_bundle(pem: &[u8]) -> Result<Self, BundleError> {
        let read = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).map(|der| Certificate::parse(&der));
        let (good, bad): (Vec<_>, Vec<_>) = read.partition(Result::is_ok);
        if good.is_empty() {
            let why = bad.into_iter().find_map(Result::err);
            return Err(why.map_or(BundleError::NoCertificate, BundleError::Certificate));
        }
        Ok(Self::new(good.into_iter().filter_map(Result::ok).collect()))
    }

    /// From certificates, of which those that cannot be read do not count.
    pub fn from_der(ders: &[CertificateDer<'_>]) -> Self {
        Self::new(ders.iter().filter_map(|der| Certificate::parse(der).ok()).collect())
    }

    fn new(all: Vec<Certificate>) -> Self {
        let mut by_subject: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
        for (at, certificate) in all.iter().enumerate() {
            by_subject.entry(certificate.raw_subject.clone()).or_default().push(at);
        }
        Roots { all, by_subject }
    }

    /// Checks that `leaf` is believed for a purpose at a time (in seconds since 1970): it is one of these certificates, or
    /// leads to one over `intermediates`. Answers until when that holds.
    ///
    /// # Errors
    /// Why it is not.
    pub fn verify(
        &self,
        leaf: &Certificate,
        intermediates: &[Certificate],
        purpose: Purpose<'_>,
        now: i64,
    ) -> Result<i64, X509Error> {
        is_valid(leaf, &[], false, now)?;
        if let Purpose::Server(host) = purpose {
            leaf.verify_host(host)?;
        }
        let mut search = Search { roots: self, intermediates, purpose, now, signatures: 0, until: 0, refused: None };
        if self.issuers(&leaf.raw_subject).any(|root| root.der == leaf.der) {
            return if search.accept(&[leaf]) { Ok(search.until) } else { Err(search.refusal()) };
        }
        match search.find(&[leaf]) {
            Ok(true) => Ok(search.until),
            Ok(false) => Err(search.refusal()),
            Err(_) if search.refused.is_some() => Err(search.refusal()),
            Err(Dead::End(why)) => Err(why),
            Err(Dead::Limit) => {
                Err(X509Error::new("signature check attempts limit reached while verifying certificate chain"))
            }
        }
    }

    fn issuers(&self, subject: &[u8]) -> impl Iterator<Item = &Certificate> {
        self.by_subject.get(subject).into_iter().flatten().map(|at| &self.all[*at])
    }
}

impl<'a> Search<'a> {
    /// Looks for a chain that counts. False: there are chains, and none of them counts.
    fn find(&mut self, chain: &[&'a Certificate]) -> Result<bool, Dead> {
        let Some(child) = chain.last().copied() else { return Ok(false) };
        let (roots, intermediates) = (self.roots, self.intermediates);
        let mut candidates: Vec<(&Certificate, bool)> =
            by_key(child, roots.issuers(&child.raw_issuer)).into_iter().map(|root| (root, true)).collect();
        let others = intermediates.iter().filter(|certificate| certificate.raw_subject == child.raw_issuer);
        candidates.extend(by_key(child, others).into_iter().map(|other| (other, false)));
        let (mut hint, mut last, mut any) = (None, None, false);
        for (candidate, is_root) in candidates {
            self.signatures += 1;
            if self.signatures > MAX_SIGNATURES {
                return Err(Dead::Limit);
            }
            if chain.iter().any(|seen| is_same(seen, candidate)) {
                continue;
            }
            if let Err(why) = may_have_signed(candidate, child) {
                hint.get_or_insert((why, candidate));
                continue;
            }
            if let Err(why) = is_valid(candidate, chain, !is_root, self.now) {
                last = Some(why.clone());
                hint.get_or_insert((why, candidate));
                continue;
            }
            last = None;
            let longer = [chain, &[candidate]].concat();
            if is_root {
                any = true;
                if self.accept(&longer) {
                    return Ok(true);
                }
                continue;
            }
            match self.find(&longer) {
                Ok(true) => return Ok(true),
                Ok(false) => any = true,
                Err(Dead::Limit) => return Err(Dead::Limit),
                Err(Dead::End(why)) => last = Some(why),
            }
        }
        if any {
            return Ok(false);
        }
        Err(Dead::End(last.unwrap_or_else(|| unknown_authority(hint))))
    }

    /// Whether a chain that ends in a root counts for the purpose and for all names in it.
    fn accept(&mut self, chain: &[&Certificate]) -> bool {
        if !chain.iter().all(|certificate| is_for(certificate, self.purpose)) {
            self.refused.get_or_insert_with(|| X509Error::new("certificate specifies an incompatible key usage"));
            return false;
        }
        for (at, certificate) in chain.iter().enumerate() {
            let Some(names) = &certificate.extensions.names else { continue };
            for constraints in chain[at + 1..].iter().filter_map(|above| above.extensions.constraints.as_ref()) {
                if let Err(why) = constraints.check(names) {
                    self.refused = Some(why);
                    return false;
                }
            }
        }
        self.until = chain.iter().map(|certificate| certificate.not_after).min().unwrap_or_default();
        true
    }

    fn refusal(&self) -> X509Error {
        self.refused.clone().unwrap_or_else(|| X509Error::new("no valid chains built"))
    }
}

/// Candidates whose key has the name that the child gives first.
fn by_key<'a>(child: &Certificate, candidates: impl Iterator<Item = &'a Certificate>) -> Vec<&'a Certificate> {
    let mut candidates: Vec<_> = candidates.collect();
    candidates.sort_by_key(|candidate| {
        let (own, asked) = (&candidate.extensions.subject_key_id, &child.extensions.authority_key_id);
        if own == asked { 0 } else { 1 + i32::from(!own.is_empty() && !asked.is_empty()) }
    });
    candidates
}

fn is_same(one: &Certificate, other: &Certificate) -> bool {
    one.raw_subject == other.raw_subject
        && one.raw_key == other.raw_key
        && one.extensions.raw_names == other.extensions.raw_names
}

/// Checks that `parent` may sign certificates and has signed this one.
fn may_have_signed(parent: &Certificate, child: &Certificate) -> Result<(), X509Error> {
    let basic = parent.extensions.basic_constraints;
    let is_authority = basic.map_or(parent.version < 3, |basic| basic.is_authority);
    if !is_authority || parent.extensions.may_sign == Some(false) {
        return Err(X509Error::new("invalid signature: parent certificate cannot sign this kind of certificate"));
    }
    signature::check(child.algorithm, &parent.key, &child.signed, &child.signature)
}

/// Checks a certificate that is to follow a chain, by itself.
fn is_valid(
    certificate: &Certificate,
    chain: &[&Certificate],
    is_intermediate: bool,
    now: i64,
) -> Result<(), X509Error> {
    if certificate.extensions.unhandled_critical {
        return Err(X509Error::new("unhandled critical extension"));
    }
    let expired = |relation: &str, bound: i64| {
        let (now, bound) = (time(now), time(bound));
        let why = format!("certificate has expired or is not yet valid: current time {now} is {relation} {bound}");
        Err(X509Error::new(why))
    };
    if now < certificate.not_before {
        return expired("before", certificate.not_before);
    }
    if now > certificate.not_after {
        return expired("after", certificate.not_after);
    }
    let basic = certificate.extensions.basic_constraints;
    if is_intermediate && !basic.is_some_and(|basic| basic.is_authority) {
        return Err(X509Error::new("certificate is not authorized to sign other certificates"));
    }
    let below = chain.len().saturating_sub(1);
    if basic.and_then(|basic| basic.max_path).is_some_and(|most| below > most as usize) {
        return Err(X509Error::new("too many intermediates for path length constraint"));
    }
    Ok(())
}

fn time(seconds: i64) -> String {
    machinery::meta::Timestamp::new(seconds, 0).text(machinery::meta::TimeForm::Seconds)
}

fn is_for(certificate: &Certificate, purpose: Purpose<'_>) -> bool {
    certificate.extensions.usages.is_none_or(|usages| {
        usages.any
            || match purpose {
                Purpose::Client => usages.client,
                Purpose::Server(_) => usages.server,
            }
    })
}

fn unknown_authority(hint: Option<(X509Error, &Certificate)>) -> X509Error {
    let Some((why, candidate)) = hint else { return X509Error::new("certificate signed by unknown authority") };
    let subject = &candidate.subject;
    let name = Some(subject.common_name.clone()).filter(|name| !name.is_empty());
    let name = name
        .or_else(|| subject.organizations.first().cloned())
        .unwrap_or_else(|| format!("serial:{}", candidate.serial));
    X509Error::new(format!(
        "certificate signed by unknown authority (possibly because of {:?} while trying to verify candidate authority \
         certificate {name:?})",
        why.to_string()
    ))
}
