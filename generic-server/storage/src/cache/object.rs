//! What the cache holds for a key: the bytes that reads send, and the little of the object that selection needs.

use std::{
    fmt,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use bytes::{Bytes, BytesMut};

use super::{
    forms::Forms,
    texts::{Fields, Labels},
};
use crate::Revision;

/// Turns stored bytes into what is served. Implemented by the server, which knows schemas and encryption.
///
/// Called on the store's own path (before a write is acknowledged), so it should be quick: scan, do not parse.
pub trait Decode: Send + Sync + 'static {
    /// Decodes the value of `key` as written at `revision`.
    fn decode(&self, key: &str, value: &Bytes, revision: Revision) -> Result<Decoded, DecodeError>;
}

/// A decoded value.
#[derive(Clone, Debug, Default)]
pub struct Decoded {
    /// The JSON to send, resourceVersion included.
    pub bytes: Bytes,
    /// Where in `bytes` the digits of metadata.resourceVersion stand (without the quotes).
    pub version_at: Range<usize>,
    /// metadata.labels.
    pub labels: Labels,
    /// The values of the resource's selectable fields, in the order that the resource's table gives them.
    pub fields: Fields,
}

/// Why a stored value cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub String);

/// One object at one revision. Immutable; shared by snapshots, events and watchers.
pub struct Object {
    key: Arc<str>,
    revision: Revision,
    create_revision: Revision,
    bytes: Bytes,
    labels: Labels,
    fields: Fields,
    /// Where the name starts in the key; the namespace is the segment before it.
    name_at: u32,
    namespace_at: Option<u32>,
    version_at: u32,
    version_len: u32,
    notes: [AtomicU32; NOTES],
    pub(super) forms: Forms,
}

/// How many numbers can be noted of an object.
const NOTES: usize = 2;

impl Object {
    /// Puts an object together. The name is the key's last segment; that before it is the namespace if `namespaced`.
    pub(super) fn new(key: Arc<str>, revision: Revision, create: Revision, namespaced: bool, decoded: Decoded) -> Self {
        let name_at = key.rfind('/').map_or(0, |i| i + 1);
        let namespace_at =
            (namespaced && name_at > 1).then(|| key[..name_at - 1].rfind('/').map_or(0, |i| i + 1) as u32);
        // A range outside the bytes is a fault of the decoder; then the version is just not replaced.
        let version = match decoded.bytes.get(decoded.version_at.clone()) {
            Some(_) => decoded.version_at,
            None => 0..0,
        };
        Object {
            key,
            revision,
            create_revision: create,
            bytes: decoded.bytes,
            labels: decoded.labels,
            fields: decoded.fields,
            name_at: name_at as u32,
            namespace_at,
            version_at: version.start as u32,
            version_len: version.len() as u32,
            notes: Default::default(),
            forms: Forms::default(),
        }
    }

    /// The store's key.
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// metadata.name.
    pub fn name(&self) -> &str {
        &self.key[self.name_at as usize..]
    }

    /// metadata.namespace; `None` for cluster-scoped resources.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace_at.map(|at| &self.key[at as usize..self.name_at as usize - 1])
    }

    /// The revision that wrote it: its resourceVersion.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The revision that created the key.
    pub fn create_revision(&self) -> Revision {
        self.create_revision
    }

    /// The JSON to send.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// metadata.labels.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The values of the resource's selectable fields, in the order of the resource's table.
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// One selectable field; empty when the table has no such row.
    pub fn field(&self, index: usize) -> &str {
        self.fields.get(index).unwrap_or_default()
    }

    /// A number that was noted of the object (of two), such as the size of another encoding; 0 until then. An object does
    /// not change, so what is once found out of it holds.
    pub fn note(&self, which: usize) -> u32 {
        self.notes.get(which).map_or(0, |note| note.load(Relaxed))
    }

    /// Notes a number.
    pub fn set_note(&self, which: usize, number: u32) {
        if let Some(note) = self.notes.get(which) {
            note.store(number, Relaxed);
        }
    }

    /// The same object with another resourceVersion: what a DELETED event shows.
    pub(super) fn at_revision(&self, revision: Revision) -> Object {
        let (start, end) = (self.version_at as usize, (self.version_at + self.version_len) as usize);
        let (bytes, version_len) = if start == end {
            (self.bytes.clone(), 0)
        } else {
            let digits = revision.to_string();
            let mut bytes = BytesMut::with_capacity(self.bytes.len() + digits.len() - (end - start));
            bytes.extend_from_slice(&self.bytes[..start]);
            bytes.extend_from_slice(digits.as_bytes());
            bytes.extend_from_slice(&self.bytes[end..]);
            (bytes.freeze(), digits.len() as u32)
        };
        Object {
            key: self.key.clone(),
            revision,
            create_revision: self.create_revision,
            bytes,
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            name_at: self.name_at,
            namespace_at: self.namespace_at,
            version_at: self.version_at,
            version_len,
            notes: Default::default(),
            forms: Forms::default(),
        }
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.key, self.revision)
    }
}

