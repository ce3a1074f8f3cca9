//! IP addresses and prefixes as Go's net/netip reads them, with its words for what is none.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::go_text::quote;

/// Why a text is no address. Shown, it is what Go says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ParseAddr({}): {reason}{}", quote(.text), place(.at))]
pub struct AddrError {
    /// The text.
    pub text: String,
    /// What is wrong with it: one of Go's fixed phrases.
    pub reason: &'static str,
    /// The part of the text from where it is wrong; empty where Go does not tell it.
    pub at: String,
}

/// Why a text is no prefix. Shown, it is what Go says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("netip.ParsePrefix({}): {reason}", quote(.text))]
pub struct PrefixError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub reason: PrefixFault,
}

/// What is wrong with a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixFault {
    /// Nothing parts the address from its length.
    #[error("no '/'")]
    NoSlash,
    /// What stands before the slash.
    #[error(transparent)]
    Address(AddrError),
    /// The address has a zone.
    #[error("IPv6 zones cannot be present in a prefix")]
    Zone,
    /// The address has fewer bits.
    #[error("prefix length out of range")]
    Range,
    /// What stands behind the slash is no number.
    #[error("bad bits after slash: {}", quote(.0))]
    Bits(String),
}

fn place(at: &str) -> String {
    if at.is_empty() { String::new() } else { format!(" (at {})", quote(at)) }
}

/// Why a text is no address: what is wrong, and the part of the text from where it is, if that is told.
type Fault<'a> = (&'static str, &'a str);

/// An address and its zone, which is empty if there is none.
///
/// # Errors
/// Why it is none.
pub fn parse_addr(text: &str) -> Result<(IpAddr, &str), AddrError> {
    let parsed = match text.bytes().find(|b| matches!(b, b'.' | b':' | b'%')) {
        Some(b'.') => v4(text).map(|octets| (Ipv4Addr::from(octets).into(), "")),
        Some(b':') => v6_with_zone(text),
        Some(_) => Err(("missing IPv6 address", "")),
        None => Err(("unable to parse IP", "")),
    };
    parsed.map_err(|(reason, at)| AddrError { text: text.to_owned(), reason, at: at.to_owned() })
}

/// An address and how many of its bits are the network's.
///
/// # Errors
/// Why it is none.
pub fn parse_prefix(text: &str) -> Result<(IpAddr, u8), PrefixError> {
    prefix(text).map_err(|reason| PrefixError { text: text.to_owned(), reason })
}

fn prefix(text: &str) -> Result<(IpAddr, u8), PrefixFault> {
    let (address, bits) = text.rsplit_once('/').ok_or(PrefixFault::NoSlash)?;
    let (ip, zone) = parse_addr(address).map_err(PrefixFault::Address)?;
    if !zone.is_empty() {
        return Err(PrefixFault::Zone);
    }
    let is_plain = bits.len() <= 1 || matches!(bits.as_bytes()[0], b'1'..=b'9');
    let width = if ip.is_ipv4() { 32 } else { 128 };
    match bits.parse::<i64>() {
        Ok(bits) if is_plain && (0..=width).contains(&bits) => Ok((ip, bits as u8)),
        Ok(_) if is_plain => Err(PrefixFault::Range),
        _ => Err(PrefixFault::Bits(bits.to_owned())),
    }
}

fn v4(text: &str) -> Result<[u8; 4], Fault<'_>> {
    let mut octets = [0; 4];
    let (mut octet, mut digits, mut value) = (0, 0, 0u16);
    for (i, c) in text.char_indices() {
        match c {
            '0'..='9' if digits == 1 && value == 0 => return Err(("IPv4 field has octet with leading zero", "")),
            '0'..='9' => {
                value = value * 10 + (c as u16 - '0' as u16);
                digits += 1;
                if value > 255 {
                    return Err(("IPv4 field has value >255", ""));
                }
            }
            '.' if digits == 0 || i + 1 == text.len() => {
                return Err(("IPv4 field must have at least one digit", &text[i..]));
            }
            '.' if octet == 3 => return Err(("IPv4 address too long", "")),
            '.' => {
                octets[octet] = value as u8;
                (octet, digits, value) = (octet + 1, 0, 0);
            }
            _ => return Err(("unexpected character", &text[i..])),
        }
    }
    if octet < 3 {
        return Err(("IPv4 address too short", ""));
    }
    octets[3] = value as u8;
    Ok(octets)
}

fn v6_with_zone(text: &str) -> Result<(IpAddr, &str), Fault<'_>> {
    let (address, zone) = match text.split_once('%') {
        Some((_, "")) => return Err(("zone must be a non-empty string", "")),
        Some((address, zone)) => (address, zone),
        None => (text, ""),
    };
    v6(address).map(|octets| (Ipv6Addr::from(octets).into(), zone))
}

/// The first group of digits: its value and length.
fn group(text: &str) -> Result<(u16, usize), Fault<'_>> {
    let length = text.bytes().take_while(u8::is_ascii_hexdigit).count();
    match length {
        0 => Err(("each colon-separated field must have at least one digit", text)),
        5.. => Err(("each group must have 4 or less digits", text)),
        _ => Ok((u16::from_str_radix(&text[..length], 16).unwrap_or_default(), length)),
    }
}

