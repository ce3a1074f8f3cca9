//! Documents of files and answers, JSON or YAML, that are to say of what type they are.

use crate::{
    Value,
    codec::{
        json::{self, JsonError},
        yaml::{self, YamlError},
    },
    go_text::{NotAnObject, WrongType, quote},
};

/// Why a text is no document that could say of what type it is. Shown, it is what upstream says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// It begins as JSON, and is none.
    #[error("couldn't get version/kind; json parse error: {0}")]
    Json(JsonError),
    /// It is no YAML.
    #[error(transparent)]
    Yaml(YamlError),
    /// It is a list or a scalar.
    #[error(transparent)]
    NotAnObject(NotAnObject),
    /// Its apiVersion or kind is no text.
    #[error("couldn't get version/kind; json parse error: {0}")]
    Type(WrongType),
}

/// A type that a registry of kinds does not have. Shown, it is what upstream says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no kind {} is registered for version {} in scheme {registry:?}", quote(.kind), quote(.api_version))]
pub struct Unregistered {
    /// What a document says that it is.
    pub api_version: String,
    /// What a document says that it is.
    pub kind: String,
    /// Where upstream has the registry.
    pub registry: &'static str,
}

/// Whether a text is read as JSON.
pub(super) fn is_json(text: &[u8]) -> bool {
    text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}

/// Reads a text, JSON or YAML.
///
/// # Errors
/// It is no object. An empty text is none either.
pub fn read_document(text: &[u8]) -> Result<Value, DocumentError> {
    let document = match is_json(text) {
        true => json::decode(text).map_err(DocumentError::Json)?,
        false => yaml::decode(text).map_err(DocumentError::Yaml)?,
    };
    if document.as_object().is_some() { Ok(document) } else { Err(not_an_object(&document)) }
}

/// What a document says of its type: the text at `apiVersion` or `kind`; empty if there is none.
///
/// # Errors
/// Something else stands there.
pub fn type_text<'a>(document: &'a Value, key: &str) -> Result<&'a str, DocumentError> {
    match document.get(key) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(DocumentError::Type(WrongType::of(other, format!(".{key}"), "string"))),
    }
}

pub(super) fn not_an_object(document: &Value) -> DocumentError {
    DocumentError::NotAnObject(NotAnObject::of(document))
}
