//! The first document of a YAML stream to [`Value`].

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput, StructureStyle, Tag};

use super::YamlError;
use super::resolve::{Scalar, resolve};
use crate::json::MAX_DEPTH;
use crate::{Map, Str, Value, value::write_float};

/// Reads the first document; the rest of the stream is not looked at, nothing at all is `null`. Of equal keys the last
/// wins; keys that are not strings become strings.
pub fn decode(bytes: &[u8]) -> Result<Value, YamlError> {
    Decoder::new(source(bytes)?, false).document().map(|d| d.value)
}

/// Reads the first document, and tells what a strict reader refuses: keys that a mapping has twice, as the one text
/// that go-yaml makes of them (`yaml: unmarshal errors:\n  line 6: key "a" already set in map`).
pub fn decode_strict(bytes: &[u8]) -> Result<(Value, Option<String>), YamlError> {
    let source = source(bytes)?;
    let decoder = Decoder::new(source, false).document()?;
    if !decoder.has_duplicates {
        return Ok((decoder.value, None));
    }
    let lines = Decoder::new(source, true).document()?.duplicates;
    let text = (!lines.is_empty()).then(|| format!("yaml: unmarshal errors:\n  {}", lines.join("\n  ")));
    Ok((decoder.value, text))
}

/// The text, if its characters are those that a document may hold.
fn source(bytes: &[u8]) -> Result<&str, YamlError> {
    let text = std::str::from_utf8(bytes).map_err(|e| match bytes[e.valid_up_to()] {
        0x80..0xc0 | 0xf8.. => YamlError::new("invalid leading UTF-8 octet"),
        _ if e.error_len().is_none() => YamlError::new("incomplete UTF-8 octet sequence"),
        _ => YamlError::new("invalid trailing UTF-8 octet"),
    })?;
    let refused = |c: char| match c {
        '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{feff}' => false,
        c => c < '\u{a0}' || matches!(c, '\u{fffe}' | '\u{ffff}'),
    };
    if text.contains(refused) {
        return Err(YamlError::new("control characters are not allowed"));
    }
    Ok(text)
}

/// An open collection.
enum Open {
    List { items: Vec<Value>, anchor: usize, size: Size, line: usize },
    Mapping { entries: Vec<(Str, Value)>, key: Option<Key>, anchor: usize, size: Size, seen: HashSet<Key>, line: usize },
}

/// A mapping's key. `1`, `"1"` and `1.0` are different keys, though JSON has one name for them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Text(Str),
    Int(i64),
    Float(u64),
    Bool(bool),
    Merge,
    /// A key that was refused; reading goes on only to find errors of syntax.
    Refused,
}

/// What go-yaml counts, to refuse documents that are mostly aliases.
#[derive(Clone, Copy, Default)]
struct Size {
    nodes: u64,
    depth: usize,
}

struct Decoder<'a> {
    source: &'a str,
    open: Vec<Open>,
    /// Finished anchored nodes; `None` while one is open.
    anchors: HashMap<usize, Option<(Value, Size)>>,
    /// Of each open collection: `[` or `{` if it is written in the flow style.
    flow: Vec<Option<char>>,
    nodes: u64,
    alias_nodes: u64,
    strict: bool,
    has_duplicates: bool,
    duplicates: Vec<String>,
    /// The first error that is not one of syntax: go-yaml has read the whole document before it would see it.
    failure: Option<YamlError>,
    value: Value,
}

impl<'a> Decoder<'a> {
    fn new(source: &'a str, strict: bool) -> Self {
        Decoder {
            source,
            open: Vec::new(),
            anchors: HashMap::new(),
            flow: Vec::new(),
            nodes: 1, // the document is a node too
            alias_nodes: 0,
            strict,
            has_duplicates: false,
            duplicates: Vec::new(),
            failure: None,
            value: Value::Null,
        }
    }

