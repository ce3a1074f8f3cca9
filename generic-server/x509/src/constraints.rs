//! Name constraints: for which names an authority may sign.

use std::net::IpAddr;

use x509_parser::extensions::{GeneralName, NameConstraints};

use super::{X509Error, names::AlternativeNames};

/// So many names are compared with constraints, and no more: both are somebody's to choose.
const MAX_COMPARISONS: usize = 250_000;

/// What one authority's certificate says.
#[derive(Clone, Debug, Default)]
pub(super) struct Constraints {
    permitted: Subtrees,
    excluded: Subtrees,
}

#[derive(Clone, Debug, Default)]
struct Subtrees {
    dns: Vec<String>,
    emails: Vec<String>,
    uris: Vec<String>,
    ips: Vec<Network>,
}

/// An address and a mask, of the same length.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Network(Vec<u8>, Vec<u8>);

impl Constraints {
    /// Reads the extension; answers whether all of it is understood, too.
    pub(super) fn read(found: &NameConstraints<'_>) -> Result<(Self, bool), X509Error> {
        let mut all = true;
        let mut read = |subtrees: &Option<Vec<_>>| {
            let mut out = Subtrees::default();
            for subtree in subtrees.iter().flatten() {
                let subtree: &x509_parser::extensions::GeneralSubtree<'_> = subtree;
                match &subtree.base {
                    GeneralName::DNSName(name) => out.dns.push(domain("dnsName", name)?),
                    GeneralName::RFC822Name(name) if name.contains('@') => out.emails.push(mailbox(name)?),
                    GeneralName::RFC822Name(name) => out.emails.push(domain("rfc822Name", name)?),
                    GeneralName::URI(name) if name.parse::<IpAddr>().is_ok() => {
                        let why = format!("failed to parse URI constraint {name:?}: cannot be IP address");
                        return Err(X509Error::new(why));
                    }
                    GeneralName::URI(name) => out.uris.push(domain("URI", name)?),
                    GeneralName::IPAddress(bytes) => out.ips.push(Network::read(bytes)?),
                    GeneralName::Invalid(..) => return Err(X509Error::new("invalid NameConstraints extension")),
                    _ => all = false,
                }
            }
            Ok(out)
        };
        let (permitted, excluded) = (read(&found.permitted_subtrees)?, read(&found.excluded_subtrees)?);
        Ok((Constraints { permitted, excluded }, all))
    }

    /// Checks the names of a certificate below the authority.
    pub(super) fn check(&self, names: &AlternativeNames) -> Result<(), X509Error> {
        let count = |t: &Subtrees| t.dns.len() + t.emails.len() + t.uris.len() + t.ips.len();
        let asked = names.dns.len() + names.emails.len() + names.uris.len() + names.ips.len();
        if asked.saturating_mul(count(&self.permitted) + count(&self.excluded)) > MAX_COMPARISONS {
            return Err(refused("too many names and constraints"));
        }
        for ip in &names.ips {
            let within = |list: &[Network]| list.iter().any(|network| network.contains(*ip));
            judge("IP address", &ip.to_string(), &self.permitted.ips, &self.excluded.ips, within, within)?;
        }
        for name in &names.dns {
            if !is_domain(name) {
                return Err(refused(format!("x509: cannot parse dnsName {name:?}")));
            }
            let permitted = |list: &[String]| list.iter().any(|constraint| covers(constraint, name));
            let excluded = |list: &[String]| list.iter().any(|constraint| excludes(constraint, name));
            judge("DNS name", name, &self.permitted.dns, &self.excluded.dns, permitted, excluded)?;
        }
        for uri in &names.uris {
            let host =
                host_of(uri).ok_or_else(|| refused(format!("URI ({uri:?}) cannot be matched against constraints")))?;
            let within = |list: &[String]| list.iter().any(|constraint| covers(constraint, &host));
            judge("URI", uri, &self.permitted.uris, &self.excluded.uris, within, within)?;
        }
        for email in &names.emails {
            let address = mailbox(email).map_err(|_| refused(format!("cannot parse rfc822Name {email:?}")))?;
            let host = address.rsplit_once('@').map_or("", |(_, host)| host);
            let covers = |c: &String| if c.contains('@') { *c == address } else { covers(c, host) };
            let within = |list: &[String]| list.iter().any(covers);
            judge("email address", email, &self.permitted.emails, &self.excluded.emails, within, within)?;
        }
        Ok(())
    }
}

