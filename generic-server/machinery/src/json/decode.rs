//! JSON text to [`Value`]. No recursion: nesting costs heap, not stack.

use std::fmt::Write as _;
use std::sync::Arc;

use super::JsonError;
use super::lexer::{Fault, Lexer};
use super::strict::{Finding, Strict, Typed};
use crate::stacks::{self, Lent};
use crate::{Map, Str, Value};

/// How deep objects and lists may nest in a [`Value`].
///
/// Differs: the Go server goes on to 10,000 levels on stacks that grow; here every walk over a tree (and its drop) must
/// fit a fixed one. Objects that people write stay below 50.
pub const MAX_DEPTH: usize = 512;

/// How deep they may nest in a text.
const MAX_TEXT_DEPTH: usize = 10_000;

/// Reads one JSON text. Of members with one name the last wins; bytes in strings that are not UTF-8 become U+FFFD.
pub fn decode(bytes: &[u8]) -> Result<Value, JsonError> {
    let mut parser = Parser::new(bytes, None);
    let value = parser.document().map_err(|fault| *fault)?;
    parser.too_deep.map_or(Ok(value), |fault| Err(*fault))
}

/// Reads one JSON text as into one of Go's types, not a generic map: objects under a name that comes twice are merged. As
/// [`decode_strict`] otherwise, but what lies deeper than [`MAX_DEPTH`] becomes `null` and is no error up to upstream's
/// limit. It says whether anything was cut off: whoever uses the value must make sure that what is left of those places goes.
pub fn decode_shallow(bytes: &[u8]) -> Result<(Value, Vec<String>, bool), JsonError> {
    let mut parser = Parser::new(bytes, None);
    let mut value = parser.document().map_err(|fault| *fault)?;
    let mut repeated = Vec::new();
    if parser.has_duplicates {
        repeated = duplicates(bytes)?;
        let mut merging = Parser { merges: true, ..Parser::new(bytes, None) };
        value = merging.document().map_err(|fault| *fault)?;
    }
    Ok((value, repeated, parser.too_deep.is_some()))
}

/// Reads one JSON text, and tells which members an object has twice, in upstream's words and in the order of the text:
/// `duplicate field "spec.containers[0].image"`. No more than 100 are told.
pub fn decode_strict(bytes: &[u8]) -> Result<(Value, Vec<String>), JsonError> {
    let mut parser = Parser::new(bytes, None);
    let value = parser.document().map_err(|fault| *fault)?;
    if let Some(fault) = parser.too_deep {
        return Err(*fault);
    }
    Ok((value, if parser.has_duplicates { duplicates(bytes)? } else { Vec::new() }))
}

fn duplicates(bytes: &[u8]) -> Result<Vec<String>, JsonError> {
    Ok(findings(bytes, Strict::new(None))?.iter().map(ToString::to_string).collect())
}

/// What a strict reader of a built-in type minds in a text, in its order; no more than 100. It reads the text once more:
/// for when it is known that there is something to find.
pub fn strict_findings(bytes: &[u8], of: &dyn Typed) -> Result<Vec<Finding>, JsonError> {
    findings(bytes, Strict::new(Some(of)))
}

fn findings(bytes: &[u8], strict: Strict<'_>) -> Result<Vec<Finding>, JsonError> {
    let mut parser = Parser::new(bytes, Some(strict));
    parser.document().map_err(|fault| *fault)?;
    Ok(parser.strict.map_or_else(Vec::new, |s| s.findings))
}

/// An open object or list: where its members or items begin on the parser's stacks.
#[derive(Clone, Copy)]
enum Open {
    Object(usize),
    Array(usize),
}

struct Parser<'a, 's> {
    lexer: Lexer<'a>,
    open: Vec<Open>,
    /// The members of all open objects and the items of all open lists, the innermost last. The last member waits for its
    /// value while that is read.
    stacks: Lent,
    has_duplicates: bool,
    /// Objects under one name are merged.
    merges: bool,
    /// The error for the first container that is too deep for a value.
    too_deep: Option<Fault>,
    /// Set in the second pass, which finds out what a strict reader minds.
    strict: Option<Strict<'s>>,
}

impl<'a, 's> Parser<'a, 's> {
    fn new(bytes: &'a [u8], strict: Option<Strict<'s>>) -> Self {
        Parser {
            lexer: Lexer::new(bytes),
            open: Vec::with_capacity(16),
            stacks: stacks::borrow(),
            has_duplicates: false,
            merges: false,
            too_deep: None,
            strict,
        }
    }

