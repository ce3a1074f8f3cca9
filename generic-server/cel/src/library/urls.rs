//! `url()` and what can be asked of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use machinery::Str;
use machinery::schema::has_format;

use super::{Library, args};
use crate::types::Type;
use crate::value::{Error, Key, Opaque, Result, Value};

const TYPE: &str = "kubernetes.URL";

/// An absolute URI or an absolute path, in its parts.
#[derive(Debug, PartialEq)]
struct Url {
    scheme: String,
    host: String,
    path: String,
    query: BTreeMap<String, Vec<String>>,
    text: String,
}

impl Opaque for Url {
    fn type_name(&self) -> &'static str {
        TYPE
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        (other as &dyn std::any::Any).downcast_ref::<Url>().is_some_and(|o| o.text == self.text)
    }
}

pub(super) fn add(library: &mut Library) {
    let url = Type::opaque(TYPE);
    library.global("url", "string_to_url", &[Type::String], url.clone(), |a| {
        args!(a, Value::String(s) => match parse(s) {
            Some(url) => Ok(Value::Opaque(Arc::new(url))),
            None => Err(Error::Failed(format!("URL parse error during conversion from string: {}", parse_error(s)))),
        })
    });
    library.global(
        "isURL",
        "is_url_string",
        &[Type::String],
        Type::Bool,
        |a| args!(a, Value::String(s) => Ok(Value::Bool(parse(s).is_some()))),
    );
    let texts: [(&'static str, &'static str, super::Call); 5] = [
        ("getScheme", "url_get_scheme", |a| part(a, |u| u.scheme.clone())),
        ("getHost", "url_get_host", |a| part(a, |u| u.host.clone())),
        ("getHostname", "url_get_hostname", |a| part(a, |u| split_port(&u.host).0.trim_matches(['[', ']']).to_owned())),
        ("getPort", "url_get_port", |a| part(a, |u| split_port(&u.host).1.to_owned())),
        ("getEscapedPath", "url_get_escaped_path", |a| part(a, |u| u.path.clone())),
    ];
    for (name, id, call) in texts {
        library.member(name, id, std::slice::from_ref(&url), Type::String, call);
    }
    let query = Type::map(Type::String, Type::list(Type::String));
    library.member("getQuery", "url_get_query", &[url], query, |a| {
        args!(a, of => {
            let url = of.opaque::<Url>().ok_or_else(Error::no_overload)?;
            let entry = |(k, v): (&String, &Vec<String>)| {
                (Key::String(Str::from(k.as_str())), Value::list(v.iter().map(|v| Value::string(v.as_str())).collect()))
            };
            Ok(Value::Map(Arc::new(url.query.iter().map(entry).collect())))
        })
    });
}

fn part(args: &[Value], part: fn(&Url) -> String) -> Result {
    args!(args, of => of.opaque::<Url>().map(|u| Value::string(part(u))).ok_or_else(Error::no_overload))
}

/// Go's words for a text that is no URI of a request.
pub(super) fn parse_error(text: &str) -> String {
    let why = if text.is_empty() { "empty url" } else { "invalid URI for request" };
    format!("parse {}: {why}", machinery::meta::go_text::quote(text))
}

fn parse(text: &str) -> Option<Url> {
    if has_format("uri", text) != Some(true) {
        return None;
    }
    let (scheme, rest) = match text.split_once(':') {
        Some((scheme, rest)) if !text.starts_with('/') => (scheme.to_ascii_lowercase(), rest),
        _ => (String::new(), text),
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, path) = match rest.strip_prefix("//") {
        Some(rest) if !scheme.is_empty() => {
            let end = rest.find('/').unwrap_or(rest.len());
            (&rest[..end], &rest[end..])
        }
        _ => ("", rest),
    };
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    Some(Url { scheme, host: host.into(), path: path.into(), query: pairs(query), text: text.into() })
}

fn split_port(host: &str) -> (&str, &str) {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (name, port),
        _ => (host, ""),
    }
}

fn pairs(query: &str) -> BTreeMap<String, Vec<String>> {
    let mut pairs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pair in query.split('&').filter(|p| !p.is_empty() && !p.contains(';')) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let (Some(key), Some(value)) = (unescape(key), unescape(value)) {
            pairs.entry(key).or_default().push(value);
        }
    }
    pairs
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(b) = rest.next() {
        match b {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digit = |b: Option<u8>| (b? as char).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                bytes.push((high * 16 + low) as u8);
            }
            b => bytes.push(b),
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
