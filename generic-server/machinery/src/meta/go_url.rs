//! URLs as Go's net/url reads them, with its words for what is none.

use super::{
    go_text::quote,
    netip::{self, AddrError},
};

/// Why a text is no URL. Shown, it is what Go says behind `parse "URL": `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// A control character stands in it.
    #[error("net/url: invalid control character in URL")]
    ControlCharacter,
    /// There is no text, where a request's URL is read.
    #[error("empty url")]
    Empty,
    /// It is neither an absolute URL nor an absolute path, where a request's URL is read.
    #[error("invalid URI for request")]
    NoRequestUri,
    /// A relative path whose first part would be taken for a scheme.
    #[error("first path segment in URL cannot contain colon")]
    ColonInFirstSegment,
    /// It begins with a colon.
    #[error("missing protocol scheme")]
    NoScheme,
    /// What stands before `@`.
    #[error("net/url: invalid userinfo")]
    UserInfo,
    /// The address of the host is not closed.
    #[error("missing ']' in host")]
    NoBracket,
    /// Brackets where no IPv6 address is.
    #[error("invalid IP-literal")]
    IpLiteral,
    /// What stands in brackets is no address.
    #[error("invalid host: {0}")]
    Address(AddrError),
    /// What follows the host is no port.
    #[error("invalid port {} after host", quote(.0))]
    Port(String),
    /// A character that cannot stand in a host.
    #[error("invalid character {} in host name", quote(.0))]
    HostCharacter(String),
    /// No escape, or none that can stand there.
    #[error("invalid URL escape {}", quote(.0))]
    Escape(String),
}

/// The parts of a URL. Escapes are undone in the host alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GoUrl<'a> {
    /// In lower case; empty for a reference without one.
    pub scheme: String,
    /// What stands before `@` in front of the host.
    pub user: Option<&'a str>,
    /// With the port, if it has one.
    pub host: String,
    /// As it is written. With a scheme and without a slash at its start it is opaque.
    pub path: &'a str,
    /// Behind the question mark.
    pub query: &'a str,
    /// Behind the `#`; it belongs to the rest where a URL is read as a request's.
    pub fragment: &'a str,
    /// `scheme:rest`, without a slash behind the colon.
    pub is_opaque: bool,
}

impl<'a> GoUrl<'a> {
    /// Reads an absolute or relative URL.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(text: &'a str) -> Result<Self, UrlError> {
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let url = Self::read(rest, false)?;
        check_escapes(fragment)?;
        Ok(GoUrl { fragment, ..url })
    }

    /// Reads the URL of a request: an absolute one, or an absolute path.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse_request_uri(text: &'a str) -> Result<Self, UrlError> {
        Self::read(text, true)
    }

    fn read(text: &'a str, of_request: bool) -> Result<Self, UrlError> {
        if text.bytes().any(|b| b < b' ' || b == 0x7f) {
            return Err(UrlError::ControlCharacter);
        }
        if text.is_empty() && of_request {
            return Err(UrlError::Empty);
        }
        if text == "*" {
            return Ok(GoUrl { path: text, ..GoUrl::default() });
        }
        let (scheme, rest) = split_scheme(text)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = GoUrl { scheme: scheme.to_ascii_lowercase(), query, path: rest, ..GoUrl::default() };
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                url.is_opaque = true;
                return Ok(url);
            }
            if of_request {
                return Err(UrlError::NoRequestUri);
            }
            if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return Err(UrlError::ColonInFirstSegment);
            }
        }
        let has_authority = !scheme.is_empty() || (!of_request && !rest.starts_with("///"));
        if let Some(behind) = rest.strip_prefix("//").filter(|_| has_authority) {
            let (authority, path) = behind.split_at(behind.find('/').unwrap_or(behind.len()));
            let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
            url.host = read_host(&url.scheme, host)?;
            user.map_or(Ok(()), check_user)?;
            (url.user, url.path) = (user, path);
        }
        check_escapes(url.path)?;
        Ok(url)
    }

    /// The host without its port, and without the brackets of an IPv6 address.
    pub fn hostname(&self) -> &str {
        let name = self.split_port().0;
        name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name)
    }

    /// The port; empty if there is none.
    pub fn port(&self) -> &str {
        self.split_port().1
    }

    fn split_port(&self) -> (&str, &str) {
        match self.host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (name, port),
            _ => (&self.host, ""),
        }
    }

    /// The path, with what cannot stand there escaped. An opaque URL has none.
    pub fn escaped_path(&self) -> String {
        if self.is_opaque {
            return String::new();
        }
        let is_escaped = |b: u8| is_plain(b) || b"!$&'()*+,;=:@[]/%".contains(&b);
        if self.path == "*" || self.path.bytes().all(is_escaped) {
            return self.path.to_owned();
        }
        escape_path(&unescape(self.path))
    }

    /// The URL that a reference means that was found at this one, an absolute URL: without dots in its path.
    pub fn join(&self, reference: &GoUrl<'_>) -> String {
        let GoUrl { path, query, .. } = reference;
        let behind = |path: &str, query: &str| match query {
            "" => clean_path(path),
            query => format!("{}?{query}", clean_path(path)),
        };
        if reference.is_opaque {
            return format!(
                "{}:{path}{}",
                reference.scheme,
                if query.is_empty() { String::new() } else { format!("?{query}") }
            );
        }
        if !reference.scheme.is_empty() || !reference.host.is_empty() {
            let scheme = if reference.scheme.is_empty() { &self.scheme } else { &reference.scheme };
            return format!("{scheme}://{}{}", reference.host, behind(path, query));
        }
        let rest = match (path.is_empty(), path.starts_with('/')) {
            (true, _) => behind(self.path, if query.is_empty() { self.query } else { query }),
            (_, true) => behind(path, query),
            _ => behind(&format!("{}/{path}", self.path.rsplit_once('/').map_or("", |(above, _)| above)), query),
        };
        format!("{}://{}{rest}", self.scheme, self.host)
    }
}