    fn document(&mut self) -> Result<Value, Fault> {
        let root = loop {
            // Goes down until a value is whole, then up through the containers that end with it.
            if let Some(value) = self.value()?
                && let Some(root) = self.put(value)?
            {
                break root;
            }
        };
        if self.lexer.peek().is_some() {
            return Err(self.lexer.refuse("after top-level value"));
        }
        Ok(root)
    }

    /// Reads a scalar or an empty container, or opens a container and gives `None`.
    #[inline]
    fn value(&mut self) -> Result<Option<Value>, Fault> {
        let value = match self.lexer.peek() {
            Some(b'"') => Value::String(self.lexer.string()?),
            Some(b'{') => return self.begin_object(),
            Some(b'[') => return self.begin_array(),
            Some(b'-' | b'0'..=b'9') => self.lexer.number()?,
            Some(b't') => {
                self.lexer.literal("true")?;
                Value::Bool(true)
            }
            Some(b'f') => {
                self.lexer.literal("false")?;
                Value::Bool(false)
            }
            Some(b'n') => {
                self.lexer.literal("null")?;
                Value::Null
            }
            _ => return Err(self.lexer.refuse("looking for beginning of value")),
        };
        Ok(Some(value))
    }

    fn begin_object(&mut self) -> Result<Option<Value>, Fault> {
        self.deeper()?;
        self.lexer.bump();
        if self.lexer.peek() == Some(b'}') {
            self.lexer.bump();
            return Ok(Some(Value::object()));
        }
        self.open(Open::Object(self.stacks.members.len()));
        self.key()?;
        Ok(None)
    }

    fn begin_array(&mut self) -> Result<Option<Value>, Fault> {
        self.deeper()?;
        self.lexer.bump();
        if self.lexer.peek() == Some(b']') {
            self.lexer.bump();
            return Ok(Some(Value::Array(Arc::default())));
        }
        self.open(Open::Array(self.stacks.values.len()));
        Ok(None)
    }

    fn open(&mut self, container: Open) {
        if let Some(strict) = &mut self.strict {
            let in_object = matches!(self.open.last(), Some(Open::Object(_)));
            strict.enter(self.stacks.members.last().filter(|_| in_object).map(|(name, _)| name));
        }
        self.open.push(container);
    }

    fn close(&mut self) {
        self.lexer.bump();
        self.open.pop();
        if let Some(strict) = &mut self.strict {
            strict.leave();
        }
    }

    #[inline]
    fn deeper(&mut self) -> Result<(), Fault> {
        if self.open.len() >= MAX_DEPTH {
            let fault = self.lexer.refuse("exceeded max depth");
            if self.open.len() >= MAX_TEXT_DEPTH {
                return Err(fault);
            }
            self.too_deep.get_or_insert(fault);
        }
        Ok(())
    }

    /// Reads `"name":` of the innermost open object.
    #[inline]
    fn key(&mut self) -> Result<(), Fault> {
        if self.lexer.peek() != Some(b'"') {
            return Err(self.lexer.refuse("looking for beginning of object key string"));
        }
        let name = self.lexer.string()?;
        if self.lexer.peek() != Some(b':') {
            return Err(self.lexer.refuse("after object key"));
        }
        self.lexer.bump();
        self.stacks.members.push((name, Value::Null));
        if let Some(mut strict) = self.strict.take() {
            if let Some((name, _)) = self.stacks.members.last() {
                strict.member(name, || self.path());
            }
            self.strict = Some(strict);
        }
        Ok(())
    }

    /// Gives a whole value to the innermost open container, and ends those that end after it. `Some` is the root.
    #[inline]
    fn put(&mut self, mut value: Value) -> Result<Option<Value>, Fault> {
        loop {
            match self.open.last() {
                None => return Ok(Some(value)),
                Some(&Open::Object(first)) => {
                    if let Some(waiting) = self.stacks.members.last_mut() {
                        waiting.1 = value;
                    }
                    match self.lexer.peek() {
                        Some(b',') => {
                            self.lexer.bump();
                            self.key()?;
                            return Ok(None);
                        }
                        Some(b'}') => value = self.close_object(first),
                        _ => return Err(self.lexer.refuse("after object key:value pair")),
                    }
                }
                Some(&Open::Array(first)) => {
                    self.stacks.values.push(value);
                    match self.lexer.peek() {
                        Some(b',') => {
                            self.lexer.bump();
                            return Ok(None);
                        }
                        Some(b']') => {
                            self.close();
                            value = Value::Array(Arc::new(self.stacks.values.split_off(first)));
                            if self.open.len() >= MAX_DEPTH {
                                value = Value::Null;
                            }
                        }
                        _ => return Err(self.lexer.refuse("after array element")),
                    }
                }
            }
        }
    }

