//! Paths like `.spec.map['key']` that name a place of a schema.

use crate::schema::{Schema, Shape};
use crate::value::Segment;

/// The place that a path names: its steps, and its schema. With `brackets` also `['name']` is a step.
///
/// Errors are upstream's words, which follow `is an invalid path: `.
pub fn resolve_path<'s>(schema: &'s Schema, path: &str, brackets: bool) -> Result<(Vec<Segment>, &'s Schema), String> {
    let (mut at, mut steps) = (schema, Vec::new());
    let mut tokens = Tokens { rest: path };
    let end = || "unexpected end of JSON path".to_owned();
    while let Some(token) = tokens.next() {
        let name = match token {
            "[" if !brackets => return Err("array notation is not allowed".into()),
            "[" => {
                let literal = tokens.next().ok_or_else(end)?;
                let quoted = literal.strip_prefix('\'').and_then(|l| l.strip_suffix('\''));
                let Some(text) = quoted else { return Err(format!("expected single quoted string but got {literal}")) };
                unescape(text)?
            }
            "." => tokens.next().ok_or_else(end)?.to_owned(),
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        let (schema, step) = child(at, &name).ok_or("does not refer to a valid field")?;
        at = schema;
        steps.push(step);
        if token == "[" {
            match tokens.next() {
                None => return Err(end()),
                Some("]") => {}
                Some(other) => return Err(format!("expected ] but got {other}")),
            }
        }
    }
    Ok((steps, at))
}

fn child<'s>(schema: &'s Schema, name: &str) -> Option<(&'s Schema, Segment)> {
    match &schema.shape {
        Shape::Object(object) => Some((&object.field(name)?.schema, Segment::Field(name.into()))),
        Shape::Map(values) => Some((values, Segment::Key(name.into()))),
        _ => None,
    }
}

struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    /// A delimiter, a quoted text, or what stands before the next delimiter.
    fn next(&mut self) -> Option<&'a str> {
        let bytes = self.rest.as_bytes();
        let length = match bytes.first()? {
            b'.' | b'[' | b']' => 1,
            b'\'' => {
                (1..bytes.len()).find(|&i| bytes[i] == b'\'' && bytes[i - 1] != b'\\').map_or(bytes.len(), |i| i + 1)
            }
            _ => bytes.iter().position(|b| matches!(b, b'.' | b'[' | b']')).unwrap_or(bytes.len()),
        };
        let (token, rest) = self.rest.split_at(length);
        self.rest = rest;
        Some(token)
    }
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let c = match c {
            '\\' => match chars.next() {
                Some('a') => '\x07',
                Some('b') => '\x08',
                Some('f') => '\x0c',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some('v') => '\x0b',
                Some(c @ ('\'' | '"' | '\\')) => c,
                _ => return Err("invalid string literal: invalid syntax".into()),
            },
            c => c,
        };
        out.push(c);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::schema::structural;

    #[test]
    fn paths_name_places_of_the_schema() {
        let text = br#"{"type":"object","properties":{"spec":{"type":"object","properties":{"a.b":{"type":"string"},"l":{"type":"array","items":{"type":"string"}},
            "m":{"type":"object","additionalProperties":{"type":"integer"}}}}}}"#;
        let schema = structural::parse(&json::decode(text).expect("JSON"));
        let check = |path: &str, want: Result<usize, &str>| {
            let got = resolve_path(&schema, path, true).map(|(steps, _)| steps.len());
            assert_eq!(got, want.map_err(String::from), "{path}");
        };
        check(".spec['a.b']", Ok(2));
        check(".spec.m.any", Ok(3));
        check("", Ok(0));
        check("spec", Err("expected [ or . but got: spec"));
        check(".nope", Err("does not refer to a valid field"));
        check(".spec.l.x", Err("does not refer to a valid field"));
        check(".spec.l[0]", Err("expected single quoted string but got 0"));
        check(".spec.", Err("unexpected end of JSON path"));
        assert_eq!(
            resolve_path(&schema, ".spec.l[0]", false).map(|(steps, _)| steps.len()),
            Err("array notation is not allowed".into())
        );
    }
}
