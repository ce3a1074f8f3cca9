//! `url()` and what can be asked of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use machinery::Str;
use machinery::meta::go_text::quote;
use machinery::meta::go_url::GoUrl;

use super::{Library, args};
use crate::types::Type;
use crate::value::{Error, Key, Opaque, Result, Value};

const TYPE: &str = "kubernetes.URL";

/// An absolute URI or an absolute path, in its parts.
#[derive(Debug, PartialEq)]
struct Url {
    scheme: String,
    host: String,
    hostname: String,
    port: String,
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
            Ok(url) => Ok(Value::Opaque(Arc::new(url))),
            Err(why) => Err(Error::Failed(format!("URL parse error during conversion from string: {why}"))),
        })
    });
    library.global(
        "isURL",
        "is_url_string",
        &[Type::String],
        Type::Bool,
        |a| args!(a, Value::String(s) => Ok(Value::Bool(parse(s).is_ok()))),
    );
    let texts: [(&'static str, &'static str, super::Call); 5] = [
        ("getScheme", "url_get_scheme", |a| part(a, |u| u.scheme.clone())),
        ("getHost", "url_get_host", |a| part(a, |u| u.host.clone())),
        ("getHostname", "url_get_hostname", |a| part(a, |u| u.hostname.clone())),
        ("getPort", "url_get_port", |a| part(a, |u| u.port.clone())),
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

/// Why a text is no URL of a request, which is an absolute one, or an absolute path.
pub(super) fn fault(text: &str) -> Option<String> {
    GoUrl::parse_request_uri(text).err().map(|why| format!("parse {}: {why}", quote(text)))
}

/// Reads a URL as upstream does: as a request's, and then with its fragment told apart.
fn parse(text: &str) -> Result<Url, String> {
    fault(text).map_or(Ok(()), Err)?;
    let url = GoUrl::parse(text).map_err(|why| format!("parse {}: {why}", quote(text)))?;
    Ok(Url {
        hostname: url.hostname().to_owned(),
        port: url.port().to_owned(),
        path: url.escaped_path(),
        query: pairs(url.query),
        text: text.into(),
        scheme: url.scheme,
        host: url.host,
    })
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
