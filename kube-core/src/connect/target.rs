//! Names and addresses of what is proxied to.

use std::net::{IpAddr, Ipv4Addr};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// `name`, `name:port` or `scheme:name:port`, as scheme, name and port; what is left out is empty.
pub(super) fn parse(id: &str) -> Option<(&str, &str, &str)> {
    let parts: Vec<&str> = id.split(':').collect();
    let (scheme, name, port) = match parts[..] {
        [name] => ("", name, ""),
        [name, port] => ("", name, port),
        [scheme @ ("" | "http" | "https"), name, port] => (scheme, name, port),
        _ => return None,
    };
    (!name.is_empty()).then_some((scheme, name, port))
}

/// Host and port as in a URL; an empty port is left out.
pub(super) fn authority(host: &str, port: &str) -> String {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    if port.is_empty() { host } else { format!("{host}:{port}") }
}

/// Whether requests may be handed to an address: not to this machine, not to its links, not to everybody.
pub(super) fn is_proxyable(ip: IpAddr) -> bool {
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip == Ipv4Addr::BROADCAST,
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !(link_local || ip.is_unspecified() || ip.is_loopback() || ip.is_multicast())
}

/// What stays as it is in a query (RFC 3986, 2.3).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A query of these pairs.
pub(super) fn query<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let pairs = pairs.into_iter().map(|(key, value)| format!("{key}={}", utf8_percent_encode(&value, UNRESERVED)));
    pairs.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_carry_a_scheme_and_a_port() {
        let check = |id: &str, expect: Option<(&str, &str, &str)>| assert_eq!(parse(id), expect, "{id}");
        check("s", Some(("", "s", "")));
        check("s:80", Some(("", "s", "80")));
        check("https:s:web", Some(("https", "s", "web")));
        check("https:s:", Some(("https", "s", "")));
        check("x:s:80", None);
        check("https:s:web:", None);
        check(":80", None);
        check("", None);
    }

    #[test]
    fn some_addresses_are_nobodys_to_ask_for() {
        let check = |ip: &str, expect: bool| assert_eq!(is_proxyable(ip.parse().expect("an address")), expect, "{ip}");
        check("192.0.2.1", true);
        check("10.0.0.1", true);
        check("2001:db8::1", true);
        for ip in ["127.0.0.1", "0.0.0.0", "169.254.169.254", "255.255.255.255", "224.0.0.1", "::1", "fe80::1", "::"] {
            check(ip, false);
        }
    }

    #[test]
    fn urls_are_escaped() {
        assert_eq!(authority("2001:db8::1", "80"), "[2001:db8::1]:80");
        assert_eq!(authority("n", ""), "n");
        assert_eq!(query([("command", "a b&c".to_owned()), ("tty", "1".to_owned())]), "command=a%20b%26c&tty=1");
    }
}
