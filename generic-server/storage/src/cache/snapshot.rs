//! Immutable states of a resource by revision, over persistent ordered maps: a clone is O(1), a change O(log n).

use std::{ops::Bound, sync::Arc};

use imbl::{OrdMap, OrdSet};
use machinery::Str;

use super::object::{Entry, Object};
use crate::Revision;

/// The objects of a resource, and its indexes. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Tree {
    objects: OrdMap<Arc<str>, Entry>,
    /// By the value of an indexed field, then by key.
    indexes: Box<[Index]>,
    /// Bytes of JSON in `objects`.
    bytes: usize,
}

#[derive(Clone)]
struct Index {
    field: usize,
    keys: OrdSet<(Str, Arc<str>)>,
}

impl Tree {
    /// An empty tree with an index by each of these selectable fields.
    pub(super) fn new(indexed: &[usize]) -> Self {
        let indexes = indexed.iter().map(|&field| Index { field, keys: OrdSet::new() }).collect();
        Tree { objects: OrdMap::new(), indexes, bytes: 0 }
    }

    /// Sets what is at a key; answers what was there.
    pub(super) fn set(&mut self, key: &Arc<str>, entry: Option<Entry>) -> Option<Entry> {
        let previous = match &entry {
            Some(entry) => self.objects.insert(key.clone(), entry.clone()),
            None => self.objects.remove(&**key),
        };
        self.bytes += entry.as_ref().map_or(0, Entry::size);
        self.bytes -= previous.as_ref().map_or(0, Entry::size);
        for index in &mut self.indexes {
            index.change(key, previous.as_ref(), entry.as_ref());
        }
        previous
    }

    /// The key as it is held already, so that an object's versions share one copy; else `key` itself.
    pub(super) fn shared_key(&self, key: &Arc<str>) -> Arc<str> {
        self.objects.get_key_value(&**key).map_or(key, |(held, _)| held).clone()
    }

    /// Bytes of JSON held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Index {
    fn change(&mut self, key: &Arc<str>, previous: Option<&Entry>, entry: Option<&Entry>) {
        let value = |e: Option<&Entry>| -> Option<Str> {
            e.and_then(Entry::object).and_then(|o| o.fields().get(self.field)).map(Str::from)
        };
        let (old, new) = (value(previous), value(entry));
        if old == new {
            return;
        }
        if let Some(old) = old {
            self.keys.remove(&(old, key.clone()));
        }
        if let Some(new) = new {
            self.keys.insert((new, key.clone()));
        }
    }
}

/// All objects of a resource as they were at one revision.
#[derive(Clone)]
pub struct Snapshot {
    revision: Revision,
    tree: Arc<Tree>,
}

impl Snapshot {
    pub(super) fn new(revision: Revision, tree: Arc<Tree>) -> Self {
        Snapshot { revision, tree }
    }

    /// Moves on to `revision`; the tree may be changed in place where nobody else holds it.
    pub(super) fn advance(&mut self, revision: Revision) -> &mut Tree {
        self.revision = revision;
        Arc::make_mut(&mut self.tree)
    }

    pub(super) fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// The same objects, known to be so at a later revision, too.
    pub(super) fn known_at(mut self, revision: Revision) -> Self {
        self.revision = self.revision.max(revision);
        self
    }

    /// Whether both hold the same objects because they share them: cheap, and never wrong when it says yes.
    pub fn shares(&self, other: &Snapshot) -> bool {
        Arc::ptr_eq(&self.tree, &other.tree)
    }

    /// The revision: a list's resourceVersion.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.tree.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tree.objects.is_empty()
    }

    /// What is at a key.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.tree.objects.get(key)
    }

    /// Whether [`Snapshot::by_field`] knows this selectable field.
    pub fn is_indexed(&self, field: usize) -> bool {
        self.tree.indexes.iter().any(|i| i.field == field)
    }

    /// The entries whose keys start with `prefix`, in key order, from `start` (inclusive) if given. O(log n) to begin;
    /// counting what is left looks at no key.
    pub fn range<'a>(&'a self, prefix: &str, start: Option<&str>) -> impl Iterator<Item = &'a Entry> + use<'a> {
        let from = Bound::Included(start.map_or(prefix, |start| start.max(prefix)));
        let beyond = beyond(prefix);
        let upto = beyond.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.tree.objects.range::<_, str>((from, upto)).map(|(_, entry)| entry)
    }

    /// The objects whose selectable field number `field` has `value`, in key order, from the key `start` (inclusive) if
    /// given; `None` if that field is not indexed.
    pub fn by_field<'a>(
        &'a self,
        field: usize,
        value: &'a str,
        start: Option<&str>,
    ) -> Option<impl Iterator<Item = &'a Arc<Object>> + 'a> {
        let index = self.tree.indexes.iter().find(|i| i.field == field)?;
        let from: (Str, Arc<str>) = (value.into(), start.unwrap_or_default().into());
        let keys = index.keys.range::<_, (Str, Arc<str>)>(from..).take_while(move |(v, _)| v == value);
        Some(keys.filter_map(|(_, key)| self.get(key)?.object()))
    }
}

