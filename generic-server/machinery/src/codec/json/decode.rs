//! JSON text to [`Value`]. No recursion: nesting costs heap, not stack.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;

use super::JsonError;
use super::lexer::Lexer;
use crate::{Map, Str, Value};

/// How deep objects and lists may nest.
///
/// Differs: the Go server goes on to 10,000 levels on stacks that grow; here every walk over a tree (and its drop) must
/// fit a fixed one. Objects that people write stay below 50.
pub const MAX_DEPTH: usize = 512;

/// As many strict errors as upstream collects.
const MAX_STRICT_ERRORS: usize = 100;

/// Reads one JSON text. Of members with one name the last wins; bytes in strings that are not UTF-8 become U+FFFD.
pub fn decode(bytes: &[u8]) -> Result<Value, JsonError> {
    Parser::new(bytes, None).document().map(|(value, _)| value)
}

/// Reads one JSON text, and names its duplicate members as upstream does, in the order of the text: `metadata.name`,
/// `spec.containers[0].image` (for `duplicate field "metadata.name"`). No more than 100 are named.
pub fn decode_strict(bytes: &[u8]) -> Result<(Value, Vec<String>), JsonError> {
    let mut parser = Parser::new(bytes, None);
    let (value, _) = parser.document()?;
    if !parser.has_duplicates {
        return Ok((value, Vec::new()));
    }
    let (value, names) = Parser::new(bytes, Some(Strict::default())).document()?;
    Ok((value, names))
}

/// An open object or list: where its members or items begin on the parser's stacks.
enum Open {
    Object { first: usize, key: Str },
    Array { first: usize },
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    open: Vec<Open>,
    /// The members of all open objects, the innermost last.
    members: Vec<(Str, Value)>,
    /// The items of all open lists, the innermost last.
    items: Vec<Value>,
    has_duplicates: bool,
    strict: Option<Strict>,
}

/// What the second pass, which names the duplicates, remembers.
#[derive(Default)]
struct Strict {
    /// The names seen so far in each open object.
    seen: Vec<HashSet<Str>>,
    names: Vec<String>,
    reported: HashSet<String>,
}

impl<'a> Parser<'a> {
    fn new(bytes: &'a [u8], strict: Option<Strict>) -> Self {
        Parser {
            lexer: Lexer::new(bytes),
            open: Vec::with_capacity(16),
            members: Vec::with_capacity(64),
            items: Vec::with_capacity(16),
            has_duplicates: false,
            strict,
        }
    }

    fn document(&mut self) -> Result<(Value, Vec<String>), JsonError> {
        let mut value = self.begin_value()?;
        // `None` means that a container was opened: its first value comes next.
        let value = loop {
            let done = match value.take() {
                Some(done) => done,
                None => {
                    value = self.begin_value()?;
                    continue;
                }
            };
            match self.add(done)? {
                Added::Root(root) => break root,
                Added::Closed(container) => value = Some(container),
                Added::More => {}
            }
        };
        if self.lexer.peek().is_some() {
            return Err(self.lexer.refuse("after top-level value"));
        }
        Ok((value, self.strict.take().map_or_else(Vec::new, |s| s.names)))
    }

    /// Reads a scalar or an empty container, or opens a container and gives `None`.
    fn begin_value(&mut self) -> Result<Option<Value>, JsonError> {
        let value = match self.lexer.peek() {
            Some(b'"') => Value::String(self.lexer.string()?.into()),
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

    fn begin_object(&mut self) -> Result<Option<Value>, JsonError> {
        self.deeper()?;
        self.lexer.bump();
        if self.lexer.peek() == Some(b'}') {
            self.lexer.bump();
            return Ok(Some(Value::object()));
        }
        if let Some(strict) = &mut self.strict {
            strict.seen.push(HashSet::new());
        }
        self.open.push(Open::Object { first: self.members.len(), key: Str::default() });
        self.key()?;
        Ok(None)
    }

    fn begin_array(&mut self) -> Result<Option<Value>, JsonError> {
        self.deeper()?;
        self.lexer.bump();
        if self.lexer.peek() == Some(b']') {
            self.lexer.bump();
            return Ok(Some(Value::Array(Arc::default())));
        }
        self.open.push(Open::Array { first: self.items.len() });
        Ok(None)
    }

    fn deeper(&self) -> Result<(), JsonError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(self.lexer.refuse("exceeded max depth"));
        }
        Ok(())
    }

