//! What the garbage collector reads of an object.

use machinery::{
    Str, Value,
    codec::json,
    json::scan,
    meta::{Meta, accessor::OwnerReference},
};

/// Keeps an object until its dependents no longer name it.
pub(super) const ORPHAN: &str = "orphan";
/// Keeps an object until the dependents that block its deletion are gone.
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// An owner as a dependent names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Reference {
    pub(super) api_version: Str,
    pub(super) kind: Str,
    pub(super) name: Str,
    pub(super) uid: Str,
    /// Whether the owner's deletion in the foreground waits for the dependent.
    pub(super) blocks: bool,
}

impl Reference {
    fn of(reference: OwnerReference<'_>) -> Self {
        Reference {
            api_version: reference.api_version().into(),
            kind: reference.kind().into(),
            name: reference.name().into(),
            uid: reference.uid().into(),
            blocks: reference.blocks_owner_deletion(),
        }
    }
}

/// What counts of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) uid: Str,
    pub(super) owners: Vec<Reference>,
    pub(super) deleting: bool,
    /// It has the finalizer for dependents that are to stay.
    pub(super) orphan: bool,
    /// It has the finalizer for dependents that are to go first.
    pub(super) foreground: bool,
}

impl Facts {
    /// Reads an object's text, of which only the metadata is looked at.
    pub(super) fn read(object: &[u8]) -> Self {
        const PATHS: [&[&str]; 2] = [&["metadata", "ownerReferences"], &["metadata", "finalizers"]];
        let Some((meta, fields)) = scan::metadata_and_fields(object, &PATHS) else { return Facts::default() };
        let list = |at: usize| fields[at].and_then(|text| json::decode(text).ok());
        let owners = list(0).unwrap_or(Value::Null);
        let finalizers = list(1).unwrap_or(Value::Null);
        let has = |name| finalizers.as_array().unwrap_or_default().iter().any(|f| f.as_str() == Some(name));
        Facts {
            uid: meta.uid.unwrap_or_default().into(),
            owners: owners.as_array().unwrap_or_default().iter().map(|o| Reference::of(OwnerReference(o))).collect(),
            deleting: meta.deletion_timestamp.is_some(),
            orphan: has(ORPHAN),
            foreground: has(FOREGROUND),
        }
    }

    /// The same of an object that is decoded.
    pub(super) fn of(object: &Value) -> Self {
        let meta = Meta::of(object);
        Facts {
            uid: meta.uid().into(),
            owners: meta.owner_references().map(Reference::of).collect(),
            deleting: meta.is_terminating(),
            orphan: meta.has_finalizer(ORPHAN),
            foreground: meta.has_finalizer(FOREGROUND),
        }
    }

    /// It is in deletion and its dependents are to stay.
    pub(super) fn orphans(&self) -> bool {
        self.deleting && self.orphan
    }

    /// It is in deletion and waits for its dependents.
    pub(super) fn waits(&self) -> bool {
        self.deleting && self.foreground
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_what_the_tree_says() {
        let text = br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","uid":"u","deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["orphan","a/b"],"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"o","blockOwnerDeletion":true},{"apiVersion":"apps/v1","kind":"X","name":"q","uid":"o2"}]},"data":{"a":"b"}}"#;
        let read = Facts::read(text);
        assert_eq!(read, Facts::of(&json::decode(text).expect("JSON")));
        assert!(read.orphans() && !read.waits() && read.owners[0].blocks && !read.owners[1].blocks);
        assert_eq!(Facts::read(br#"{"metadata":{"name":"x","ownerReferences":null}}"#), Facts::default());
        assert_eq!(Facts::read(b"not JSON"), Facts::default());
    }
}
