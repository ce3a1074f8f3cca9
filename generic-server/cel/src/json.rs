//! Values as JSON: what expressions make of documents goes back into documents.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use machinery::{Map, Str, Value as Json};

use crate::library::conversions;
use crate::types::Type;
use crate::value::{Error, Key, Value};

/// A value for which JSON has nothing.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NotJson {
    /// A value of this type.
    #[error("unsupported conversion of type '{0}'")]
    Type(Type),
    /// A time or a span that cannot be written.
    #[error(transparent)]
    Text(#[from] Error),
}

/// The value as JSON: bytes in base64, times and spans as text, keys of maps as text, optional values as what they hold.
///
/// # Errors
/// JSON has nothing for it, or for a value in it.
pub fn json_of(value: &Value) -> Result<Json, NotJson> {
    Ok(match value {
        Value::Null | Value::Optional(None) => Json::Null,
        Value::Bool(b) => Json::Bool(*b),
        Value::Int(i) => Json::Int(*i),
        Value::Uint(u) => i64::try_from(*u).map_or(Json::Float(*u as f64), Json::Int),
        Value::Double(d) => Json::Float(*d),
        Value::String(s) => Json::String(s.clone()),
        Value::Bytes(bytes) => Json::from(STANDARD.encode(bytes)),
        Value::List(items) => items.iter().map(json_of).collect::<Result<Json, _>>()?,
        Value::Map(map) => object(map.iter().map(|(key, value)| (text_of(key), value)))?,
        Value::Struct(made) => object(made.1.iter().map(|(name, value)| (name.clone(), value)))?,
        Value::Data(data) => data.json().clone(),
        Value::Optional(Some(inner)) => json_of(inner)?,
        Value::Timestamp(_) | Value::Duration(_) => match conversions::to_string(std::slice::from_ref(value))? {
            Value::String(text) => Json::String(text),
            _ => Json::Null,
        },
        Value::Type(_) | Value::Opaque(_) => {
            return Err(NotJson::Type(value.type_of()));
        }
    })
}

fn object<'a>(entries: impl Iterator<Item = (Str, &'a Value)>) -> Result<Json, NotJson> {
    let entries = entries.map(|(key, value)| Ok((key, json_of(value)?)));
    Ok(Json::Object(Map::from_entries(entries.collect::<Result<Vec<_>, NotJson>>()?)))
}

fn text_of(key: &Key) -> Str {
    match key {
        Key::String(text) => text.clone(),
        other => other.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;
    use crate::Env;

    #[test]
    fn values_are_written_as_documents_have_them() {
        let check = |text: &str, expect: Result<&str, &str>| {
            let program = Env::new().compile(text).expect("it compiles");
            let value = program.evaluate(&[][..] as &[Value], 1_000).0.expect("it has a value");
            let expect = expect.map(|text| json::decode(text.as_bytes()).expect("JSON")).map_err(str::to_owned);
            assert_eq!(json_of(&value).map_err(|why| why.to_string()), expect, "{text}");
        };
        check("{'a': [1, 2], 'b': []}", Ok(r#"{"a":[1,2],"b":[]}"#));
        check("{1: 'x', 2: 'y'}", Ok(r#"{"1":"x","2":"y"}"#));
        check("[b'abc', b'']", Ok(r#"["YWJj",""]"#));
        check("timestamp('2024-01-01T00:00:00Z')", Ok(r#""2024-01-01T00:00:00Z""#));
        check("duration('90s')", Ok(r#""90s""#));
        check("optional.of(1)", Ok("1"));
        check("quantity('1')", Err("unsupported conversion of type 'kubernetes.Quantity'"));
    }
}
