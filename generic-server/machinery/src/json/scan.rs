//! Looks into the JSON text of a stored object without building a tree: its metadata, and single fields.
//!
//! It runs on every object when a watch cache loads. It trusts that the text once was a whole JSON value: what it skips
//! it does not judge, but whatever the bytes are, it ends and does not panic.

use std::borrow::Cow;
use std::ops::Range;

use super::lexer::{Lexer, plain_end};

/// What an object's metadata says, borrowed from its text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetaRef<'a> {
    /// `metadata.name`
    pub name: Option<Cow<'a, str>>,
    /// `metadata.namespace`
    pub namespace: Option<Cow<'a, str>>,
    /// `metadata.uid`
    pub uid: Option<Cow<'a, str>>,
    /// `metadata.resourceVersion`
    pub resource_version: Option<Cow<'a, str>>,
    /// `metadata.deletionTimestamp`
    pub deletion_timestamp: Option<Cow<'a, str>>,
    /// `metadata.labels`, as written.
    pub labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// Where the value of `metadata.annotations` stands in the text.
    pub annotations: Option<Range<usize>>,
    /// Where the value of `metadata.resourceVersion` stands in the text, with its quotes.
    pub resource_version_range: Option<Range<usize>>,
    /// Where the value of `metadata` stands in the text, from brace to brace.
    pub range: Range<usize>,
}

/// The metadata of an object; `None` if there is none or the text is not an object's.
pub fn metadata(bytes: &[u8]) -> Option<MetaRef<'_>> {
    let mut top = Members::of(bytes, 0)?;
    while let Some((name, value)) = top.next()? {
        if name == "metadata" {
            return metadata_at(bytes, value);
        }
    }
    None
}

fn metadata_at(bytes: &[u8], range: Range<usize>) -> Option<MetaRef<'_>> {
    let mut meta = MetaRef { range: range.clone(), ..MetaRef::default() };
    let mut members = Members::of(bytes, range.start)?;
    while let Some((name, value)) = members.next()? {
        match &*name {
            "name" => meta.name = text_at(bytes, value),
            "namespace" => meta.namespace = text_at(bytes, value),
            "uid" => meta.uid = text_at(bytes, value),
            "deletionTimestamp" => meta.deletion_timestamp = text_at(bytes, value),
            "annotations" => meta.annotations = Some(value),
            "labels" => meta.labels = labels(bytes, value)?,
            "resourceVersion" => {
                meta.resource_version = text_at(bytes, value.clone());
                meta.resource_version_range = Some(value);
            }
            _ => {}
        }
    }
    Some(meta)
}

/// The metadata of an object, and what [`field`] finds for each of these paths, in one pass over the text. Of a member
/// that comes twice the first one counts.
pub fn metadata_and_fields<'a, S: AsRef<str>>(
    bytes: &'a [u8],
    paths: &[&[S]],
) -> Option<(MetaRef<'a>, Vec<Option<&'a [u8]>>)> {
    let mut found: Vec<Option<Range<usize>>> = vec![None; paths.len()];
    let mut meta = None;
    // As many as can be had; the rest of the text need not be looked at.
    let mut wanted: Vec<usize> = (0..paths.len()).filter(|i| !paths[*i].is_empty()).collect();
    let mut top = Members::of(bytes, 0)?;
    while meta.is_none() || !wanted.is_empty() {
        let Some((name, value)) = top.next()? else { break };
        if name == "metadata" && meta.is_none() {
            meta = Some(metadata_at(bytes, value.clone())?);
        }
        let leads = |i: &usize| paths[*i][0].as_ref() == name;
        if wanted.iter().any(leads) {
            let below = wanted.extract_if(.., |i| leads(i)).collect();
            find(bytes, value, paths, below, 1, &mut found);
        }
    }
    let fields = found.into_iter().map(|range| bytes.get(range?)).collect();
    Some((meta?, fields))
}

