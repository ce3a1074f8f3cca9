//! Names in certificates: the strings of distinguished names, and the hosts that a certificate is for.

use std::net::IpAddr;

use x509_parser::asn1_rs::Tag;

use super::{Certificate, X509Error};

/// The subject's alternative names.
#[derive(Clone, Debug, Default)]
pub struct AlternativeNames {
    /// Hosts.
    pub dns: Vec<String>,
    /// Mail addresses.
    pub emails: Vec<String>,
    /// URIs.
    pub uris: Vec<String>,
    /// Addresses.
    pub ips: Vec<IpAddr>,
}

impl AlternativeNames {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.dns.is_empty() && self.emails.is_empty() && self.uris.is_empty() && self.ips.is_empty()
    }
}

/// The text of a string of a distinguished name.
pub(super) fn directory_string(tag: Tag, value: &[u8]) -> Result<String, &'static str> {
    let ascii = |is_good: fn(&u8) -> bool, why| {
        if value.iter().all(is_good) { Ok(value.iter().copied().map(char::from).collect()) } else { Err(why) }
    };
    match tag {
        Tag::PrintableString => ascii(is_printable, "invalid PrintableString"),
        Tag::Ia5String => ascii(u8::is_ascii, "invalid IA5String"),
        Tag::NumericString => ascii(|b| b.is_ascii_digit() || *b == b' ', "invalid NumericString"),
        Tag::Utf8String => String::from_utf8(value.to_vec()).map_err(|_| "invalid UTF-8 string"),
        // Read as Latin-1, as everybody does.
        Tag::T61String => Ok(value.iter().copied().map(char::from).collect()),
        Tag::BmpString => bmp(value).ok_or("invalid BMPString"),
        _ => Err("unsupported string type"),
    }
}

/// What Go takes for printable: with the characters that authorities use though they must not.
fn is_printable(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b" '()+,-./:=?*&".contains(byte)
}

/// UCS-2: no surrogates, no characters that are none.
fn bmp(value: &[u8]) -> Option<String> {
    let value = value.strip_suffix(&[0, 0]).unwrap_or(value);
    let (units, []) = value.as_chunks::<2>() else { return None };
    let text = |unit: &[u8; 2]| {
        let unit = u16::from_be_bytes(*unit);
        let is_none = matches!(unit, 0xfffe | 0xffff | 0xfdd0..=0xfdef);
        char::from_u32(unit.into()).filter(|_| !is_none)
    };
    units.iter().map(text).collect()
}

/// An address of four or sixteen bytes.
pub(super) fn ip(bytes: &[u8]) -> Result<IpAddr, X509Error> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let v6 = <[u8; 16]>::try_from(bytes).map(|bytes| IpAddr::from(bytes).to_canonical());
    v4.or(v6).map_err(|_| X509Error::new(format!("cannot parse IP address of length {}", bytes.len())))
}

impl Certificate {
    /// Checks that a server of this name may show the certificate.
    pub(super) fn verify_host(&self, host: &str) -> Result<(), X509Error> {
        let names = self.extensions.names.as_ref();
        if let Ok(ip) = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            let known = names.is_some_and(|names| names.ips.contains(&ip.to_canonical()));
            return if known { Ok(()) } else { Err(self.wrong_host(host)) };
        }
        let wanted = host.to_ascii_lowercase();
        let is_host = is_host(wanted.strip_suffix('.').unwrap_or(&wanted), false);
        let matches = |name: &String| {
            if is_host && self::is_host(name, true) {
                matches_host(name, wanted.strip_suffix('.').unwrap_or(&wanted))
            } else {
                !name.is_empty() && name != "." && *name.to_ascii_lowercase() == *wanted
            }
        };
        let known = names.is_some_and(|names| names.dns.iter().any(matches));
        if known { Ok(()) } else { Err(self.wrong_host(host)) }
    }

    fn wrong_host(&self, host: &str) -> X509Error {
        let names = self.extensions.names.as_ref();
        if names.is_none() && matches_host(&self.subject.common_name, &host.to_ascii_lowercase()) {
            return X509Error::new("certificate relies on legacy Common Name field, use SANs instead");
        }
        let known: Vec<String> = if host.parse::<IpAddr>().is_ok() {
            let ips: Vec<String> = names.map(|n| n.ips.iter().map(IpAddr::to_string).collect()).unwrap_or_default();
            if ips.is_empty() {
                let why = format!("cannot validate certificate for {host} because it doesn't contain any IP SANs");
                return X509Error::new(why);
            }
            ips
        } else {
            names.map(|names| names.dns.clone()).unwrap_or_default()
        };
        match known.len() {
            0 => X509Error::new(format!("certificate is not valid for any names, but wanted to match {host}")),
            100.. => X509Error::new(format!("certificate is valid for {} names, but none matched {host}", known.len())),
            _ => X509Error::new(format!("certificate is valid for {}, not {host}", known.join(", "))),
        }
    }
}

