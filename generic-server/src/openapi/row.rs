//! What one row says of itself in documents: made when it is first asked for, and kept with the row in little space.

use std::{
    fmt::Write as _,
    sync::{Arc, OnceLock},
};

use aws_lc_rs::digest::{self, Digest};
use bytes::Bytes;
use machinery::{
    Str,
    codec::json,
    schema::{TypeId, builtin, openapi::Flavor},
};

use super::{
    members::{Encoding, Members, Part, Parts},
    paths::Paths,
    schemas::Schemas,
    v2,
};
use crate::docs;
use crate::resource::Resource;

/// Finds the text of the `openAPIV3Schema` of a custom resource's version.
pub type Published = Arc<dyn Fn(&Resource) -> Option<Bytes> + Send + Sync>;

/// What a custom resource's row adds to documents.
#[derive(Default)]
pub struct RowParts {
    source: OnceLock<Source>,
    /// By flavor and encoding.
    added: [OnceLock<Added>; 4],
}

/// What it is made of, for as long as the row is served.
struct Source {
    schema: Option<Bytes>,
    hash: Digest,
}

/// Paths and definitions of its own, each behind others, and the definitions that it refers to.
pub(crate) struct Added {
    pub(crate) parts: Parts,
    pub(crate) needs: Vec<TypeId>,
}

impl RowParts {
    /// A hash of all that the parts are made of.
    pub(crate) fn hash(&self, row: &Resource, published: &Published) -> &Digest {
        &self.source(row, published).hash
    }

    fn source(&self, row: &Resource, published: &Published) -> &Source {
        self.source.get_or_init(|| {
            let schema = published(row);
            let hash = hash_of(row, schema.as_deref());
            Source { schema, hash }
        })
    }

    fn place(flavor: Flavor, encoding: Encoding) -> usize {
        usize::from(flavor == Flavor::V3) * 2 + usize::from(encoding == Encoding::Protobuf)
    }

    /// The parts, if they were asked for before.
    pub(crate) fn known(&self, flavor: Flavor, encoding: Encoding) -> Option<&Added> {
        self.added[Self::place(flavor, encoding)].get()
    }

    /// The parts.
    pub(crate) fn added(&self, row: &Resource, published: &Published, flavor: Flavor, encoding: Encoding) -> &Added {
        self.added[Self::place(flavor, encoding)].get_or_init(|| {
            let source = self.source(row, published);
            let schema = source.schema.as_ref().and_then(|text| json::decode(text).ok());
            let mut schemas = Schemas::new(flavor);
            schemas.custom_kind(row, schema.as_ref());
            let mut paths = Paths::new(&mut schemas);
            paths.row(row);
            let mut item = paths.into_value();
            if flavor == Flavor::V2 {
                v2::lower_all(&mut item);
                v2::customize_all(&mut item);
            }
            let mut members = Members::following(flavor, encoding, Part::Paths);
            members.put_all(&item);
            let paths = members.finish();
            let mut members = Members::following(flavor, encoding, Part::Definitions);
            schemas.others().for_each(|(name, schema)| members.put(name, schema));
            let parts = Parts { paths, definitions: members.finish(), ..Parts::default() };
            Added { parts, needs: schemas.built_ins().collect() }
        })
    }
}

/// A hash of what documents say of a row.
fn hash_of(row: &Resource, schema: Option<&[u8]>) -> Digest {
    let mut text = format!("{} {} {} {}", row.api_version(), row.plural, row.kind, row.list_kind);
    let shape = (row.namespaced, row.verbs, row.built_in, &row.subresources, &row.selectable_fields);
    write!(text, "\n{shape:?}\n").expect("a String takes all writes");
    let mut context = digest::Context::new(&digest::SHA512);
    context.update(text.as_bytes());
    context.update(schema.unwrap_or_default());
    context.finish()
}

/// A hash that begins with what is the same in all documents.
pub(crate) fn hash_with(parts: impl FnOnce(&mut digest::Context)) -> Str {
    static FACTS: OnceLock<Digest> = OnceLock::new();
    let facts = FACTS.get_or_init(|| {
        let mut context = digest::Context::new(&digest::SHA512);
        context.update(env!("CARGO_PKG_VERSION").as_bytes());
        context.update(builtin::facts().as_bytes());
        context.update(docs::all().as_bytes());
        context.finish()
    });
    let mut context = digest::Context::new(&digest::SHA512);
    context.update(facts.as_ref());
    parts(&mut context);
    hex(context.finish().as_ref())
}

fn hex(bytes: &[u8]) -> Str {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect::<String>().into()
}
