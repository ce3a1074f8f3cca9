//! The query of a request.

use crate::Str;

/// The pairs of a query, decoded, in order.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(Str, Str)>);

impl Query {
    /// Reads a query as Go's url.ParseQuery does: pairs that do not decode, or hold a semicolon, are left out.
    pub fn parse(query: &str) -> Self {
        let decode = |text: &str| {
            let text = text.replace('+', " ");
            let bytes = strict_percent_decode(&text)?;
            Some(Str::from(String::from_utf8_lossy(&bytes)))
        };
        Query(
            query
                .split('&')
                .filter(|pair| !pair.is_empty() && !pair.contains(';'))
                .filter_map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    Some((decode(key)?, decode(value)?))
                })
                .collect(),
        )
    }

    /// The first value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// All values of `key`.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// Whether `key` is there at all.
    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// A boolean as upstream's conversion reads it: absent, `false` and `0` are false, all else is true.
    pub fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(|v| !matches!(v, "false" | "0") && !v.eq_ignore_ascii_case("false"))
    }
}

/// Decodes `%xx`; `None` if an escape is malformed.
pub fn strict_percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        if b != b'%' {
            out.push(b);
            continue;
        }
        let digit = |b: Option<u8>| char::from(b?).to_digit(16);
        let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
        out.push((high * 16 + low) as u8);
    }
    Some(out)
}