fn refused(why: impl std::fmt::Display) -> X509Error {
    X509Error::new(format!("a root or intermediate certificate is not authorized to sign for this name: {why}"))
}

fn judge<T>(
    kind: &str,
    name: &str,
    permitted: &[T],
    excluded: &[T],
    is_permitted: impl Fn(&[T]) -> bool,
    is_excluded: impl Fn(&[T]) -> bool,
) -> Result<(), X509Error> {
    if !permitted.is_empty() && !is_permitted(permitted) {
        return Err(refused(format!("{kind} {name:?} is not permitted by any constraint")));
    }
    if is_excluded(excluded) {
        return Err(refused(format!("{kind} {name:?} is excluded by a constraint")));
    }
    Ok(())
}

impl Network {
    fn read(bytes: &[u8]) -> Result<Self, X509Error> {
        if !matches!(bytes.len(), 8 | 32) {
            return Err(X509Error::new(format!("IP constraint contained value of length {}", bytes.len())));
        }
        let (address, mask) = bytes.split_at(bytes.len() / 2);
        let ones = mask.iter().map(|byte| byte.leading_ones()).take_while(|ones| *ones == 8).count();
        let is_mask = mask
            .iter()
            .skip(ones)
            .enumerate()
            .all(|(at, byte)| if at == 0 { byte.leading_ones() + byte.trailing_zeros() >= 8 } else { *byte == 0 });
        if !is_mask {
            return Err(X509Error::new("IP constraint contained invalid mask"));
        }
        Ok(Network(address.to_vec(), mask.to_vec()))
    }

    fn contains(&self, ip: IpAddr) -> bool {
        let bytes = match ip {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        let Network(address, mask) = self;
        bytes.len() == address.len() && bytes.iter().zip(address).zip(mask).all(|((b, a), m)| b & m == a & m)
    }
}

/// Whether a constraint covers a name: it is the name or its labels at the end. One that begins with a dot covers only what
/// is below; an empty one covers everything.
fn covers(constraint: &str, name: &str) -> bool {
    let Some(start) = name.len().checked_sub(constraint.len()) else { return false };
    let (before, end) = (&name.as_bytes()[..start], &name.as_bytes()[start..]);
    end.eq_ignore_ascii_case(constraint.as_bytes())
        && (before.is_empty() || constraint.is_empty() || constraint.starts_with('.') || before.ends_with(b"."))
}

/// The same for what is excluded, where a pattern counts for the names that it covers.
fn excludes(constraint: &str, name: &str) -> bool {
    let below = |name: &str| name.split_once('.').map(|(_, rest)| rest.to_ascii_lowercase());
    covers(constraint, name) || name.starts_with('*') && below(name).is_some() && below(name) == below(constraint)
}

/// The text of a constraint that is a domain, with a dot before it or not.
fn domain(kind: &str, name: &str) -> Result<String, X509Error> {
    if !is_domain(name.strip_prefix('.').unwrap_or(name)) {
        return Err(X509Error::new(format!("failed to parse {kind} constraint {name:?}")));
    }
    Ok(name.to_owned())
}

/// Labels of visible ASCII characters, none of them empty; or nothing.
fn is_domain(name: &str) -> bool {
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(|b| (33..=126).contains(&b));
    name.is_empty() || name.split('.').all(is_label)
}

/// A plain address, its host in lower case. Quoted ones are refused.
fn mailbox(text: &str) -> Result<String, X509Error> {
    let malformed = || X509Error::new(format!("failed to parse rfc822Name constraint {text:?}"));
    let (local, host) = text.split_once('@').ok_or_else(malformed)?;
    let plain = |b: u8| (33..=126).contains(&b) && !b"\"(),:;<>@[\\]".contains(&b);
    let good =
        !local.is_empty() && local.bytes().all(plain) && !host.is_empty() && is_domain(host) && !host.contains('@');
    good.then(|| format!("{local}@{}", host.to_ascii_lowercase())).ok_or_else(malformed)
}

/// The host of a URI, in lower case; none if there is none, or if it is an address.
fn host_of(uri: &str) -> Option<String> {
    let (_, rest) = uri.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = host.split_once(':').map_or(host, |(host, _)| host).to_ascii_lowercase();
    let is_address = host.starts_with('[') || host.parse::<IpAddr>().is_ok();
    (!host.is_empty() && !is_address && is_domain(&host)).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dns: &[&str], uris: &[&str], emails: &[&str], ips: &[&str]) -> AlternativeNames {
        let owned = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect();
        let ips = ips.iter().map(|ip| ip.parse().expect("an address")).collect();
        AlternativeNames { dns: owned(dns), uris: owned(uris), emails: owned(emails), ips }
    }