    fn document(mut self) -> Result<Self, YamlError> {
        let options = granit_parser::options! {
            emit_comments: false,
            emit_unresolved_aliases: true,
            block_scalar_eof_without_line_feed: true,
            flow_nesting_limit: MAX_DEPTH,
            block_nesting_limit: MAX_DEPTH,
        };
        let mut parser: Parser<'_, StrInput<'_>> = Parser::new_from_str_with_options(self.source, options);
        while let Some(event) = parser.next_event() {
            let (event, span) =
                event.map_err(|e| YamlError::from_scan(&e, self.source, self.flow.last().copied().flatten()))?;
            if matches!(event, Event::DocumentEnd | Event::StreamEnd) {
                break;
            }
            self.event(event, span);
        }
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(self),
        }
    }

    fn event(&mut self, event: Event<'_>, span: Span) {
        let line = span.start.line();
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.nodes += 1;
                let scalar = self.scalar(&text, style, tag.as_deref());
                let merge = style == ScalarStyle::Plain && tag.is_none() && text == "<<";
                self.add_scalar(scalar, merge, anchor, line);
            }
            Event::SequenceStart(style, anchor, _) => {
                self.flow.push((style == StructureStyle::Flow).then_some('['));
                self.begin(anchor, Open::List { items: Vec::new(), anchor, size: Size::default(), line });
            }
            Event::MappingStart(style, anchor, _) => {
                self.flow.push((style == StructureStyle::Flow).then_some('{'));
                let (entries, seen) = (Vec::new(), HashSet::new());
                self.begin(anchor, Open::Mapping { entries, key: None, anchor, size: Size::default(), seen, line });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.flow.pop();
                self.end();
            }
            Event::Alias(id) => self.alias(id, span, line),
            Event::UnresolvedAlias(name) => {
                self.fail(|| format!("unknown anchor '{name}' referenced"));
                self.add(Value::Null, Size { nodes: 1, depth: 0 }, line);
            }
            _ => {}
        }
    }

    fn fail(&mut self, text: impl FnOnce() -> String) {
        self.failure.get_or_insert_with(|| YamlError::new(text()));
    }

    /// What a scalar is by its style, tag and text.
    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Scalar {
        let tag: Cow<'_, str> = match tag {
            None if style == ScalarStyle::Plain => return resolve(text),
            None => return Scalar::Text(text.into()),
            Some(tag) => format!("{}{}", tag.handle(), tag.suffix()).into(),
        };
        let Some(kind) = tag.strip_prefix("tag:yaml.org,2002:") else {
            return if tag == "!" { resolve(text) } else { Scalar::Text(text.into()) };
        };
        let resolved = match kind {
            "str" => return Scalar::Text(text.into()),
            "binary" => return self.binary(text),
            "bool" | "int" | "float" | "null" | "timestamp" => resolve(text),
            _ => return Scalar::Text(text.into()),
        };
        match (kind, resolved) {
            ("float", Scalar::Int(i)) => Scalar::Float(i as f64),
            (kind, resolved) if resolved.tag().strip_prefix("!!") == Some(kind) => resolved,
            (kind, resolved) => {
                self.fail(|| format!("cannot decode {} `{text}` as a !!{kind}", resolved.tag()));
                Scalar::Null
            }
        }
    }

    fn binary(&mut self, text: &str) -> Scalar {
        use base64::Engine as _;
        let packed: String = text.split(['\n', '\r']).collect();
        match base64::engine::general_purpose::STANDARD.decode(packed) {
            Ok(bytes) => Scalar::Text(String::from_utf8_lossy(&bytes).into()),
            Err(_) => {
                self.fail(|| "!!binary value contains invalid base64 data".into());
                Scalar::Null
            }
        }
    }

    /// A scalar that stands where a key is due becomes that key; else it is a value.
    fn add_scalar(&mut self, scalar: Scalar, merge: bool, anchor: usize, line: usize) {
        let key_is_due = matches!(self.open.last(), Some(Open::Mapping { key: None, .. }));
        if key_is_due {
            let key = match &scalar {
                _ if merge => Key::Merge,
                Scalar::Text(s) | Scalar::Timestamp(s) => Key::Text(s.clone()),
                Scalar::Int(i) => Key::Int(*i),
                Scalar::Float(f) => Key::Float(f.to_bits()),
                Scalar::Bool(b) => Key::Bool(*b),
                Scalar::Null | Scalar::Uint(_) => {
                    let kind = if scalar == Scalar::Null { "%!s(<nil>), key: <nil>" } else { "uint64" };
                    self.fail(|| format!("unsupported map key of type: {kind}"));
                    Key::Refused
                }
            };
            self.count_in_open(1);
            self.set_key(key);
            if anchor != 0 {
                let value = scalar.into_value().unwrap_or_default();
                self.anchors.insert(anchor, Some((value, Size { nodes: 1, depth: 0 })));
            }
            return;
        }
        let value = match scalar {
            Scalar::Float(f) if !f.is_finite() => {
                let name = if f.is_nan() {
                    "NaN"
                } else if f > 0.0 {
                    "+Inf"
                } else {
                    "-Inf"
                };
                self.fail(|| format!("json: unsupported value: {name}"));
                Value::Null
            }
            scalar => scalar.into_value().unwrap_or_default(),
        };
        let size = Size { nodes: 1, depth: 0 };
        if anchor != 0 {
            self.anchors.insert(anchor, Some((value.clone(), size)));
        }
        self.add(value, size, line);
    }

    fn begin(&mut self, anchor: usize, collection: Open) {
        self.nodes += 1;
        if self.open.len() >= MAX_DEPTH {
            self.fail(|| "exceeded max depth of 10000".into());
        }
        if anchor != 0 {
            self.anchors.insert(anchor, None);
        }
        self.open.push(collection);
    }

    fn end(&mut self) {
        let (value, anchor, mut size, line) = match self.open.pop() {
            Some(Open::List { items, anchor, size, line }) => (Value::Array(Arc::new(items)), anchor, size, line),
            Some(Open::Mapping { entries, anchor, size, line, .. }) => {
                let written = entries.len();
                let map = Map::from_entries(entries);
                self.has_duplicates |= map.len() < written;
                (Value::Object(map), anchor, size, line)
            }
            None => return,
        };
        size.nodes += 1;
        size.depth += 1;
        if anchor != 0 {
            self.anchors.insert(anchor, Some((value.clone(), size)));
        }
        self.add(value, size, line);
    }

    fn alias(&mut self, id: usize, span: Span, line: usize) {
        let (value, size) = match self.anchors.get(&id) {
            Some(Some((value, size))) => (value.clone(), *size),
            _ => {
                let name = span.slice(self.source).unwrap_or_default().trim_start_matches('*').to_owned();
                self.fail(|| format!("anchor '{name}' value contains itself"));
                (Value::Null, Size { nodes: 1, depth: 0 })
            }
        };
        self.nodes = self.nodes.saturating_add(size.nodes).saturating_add(1);
        self.alias_nodes = self.alias_nodes.saturating_add(size.nodes);
        if self.alias_nodes > 100
            && self.nodes > 1000
            && self.alias_nodes as f64 / self.nodes as f64 > ratio(self.nodes)
        {
            self.fail(|| "document contains excessive aliasing".into());
        }
        if self.open.len() + size.depth > MAX_DEPTH {
            self.fail(|| "exceeded max depth of 10000".into());
        }
        if matches!(self.open.last(), Some(Open::Mapping { key: None, .. }))
            && let Some(key) = scalar_key(&value)
        {
            self.count_in_open(size.nodes + 1);
            self.set_key(key);
            return;
        }
        self.add(value, Size { nodes: size.nodes + 1, depth: size.depth }, line);
    }

    fn count_in_open(&mut self, nodes: u64) {
        if let Some(Open::List { size, .. } | Open::Mapping { size, .. }) = self.open.last_mut() {
            size.nodes = size.nodes.saturating_add(nodes);
        }
    }

    fn set_key(&mut self, new: Key) {
        if let Some(Open::Mapping { key, .. }) = self.open.last_mut() {
            *key = Some(new);
        }
    }

    /// Gives a finished value to the innermost open collection, or makes it the document.
    fn add(&mut self, value: Value, added: Size, line: usize) {
        if self.failure.is_some() {
            // Nothing more is kept; the rest is read for its syntax alone.
            if let Some(Open::Mapping { key, .. }) = self.open.last_mut() {
                *key = if key.is_none() { Some(Key::Refused) } else { None };
            }
            return;
        }
        self.count_in_open(added.nodes);
        match self.open.last_mut() {
            None => self.value = value,
            Some(Open::List { items, size, .. }) => {
                size.depth = size.depth.max(added.depth);
                items.push(value);
            }
            Some(Open::Mapping { key: due @ None, .. }) => {
                *due = Some(Key::Refused);
                self.fail(|| format!("invalid map key: {}", go_syntax(&value)));
            }
            Some(Open::Mapping { key, size, .. }) => {
                size.depth = size.depth.max(added.depth);
                match key.take() {
                    Some(Key::Merge) => self.merge(value, line),
                    Some(key) => self.set_member(key, value, line),
                    None => {}
                }
            }
        }
    }

    fn set_member(&mut self, key: Key, value: Value, line: usize) {
        let Some(Open::Mapping { entries, seen, .. }) = self.open.last_mut() else { return };
        if self.strict && !seen.insert(key.clone()) {
            self.duplicates.push(format!("line {line}: key {} already set in map", key.go_syntax()));
        }
        entries.push((key.name(), value));
    }

    /// `<<: *base`, `<<: [*a, *b]`: of several, the first one's members win.
    fn merge(&mut self, value: Value, line: usize) {
        match value {
            Value::Object(members) => {
                for (name, value) in members.into_entries() {
                    self.set_member(Key::Text(name), value, line);
                }
            }
            Value::Array(items) if items.iter().all(|v| v.as_object().is_some()) => {
                for item in items.iter().rev() {
                    self.merge(item.clone(), line);
                }
            }
            _ => self.fail(|| "map merge requires map or sequence of maps as the value".into()),
        }
    }
}

