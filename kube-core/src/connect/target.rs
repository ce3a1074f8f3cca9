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

/// Whether requests may be handed to an address: not to this machine, not to its links, not to everybody. An IPv4 address in
/// the clothes of an IPv6 one is what it is.
pub(super) fn is_proxyable(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip == Ipv4Addr::BROADCAST,
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !(link_local || ip.is_unspecified() || ip.is_loopback() || ip.is_multicast())
}

/// What stays as it is in a query (RFC 3986, 2.3).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A path with a query of these pairs, as Go's encoder writes it: sorted by key, and with nothing behind the path if there
/// are none.
pub(super) fn with_query<'a>(path: &str, pairs: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.sort_by_key(|(key, _)| *key); // a stable sort: values of one key stay in their order
    let mut out = path.to_owned();
    for (i, (key, value)) in pairs.iter().enumerate() {
        let value = utf8_percent_encode(value, UNRESERVED).to_string().replace("%20", "+");
        out.push_str(if i == 0 { "?" } else { "&" });
        out.extend([*key, "=", &value]);
    }
    out
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
        check("::ffff:192.0.2.1", true);
        for ip in ["127.0.0.1", "0.0.0.0", "169.254.169.254", "255.255.255.255", "224.0.0.1", "::1", "fe80::1", "::"] {
            check(ip, false);
        }
        for ip in ["127.0.0.1", "127.1.2.3", "0.0.0.0", "169.254.169.254", "255.255.255.255", "224.0.0.1"] {
            check(&format!("::ffff:{ip}"), false);
        }
        check("::ffff:7f00:1", false);
    }

    #[test]
    fn urls_are_escaped() {
        assert_eq!(authority("2001:db8::1", "80"), "[2001:db8::1]:80");
        assert_eq!(authority("n", ""), "n");
        let pairs =
            [("tty", "1"), ("command", "b c&d%20"), ("command", "a")].map(|(key, value)| (key, value.to_owned()));
        assert_eq!(with_query("/exec", pairs), "/exec?command=b+c%26d%2520&command=a&tty=1");
        assert_eq!(with_query("/logs", []), "/logs");
    }
}
