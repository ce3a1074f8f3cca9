//! One start tag: which of its attributes are URLs, and how it is written anew.

use std::collections::HashSet;

/// A start tag as it is read.
#[derive(Default)]
pub(super) struct Tag {
    pub(super) name: Vec<u8>,
    pub(super) attributes: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) closes_itself: bool,
}

/// The attributes of each element that are URLs.
const URLS: &[(&str, &[&str])] = &[
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["src", "usemap", "formaction"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("video", &["poster", "src"]),
];

impl Tag {
    /// Writes the tag: names in lower case, each attribute once, values in quotation marks.
    pub(super) fn write(&self, rewrite: &impl Fn(&str) -> Option<String>, out: &mut Vec<u8>) {
        let name = self.name.to_ascii_lowercase();
        let urls = URLS.iter().find(|(element, _)| element.as_bytes() == name).map_or(&[][..], |(_, urls)| urls);
        out.push(b'<');
        out.extend_from_slice(&name);
        let mut written: HashSet<Vec<u8>> = HashSet::new();
        for (key, value) in &self.attributes {
            let key = key.to_ascii_lowercase();
            if key.is_empty() || written.contains(&key) {
                continue;
            }
            let is_url = urls.iter().any(|url| url.as_bytes() == key);
            out.push(b' ');
            out.extend_from_slice(&key);
            out.extend_from_slice(b"=\"");
            let rewritten = Some(value).filter(|_| is_url).and_then(|value| String::from_utf8(unescape(value)).ok());
            match rewritten.as_deref().and_then(rewrite) {
                Some(url) => url.bytes().for_each(|byte| escape(byte, out)),
                None => copy(value, out),
            }
            out.push(b'"');
            written.insert(key);
        }
        out.extend_from_slice(if self.closes_itself { b"/>" } else { b">" });
    }
}

/// Entities that are undone. Others stay as they are, which means the same.
const ENTITIES: [(&[u8], &[u8]); 5] =
    [(b"amp;", b"&"), (b"lt;", b"<"), (b"gt;", b">"), (b"quot;", b"\""), (b"apos;", b"'")];

/// A part of a value: bytes that stand for themselves or for something else, or an entity that is left as it is.
enum Part<'a> {
    Text(Vec<u8>),
    Entity(&'a [u8]),
}

/// Takes the next part of a value off.
fn next<'a>(rest: &mut &'a [u8]) -> Option<Part<'a>> {
    let (first, behind) = rest.split_first()?;
    let whole = *rest;
    *rest = behind;
    match first {
        b'\r' => {
            *rest = behind.strip_prefix(b"\n").unwrap_or(behind);
            Some(Part::Text(b"\n".to_vec()))
        }
        b'&' => {
            if let Some((text, length)) = entity(behind) {
                *rest = &behind[length..];
                return Some(Part::Text(text));
            }
            let length = behind.iter().take(34).position(|b| !(b.is_ascii_alphanumeric() || *b == b'#')).unwrap_or(0);
            if length > 0 && behind[length] == b';' {
                *rest = &behind[length + 1..];
                return Some(Part::Entity(&whole[..length + 2]));
            }
            Some(Part::Text(b"&".to_vec()))
        }
        other => Some(Part::Text(vec![*other])),
    }
}

fn unescape(mut value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    while let Some(part) = next(&mut value) {
        match part {
            Part::Text(text) => out.extend_from_slice(&text),
            Part::Entity(entity) => out.extend_from_slice(entity),
        }
    }
    out
}

/// Writes a value that stays what it is.
fn copy(mut value: &[u8], out: &mut Vec<u8>) {
    while let Some(part) = next(&mut value) {
        match part {
            Part::Text(text) => text.iter().for_each(|byte| escape(*byte, out)),
            Part::Entity(entity) => out.extend_from_slice(entity),
        }
    }
}

/// What an entity means that follows an ampersand, and how long it is.
fn entity(rest: &[u8]) -> Option<(Vec<u8>, usize)> {
    if let Some((name, text)) = ENTITIES.iter().find(|(name, _)| rest.starts_with(name)) {
        return Some((text.to_vec(), name.len()));
    }
    let digits = rest.strip_prefix(b"#")?;
    let (digits, radix, before) = match digits.strip_prefix(b"x").or_else(|| digits.strip_prefix(b"X")) {
        Some(digits) => (digits, 16, 2),
        None => (digits, 10, 1),
    };
    let length = digits.iter().position(|digit| !char::from(*digit).is_digit(radix))?;
    let number = u32::from_str_radix(std::str::from_utf8(&digits[..length]).ok()?, radix).ok()?;
    let character = char::from_u32(number).filter(|c| !c.is_control())?;
    (digits[length] == b';').then(|| (character.to_string().into_bytes(), before + length + 1))
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'&' => out.extend_from_slice(b"&amp;"),
        b'\'' => out.extend_from_slice(b"&#39;"),
        b'<' => out.extend_from_slice(b"&lt;"),
        b'>' => out.extend_from_slice(b"&gt;"),
        b'"' => out.extend_from_slice(b"&#34;"),
        b'\r' => out.extend_from_slice(b"&#13;"),
        other => out.push(other),
    }
}