/// Looks below the value at `range` for those paths (`wanted`) of which `depth` steps lead here.
fn find<S: AsRef<str>>(
    bytes: &[u8],
    range: Range<usize>,
    paths: &[&[S]],
    mut wanted: Vec<usize>,
    depth: usize,
    found: &mut [Option<Range<usize>>],
) -> Option<()> {
    wanted.retain(|i| {
        let here = paths[*i].len() == depth;
        if here {
            found[*i] = Some(range.clone());
        }
        !here
    });
    if wanted.is_empty() {
        return Some(());
    }
    let mut members = Members::of(bytes, range.start)?;
    while !wanted.is_empty() {
        let Some((name, value)) = members.next()? else { break };
        let leads = |i: &usize| paths[*i][depth].as_ref() == name;
        if wanted.iter().any(leads) {
            let below = wanted.extract_if(.., |i| leads(i)).collect();
            find(bytes, value, paths, below, depth + 1, found);
        }
    }
    Some(())
}

fn labels(bytes: &[u8], range: Range<usize>) -> Option<Vec<(Cow<'_, str>, Cow<'_, str>)>> {
    if bytes.get(range.start) != Some(&b'{') {
        return Some(Vec::new()); // null
    }
    let mut labels = Vec::new();
    let mut members = Members::of(bytes, range.start)?;
    while let Some((name, value)) = members.next()? {
        labels.push((name, text_at(bytes, value)?));
    }
    Some(labels)
}

/// The text of the member at the end of a chain of objects, as written: `"node-1"`, `12`, `{…}`.
pub fn field<'a>(bytes: &'a [u8], path: &[&str]) -> Option<&'a [u8]> {
    let mut range = 0..bytes.len();
    for step in path {
        let mut members = Members::of(bytes, range.start)?;
        range = loop {
            match members.next()? {
                Some((name, value)) if name == *step => break value,
                Some(_) => {}
                None => return None,
            }
        };
    }
    bytes.get(range)
}

/// One step into a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// The member of an object that has this name; the last one, if it is repeated.
    Member(&'a str),
    /// The item of a list at this place.
    Item(usize),
}

/// The text of the value at the end of these steps, as written.
pub fn at<'a>(bytes: &'a [u8], steps: &[Step<'_>]) -> Option<&'a [u8]> {
    let mut range = 0..bytes.len();
    for step in steps {
        range = match step {
            Step::Member(wanted) => {
                let mut members = Members::of(bytes, range.start)?;
                let mut found = None;
                while let Some((name, value)) = members.next()? {
                    if name == *wanted {
                        found = Some(value);
                    }
                }
                found?
            }
            Step::Item(index) => item(bytes, range.start, *index)?,
        };
    }
    bytes.get(range)
}

/// Where the item at `index` stands of the list whose bracket is the first byte from `pos` on that is not white space.
fn item(bytes: &[u8], pos: usize, index: usize) -> Option<Range<usize>> {
    let mut items = Members { bytes, pos, first: true };
    items.eat(b'[')?;
    for i in 0.. {
        if i > 0 {
            items.eat(b',')?;
        }
        items.peek()?;
        let start = items.pos;
        items.pos = skip_value(bytes, start)?;
        if i == index {
            return Some(start..items.pos);
        }
    }
    None
}

/// The names of an object's members, in the order of the text and as often as they are there; none if it is no object's.
pub fn names(bytes: &[u8]) -> Vec<Cow<'_, str>> {
    let mut names = Vec::new();
    let Some(mut members) = Members::of(bytes, 0) else { return names };
    while let Some(Some((name, _))) = members.next() {
        names.push(name);
    }
    names
}

/// The string at the end of a chain of objects; `None` if it is not there or not a string.
pub fn text<'a>(bytes: &'a [u8], path: &[&str]) -> Option<Cow<'a, str>> {
    let value = field(bytes, path)?;
    text_at(value, 0..value.len())
}

/// The object's text with this `metadata.resourceVersion`, in place of the one that it may have.
pub fn with_resource_version(bytes: &[u8], meta: &MetaRef<'_>, version: u64) -> Vec<u8> {
    let mut number = itoa::Buffer::new();
    let number = number.format(version);
    let mut out = Vec::with_capacity(bytes.len() + 24 + number.len());
    let rest = match &meta.resource_version_range {
        Some(range) => {
            out.extend_from_slice(&bytes[..range.start]);
            range.end
        }
        None => {
            let end = meta.range.end - 1; // the closing brace
            out.extend_from_slice(&bytes[..end]);
            if bytes[meta.range.start + 1..end].iter().any(|b| !b.is_ascii_whitespace()) {
                out.push(b',');
            }
            out.extend_from_slice(b"\"resourceVersion\":");
            end
        }
    };
    out.push(b'"');
    out.extend_from_slice(number.as_bytes());
    out.push(b'"');
    out.extend_from_slice(&bytes[rest..]);
    out
}