/// A path with what cannot stand in it escaped.
pub fn escape_path(path: &[u8]) -> String {
    let mut out = String::with_capacity(path.len() + 8);
    for b in path {
        if is_plain(*b) || b"$&+,/:;=@".contains(b) {
            out.push(char::from(*b));
        } else {
            out.push_str(&format!("%{b:02X}"));
        }
    }
    out
}

/// A path without `.` and `..`.
fn clean_path(path: &str) -> String {
    if !path.split('/').any(|step| matches!(step, "." | "..")) {
        return path.to_owned();
    }
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/').skip(1) {
        match step {
            "." => {}
            ".." => {
                steps.pop();
            }
            step => steps.push(step),
        }
    }
    let is_folder = matches!(path.rsplit('/').next(), Some("." | ".."));
    format!("/{}{}", steps.join("/"), if is_folder && !steps.is_empty() { "/" } else { "" })
}

/// Whether a byte stands for itself everywhere in a URL.
fn is_plain(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-_.~".contains(&b)
}

/// Undoes well-formed escapes.
pub fn unescape(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let hex = (bytes[i] == b'%').then(|| text.get(i + 1..i + 3)).flatten();
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                i += 3;
            }
            None => {
                out.push(bytes[i]);
                i += 1;
            }
        }
    }
    out
}