/// A stored value that could not be decoded. It stays visible: a get of it and a list over it can say so.
#[derive(Debug)]
pub struct Broken {
    /// The store's key.
    pub key: Arc<str>,
    /// The revision that wrote it.
    pub revision: Revision,
    /// The revision that created the key.
    pub create_revision: Revision,
    /// What is wrong.
    pub error: DecodeError,
    /// It could not even be decrypted.
    pub encrypted: bool,
}

/// What a snapshot holds for a key.
#[derive(Clone, Debug)]
pub enum CacheEntry {
    /// An object.
    Object(Arc<Object>),
    /// A value that could not be decoded.
    Broken(Arc<Broken>),
}

/// Entries are equal that one write has left, seen in the same way.
impl PartialEq for CacheEntry {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (CacheEntry::Object(own), CacheEntry::Object(other)) => {
                own.revision == other.revision && own.key == other.key
            }
            (CacheEntry::Broken(own), CacheEntry::Broken(other)) => {
                own.revision == other.revision && own.key == other.key
            }
            _ => false,
        }
    }
}

impl CacheEntry {
    /// The store's key.
    pub fn key(&self) -> &Arc<str> {
        match self {
            CacheEntry::Object(o) => &o.key,
            CacheEntry::Broken(b) => &b.key,
        }
    }

    /// The revision that wrote it.
    pub fn revision(&self) -> Revision {
        match self {
            CacheEntry::Object(o) => o.revision,
            CacheEntry::Broken(b) => b.revision,
        }
    }

    /// The object, if it could be decoded.
    pub fn object(&self) -> Option<&Arc<Object>> {
        match self {
            CacheEntry::Object(o) => Some(o),
            CacheEntry::Broken(_) => None,
        }
    }

    /// Bytes of JSON held.
    pub(super) fn size(&self) -> usize {
        self.object().map_or(0, |o| o.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(key: &str, namespaced: bool, json: &'static str, version: &str) -> Object {
        let at = json.find(version).unwrap();
        let decoded = Decoded { bytes: Bytes::from(json), version_at: at..at + version.len(), ..Decoded::default() };
        Object::new(key.into(), 7, 3, namespaced, decoded)
    }

    #[test]
    fn name_and_namespace_are_the_last_segments_of_the_key() {
        let check = |key: &str, namespaced, name: &str, namespace: Option<&str>| {
            let o = object(key, namespaced, "7", "7");
            assert_eq!((o.name(), o.namespace()), (name, namespace), "{key}");
        };
        check("/registry/pods/default/web", true, "web", Some("default"));
        check("/registry/minions/node-1", false, "node-1", None);
        check("/registry/services/specs/kube-system/dns", true, "dns", Some("kube-system"));
        check("bare", true, "bare", None);
        check("", true, "", None);
        check("/", true, "", None);
    }

    #[test]
    fn another_revision_replaces_just_the_version() {
        let o = object("/r/a", false, r#"{"metadata":{"resourceVersion":"99"},"data":"99"}"#, "99");
        let later = o.at_revision(1234);
        assert_eq!(&later.bytes()[..], br#"{"metadata":{"resourceVersion":"1234"},"data":"99"}"#);
        assert_eq!(later.revision(), 1234);
        assert_eq!(&later.at_revision(5).bytes()[..], br#"{"metadata":{"resourceVersion":"5"},"data":"99"}"#);
    }

    #[test]
    fn a_version_range_outside_the_bytes_is_ignored() {
        let decoded = Decoded { bytes: Bytes::from_static(b"{}"), version_at: 5..9, ..Decoded::default() };
        let o = Object::new("/r/a".into(), 7, 3, false, decoded);
        assert_eq!(&o.at_revision(8).bytes()[..], b"{}");
    }
}
