//! The envelope of an OpenAPI document.

use std::sync::Arc;

use machinery::{
    Value, array,
    codec::{
        json,
        protobuf::wire::{BYTES, key, put_varint},
    },
    object,
};

use super::{
    gnostic,
    members::{Encoding, Parts},
};
use crate::{Piece, features::Minor};

/// What documents describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described {
    /// The version of Kubernetes.
    pub version: Minor,
    /// Whether the server has CBOR.
    pub cbor: bool,
    /// Whether members of built-in types name the values that they may have.
    pub enums: bool,
}

impl Described {
    /// What hashes of documents begin with.
    pub(crate) fn seed(self) -> [u8; 6] {
        let [a, b, c, d] = self.version.0.to_be_bytes();
        [a, b, c, d, u8::from(self.cbor), u8::from(self.enums)]
    }
}

impl From<Minor> for Described {
    fn from(version: Minor) -> Self {
        Described { version, cbor: false, enums: true }
    }
}

/// Which document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// The one of v2, of a version of Kubernetes.
    Swagger(Minor),
    /// One of v3 of what is built in, in a version of Kubernetes.
    BuiltIn(Minor),
    /// One of v3 of custom resources.
    Custom,
}

impl Frame {
    /// The document of these parts.
    pub(crate) fn around(self, parts: Parts, encoding: Encoding) -> Vec<Arc<Piece>> {
        match (encoding, self) {
            (Encoding::Json, Frame::Swagger(_)) => self.swagger_json(parts),
            (Encoding::Json, _) => self.json(parts),
            (Encoding::Protobuf, Frame::Swagger(_)) => self.swagger_protobuf(parts),
            (Encoding::Protobuf, _) => self.protobuf(parts),
        }
    }

    /// The members that say what the document is.
    fn head(self) -> Value {
        match self {
            Frame::Swagger(version) => object! {
                "swagger" => "2.0",
                "info" => object! { "title" => "Kubernetes", "version" => version.to_string() },
            },
            Frame::BuiltIn(version) => object! {
                "openapi" => "3.0.0",
                "info" => object! { "title" => "Kubernetes", "version" => version.to_string() },
            },
            Frame::Custom => object! {
                "openapi" => "3.0.0",
                "info" => object! { "title" => "Kubernetes CRD Swagger", "version" => "v0.1.0" },
            },
        }
    }

    fn swagger_json(self, parts: Parts) -> Vec<Arc<Piece>> {
        let head = Piece::plain([&open(&self.head()), &b",\"definitions\":{"[..]].concat());
        let middle = Piece::plain(b"},\"paths\":{".as_slice());
        let security = json::encode(&security());
        let shared = Piece::plain(b"},\"parameters\":{".as_slice());
        let tail = Piece::plain([b"},", security.get(1..).unwrap_or_default()].concat());
        let [head, middle, shared, tail] = [head, middle, shared, tail].map(|piece| vec![piece]);
        chain([head, parts.definitions, middle, parts.paths, shared, parts.parameters, tail])
    }

    fn json(self, parts: Parts) -> Vec<Arc<Piece>> {
        let mut head = open(&self.head());
        head.extend_from_slice(b",\"components\":");
        let others = open(&self.other_components());
        head.extend_from_slice(&others);
        let mut middle = Vec::new();
        if !parts.definitions.is_empty() {
            if others.len() > 1 {
                head.push(b',');
            }
            head.extend_from_slice(b"\"schemas\":{");
            middle.push(b'}');
        }
        middle.extend_from_slice(b"},\"paths\":{");
        let (head, middle) = (Piece::plain(head), Piece::plain(middle));
        chain([vec![head], parts.definitions, vec![middle], parts.paths, vec![Piece::plain(b"}}".as_slice())]])
    }

    fn swagger_protobuf(self, parts: Parts) -> Vec<Arc<Piece>> {
        let mut head = gnostic::encode(&gnostic::v2::DOCUMENT, &self.head());
        begin(&mut head, gnostic::v2::PATHS_FIELD, size(&parts.paths));
        let mut middle = Vec::new();
        begin(&mut middle, gnostic::v2::DEFINITIONS_FIELD, size(&parts.definitions));
        let mut shared = Vec::new();
        begin(&mut shared, gnostic::v2::PARAMETERS_FIELD, size(&parts.parameters));
        let tail = gnostic::encode(&gnostic::v2::DOCUMENT, &security());
        let [head, middle, shared, tail] = [head, middle, shared, tail].map(|text| vec![Piece::plain(text)]);
        chain([head, parts.paths, middle, parts.definitions, shared, parts.parameters, tail])
    }

    fn protobuf(self, parts: Parts) -> Vec<Arc<Piece>> {
        let mut head = gnostic::encode(&gnostic::v3::DOCUMENT, &self.head());
        begin(&mut head, gnostic::v3::PATHS_FIELD, size(&parts.paths));
        let others = gnostic::encode(&gnostic::v3::COMPONENTS, &self.other_components());
        let mut schemas = Vec::new();
        if !parts.definitions.is_empty() {
            begin(&mut schemas, gnostic::v3::SCHEMAS_FIELD, size(&parts.definitions));
        }
        let mut middle = Vec::new();
        let length = schemas.len() + size(&parts.definitions) + others.len();
        begin(&mut middle, gnostic::v3::COMPONENTS_FIELD, length);
        middle.extend_from_slice(&schemas);
        let [head, middle, tail] = [head, middle, others].map(|text| vec![Piece::plain(text)]);
        chain([head, parts.paths, middle, parts.definitions, tail])
    }

    /// The components of v3 beside the schemas.
    fn other_components(self) -> Value {
        match self {
            Frame::BuiltIn(_) => object! { "securitySchemes" => object! { "BearerToken" => token() } },
            Frame::Swagger(_) | Frame::Custom => Value::object(),
        }
    }
}

/// How clients show who they are, in v2.
fn security() -> Value {
    object! {
        "securityDefinitions" => object! { "BearerToken" => token() },
        "security" => array![object! { "BearerToken" => array![] }],
    }
}

fn token() -> Value {
    object! {
        "type" => "apiKey",
        "description" => "Bearer Token authentication",
        "name" => "authorization",
        "in" => "header",
    }
}

/// An object's JSON without its last brace.
fn open(object: &Value) -> Vec<u8> {
    let mut text = json::encode(object);
    text.pop();
    text
}

/// Begins a field that holds so many bytes.
fn begin(out: &mut Vec<u8>, number: u32, length: usize) {
    put_varint(out, key(number, BYTES).into());
    put_varint(out, length as u64);
}

fn size(pieces: &[Arc<Piece>]) -> usize {
    pieces.iter().map(|piece| piece.len()).sum()
}

fn chain<const N: usize>(parts: [Vec<Arc<Piece>>; N]) -> Vec<Arc<Piece>> {
    parts.into_iter().flatten().collect()
}