fn v6(text: &str) -> Result<[u8; 16], Fault<'_>> {
    let mut bytes: Vec<u8> = Vec::with_capacity(16);
    // Where the zeros go that `::` stands for.
    let mut gap = None;
    let mut rest = text;
    if let Some(behind) = text.strip_prefix("::") {
        (gap, rest) = (Some(0), behind);
    }
    while bytes.len() < 16 && !(rest.is_empty() && gap == Some(bytes.len())) {
        let (value, length) = group(rest)?;
        if rest[length..].starts_with('.') {
            if gap.is_none() && bytes.len() != 12 {
                return Err(("embedded IPv4 address must replace the final 2 fields of the address", rest));
            }
            if bytes.len() > 12 {
                return Err(("too many hex fields to fit an embedded IPv4 at the end of the address", rest));
            }
            bytes.extend(v4(rest)?);
            rest = "";
            break;
        }
        bytes.extend(value.to_be_bytes());
        rest = &rest[length..];
        match rest.strip_prefix(':') {
            None if rest.is_empty() => break,
            None => return Err(("unexpected character, want colon", rest)),
            Some("") => return Err(("colon must be followed by more characters", rest)),
            Some(behind) => rest = behind,
        }
        if let Some(behind) = rest.strip_prefix(':') {
            if gap.is_some() {
                return Err(("multiple :: in address", rest));
            }
            (gap, rest) = (Some(bytes.len()), behind);
        }
    }
    if !rest.is_empty() {
        return Err(("trailing garbage after address", rest));
    }
    match (gap, 16 - bytes.len()) {
        (None, 0) => {}
        (None, _) => return Err(("address string too short", "")),
        (Some(_), 0) => return Err(("the :: must expand to at least one field of zeros", "")),
        (Some(at), missing) => {
            bytes.splice(at..at, std::iter::repeat_n(0, missing));
        }
    }
    bytes.try_into().map_err(|_| ("unable to parse IP", ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_as_in_go() {
        let check = |text: &str, expect: Result<&str, &str>| {
            let found = parse_addr(text).map(|(ip, zone)| format!("{ip}{zone}")).map_err(|why| why.to_string());
            let why = |why| format!("ParseAddr({}): {why}", quote(text));
            assert_eq!(found, expect.map(str::to_owned).map_err(why));
        };
        check("1.2.3.4", Ok("1.2.3.4"));
        check("::", Ok("::"));
        check("1::", Ok("1::"));
        check("::ffff:1.2.3.4", Ok("::ffff:1.2.3.4"));
        check("fe80::1%eth0", Ok("fe80::1eth0"));
        check("1:2:3:4:5:6:7:8", Ok("1:2:3:4:5:6:7:8"));
        check("", Err("unable to parse IP"));
        check("abc", Err("unable to parse IP"));
        check("%eth0", Err("missing IPv6 address"));
        check("1.2.3", Err("IPv4 address too short"));
        check("1.2.3.4.5", Err("IPv4 address too long"));
        check("1.2.3.256", Err("IPv4 field has value >255"));
        check("1.2.3.04", Err("IPv4 field has octet with leading zero"));
        check("1..2.3", Err(r#"IPv4 field must have at least one digit (at ".2.3")"#));
        check("1.2.3.", Err(r#"IPv4 field must have at least one digit (at ".")"#));
        check("1.2.3.x", Err(r#"unexpected character (at "x")"#));
        check("1:2", Err("address string too short"));
        check("1::2::3", Err(r#"multiple :: in address (at ":3")"#));
        check(":1", Err(r#"each colon-separated field must have at least one digit (at ":1")"#));
        check("12345::", Err(r#"each group must have 4 or less digits (at "12345::")"#));
        check("1:", Err(r#"colon must be followed by more characters (at ":")"#));
        check("1:2x", Err(r#"unexpected character, want colon (at "x")"#));
        check("fe80::1%", Err("zone must be a non-empty string"));
        check("1:2:3:4:5:6:7::8", Err("the :: must expand to at least one field of zeros"));
        check("1:2:3:4:5:6:7:8:9", Err(r#"trailing garbage after address (at "9")"#));
        let place = r#"embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")"#;
        check("1:1.2.3.4", Err(place));
    }

    #[test]
    fn prefixes_read_as_in_go() {
        let check = |text: &str, why: &str| {
            let expect = format!("netip.ParsePrefix({}): {why}", quote(text));
            assert_eq!(parse_prefix(text).map_err(|why| why.to_string()), Err(expect));
        };
        assert_eq!(parse_prefix("10.0.0.0/8"), Ok((Ipv4Addr::new(10, 0, 0, 0).into(), 8)));
        check("10.0.0.0", "no '/'");
        check("10.0.0/8", r#"ParseAddr("10.0.0"): IPv4 address too short"#);
        check("10.0.0.0/33", "prefix length out of range");
        check("10.0.0.0/08", r#"bad bits after slash: "08""#);
        check("10.0.0.0/", r#"bad bits after slash: """#);
        check("10.0.0.0/x", r#"bad bits after slash: "x""#);
        check("fe80::%a/8", "IPv6 zones cannot be present in a prefix");
    }
}
