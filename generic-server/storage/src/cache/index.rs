//! Which objects have a value, of an indexed field or of a label: a persistent set of hashes and keys, so that every
//! snapshot has its own.
//!
//! A row is the hash of what it is about and the object's key: 24 bytes, whatever the value's length, and in key order
//! within a value. That two values may share a hash is for the reader to see to, who has the object at hand.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{Arc, LazyLock},
};

use imbl::OrdSet;
use machinery::Str;

use super::object::Object;

/// What a selection pins, and an index may answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Term {
    /// Selectable field number so and so has this value.
    Field(usize, Str),
    /// The label has this value.
    Label(Str, Str),
}

impl Term {
    /// Whether an object has it.
    pub fn holds(&self, object: &Object) -> bool {
        match self {
            Term::Field(field, value) => object.fields().get(*field) == Some(value.as_str()),
            Term::Label(key, value) => object.labels().get(key) == Some(value.as_str()),
        }
    }

    fn hash(&self) -> u64 {
        match self {
            Term::Field(field, value) => hash_of_field(*field, value),
            Term::Label(key, value) => hash_of_label(key, value),
        }
    }
}

/// Keys nobody outside can know: values that share a hash would be a way to slow reads down.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

fn hash_of_field(field: usize, value: &str) -> u64 {
    HASHER.hash_one((field, value))
}

fn hash_of_label(key: &str, value: &str) -> u64 {
    HASHER.hash_one((key, value))
}

type Row = (u64, Arc<str>);

/// The rows of a resource's objects.
#[derive(Clone, Default)]
pub(super) struct Index(OrdSet<Row>);

impl Index {
    /// The index of these objects. Much quicker than to add them one by one, for the rows come in order.
    pub(super) fn of<'a>(
        objects: impl Iterator<Item = &'a Arc<Object>>,
        hashes: impl Fn(&Object, &mut Vec<u64>),
    ) -> Self {
        let (mut rows, mut found) = (Vec::<Row>::new(), Vec::new());
        for object in objects {
            hashes(object, &mut found);
            rows.extend(found.drain(..).map(|hash| (hash, object.key().clone())));
        }
        rows.sort_unstable();
        Index(rows.into_iter().collect())
    }

    pub(super) fn add(&mut self, hash: u64, key: &Arc<str>) {
        self.0.insert((hash, key.clone()));
    }

    pub(super) fn remove(&mut self, hash: u64, key: &Arc<str>) {
        self.0.remove(&(hash, key.clone()));
    }

    /// The keys of a term from `start` on, in order.
    pub(super) fn keys<'a>(&'a self, term: &Term, start: &str) -> impl Iterator<Item = &'a Arc<str>> + use<'a> {
        let hash = term.hash();
        let rows = self.0.range::<_, Row>((hash, start.into())..);
        rows.take_while(move |(row, _)| *row == hash).map(|(_, key)| key)
    }
}

/// The rows of an object's indexed fields.
pub(super) fn field_hashes(object: &Object, fields: &[usize], into: &mut Vec<u64>) {
    into.extend(fields.iter().filter_map(|field| Some(hash_of_field(*field, object.fields().get(*field)?))));
}

/// The rows of an object's labels.
pub(super) fn label_hashes(object: &Object, into: &mut Vec<u64>) {
    into.extend(object.labels().iter().map(|(key, value)| hash_of_label(key, value)));
}