/// The members of one object, in the order of the text. `None` from any of it means: malformed.
struct Members<'a> {
    bytes: &'a [u8],
    pos: usize,
    first: bool,
}

impl<'a> Members<'a> {
    /// Of the object whose brace is the first byte from `pos` on that is not white space.
    fn of(bytes: &'a [u8], pos: usize) -> Option<Self> {
        let mut members = Members { bytes, pos, first: true };
        members.eat(b'{')?;
        Some(members)
    }

    /// The next member's name and where its value stands; `Some(None)` at the end of the object.
    fn next(&mut self) -> Option<Option<(Cow<'a, str>, Range<usize>)>> {
        match self.peek()? {
            b'}' => return Some(None),
            b',' if !self.first => self.pos += 1,
            _ if !self.first => return None,
            _ => {}
        }
        self.first = false;
        self.peek()?;
        let start = self.pos;
        self.pos = skip_string(self.bytes, start)?;
        let name = text_at(self.bytes, start..self.pos)?;
        self.eat(b':')?;
        self.peek()?;
        let start = self.pos;
        self.pos = skip_value(self.bytes, start)?;
        Some(Some((name, start..self.pos)))
    }

    fn peek(&mut self) -> Option<u8> {
        loop {
            match *self.bytes.get(self.pos)? {
                b' ' | b'\n' | b'\r' | b'\t' => self.pos += 1,
                b => return Some(b),
            }
        }
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.pos += 1)
    }
}

/// The end of the string that begins at `start`.
#[inline]
fn skip_string(bytes: &[u8], start: usize) -> Option<usize> {
    if bytes.get(start) != Some(&b'"') {
        return None;
    }
    let mut pos = plain_end(bytes, start + 1);
    loop {
        match *bytes.get(pos)? {
            b'"' => return Some(pos + 1),
            b'\\' => pos = plain_end(bytes, pos + 2),
            _ => return None,
        }
    }
}

/// The end of the value that begins at `start`.
fn skip_value(bytes: &[u8], start: usize) -> Option<usize> {
    match *bytes.get(start)? {
        b'"' => skip_string(bytes, start),
        b'{' | b'[' => skip_container(bytes, start),
        b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
            let rest = &bytes[start..];
            let len = rest.iter().position(|b| matches!(b, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t'));
            Some(start + len.unwrap_or(rest.len()))
        }
        _ => None,
    }
}

fn skip_container(bytes: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut pos = start;
    loop {
        match *bytes.get(pos)? {
            b'"' => {
                pos = skip_string(bytes, pos)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(pos + 1);
                }
            }
            _ => {}
        }
        pos += 1;
    }
}

