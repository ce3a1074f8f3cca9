//! Members of `paths` and of the definitions, in the encodings of documents.

use std::sync::Arc;

use machinery::{Value, codec::json, schema::openapi::Flavor};

use super::gnostic;
use crate::{Piece, PieceWriter};

/// An encoding of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
}

/// The objects of a document that grow with what is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Paths,
    Definitions,
    /// Only v2 has them.
    Parameters,
}

/// All of them, or what one row adds to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) paths: Vec<Arc<Piece>>,
    pub(crate) definitions: Vec<Arc<Piece>>,
    pub(crate) parameters: Vec<Arc<Piece>>,
}

/// Writes members of one of them.
pub(crate) struct Members {
    flavor: Flavor,
    encoding: Encoding,
    part: Part,
    /// Whether members come before: then JSON begins with a comma.
    follows: bool,
    writer: PieceWriter,
}

impl Members {
    /// The first members.
    pub(crate) fn first(flavor: Flavor, encoding: Encoding, part: Part) -> Self {
        Members { flavor, encoding, part, follows: false, writer: PieceWriter::default() }
    }

    /// Members that stand behind others.
    pub(crate) fn following(flavor: Flavor, encoding: Encoding, part: Part) -> Self {
        Members { follows: true, ..Members::first(flavor, encoding, part) }
    }

    /// Appends a member.
    pub(crate) fn put(&mut self, name: &str, value: &Value) {
        let (flavor, part, follows) = (self.flavor, self.part, std::mem::replace(&mut self.follows, true));
        match self.encoding {
            Encoding::Json => self.writer.put(|out| {
                if follows {
                    out.push(b',');
                }
                json::write_string(out, name);
                out.push(b':');
                json::encode_into(out, value);
            }),
            Encoding::Protobuf => self.writer.put(|out| gnostic::put_member(out, flavor, part, name, value)),
        }
    }

    /// Appends all members of an object.
    pub(crate) fn put_all(&mut self, object: &Value) {
        for (name, value) in object.as_object().into_iter().flat_map(|map| map.iter()) {
            self.put(name, value);
        }
    }

    /// All of them.
    pub(crate) fn finish(self) -> Vec<Arc<Piece>> {
        self.writer.finish()
    }
}