fn split_scheme(text: &str) -> Result<(&str, &str), UrlError> {
    for (i, b) in text.bytes().enumerate() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if i > 0 => {}
            b':' if i == 0 => return Err(UrlError::NoScheme),
            b':' => return Ok((&text[..i], &text[i + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn check_user(user: &str) -> Result<(), UrlError> {
    if !user.bytes().all(|b| is_plain(b) || b"!$&'()*+,;=:%@".contains(&b)) {
        return Err(UrlError::UserInfo);
    }
    check_escapes(user)
}

/// A host with its port, unescaped.
fn read_host(scheme: &str, host: &str) -> Result<String, UrlError> {
    let port_at = match host.rfind('[') {
        Some(0) => {
            let end = host.rfind(']').ok_or(UrlError::NoBracket)?;
            check_port(&host[end + 1..])?;
            let address = host_text(&host[1..end])?;
            return match netip::parse_addr(&address) {
                Ok((ip, _)) if ip.is_ipv6() => Ok(format!("[{address}]{}", &host[end + 1..])),
                Ok(_) => Err(UrlError::IpLiteral),
                Err(why) => Err(UrlError::Address(why)),
            };
        }
        Some(_) => return Err(UrlError::IpLiteral),
        // Other schemes may list several hosts with a port each.
        None if matches!(scheme, "http" | "https") => host.find(':'),
        None => host.rfind(':'),
    };
    if let Some(at) = port_at {
        check_port(&host[at..])?;
    }
    host_text(host)
}

fn check_port(text: &str) -> Result<(), UrlError> {
    let is_port =
        text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
    if is_port { Ok(()) } else { Err(UrlError::Port(text.to_owned())) }
}

/// A host's text, in which only what is not ASCII can be escaped; what follows `%25` is a zone, in which more can.
fn host_text(host: &str) -> Result<String, UrlError> {
    check_escapes(host)?;
    let zone = host.find("%25").unwrap_or(host.len());
    let stands = |b: u8| !b.is_ascii() || is_plain(b) || b"!$&'()*+,;=:[]<>\"".contains(&b);
    let bytes = host.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if bytes[i] != b'%' {
            if !stands(bytes[i]) {
                return Err(UrlError::HostCharacter(host[i..=i].to_owned()));
            }
            i += 1;
            continue;
        }
        let escape = &host[i..i + 3];
        let byte = u8::from_str_radix(&escape[1..], 16).unwrap_or_default();
        let allowed = match i < zone {
            true => byte >= 0x80,
            false => escape == "%25" || byte == b' ' || stands(byte),
        };
        if !allowed {
            return Err(UrlError::Escape(escape.to_owned()));
        }
        i += 3;
    }
    Ok(String::from_utf8_lossy(&unescape(host)).into_owned())
}

fn check_escapes(text: &str) -> Result<(), UrlError> {
    for (i, _) in text.match_indices('%') {
        let escape = &text.as_bytes()[i..text.len().min(i + 3)];
        if escape.len() < 3 || !escape[1..].iter().all(u8::is_ascii_hexdigit) {
            return Err(UrlError::Escape(String::from_utf8_lossy(escape).into_owned()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_split_as_in_go() {
        let url = GoUrl::parse("HTTPS://me:pw@[fe80::1%25eth0]:8443/a%2Fb c?x=1&y#frag").expect("a URL");
        assert_eq!((url.scheme.as_str(), url.user, url.host.as_str()), ("https", Some("me:pw"), "[fe80::1%eth0]:8443"));
        assert_eq!((url.hostname(), url.port(), url.query, url.fragment), ("fe80::1%eth0", "8443", "x=1&y", "frag"));
        assert_eq!(url.escaped_path(), "/a/b%20c");
        assert_eq!(GoUrl::parse("http://a/a%2Fb").map(|url| url.escaped_path()), Ok("/a%2Fb".to_owned()));
        assert_eq!(GoUrl::parse_request_uri("/x#y").map(|url| url.path), Ok("/x#y"));
        assert!(GoUrl::parse("mailto:me").is_ok_and(|url| url.is_opaque && url.escaped_path().is_empty()));
    }

    #[test]
    fn what_is_no_url_is_told_in_gos_words() {
        let check = |text: &str, expect: &str| {
            assert_eq!(GoUrl::parse_request_uri(text).expect_err(text).to_string(), expect, "{text}");
        };
        check("", "empty url");
        check("\nx", "net/url: invalid control character in URL");
        check("://", "missing protocol scheme");
        check("x", "invalid URI for request");
        check("http://[::1", "missing ']' in host");
        check("http://a[::1]/", "invalid IP-literal");
        check("http://[1.2.3.4]/", "invalid IP-literal");
        check("http://[1:2]/", r#"invalid host: ParseAddr("1:2"): address string too short"#);
        check("http://a:b/", r#"invalid port ":b" after host"#);
        check("http://a:1:2/", r#"invalid port ":1:2" after host"#);
        check("http://a%zz/", r#"invalid URL escape "%zz""#);
        check("http://a%41/", r#"invalid URL escape "%41""#);
        check("http://a b/", r#"invalid character " " in host name"#);
        check("http://a/%zz", r#"invalid URL escape "%zz""#);
        check("http://a b@h/", "net/url: invalid userinfo");
        let relative = GoUrl::parse("1a:b").expect_err("no URL");
        assert_eq!(relative.to_string(), "first path segment in URL cannot contain colon");
        assert!(GoUrl::parse_request_uri("postgres://a:1,b:2/x").is_ok());
    }

    #[test]
    fn references_are_resolved() {
        let base = GoUrl::parse("https://h:1/a/b?q=1").expect("a URL");
        let check = |reference: &str, expect: &str| {
            assert_eq!(base.join(&GoUrl::parse(reference).expect("a URL")), expect, "{reference}");
        };
        check("/x?y=2", "https://h:1/x?y=2");
        check("c", "https://h:1/a/c");
        check("../c/./d", "https://h:1/c/d");
        check("?z=1", "https://h:1/a/b?z=1");
        check("//other/x", "https://other/x");
        check("http://other", "http://other");
        check("ftp://other/x", "ftp://other/x");
    }
}
