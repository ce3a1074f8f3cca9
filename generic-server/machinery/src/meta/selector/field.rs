//! `FieldSelector`: exact comparisons of fields.

use std::fmt;

use super::SelectorError;
use crate::Str;

/// One comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The field's label, `metadata.name`.
    pub field: Str,
    /// The value it must have, or must not.
    pub value: Str,
    /// `=` or `!=`
    pub equal: bool,
}

/// Comparisons that must all hold. The default one, without terms, matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

impl FieldSelector {
    /// The selector that matches everything.
    pub fn everything() -> Self {
        Self::default()
    }

    /// From terms.
    pub fn new(terms: Vec<Term>) -> Self {
        Self { terms }
    }

    /// The selector of one value of one field.
    pub fn equals(field: impl Into<Str>, value: impl Into<Str>) -> Self {
        Self { terms: vec![Term { field: field.into(), value: value.into(), equal: true }] }
    }

    /// Reads the text of a `fieldSelector` parameter: `a=b,c!=d`, with `\` before a `\`, `,` or `=` in a value.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let mut terms = Vec::with_capacity(parts.len());
        for part in parts.into_iter().filter(|p| !p.is_empty()) {
            let Some((field, equal, value)) = split_term(part) else {
                return Err(SelectorError(format!("invalid selector: '{text}'; can't understand '{part}'")));
            };
            let value = unescape(value)?;
            if !field.is_empty() || !value.is_empty() {
                terms.push(Term { field: field.into(), value, equal });
            }
        }
        Ok(Self { terms })
    }

    /// Whether everything matches.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// The terms.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Whether an object matches, given a look-up of its fields; a field that it has not is empty.
    pub fn matches<S: AsRef<str>>(&self, field: impl Fn(&str) -> S) -> bool {
        self.terms.iter().all(|t| (field(&t.field).as_ref() == t.value) == t.equal)
    }

    /// The value that `field` must have, if there is one.
    pub fn requires_exact_match(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|t| t.equal && t.field == field).map(|t| t.value.as_str())
    }

    /// With every field and value passed through `convert`: upstream's field label conversion.
    pub fn try_map<E>(self, mut convert: impl FnMut(Str, Str) -> Result<(Str, Str), E>) -> Result<Self, E> {
        let convert = |t: Term| convert(t.field, t.value).map(|(field, value)| Term { field, value, equal: t.equal });
        Ok(Self { terms: self.terms.into_iter().map(convert).collect::<Result<_, E>>()? })
    }
}

fn split_terms(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (i, c) in text.bytes().enumerate() {
        match c {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Field, whether `=`, value: split at the first operator.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    let bytes = term.as_bytes();
    let at = (0..bytes.len()).find(|i| bytes[*i] == b'=' || bytes[*i..].starts_with(b"!="))?;
    let (field, rest) = term.split_at(at);
    match rest.strip_prefix("!=") {
        Some(value) => Some((field, false, value)),
        None => Some((field, true, rest.strip_prefix("==").unwrap_or(&rest[1..]))),
    }
}

fn unescape(value: &str) -> Result<Str, SelectorError> {
    if !value.contains(['\\', ',', '=']) {
        return Ok(value.into());
    }
    let bad_escape =
        |sequence: String| SelectorError(format!("invalid field selector: invalid escape sequence: {sequence}"));
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(bad_escape(format!("\\{c}"))),
                None => return Err(bad_escape("\\".to_owned())),
            },
            ',' | '=' => {
                let number = c as u32; // upstream prints the character's number
                return Err(SelectorError(format!("invalid field selector: unescaped character in value: {number}")));
            }
            c => out.push(c),
        }
    }
    Ok(out.into())
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let operator = if term.equal { "=" } else { "!=" };
            write!(f, "{comma}{}{operator}", term.field)?;
            for c in term.value.chars() {
                if matches!(c, '\\' | ',' | '=') {
                    f.write_str("\\")?;
                }
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_reads_and_writes() {
        for (text, want) in [
            ("", ""),
            (",,", ""),
            ("b=2,a=1", "a=1,b=2"),
            ("a==1", "a=1"),
            ("a!=1", "a!=1"),
            ("a=", "a="),
            ("=", ""),
            ("!=,a=1", "a=1"),
            (r"a=x\,y\=z\\", r"a=x\,y\=z\\"),
        ] {
            assert_eq!(FieldSelector::parse(text).expect(text).to_string(), want);
        }
    }

    #[test]
    fn errors_read_like_upstreams() {
        for (text, want) in [
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            ("b=1,a", "invalid selector: 'b=1,a'; can't understand 'a'"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
            (r"a=b\c", r"invalid field selector: invalid escape sequence: \c"),
            (r"a=b\", r"invalid field selector: invalid escape sequence: \"),
        ] {
            assert_eq!(FieldSelector::parse(text).expect_err(text).to_string(), want);
        }
    }

    #[test]
    fn terms_compare_exactly() {
        let fields = |f: &str| match f {
            "metadata.name" => "a",
            _ => "",
        };
        for (text, want) in [
            ("metadata.name=a", true),
            ("metadata.name!=a", false),
            ("none=", true),
            ("none!=x,metadata.name=b", false),
        ] {
            assert_eq!(FieldSelector::parse(text).expect(text).matches(fields), want, "{text}");
        }
        let selector = FieldSelector::parse("a=1,b!=2").expect("parses");
        assert_eq!((selector.requires_exact_match("a"), selector.requires_exact_match("b")), (Some("1"), None));
    }
}
