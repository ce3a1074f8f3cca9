//! Path elements: one step of a field path, as it stands in `fieldsV1` (`f:name`, `k:{"port":80}`, `v:"x"`, `i:0`) and as
//! clients read it (`.name`, `[port=80]`, `[="x"]`, `[0]`).

use std::cmp::Ordering;
use std::fmt;

use super::field_set::FieldSetError;
use crate::json;
use crate::{Str, Value};

/// A parsed path element. The order is upstream's: fields, keys, values, indexes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Element {
    /// A member of an object.
    Field(Str),
    /// The item of a list whose key members have these values, sorted by name.
    Key(Vec<(Str, Scalar)>),
    /// The item of a set.
    Value(Scalar),
    /// The item at a place.
    Index(i64),
}

/// A scalar that identifies an item. Numbers sort before strings, those before booleans, null comes last.
#[derive(Clone, Debug)]
pub(super) struct Scalar(Value);

impl Scalar {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Array(_) | Value::Object(_) => None,
            scalar => Some(Scalar(scalar.clone())),
        }
    }

    fn rank(&self) -> u8 {
        match self.0 {
            Value::Int(_) | Value::Float(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            _ => 3,
        }
    }
}

impl Ord for Scalar {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
                let number = |v: &Value| v.as_f64().expect("matched as a number");
                number(&self.0).total_cmp(&number(&other.0))
            }
            (Value::String(a), Value::String(b)) => a.cmp(b),
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scalar {}

impl Element {
    /// Reads a key of `fieldsV1`. `None` for kinds of elements that this version does not know: they are dropped.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, FieldSetError> {
        let (kind, rest) = match text.as_bytes() {
            [kind, b':', ..] => (*kind, &text[2..]),
            [_, _, ..] => return Err(FieldSetError::NoColon(text.to_owned())),
            _ => return Err(FieldSetError::TooShort),
        };
        let decode = || json::decode(rest.as_bytes()).map_err(FieldSetError::Json);
        Ok(match kind {
            b'f' => Some(Element::Field(rest.into())),
            b'v' => Scalar::of(&decode()?).map(Element::Value),
            b'k' => {
                let Value::Object(members) = decode()? else { return Err(FieldSetError::NoObject(text.to_owned())) };
                members.iter().map(|(k, v)| Some((k.clone(), Scalar::of(v)?))).collect::<Option<_>>().map(Element::Key)
            }
            b'i' => Some(Element::Index(rest.parse().map_err(|_| FieldSetError::NoIndex(text.to_owned()))?)),
            _ => None,
        })
    }

    /// The key of `fieldsV1`, in the one form that equal elements share.
    pub(super) fn serialized(&self) -> Str {
        match self {
            Element::Field(name) => field_key(name),
            Element::Key(members) => key_of(members.iter().map(|(k, v)| (k.as_str(), &v.0))),
            Element::Value(v) => value_key(&v.0),
            Element::Index(i) => format!("i:{i}").into(),
        }
    }
}

/// `f:name`
pub(super) fn field_key(name: &str) -> Str {
    let mut text = String::with_capacity(name.len() + 2);
    text.push_str("f:");
    text.push_str(name);
    text.into()
}

/// `v:"x"`
pub(super) fn value_key(value: &Value) -> Str {
    let mut out = b"v:".to_vec();
    json::encode_into(&mut out, value);
    text(out)
}

/// `k:{"name":"x"}`; the members come sorted by name.
pub(super) fn key_of<'v>(members: impl Iterator<Item = (&'v str, &'v Value)>) -> Str {
    let mut out = b"k:{".to_vec();
    for (i, (name, value)) in members.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        json::write_string(&mut out, name);
        out.push(b':');
        json::encode_into(&mut out, value);
    }
    out.push(b'}');
    text(out)
}

fn text(out: Vec<u8>) -> Str {
    String::from_utf8(out).expect("JSON is UTF-8").into()
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Field(name) => write!(f, ".{name}"),
            Element::Key(members) => {
                f.write_str("[")?;
                for (i, (name, value)) in members.iter().enumerate() {
                    write!(f, "{}{name}={value}", if i > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
            Element::Value(value) => write!(f, "[={value}]"),
            Element::Index(i) => write!(f, "[{i}]"),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Value::String(s) => f.write_str(&crate::meta::go_text::quote(s)),
            Value::Null => f.write_str("null"),
            other => f.write_str(&crate::patch::go_format(other)),
        }
    }
}

/// A serialized element as clients read it.
pub(super) fn display(key: &str) -> String {
    match Element::parse(key) {
        Ok(Some(element)) => element.to_string(),
        _ => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_one_form() {
        let check = |text: &str, canonical: &str, shown: &str| {
            let element = Element::parse(text).expect(text).expect("a known kind");
            assert_eq!((element.serialized().as_str(), element.to_string().as_str()), (canonical, shown), "{text}");
        };
        check("f:spec", "f:spec", ".spec");
        check(r#"k:{"protocol":"TCP", "port":80}"#, r#"k:{"port":80,"protocol":"TCP"}"#, r#"[port=80,protocol="TCP"]"#);
        check(r#"v:"a<b""#, r#"v:"a\u003cb""#, r#"[="a<b"]"#);
        check("v:7", "v:7", "[=7]");
        check("i:3", "i:3", "[3]");
    }

    #[test]
    fn malformed_elements_are_errors_and_unknown_ones_are_dropped() {
        assert_eq!(Element::parse("x:y"), Ok(None));
        for bad in ["", "f", "fx", "k:[]", "k:{", "v:", "i:x"] {
            assert!(Element::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_sort_as_numbers() {
        let parse = |t: &str| Element::parse(t).expect(t).expect("known");
        let mut all = [parse("v:10"), parse("v:9"), parse("i:0"), parse("f:z"), parse("v:\"a\""), parse("v:9.5")];
        all.sort();
        let texts: Vec<_> = all.iter().map(|e| e.serialized().to_string()).collect();
        assert_eq!(texts, ["f:z", "v:9", "v:9.5", "v:10", "v:\"a\"", "i:0"]);
    }
}
