//! Addresses: e-mail, host names, IP, CIDR, MAC.

use std::cmp::Ordering;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex_syntax::hir::ClassUnicode;

use crate::schema::pattern::class;

/// An IPv4 address, leading zeros allowed (they do not make a number octal).
fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next().filter(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))?;
        *octet = part
            .trim_start_matches('0')
            .parse()
            .or_else(|e| if part.bytes().all(|b| b == b'0') { Ok(0) } else { Err(e) })
            .ok()?;
    }
    parts.next().is_none().then(|| octets.into())
}

pub(super) fn is_ip(text: &str) -> bool {
    ipv4(text).is_some() || text.parse::<Ipv6Addr>().is_ok()
}

pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = if ipv4(address).is_some() {
        32
    } else if address.parse::<Ipv6Addr>().is_ok() {
        128
    } else {
        return false;
    };
    !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit()) && length.parse().is_ok_and(|n: u32| n <= most)
}

/// 6, 8 or 20 bytes in hexadecimal, in pairs with colons or dashes or in fours with dots.
pub(super) fn is_mac(text: &str) -> bool {
    let split = |separator: char, width: usize, counts: [usize; 3]| {
        let parts: Vec<_> = text.split(separator).collect();
        counts.contains(&parts.len())
            && parts.iter().all(|p| p.len() == width && p.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    split(':', 2, [6, 8, 20]) || split('-', 2, [6, 8, 20]) || split('.', 4, [3, 4, 10])
}

/// Labels of letters, digits and symbols of any script. Of several labels the last has at least two of them, and no dash
/// beside another or at its end; one alone has at most one dash, after its first character.
pub(super) fn is_hostname(text: &str) -> bool {
    if text.len() > 255 || text.split('.').any(|label| label.is_empty() || label.len() > 63) {
        return false;
    }
    let all = |part: &str| part.chars().all(is_label_char);
    let Some((parents, last)) = text.rsplit_once('.') else {
        let mut chars = text.chars();
        let first = chars.next().is_some_and(is_label_char);
        let rest = chars.as_str();
        return first && all(rest.strip_prefix('-').unwrap_or(rest));
    };
    let ends = |label: &str| label.starts_with(is_label_char) && label.ends_with(is_label_char);
    let parent = |label: &str| ends(label) && label.chars().all(|c| c == '-' || is_label_char(c));
    let count = last.chars().filter(|c| *c != '-').count();
    parents.split('.').all(parent)
        && ends(last)
        && count >= 2
        && last.split('-').all(|part| !part.is_empty() && all(part))
}

fn is_label_char(c: char) -> bool {
    static OTHERS: LazyLock<ClassUnicode> = LazyLock::new(|| {
        let mut letters = class::unicode("L").expect("a category");
        letters.union(&class::unicode("S").expect("a category"));
        letters
    });
    let found = |c: char| {
        OTHERS.ranges().binary_search_by(|r| {
            if r.end() < c {
                Ordering::Less
            } else if r.start() > c {
                Ordering::Greater
            } else {
                Ordering::Equal
            }
        })
    };
    c.is_ascii_alphanumeric() || found(c).is_ok()
}

/// An RFC 5322 address as Go's net/mail reads one: `a@b`, `"a b"@c`, `Name <a@b>`.
pub(super) fn is_email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    let Some(inner) = text.strip_suffix('>') else { return is_address(text) };
    let Some((name, address)) = inner.rsplit_once('<') else { return false };
    is_phrase(name.trim()) && is_address(address)
}

fn is_phrase(name: &str) -> bool {
    match name.strip_prefix('"') {
        Some(quoted) => quoted.strip_suffix('"').is_some_and(|q| !q.contains('"')),
        None => name
            .split([' ', '\t'])
            .filter(|w| !w.is_empty())
            .all(|word| word.chars().all(|c| is_atom_char(c) || c == '.')),
    }
}

fn is_address(address: &str) -> bool {
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let quoted = local.strip_prefix('"').and_then(|l| l.strip_suffix('"'));
    let local_fits = match quoted {
        Some(text) => !text.is_empty() && !text.contains(['"', '\n', '\r']),
        None => is_dot_atom(local),
    };
    let literal = domain.strip_prefix('[').and_then(|d| d.strip_suffix(']'));
    local_fits && literal.map_or_else(|| is_dot_atom(domain), is_ip)
}

fn is_dot_atom(text: &str) -> bool {
    text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom_char))
}

fn is_atom_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii()
}