/// The least text that is greater than all that start with `prefix`; `None` if there is none.
fn beyond(prefix: &str) -> Option<String> {
    let mut beyond = prefix.to_owned();
    while let Some(last) = beyond.pop() {
        // The character after it: the range knows of the gap that surrogates leave.
        if let Some(next) = (last..=char::MAX).nth(1) {
            beyond.push(next);
            return Some(beyond);
        }
    }
    None
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("revision", &self.revision).field("len", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Decoded;

    fn object(key: &str, node: &str) -> Entry {
        let decoded = Decoded { bytes: "{}".into(), fields: [node].into_iter().collect(), ..Decoded::default() };
        Entry::Object(Arc::new(Object::new(key.into(), 1, 1, true, decoded)))
    }

    fn tree(entries: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::new(&[0]);
        for (key, node) in entries {
            tree.set(&(*key).into(), Some(object(key, node)));
        }
        tree
    }

    fn keys<'a>(entries: impl Iterator<Item = &'a Arc<Object>>) -> Vec<&'a str> {
        entries.map(|o| &**o.key()).collect()
    }

    #[test]
    fn a_range_is_bounded_by_prefix_and_start() {
        let s = Snapshot::new(1, Arc::new(tree(&[("/r/a/x", ""), ("/r/a/y", ""), ("/r/ab/x", ""), ("/r/b/x", "")])));
        let check = |prefix, start, expect: &[&str]| {
            assert_eq!(keys(s.range(prefix, start).filter_map(Entry::object)), expect, "{prefix} {start:?}");
        };
        check("/r/a/", None, &["/r/a/x", "/r/a/y"]);
        check("/r/a/", Some("/r/a/x\0"), &["/r/a/y"]);
        check("/r/a/", Some("/q"), &["/r/a/x", "/r/a/y"]);
        check("/r/a/", Some("/s"), &[]);
        check("/r/", Some("/r/ab"), &["/r/ab/x", "/r/b/x"]);
        check("", None, &["/r/a/x", "/r/a/y", "/r/ab/x", "/r/b/x"]);
        check("/r/b/x", None, &["/r/b/x"]);
        check("/r/b/xx", None, &[]);
        check("/z", None, &[]);
        check("/", Some("/r/b/x\0"), &[]);
    }

    #[test]
    fn beyond_a_prefix_is_the_next_text_that_does_not_start_with_it() {
        let check = |prefix: &str, expect: Option<&str>| assert_eq!(beyond(prefix).as_deref(), expect, "{prefix:?}");
        check("/r/", Some("/r0"));
        check("a\u{d7ff}", Some("a\u{e000}"));
        check("a\u{10ffff}", Some("b"));
        check("\u{10ffff}\u{10ffff}", None);
        check("", None);
    }

    #[test]
    fn the_index_follows_changes_and_old_snapshots_do_not_move() {
        let mut t = tree(&[("/r/a/x", "n1"), ("/r/a/y", "n2"), ("/r/b/x", "n1")]);
        let before = Snapshot::new(1, Arc::new(t.clone()));
        t.set(&"/r/a/x".into(), Some(object("/r/a/x", "n2")));
        t.set(&"/r/b/x".into(), None);
        let after = Snapshot::new(2, Arc::new(t));
        let of = |s: &Snapshot, node: &str| keys(s.by_field(0, node, None).unwrap()).join(" ");
        assert_eq!([of(&before, "n1"), of(&before, "n2")], ["/r/a/x /r/b/x", "/r/a/y"]);
        assert_eq!([of(&after, "n1"), of(&after, "n2")], ["", "/r/a/x /r/a/y"]);
        assert_eq!(keys(before.by_field(0, "n1", Some("/r/b")).unwrap()), ["/r/b/x"]);
        assert!(after.by_field(1, "n1", None).is_none());
        assert_eq!((before.tree.bytes(), after.tree.bytes()), (6, 4));
    }

    proptest::proptest! {
        #[test]
        fn a_range_is_what_a_walk_over_all_keys_selects(
            keys in proptest::collection::btree_set("/[ab]{0,2}/[ab/0]{0,3}", 0..80),
            prefix in "/?[ab]{0,2}/?[ab]{0,2}",
            start in proptest::option::of("/[ab]{0,2}/?[ab]{0,2}"),
        ) {
            let entries: Vec<_> = keys.iter().map(|key| (key.as_str(), "")).collect();
            let snapshot = Snapshot::new(1, Arc::new(tree(&entries)));
            let start = start.as_deref();
            let expect = keys.iter().filter(|k| k.starts_with(&prefix) && start.is_none_or(|start| k.as_str() >= start));
            let found: Vec<&str> = snapshot.range(&prefix, start).map(|e| &**e.key()).collect();
            proptest::prop_assert_eq!(found, expect.collect::<Vec<_>>());
        }
    }
}
