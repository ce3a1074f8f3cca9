//! URIs as Go's url.ParseRequestURI reads them: absolute, or an absolute path.

pub(super) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|b| b < b' ' || b == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Some((scheme, rest)) = split_scheme(text) else { return false };
    let rest = rest.split('?').next().unwrap_or_default();
    if !rest.starts_with('/') {
        return scheme; // opaque
    }
    let (authority, path) = match rest.strip_prefix("//").filter(|_| scheme) {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", rest),
    };
    is_authority(authority) && is_escaped(path, |_| true)
}

/// Whether there is a scheme, and what follows it; `None` if the text starts with a colon.
fn split_scheme(text: &str) -> Option<(bool, &str)> {
    for (i, b) in text.bytes().enumerate() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if i > 0 => {}
            b':' if i == 0 => return None,
            b':' => return Some((true, &text[i + 1..])),
            _ => return Some((false, text)),
        }
    }
    Some((false, text))
}

fn is_authority(authority: &str) -> bool {
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let user_fits = user.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b));
    user_fits && is_escaped(user, |_| true) && is_host(host)
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(literal) => match literal.rsplit_once(']') {
            Some(split) => split,
            None => return false,
        },
        None => host
            .find(':')
            .map_or((host, ""), |_| host.rsplit_once(':').map_or((host, ""), |(n, _)| host.split_at(n.len()))),
    };
    let port_fits = port.is_empty() || port.strip_prefix(':').is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()));
    let allowed = |b: u8| b.is_ascii_alphanumeric() || !b.is_ascii() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&b);
    port_fits && is_escaped(name, allowed)
}

/// Whether every `%` starts an escape, and all else is allowed.
fn is_escaped(text: &str, allowed: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if bytes[i] == b'%' {
            if !bytes.get(i + 1..i + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) {
                return false;
            }
            i += 3;
        } else if allowed(bytes[i]) {
            i += 1;
        } else {
            return false;
        }
    }
    true
}