    fn close_object(&mut self, first: usize) -> Value {
        self.close();
        let written = self.stacks.members.len() - first;
        let members = self.stacks.members.split_off(first);
        let map = if self.merges { merged(members) } else { Map::from_entries(members) };
        self.has_duplicates |= map.len() < written;
        if self.open.len() >= MAX_DEPTH { Value::Null } else { Value::Object(map) }
    }

    /// The path of the member whose name has just been read.
    fn path(&self) -> String {
        let mut path = String::new();
        // The member that waits in an open object is the last one before those of the next open object.
        let (mut members_end, mut items_end) = (self.stacks.members.len(), self.stacks.values.len());
        let mut steps: Vec<Result<&Str, usize>> = Vec::with_capacity(self.open.len());
        for open in self.open.iter().rev() {
            match *open {
                Open::Object(first) => {
                    steps.push(Ok(&self.stacks.members[members_end - 1].0));
                    members_end = first;
                }
                Open::Array(first) => {
                    steps.push(Err(items_end - first)); // the item being read is not on the stack yet
                    items_end = first;
                }
            }
        }
        for step in steps.into_iter().rev() {
            match step {
                Ok(name) if path.is_empty() => path.push_str(name),
                Ok(name) => {
                    path.push('.');
                    path.push_str(name);
                }
                Err(index) => write!(path, "[{index}]").expect("a String takes all writes"),
            }
        }
        path
    }
}

