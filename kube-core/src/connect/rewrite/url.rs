//! URLs within what is proxied.

use machinery::meta::go_url::{GoUrl, escape_path, unescape};

/// Where something is served, and below which of this server's paths.
#[derive(Clone, Debug)]
pub(in crate::connect) struct Place {
    /// The path up to `proxy`, as the client has written it.
    pub(in crate::connect) base: String,
    /// Host and port of who serves it.
    pub(in crate::connect) authority: String,
    /// The host that the client has asked.
    pub(in crate::connect) host: String,
}

impl Place {
    /// A URL below this server's path; `None` if it stays as it is: it leads elsewhere, is relative, or is none.
    pub(super) fn rewrite(&self, text: &str) -> Option<String> {
        let url = GoUrl::parse(text).ok()?;
        let is_elsewhere = !url.host.is_empty() && url.host != self.authority && url.host != self.host;
        if is_elsewhere || url.is_opaque || !url.path.starts_with('/') {
            return None;
        }
        let mut out = String::new();
        if !url.host.is_empty() && url.host == self.host {
            out = format!("{}//{}", scheme(&url), url.host);
        }
        let path = unescape(url.path);
        let base = unescape(&self.base);
        if path.starts_with(&base) {
            out.push_str(&url.escaped_path());
        } else {
            out.push_str(&escape_path(&joined(&base, &path)));
        }
        if !url.query.is_empty() || text.split('#').next().is_some_and(|text| text.ends_with('?')) {
            out.extend(["?", url.query]);
        }
        if !url.fragment.is_empty() {
            out.extend(["#", url.fragment]);
        }
        Some(out)
    }
}

fn scheme(url: &GoUrl<'_>) -> String {
    if url.scheme.is_empty() { String::new() } else { format!("{}:", url.scheme) }
}

/// A path below another one, as it is handed on: without empty steps and dots, and with the escapes that it needs.
pub(in crate::connect) fn cleaned(path: &str) -> String {
    escape_path(&joined(b"", &unescape(path)))
}

/// Two absolute paths as one without empty steps and dots, with the slash at the end that the second one has.
fn joined(base: &[u8], path: &[u8]) -> Vec<u8> {
    let mut steps: Vec<&[u8]> = Vec::new();
    for step in base.split(|b| *b == b'/').chain(path.split(|b| *b == b'/')) {
        match step {
            b"" | b"." => {}
            b".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    let mut out = Vec::new();
    for step in steps {
        out.push(b'/');
        out.extend_from_slice(step);
    }
    if path.ends_with(b"/") || out.is_empty() {
        out.push(b'/');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned() {
        let check = |path: &str, expect: &str| assert_eq!(cleaned(path), expect, "{path}");
        check("", "/");
        check("/", "/");
        check("/a%2Fb/", "/a/b/");
        check("/a/../c//./d", "/c/d");
        check("/../x", "/x");
        check("/a%20b'%C3%A9;+", "/a%20b%27%C3%A9;+");
    }

    #[test]
    fn what_is_served_stays_below_its_path() {
        let place = Place {
            base: "/base/proxy".to_owned(),
            authority: "192.0.2.1:80".to_owned(),
            host: "localhost:8001".to_owned(),
        };
        let check = |text: &str, expect: Option<&str>| assert_eq!(place.rewrite(text).as_deref(), expect, "{text}");
        check("/login", Some("/base/proxy/login"));
        check("/", Some("/base/proxy/"));
        check("/a/?x=1&y#z", Some("/base/proxy/a/?x=1&y#z"));
        check("/a?", Some("/base/proxy/a?"));
        check("/a/../b/./c//d", Some("/base/proxy/b/c/d"));
        check("/../../../x", Some("/x"));
        check("/a%2Fb c!", Some("/base/proxy/a/b%20c%21"));
        check("http://192.0.2.1:80/login", Some("/base/proxy/login"));
        check("//192.0.2.1:80/login", Some("/base/proxy/login"));
        check("http://localhost:8001/login", Some("http://localhost:8001/base/proxy/login"));
        check("//localhost:8001/login", Some("//localhost:8001/base/proxy/login"));
        check("/base/proxy/x%2Fy", Some("/base/proxy/x%2Fy"));
        check("http://192.0.2.1:80/base/proxy/x", Some("/base/proxy/x"));
        for stays in [
            "http://example.com/login",
            "//example.com/login",
            "next",
            "?x",
            "#y",
            "",
            "mailto:a@b",
            "http://[",
            "http://192.0.2.1:80",
        ] {
            check(stays, None);
        }
    }
}