/// The share of a document's nodes that may come from aliases: 99 % of small ones, down to 10 % of large ones.
fn ratio(nodes: u64) -> f64 {
    const LOW: f64 = 400_000.0;
    const HIGH: f64 = 4_000_000.0;
    let nodes = nodes as f64;
    if nodes <= LOW {
        0.99
    } else if nodes >= HIGH {
        0.10
    } else {
        0.99 - 0.89 * ((nodes - LOW) / (HIGH - LOW))
    }
}

fn scalar_key(value: &Value) -> Option<Key> {
    match value {
        Value::String(s) => Some(Key::Text(s.clone())),
        Value::Int(i) => Some(Key::Int(*i)),
        Value::Float(f) => Some(Key::Float(f.to_bits())),
        Value::Bool(b) => Some(Key::Bool(*b)),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

impl Key {
    /// The name of the member in JSON.
    fn name(self) -> Str {
        match self {
            Key::Text(s) => s,
            Key::Int(i) => Str::from(itoa::Buffer::new().format(i)),
            Key::Bool(b) => Str::new_static(if b { "true" } else { "false" }),
            Key::Float(bits) => match f64::from_bits(bits) as f32 {
                f if f.is_nan() => Str::new_static(".nan"),
                f if f.is_infinite() => Str::new_static(if f > 0.0 { ".inf" } else { "-.inf" }),
                f => super::encode::general_float_32(f).into(),
            },
            Key::Merge | Key::Refused => Str::default(),
        }
    }

    fn go_syntax(&self) -> String {
        match self {
            Key::Text(s) => go_quote(s),
            other => other.clone().name().into(),
        }
    }
}

/// A value as Go's `%#v` shows what go-yaml read.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Float(f) => {
            let mut out = Vec::new();
            write_float(&mut out, *f);
            String::from_utf8_lossy(&out).into_owned()
        }
        Value::String(s) => go_quote(s),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(go_syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(members) => {
            let members: Vec<String> =
                members.iter().map(|(k, v)| format!("{}:{}", go_quote(k), go_syntax(v))).collect();
            format!("map[interface {{}}]interface {{}}{{{}}}", members.join(", "))
        }
    }
}

fn go_quote(s: &str) -> String {
    let mut out = String::with_capacity(s.len() + 2);
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