/// Of members with one name: the last one, or, if they end in objects, these as one object. All of a name are joined at
/// once: one by one would take a hostile text's square.
fn merged(mut members: Vec<(Str, Value)>) -> Map {
    members.sort_by(|a, b| a.0.cmp(&b.0)); // stable: of one name they stay in order
    let mut entries: Vec<(Str, Value)> = Vec::with_capacity(members.len());
    let mut rest = members.into_iter().peekable();
    while let Some((name, mut value)) = rest.next() {
        let mut joined: Vec<(Str, Value)> = Vec::new();
        while let Some((_, later)) = rest.next_if(|(n, _)| *n == name) {
            match (std::mem::replace(&mut value, later), &value) {
                (Value::Object(earlier), Value::Object(_)) => joined.extend(earlier.into_entries()),
                _ => joined.clear(),
            }
        }
        if let (Value::Object(last), false) = (&mut value, joined.is_empty()) {
            joined.extend(std::mem::take(last).into_entries());
            *last = merged(joined);
        }
        entries.push((name, value));
    }
    Map::from_sorted(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{array, object};

    #[test]
    fn values_are_read() {
        for (text, want) in [
            ("null", Value::Null),
            (" true ", Value::Bool(true)),
            ("-0", Value::Int(0)),
            ("12", Value::Int(12)),
            ("9223372036854775807", Value::Int(i64::MAX)),
            ("9223372036854775808", Value::Float(9223372036854775808.0)),
            ("1.50", Value::Float(1.5)),
            ("1e3", Value::Float(1000.0)),
            (r#""""#, Value::from("")),
            (r#""a\n\"\\\/\u00e9\ud83d\ude00\ud800x""#, Value::from("a\n\"\\/é😀\u{fffd}x")),
            (r#""\ud800\u0041""#, Value::from("\u{fffd}A")),
            ("[]", array![]),
            ("{}", object! {}),
            ("[[],{}]", array![array![], object! {}]),
            (r#"[1, "a", [2 , {"b" : null}]]"#, array![1, "a", array![2, object! {"b" => Value::Null}]]),
            (r#"{"b":1,"a":{"c":[]},"b":2}"#, object! {"a" => object! {"c" => array![]}, "b" => 2}),
        ] {
            assert_eq!(decode(text.as_bytes()).as_ref(), Ok(&want), "{text}");
        }
        assert_eq!(decode(b"\"a\xe2\x82b\xff\""), Ok(Value::from("a\u{fffd}\u{fffd}b\u{fffd}")));
    }

    #[test]
    fn errors_read_like_gos() {
        for (text, want) in [
            ("", "unexpected end of JSON input"),
            ("  ", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            (r#"{"a""#, "unexpected end of JSON input"),
            (r#""abc"#, "unexpected end of JSON input"),
            (r#""\u12"#, "unexpected end of JSON input"),
            ("-", "unexpected end of JSON input"),
            ("1.", "unexpected end of JSON input"),
            ("tru", "unexpected end of JSON input"),
            ("metadata:", "invalid character 'm' looking for beginning of value"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("not", "invalid character 'o' in literal null (expecting 'u')"),
            ("trUe", "invalid character 'U' in literal true (expecting 'u')"),
            ("{} {", "invalid character '{' after top-level value"),
            ("01", "invalid character '1' after top-level value"),
            ("{a", "invalid character 'a' looking for beginning of object key string"),
            (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string"),
            (r#"{"a" 1"#, "invalid character '1' after object key"),
            (r#"{"a":1 "b""#, "invalid character '\"' after object key:value pair"),
            ("[1 2", "invalid character '2' after array element"),
            ("\"a\nb\"", r"invalid character '\n' in string literal"),
            (r#""\x""#, "invalid character 'x' in string escape code"),
            (r#""\u12g4""#, r"invalid character 'g' in \u hexadecimal character escape"),
            ("-a", "invalid character 'a' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1e+}", "invalid character '}' in exponent of numeric literal"),
            ("1e999", "json: cannot unmarshal number 1e999 into Go value of type float64"),
        ] {
            assert_eq!(decode(text.as_bytes()).expect_err(text).to_string(), want, "{text}");
        }
        assert_eq!(
            decode(b"\xae").expect_err("not JSON").to_string(),
            "invalid character '®' looking for beginning of value"
        );
    }

    #[test]
    fn nesting_has_an_end() {
        let nest = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(decode(nest(MAX_DEPTH).as_bytes()).is_ok());
        let error = decode(nest(MAX_DEPTH + 1).as_bytes()).expect_err("too deep");
        assert_eq!(error.to_string(), "invalid character '[' exceeded max depth");
        let text = nest(9000);
        assert!(decode(text.as_bytes()).is_err());
        let (value, _, cut) = decode_shallow(text.as_bytes()).expect("upstream reads it");
        assert!(cut);
        let mut depth = 0;
        let mut at = &value;
        while let Some(item) = at.as_array().and_then(|items| items.first()) {
            depth += 1;
            at = item;
        }
        assert_eq!((depth, at), (MAX_DEPTH, &Value::Null));
        assert!(decode_shallow(nest(10_001).as_bytes()).is_err());
        // What is wrong further on is told first, as by a reader that goes deeper.
        let error = decode((nest(9000) + "x").as_bytes()).expect_err("trailing");
        assert_eq!(error.to_string(), "invalid character 'x' after top-level value");
        let error = decode(r#"{"a":"#.repeat(100_000).as_bytes()).expect_err("too deep");
        assert_eq!(error.to_string(), "invalid character '{' exceeded max depth");
    }

    #[test]
    fn duplicates_are_named_in_the_order_of_the_text() {
        for (text, want) in [
            (r#"{"a":1,"b":{"a":2}}"#, &[][..]),
            (
                r#"{"metadata":{"name":"a","name":"b"},"data":{"k":"1","k":"2"},"data":{"z":"y"}}"#,
                &["metadata.name", "data.k", "data"],
            ),
            (r#"{"a":[0,{"b":[[1],[2,{"c":1,"c":2,"c":3}]]}]}"#, &["a[1].b[1][1].c"]),
            (r#"[{"a":1,"a":2},{"a":1,"a":2}]"#, &["[0].a", "[1].a"]),
        ] {
            let (value, texts) = decode_strict(text.as_bytes()).expect(text);
            let want: Vec<String> = want.iter().map(|path| format!("duplicate field \"{path}\"")).collect();
            assert_eq!(texts, want, "{text}");
            assert_eq!(Ok(value), decode(text.as_bytes()));
        }
    }

    #[test]
    fn repeated_objects_are_merged_as_into_gos_types() {
        let text = r#"{"data":{"k":"1","k":"2","m":{"a":1}},"x":{"o":0},"x":1,"data":{"z":"y","m":{"b":2}},"x":{"y":1},"data":{}}"#;
        let (value, repeated, cut) = decode_shallow(text.as_bytes()).expect("JSON");
        let data = object! {"k" => "2", "m" => object! {"a" => 1, "b" => 2}, "z" => "y"};
        assert_eq!(value, object! {"data" => data, "x" => object! {"y" => 1}});
        assert_eq!((repeated.len(), cut), (3, false));
        let members: Vec<String> = (0..100_000).map(|i| format!(r#""a":{{"k{i}":{i}}}"#)).collect();
        let (value, _, _) = decode_shallow(format!("{{{}}}", members.join(",")).as_bytes()).expect("JSON");
        assert_eq!(value.get("a").and_then(Value::as_object).map(Map::len), Some(100_000));
    }

    #[test]
    fn no_more_than_a_hundred_duplicates_are_named() {
        let members: Vec<String> = (0..150).map(|i| format!(r#""k{i}":1,"k{i}":2"#)).collect();
        let (_, names) = decode_strict(format!("{{{}}}", members.join(",")).as_bytes()).expect("JSON");
        assert_eq!(names.len(), 100);
    }
}