    /// Reads `"name":` of the innermost open object.
    fn key(&mut self) -> Result<(), JsonError> {
        if self.lexer.peek() != Some(b'"') {
            return Err(self.lexer.refuse("looking for beginning of object key string"));
        }
        let name: Str = self.lexer.string()?.into();
        if self.lexer.peek() != Some(b':') {
            return Err(self.lexer.refuse("after object key"));
        }
        self.lexer.bump();
        if let Some(Open::Object { key, .. }) = self.open.last_mut() {
            *key = name;
        }
        if self.strict.is_some() {
            self.note_duplicate();
        }
        Ok(())
    }

    /// Gives a finished value to the innermost open container, and reads on to its next value or its end.
    fn add(&mut self, value: Value) -> Result<Added, JsonError> {
        match self.open.last_mut() {
            None => Ok(Added::Root(value)),
            Some(Open::Array { first }) => {
                self.items.push(value);
                let first = *first;
                match self.lexer.peek() {
                    Some(b',') => {
                        self.lexer.bump();
                        Ok(Added::More)
                    }
                    Some(b']') => {
                        self.lexer.bump();
                        self.open.pop();
                        Ok(Added::Closed(Value::Array(Arc::new(self.items.split_off(first)))))
                    }
                    _ => Err(self.lexer.refuse("after array element")),
                }
            }
            Some(Open::Object { first, key }) => {
                self.members.push((std::mem::take(key), value));
                let first = *first;
                match self.lexer.peek() {
                    Some(b',') => {
                        self.lexer.bump();
                        self.key()?;
                        Ok(Added::More)
                    }
                    Some(b'}') => {
                        self.lexer.bump();
                        Ok(Added::Closed(self.close_object(first)))
                    }
                    _ => Err(self.lexer.refuse("after object key:value pair")),
                }
            }
        }
    }

    fn close_object(&mut self, first: usize) -> Value {
        self.open.pop();
        if let Some(strict) = &mut self.strict {
            strict.seen.pop();
        }
        let written = self.members.len() - first;
        let map = Map::from_entries(self.members.split_off(first));
        self.has_duplicates |= map.len() < written;
        Value::Object(map)
    }

    #[cold]
    fn note_duplicate(&mut self) {
        let Some(strict) = &mut self.strict else { return };
        let (Some(Open::Object { key, .. }), Some(seen)) = (self.open.last(), strict.seen.last_mut()) else { return };
        if seen.insert(key.clone()) || strict.names.len() >= MAX_STRICT_ERRORS {
            return;
        }
        let mut name = String::new();
        let mut items_end = self.items.len();
        let mut steps: Vec<Result<&Str, usize>> = Vec::with_capacity(self.open.len());
        for open in self.open.iter().rev() {
            match open {
                Open::Object { key, .. } => steps.push(Ok(key)),
                Open::Array { first } => {
                    steps.push(Err(items_end - first)); // the item being read is not on the stack yet
                    items_end = *first;
                }
            }
        }
        for step in steps.into_iter().rev() {
            match step {
                Ok(key) if name.is_empty() => name.push_str(key),
                Ok(key) => {
                    name.push('.');
                    name.push_str(key);
                }
                Err(index) => write!(name, "[{index}]").expect("a String takes all writes"),
            }
        }
        if strict.reported.insert(name.clone()) {
            strict.names.push(name);
        }
    }
}

/// What a finished value turned out to be.
enum Added {
    /// The whole document.
    Root(Value),
    /// The last one of its container, which is now finished itself.
    Closed(Value),
    /// Another one follows.
    More,
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
            let (value, names) = decode_strict(text.as_bytes()).expect(text);
            assert_eq!(names, want, "{text}");
            assert_eq!(Ok(value), decode(text.as_bytes()));
        }
    }

    #[test]
    fn no_more_than_a_hundred_duplicates_are_named() {
        let members: Vec<String> = (0..150).map(|i| format!(r#""k{i}":1,"k{i}":2"#)).collect();
        let (_, names) = decode_strict(format!("{{{}}}", members.join(",")).as_bytes()).expect("JSON");
        assert_eq!(names.len(), 100);
    }
}