    #[test]
    fn a_constraint_covers_whole_labels() {
        let check = |constraint: &str, name: &str, expect: bool| {
            assert_eq!(covers(constraint, name), expect, "{constraint} {name}");
        };
        check("example.com", "example.com", true);
        check("example.com", "a.Example.com", true);
        check("example.com", "badexample.com", false);
        check(".example.com", "a.example.com", true);
        check(".example.com", "example.com", false);
        check("", "anything", true);
        check("a.example.com", "example.com", false);
        assert!(excludes("foo.example.com", "*.example.com") && !excludes("foo.example.com", "bar.example.com"));
    }

    #[test]
    fn names_are_permitted_and_not_excluded() {
        let some = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let constraints = Constraints {
            permitted: Subtrees {
                dns: some(&["svc"]),
                uris: some(&["svc"]),
                emails: some(&["a@svc", "mail"]),
                ips: vec![Network::read(&[10, 0, 0, 0, 255, 0, 0, 0]).expect("a network")],
            },
            excluded: Subtrees { dns: some(&["kube-system.svc"]), ..Subtrees::default() },
        };
        let check = |names: &AlternativeNames, expect: bool| {
            assert_eq!(constraints.check(names).is_ok(), expect, "{names:?}");
        };
        check(&names(&["a.default.svc"], &[], &[], &["10.1.2.3"]), true);
        check(&names(&["a.kube-system.svc"], &[], &[], &[]), false);
        check(&names(&["example.com"], &[], &[], &[]), false);
        check(&names(&["a.svc."], &[], &[], &[]), false);
        check(&names(&[], &[], &[], &["192.0.2.1"]), false);
        check(&names(&[], &[], &[], &["::1"]), false);
        check(&names(&[], &["spiffe://a.svc/x"], &["a@SVC", "b@x.mail"], &[]), true);
        check(&names(&[], &["spiffe://10.0.0.1/x"], &[], &[]), false);
        check(&names(&[], &["urn:x"], &[], &[]), false);
        check(&names(&[], &[], &["b@svc"], &[]), false);
        check(&names(&[], &[], &["\"a\"@svc"], &[]), false);
    }

    #[test]
    fn masks_are_ones_and_then_zeros() {
        for (mask, expect) in
            [([255, 255, 0, 0], true), ([255, 254, 0, 0], true), ([255, 0, 255, 0], false), ([1, 0, 0, 0], false)]
        {
            let bytes = [[10, 0, 0, 0], mask].concat();
            assert_eq!(Network::read(&bytes).is_ok(), expect, "{mask:?}");
        }
        assert!(Network::read(&[10, 0, 0, 0]).is_err());
    }
}
