//! IP addresses and CIDRs as fields hold them.
//!
//! Two readers exist upstream: a strict one for what is written now, and a sloppy one that older objects were written by
//! (leading zeros are read as decimal). What only the sloppy one reads is refused with its own message.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::go_text::quote;

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4, and IPv4 mapped into IPv6.
    V4,
    /// IPv6.
    V6,
}

/// What a field asks of an address or CIDR beyond the grammar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpRules {
    /// What the sloppy reader reads is fine.
    pub sloppy: bool,
    /// It must be written as the server would write it.
    pub canonical: bool,
    /// It must be of this family.
    pub family: Option<Family>,
}

/// Reads an address; leading zeros are decimal.
pub fn parse_sloppy(text: &str) -> Option<IpAddr> {
    if !text.contains(':') {
        return parse_v4_sloppy(text).map(IpAddr::V4);
    }
    if let Ok(ip) = text.parse() {
        return Some(IpAddr::V6(ip));
    }
    let groups: Vec<String> = text.split(':').map(without_zeros).collect::<Option<_>>()?;
    groups.join(":").parse().ok().map(IpAddr::V6)
}

/// A group of an IPv6 address without superfluous zeros; the last one may be an IPv4 address.
fn without_zeros(group: &str) -> Option<String> {
    if group.contains('.') {
        return parse_v4_sloppy(group).map(|ip| ip.to_string());
    }
    let kept = group.trim_start_matches('0');
    Some(if kept.is_empty() && !group.is_empty() { "0".to_owned() } else { kept.to_owned() })
}

fn parse_v4_sloppy(text: &str) -> Option<Ipv4Addr> {
    let mut octets = text.split('.').map(decimal);
    let mut next = || octets.next()?.and_then(|n| u8::try_from(n).ok());
    let ip = Ipv4Addr::new(next()?, next()?, next()?, next()?);
    octets.next().is_none().then_some(ip)
}