/// The string that stands at `range`, with its quotes.
fn text_at(bytes: &[u8], range: Range<usize>) -> Option<Cow<'_, str>> {
    let quoted = bytes.get(range)?;
    let inner = quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    match memchr::memchr(b'\\', inner) {
        None => std::str::from_utf8(inner).ok().map(Cow::Borrowed),
        Some(_) => Lexer::new(quoted).string().ok().map(|s| Cow::Owned(s.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"a":"{}]\"}"},"creationTimestamp":null,"labels":{"app":"x","t\u0065st/é":"\"y\""},"managedFields":[{"fieldsV1":{"f:metadata":{"f:name":{}}}}],"name":"web","namespace":"default","uid":"1-2"},"spec":{"nodeName":"n1","containers":[{"name":"c"}],"n": 12 },"status":{}}"#;

    #[test]
    fn metadata_is_found() {
        let meta = metadata(POD.as_bytes()).expect("a pod");
        assert_eq!(meta.name.as_deref(), Some("web"));
        assert_eq!(meta.namespace.as_deref(), Some("default"));
        assert_eq!(meta.uid.as_deref(), Some("1-2"));
        assert_eq!(meta.resource_version, None);
        assert_eq!(meta.deletion_timestamp, None);
        assert_eq!(
            meta.labels,
            [("app".into(), "x".into()), ("test/é".into(), "\"y\"".into())] as [(Cow<str>, Cow<str>); 2]
        );
        assert_eq!(&POD[meta.annotations.expect("annotations")], r#"{"a":"{}]\"}"}"#);
        assert!(POD[meta.range.clone()].starts_with("{\"annotations\"") && POD[meta.range].ends_with("\"1-2\"}"));
    }

    #[test]
    fn values_in_lists_are_found_as_written() {
        let text = br#"{"a": [1, {"b": [ 1e3 ,2.50]}, []], "a2": {}, "c":"x", "c":"y"}"#;
        use Step::{Item, Member};
        for (steps, want) in [
            (&[Member("a"), Item(1), Member("b"), Item(0)][..], Some("1e3")),
            (&[Member("a"), Item(1), Member("b"), Item(1)], Some("2.50")),
            (&[Member("a"), Item(1), Member("b"), Item(2)], None),
            (&[Member("a"), Item(2)], Some("[]")),
            (&[Member("a"), Item(2), Item(0)], None),
            (&[Member("c")], Some("\"y\"")),
            (&[Member("a"), Member("b")], None),
        ] {
            assert_eq!(at(text, steps), want.map(str::as_bytes), "{steps:?}");
        }
    }

    #[test]
    fn names_come_in_the_order_of_the_text() {
        assert_eq!(names(br#" {"b": {"x": 1}, "a": 2, "b": 3}"#), ["b", "a", "b"]);
        assert!(names(b"[1]").is_empty() && names(b"").is_empty());
    }

    #[test]
    fn fields_are_found_as_written() {
        for (path, want) in [
            (&["spec", "nodeName"][..], Some("\"n1\"")),
            (&["spec", "n"], Some("12")),
            (&["spec", "containers"], Some(r#"[{"name":"c"}]"#)),
            (&["spec", "containers", "name"], None),
            (&["spec", "absent"], None),
            (&["status"], Some("{}")),
            (&["status", "phase"], None),
        ] {
            assert_eq!(field(POD.as_bytes(), path), want.map(str::as_bytes), "{path:?}");
        }
        let paths: [&[&str]; 8] = [
            &["spec", "nodeName"],
            &["status", "phase"],
            &["spec", "n"],
            &["metadata", "name"],
            &["spec", "containers", "name"],
            &["spec", "containers"],
            &["kind"],
            &[],
        ];
        let (meta, found) = metadata_and_fields(POD.as_bytes(), &paths).expect("a pod");
        assert_eq!(Some(meta), metadata(POD.as_bytes()));
        for (path, found) in paths.iter().zip(found).take(7) {
            assert_eq!(found, field(POD.as_bytes(), path), "{path:?}");
        }
        assert_eq!(text(POD.as_bytes(), &["spec", "nodeName"]).as_deref(), Some("n1"));
        assert_eq!(text(POD.as_bytes(), &["spec", "n"]), None);
    }

    #[test]
    fn the_resource_version_is_spliced_in() {
        for (before, after) in [
            (r#"{"metadata":{}}"#, r#"{"metadata":{"resourceVersion":"7"}}"#),
            (r#"{"metadata":{"name":"a"},"z":1}"#, r#"{"metadata":{"name":"a","resourceVersion":"7"},"z":1}"#),
            (
                r#"{"metadata":{"resourceVersion":"123","uid":"u"}}"#,
                r#"{"metadata":{"resourceVersion":"7","uid":"u"}}"#,
            ),
            (r#"{"metadata": { } }"#, r#"{"metadata": { "resourceVersion":"7"} }"#),
        ] {
            let meta = metadata(before.as_bytes()).expect(before);
            assert_eq!(String::from_utf8_lossy(&with_resource_version(before.as_bytes(), &meta, 7)), after);
        }
    }

    #[test]
    fn malformed_text_has_no_metadata() {
        for text in [
            "",
            "[]",
            "{",
            "{}",
            "null",
            r#"{"metadata"#,
            r#"{"metadata":"#,
            r#"{"metadata":1}"#,
            r#"{"metadata":[]}"#,
            r#"{"a":1 "metadata":{}}"#,
        ] {
            assert_eq!(metadata(text.as_bytes()), None, "{text}");
        }
        for end in 0..POD.len() - 1 {
            let cut = &POD.as_bytes()[..end];
            metadata(cut);
            field(cut, &["status", "phase"]);
            metadata_and_fields(cut, &[&["status", "phase"][..], &["spec", "nodeName"]]);
        }
    }
}
