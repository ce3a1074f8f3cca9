//! Paths like `.spec.map['key']` that name a place of a schema.

use crate::schema::{Schema, Shape};
use crate::value::Segment;

/// Why a path names no place of a schema. Shown, it is what upstream says behind `is an invalid path: `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It ends where more has to come.
    #[error("unexpected end of JSON path")]
    End,
    /// `[` where names alone are steps.
    #[error("array notation is not allowed")]
    ArrayNotation,
    /// What stands in brackets has no quotes.
    #[error("expected single quoted string but got {0}")]
    NotQuoted(String),
    /// What stands in quotes has an escape that is none.
    #[error("invalid string literal: invalid syntax")]
    Escape,
    /// Something else than a step.
    #[error("expected [ or . but got: {0}")]
    NoStep(String),
    /// Something else than the end of a step in brackets.
    #[error("expected ] but got {0}")]
    NoBracket(String),
    /// The schema has nothing of this name.
    #[error("does not refer to a valid field")]
    NoField,
}

/// The place that a path names: its steps, and its schema. With `brackets` also `['name']` is a step.
///
/// # Errors
/// Why it names none.
pub fn resolve_path<'s>(
    schema: &'s Schema,
    path: &str,
    brackets: bool,
) -> Result<(Vec<Segment>, &'s Schema), PathError> {
    let (mut at, mut steps) = (schema, Vec::new());
    let mut tokens = Tokens { rest: path };
    while let Some(token) = tokens.next() {
        let name = match token {
            "[" if !brackets => return Err(PathError::ArrayNotation),
            "[" => {
                let literal = tokens.next().ok_or(PathError::End)?;
                let quoted = literal.strip_prefix('\'').and_then(|l| l.strip_suffix('\''));
                let text = quoted.ok_or_else(|| PathError::NotQuoted(literal.to_owned()))?;
                unescape(text).ok_or(PathError::Escape)?
            }
            "." => tokens.next().ok_or(PathError::End)?.to_owned(),
            other => return Err(PathError::NoStep(other.to_owned())),
        };
        let (schema, step) = child(at, &name).ok_or(PathError::NoField)?;
        at = schema;
        steps.push(step);
        if token == "[" {
            match tokens.next() {
                None => return Err(PathError::End),
                Some("]") => {}
                Some(other) => return Err(PathError::NoBracket(other.to_owned())),
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

/// A text without its escapes; `None` if one of them is none.
fn unescape(text: &str) -> Option<String> {
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
                _ => return None,
            },
            c => c,
        };
        out.push(c);
    }
    Some(out)
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
            assert_eq!(got.map_err(|why| why.to_string()), want.map_err(String::from), "{path}");
        };
        check(".spec['a.b']", Ok(2));
        check(".spec.m.any", Ok(3));
        check("", Ok(0));
        check("spec", Err("expected [ or . but got: spec"));
        check(".nope", Err("does not refer to a valid field"));
        check(".spec.l.x", Err("does not refer to a valid field"));
        check(".spec.l[0]", Err("expected single quoted string but got 0"));
        check(".spec.", Err("unexpected end of JSON path"));
        check(".spec['a\\x']", Err("invalid string literal: invalid syntax"));
        check(".spec['a.b'.", Err("expected ] but got ."));
        assert_eq!(
            resolve_path(&schema, ".spec.l[0]", false).map(|(steps, _)| steps.len()),
            Err(PathError::ArrayNotation)
        );
    }
}