fn decimal(text: &str) -> Option<u32> {
    (!text.is_empty() && text.bytes().all(|c| c.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// The family of an address.
pub fn family(ip: IpAddr) -> Family {
    match unmapped(ip) {
        IpAddr::V4(_) => Family::V4,
        IpAddr::V6(_) => Family::V6,
    }
}

fn unmapped(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    }
}

fn is_mapped(ip: IpAddr) -> bool {
    unmapped(ip) != ip
}

/// An address, by the rules of its field.
pub fn ip(text: &str, rules: IpRules) -> Vec<String> {
    let Some(ip) = parse_sloppy(text) else {
        return vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()];
    };
    let mut out = Vec::new();
    if !rules.sloppy {
        if text.parse::<IpAddr>().is_err() {
            out.push("must not have leading 0s".to_owned());
        } else if is_mapped(ip) {
            out.push("must not be an IPv4-mapped IPv6 address".to_owned());
        }
    }
    let canonical = unmapped(ip).to_string();
    if rules.canonical && out.is_empty() && text != canonical {
        out.push(format!("must be in canonical form ({})", quote(&canonical)));
    }
    out.extend(wrong_family(ip, rules, "address"));
    out
}

fn wrong_family(ip: IpAddr, rules: IpRules, what: &str) -> Option<String> {
    let wanted = rules.family.filter(|f| *f != family(ip))?;
    let name = match wanted {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    };
    Some(format!("must be an {name} {what}"))
}

/// What is odd about an address that the sloppy rules let pass; the text of a warning for the field at `path`.
pub fn ip_warning(path: impl std::fmt::Display, text: &str) -> Option<String> {
    let ip = parse_sloppy(text)?;
    let shown = quote(text);
    match text.parse::<IpAddr>() {
        Ok(strict) if !is_mapped(strict) => {
            let canonical = strict.to_string();
            let odd = strict.is_ipv6() && canonical != text;
            let canonical = quote(&canonical);
            odd.then(|| format!("{path}: IPv6 address {shown} should be in RFC 5952 canonical format ({canonical})"))
        }
        _ => {
            let better = quote(&unmapped(ip).to_string());
            Some(format!(
                "{path}: non-standard IP address {shown} will be considered invalid in a future Kubernetes release: use {better}"
            ))
        }
    }
}

/// An address that traffic can be sent to: none of the special ones.
pub fn non_special_ip(text: &str) -> Vec<String> {
    let Some(ip) = parse_sloppy(text).map(unmapped) else {
        return vec!["must be a valid IP address".to_owned()];
    };
    let mut out = Vec::new();
    let mut check = |special: bool, message: &str| {
        if special {
            out.push(message.to_owned());
        }
    };
    check(ip.is_unspecified(), &format!("may not be unspecified ({text})"));
    check(ip.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    let (unicast, multicast) = match ip {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments()[0] & 0xff0f == 0xff02),
    };
    check(unicast, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    check(multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    out
}

/// An address and the length of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    /// The address, with whatever bits stand behind the prefix.
    pub ip: IpAddr,
    /// The length of the prefix in bits, at most 32 or 128.
    pub prefix: u8,
}

impl Cidr {
    /// Reads a CIDR; leading zeros are decimal.
    pub fn parse_sloppy(text: &str) -> Option<Self> {
        let (ip, prefix) = text.split_once('/')?;
        let ip = parse_sloppy(ip)?;
        let prefix = u8::try_from(decimal(prefix)?).ok()?;
        (prefix <= if ip.is_ipv4() { 32 } else { 128 }).then_some(Self { ip, prefix })
    }

    /// The network's first address.
    pub fn network(self) -> IpAddr {
        let prefix = u32::from(self.prefix);
        match self.ip {
            IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() & u32::MAX.checked_shl(32 - prefix).unwrap_or(0)).into(),
            IpAddr::V6(v6) => {
                Ipv6Addr::from_bits(v6.to_bits() & u128::MAX.checked_shl(128 - prefix).unwrap_or(0)).into()
            }
        }
    }

    /// Whether an address lies in the network.
    pub fn contains(self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.ip.is_ipv4() && Cidr { ip, ..self }.network() == self.network()
    }

    /// The network's text, as Go writes it.
    fn network_text(self) -> String {
        let network = self.network();
        match unmapped(network) {
            IpAddr::V4(v4) if is_mapped(network) && self.prefix >= 96 => format!("{v4}/{}", self.prefix - 96),
            ip => format!("{ip}/{}", self.prefix),
        }
    }

    /// The text of the address and its prefix, as Go writes those of an interface.
    pub fn interface_text(self) -> String {
        let bits = i16::from(self.prefix);
        let prefix = if is_mapped(self.ip) && bits > 32 { bits - 96 } else { bits };
        format!("{}/{prefix}", unmapped(self.ip))
    }

    fn is_strict(text: &str) -> bool {
        let Some((ip, prefix)) = text.split_once('/') else { return false };
        ip.parse::<IpAddr>().is_ok() && (prefix == "0" || !prefix.starts_with('0'))
    }
}

/// A CIDR of a network, by the rules of its field.
pub fn cidr(text: &str, rules: IpRules) -> Vec<String> {
    let Some(cidr) = Cidr::parse_sloppy(text) else {
        return vec!["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_owned()];
    };
    let mut out = Vec::new();
    if !rules.sloppy {
        if !Cidr::is_strict(text) {
            out.push("must not have leading 0s in IP or prefix length".to_owned());
        } else if is_mapped(cidr.ip) {
            out.push("must not have an IPv4-mapped IPv6 address".to_owned());
        }
    }
    let canonical = format!("{}/{}", unmapped(cidr.ip), cidr.prefix);
    if rules.canonical && out.is_empty() && text != canonical {
        out.push(format!("must be in canonical form ({})", quote(&canonical)));
    }
    if !rules.sloppy && cidr.network() != cidr.ip {
        out.push("must not have bits set beyond the prefix length".to_owned());
    }
    out.extend(wrong_family(cidr.ip, rules, "CIDR"));
    out
}

/// What is odd about a CIDR that the sloppy rules let pass; the texts of warnings for the field at `path`.
pub fn cidr_warnings(path: impl std::fmt::Display, text: &str) -> Vec<String> {
    let Some(cidr) = Cidr::parse_sloppy(text) else { return Vec::new() };
    let shown = quote(text);
    let network = quote(&cidr.network_text());
    let mut out = Vec::new();
    if cidr.network() != cidr.ip {
        let length = if cidr.ip.is_ipv4() { 32 } else { 128 };
        let single = quote(&format!("{}/{length}", unmapped(cidr.ip)));
        out.push(format!("{path}: CIDR value {shown} is ambiguous in this context (should be {network} or {single}?)"));
    }
    if !Cidr::is_strict(text) || is_mapped(cidr.ip) {
        out.push(format!(
            "{path}: non-standard CIDR value {shown} will be considered invalid in a future Kubernetes release: use {network}"
        ));
    }
    let canonical = format!("{}/{}", cidr.ip, cidr.prefix);
    if out.is_empty() && cidr.ip.is_ipv6() && canonical != text {
        let canonical = quote(&canonical);
        out.push(format!("{path}: IPv6 CIDR value {shown} should be in RFC 5952 canonical format ({canonical})"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: IpRules = IpRules { sloppy: false, canonical: false, family: None };
    const CANONICAL: IpRules = IpRules { canonical: true, ..STRICT };
    const SLOPPY: IpRules = IpRules { sloppy: true, ..STRICT };
    const NOT_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    const NOT_CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

    #[test]
    fn addresses() {
        let check = |text: &str, rules, want: &[&str]| assert_eq!(ip(text, rules), want, "{text}");
        check("10.0.0.1", CANONICAL, &[]);
        check("0.0.0.0", CANONICAL, &[]);
        check("2001:db8::1", CANONICAL, &[]);
        for text in ["", "banana", "1.2.3", "1.2.3.4.5", "192.0.2.300", "1.2.3.-4", ":", "::1%eth0", "1::2::3"] {
            check(text, STRICT, &[NOT_IP]);
        }
        check("10.0.0.010", STRICT, &["must not have leading 0s"]);
        check("10.0.0.0171", STRICT, &["must not have leading 0s"]);
        check("2001:db8::00001", STRICT, &["must not have leading 0s"]);
        check("::ffff:010.0.0.1", STRICT, &["must not have leading 0s"]);
        check("10.0.0.010", SLOPPY, &[]);
        check("::ffff:1.2.3.4", STRICT, &["must not be an IPv4-mapped IPv6 address"]);
        check("2001:DB8:0::5", STRICT, &[]);
        check("2001:DB8:0::5", CANONICAL, &[r#"must be in canonical form ("2001:db8::5")"#]);
        check("::1", IpRules { family: Some(Family::V4), ..STRICT }, &["must be an IPv4 address"]);
        check("1.2.3.4", IpRules { family: Some(Family::V6), ..STRICT }, &["must be an IPv6 address"]);
    }

    #[test]
    fn cidrs() {
        let check = |text: &str, rules, want: &[&str]| assert_eq!(cidr(text, rules), want, "{text}");
        check("10.0.0.0/8", CANONICAL, &[]);
        check("0.0.0.0/0", CANONICAL, &[]);
        check("fd00::/112", CANONICAL, &[]);
        for text in ["10.0.0.1", "x", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "::/129"] {
            check(text, STRICT, &[NOT_CIDR]);
        }
        check("010.0.0.0/8", STRICT, &["must not have leading 0s in IP or prefix length"]);
        check("10.0.0.0/08", STRICT, &["must not have leading 0s in IP or prefix length"]);
        check("::ffff:10.0.0.0/104", STRICT, &["must not have an IPv4-mapped IPv6 address"]);
        check("10.0.0.5/8", STRICT, &["must not have bits set beyond the prefix length"]);
        check("10.0.0.5/8", SLOPPY, &[]);
        check("fd00:99:0::/112", CANONICAL, &[r#"must be in canonical form ("fd00:99::/112")"#]);
        let network = Cidr::parse_sloppy("10.96.0.0/12").expect("a CIDR");
        assert!(network.contains("10.100.1.2".parse().expect("an address")));
        assert!(!network.contains("10.112.0.0".parse().expect("an address")));
    }

    #[test]
    fn special_addresses() {
        for (text, want) in [
            ("10.0.0.1", None),
            ("fd00::1", None),
            ("banana", Some("must be a valid IP address")),
            ("0.0.0.0", Some("may not be unspecified (0.0.0.0)")),
            ("::", Some("may not be unspecified (::)")),
            ("127.0.0.1", Some("may not be in the loopback range (127.0.0.0/8, ::1/128)")),
            ("fe80::1", Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)")),
            ("224.0.0.1", Some("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")),
            ("ff02::1", Some("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")),
        ] {
            assert_eq!(non_special_ip(text).first().map(String::as_str), want, "{text}");
        }
    }

    #[test]
    fn warnings() {
        assert_eq!(ip_warning("spec.x", "1.2.3.4"), None);
        assert_eq!(
            ip_warning("spec.x", "1.2.3.04").as_deref(),
            Some(
                r#"spec.x: non-standard IP address "1.2.3.04" will be considered invalid in a future Kubernetes release: use "1.2.3.4""#
            )
        );
        assert_eq!(
            ip_warning("spec.x", "FD00::1").as_deref(),
            Some(r#"spec.x: IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")"#)
        );
        assert_eq!(
            cidr_warnings("spec.x", "10.0.0.5/8"),
            [
                r#"spec.x: CIDR value "10.0.0.5/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.0.0.5/32"?)"#
            ]
        );
        assert_eq!(
            cidr_warnings("spec.x", "::ffff:10.0.0.0/104"),
            [
                r#"spec.x: non-standard CIDR value "::ffff:10.0.0.0/104" will be considered invalid in a future Kubernetes release: use "10.0.0.0/8""#
            ]
        );
    }
}