/// Whether this is a host's name, or a pattern of them.
fn is_host(name: &str, is_pattern: bool) -> bool {
    let is_label = |label: &str| {
        let good =
            |(at, byte)| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'A'..=b'Z' | b'_') || byte == b'-' && at > 0;
        !label.is_empty() && label.bytes().enumerate().all(good)
    };
    let mut labels = name.split('.').enumerate();
    !name.is_empty()
        && name != "*"
        && labels.all(|(at, label)| is_pattern && at == 0 && label == "*" || is_label(label))
}

/// Whether a pattern covers a host, which is in lower case: `*` stands for the first label.
fn matches_host(pattern: &str, host: &str) -> bool {
    let pattern = pattern.to_ascii_lowercase();
    if pattern.is_empty() || host.is_empty() || pattern.split('.').count() != host.split('.').count() {
        return false;
    }
    pattern.split('.').zip(host.split('.')).enumerate().all(|(at, (p, h))| at == 0 && p == "*" || p == h)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_one_label() {
        let check =
            |pattern: &str, host: &str, expect: bool| assert_eq!(matches_host(pattern, host), expect, "{pattern}");
        check("a.example", "a.example", true);
        check("*.Example", "a.example", true);
        check("*.example", "a.b.example", false);
        check("a.*", "a.example", false);
        check("", "", false);
        for (name, is_pattern, expect) in [
            ("a_b.c-d", false, true),
            ("-a", false, false),
            ("*.a", true, true),
            ("*", true, false),
            ("a..b", true, false),
        ] {
            assert_eq!(is_host(name, is_pattern), expect, "{name}");
        }
    }

    #[test]
    fn every_string_of_a_name_is_read_or_refused() {
        let check = |tag, value: &[u8], expect: Result<&str, &'static str>| {
            assert_eq!(directory_string(tag, value), expect.map(str::to_owned), "{value:?}");
        };
        check(Tag::PrintableString, b"system:masters", Ok("system:masters"));
        check(Tag::PrintableString, b"a@b", Err("invalid PrintableString"));
        check(Tag::Utf8String, "j\u{fc}rgen".as_bytes(), Ok("j\u{fc}rgen"));
        check(Tag::Utf8String, b"\xff", Err("invalid UTF-8 string"));
        check(Tag::T61String, b"j\xfcrgen", Ok("j\u{fc}rgen"));
        check(Tag::BmpString, b"\0s\0y\0s", Ok("sys"));
        check(Tag::BmpString, b"\0s\0y\0\0", Ok("sy"));
        check(Tag::BmpString, b"\0s\0", Err("invalid BMPString"));
        check(Tag::BmpString, b"\xd8\0", Err("invalid BMPString"));
        check(Tag::BmpString, b"\xff\xfe", Err("invalid BMPString"));
        check(Tag::NumericString, b"1 2", Ok("1 2"));
        check(Tag::UniversalString, b"\0\0\0a", Err("unsupported string type"));
    }
}
