//! Immutable states of a resource by revision, over persistent ordered maps: a clone is O(1), a change O(log n).

use std::{ops::Bound, sync::Arc};

use imbl::{OrdMap, ordmap::DiffItem};

use super::{
    index::{self, Index, Term},
    object::{CacheEntry, Object},
};
use crate::Revision;

/// The objects of a resource, and its indexes. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Tree {
    objects: OrdMap<Arc<str>, CacheEntry>,
    /// The selectable fields that are indexed.
    fields: Arc<[usize]>,
    by_field: Index,
    /// Only where there are many objects.
    by_label: Option<Index>,
    /// From so many objects on.
    labels_from: usize,
    /// Entries that are no objects.
    broken: usize,
    /// Bytes of JSON in `objects`.
    bytes: usize,
}

impl Tree {
    /// An empty tree with an index by each of these selectable fields, and by labels from so many objects on.
    pub(super) fn new(fields: &[usize], labels_from: usize) -> Self {
        Tree { fields: fields.into(), labels_from, ..Tree::default() }
    }

    /// Sets what is at a key; answers what was there.
    pub(super) fn set(&mut self, key: &Arc<str>, entry: Option<CacheEntry>) -> Option<CacheEntry> {
        let previous = self.put(key, entry.clone());
        self.reindex(key, previous.as_ref().and_then(CacheEntry::object), entry.as_ref().and_then(CacheEntry::object));
        previous
    }

    /// [`Tree::set`] without the indexes, while a tree is filled: [`Tree::index`] makes them of all objects at once.
    pub(super) fn load(&mut self, entry: CacheEntry) {
        self.put(&entry.key().clone(), Some(entry));
    }

    /// Makes the indexes.
    pub(super) fn index(&mut self) {
        let fields = self.fields.clone();
        self.by_field = Index::of(self.all(), |object, into| index::field_hashes(object, &fields, into));
        self.by_label = (self.objects.len() >= self.labels_from).then(|| Index::of(self.all(), index::label_hashes));
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.values().filter_map(CacheEntry::object)
    }

    fn put(&mut self, key: &Arc<str>, entry: Option<CacheEntry>) -> Option<CacheEntry> {
        self.bytes += entry.as_ref().map_or(0, CacheEntry::size);
        self.broken += usize::from(matches!(entry, Some(CacheEntry::Broken(_))));
        let previous = match entry {
            Some(entry) => self.objects.insert(key.clone(), entry),
            None => self.objects.remove(&**key),
        };
        self.bytes -= previous.as_ref().map_or(0, CacheEntry::size);
        self.broken -= usize::from(matches!(previous, Some(CacheEntry::Broken(_))));
        previous
    }

    fn reindex(&mut self, key: &Arc<str>, old: Option<&Arc<Object>>, new: Option<&Arc<Object>>) {
        let fields = &self.fields;
        change(&mut self.by_field, key, old, new, |object, into| index::field_hashes(object, fields, into));
        match &mut self.by_label {
            // Most writes leave the labels as they are.
            Some(_) if old.map(|o| o.labels()) == new.map(|o| o.labels()) => {}
            Some(index) => change(index, key, old, new, index::label_hashes),
            None => {}
        }
        match self.objects.len() {
            many if many >= self.labels_from && self.by_label.is_none() => {
                self.by_label = Some(Index::of(self.all(), index::label_hashes));
            }
            few if few < self.labels_from / 4 => self.by_label = None,
            _ => {}
        }
    }

    fn index_of(&self, term: &Term) -> Option<&Index> {
        match term {
            Term::Field(field, _) => self.fields.contains(field).then_some(&self.by_field),
            Term::Label(..) => self.by_label.as_ref(),
        }
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

/// Takes the rows that an object no longer has out of an index, and puts in those that are new.
fn change(
    index: &mut Index,
    key: &Arc<str>,
    old: Option<&Arc<Object>>,
    new: Option<&Arc<Object>>,
    hashes: impl Fn(&Object, &mut Vec<u64>),
) {
    let of = |object: Option<&Arc<Object>>| {
        let mut found = Vec::new();
        object.into_iter().for_each(|object| hashes(object, &mut found));
        found
    };
    let (old, new) = (of(old), of(new));
    old.iter().filter(|hash| !new.contains(hash)).for_each(|hash| index.remove(*hash, key));
    new.iter().filter(|hash| !old.contains(hash)).for_each(|hash| index.add(*hash, key));
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

    /// Hands over the entries by which `newer` differs, in key order: what was there, and what is there now. Costs what
    /// differs where one state came of the other.
    pub fn changes(&self, newer: &Snapshot, mut each: impl FnMut(Option<&CacheEntry>, Option<&CacheEntry>)) {
        for difference in self.tree.objects.diff(&newer.tree.objects) {
            match difference {
                DiffItem::Add(_, new) => each(None, Some(new)),
                DiffItem::Update { old: (_, old), new: (_, new) } => each(Some(old), Some(new)),
                DiffItem::Remove(_, old) => each(Some(old), None),
            }
        }
    }

    /// What is at a key.
    pub fn get(&self, key: &str) -> Option<&CacheEntry> {
        self.tree.objects.get(key)
    }

    /// The entries whose keys start with `prefix`, in key order, from `start` (inclusive) if given. O(log n) to begin;
    /// counting what is left looks at no key.
    pub fn range<'a>(&'a self, prefix: &str, start: Option<&str>) -> impl Iterator<Item = &'a CacheEntry> + use<'a> {
        let from = Bound::Included(start.map_or(prefix, |start| start.max(prefix)));
        let beyond = beyond(prefix);
        let upto = beyond.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.tree.objects.range::<_, str>((from, upto)).map(|(_, entry)| entry)
    }

    /// The objects whose selectable field number `field` has `value`, in key order, from the key `start` (inclusive) if
    /// given, however many they are; `None` if that field is not indexed.
    pub fn by_field<'a>(
        &'a self,
        field: usize,
        value: &str,
        start: Option<&str>,
    ) -> Option<impl Iterator<Item = &'a Arc<Object>> + use<'a>> {
        let term = Term::Field(field, value.into());
        let keys = self.tree.index_of(&term)?.keys(&term, start.unwrap_or_default());
        Some(keys.filter_map(|key| self.get(key)?.object()).filter(move |object| term.holds(object)))
    }

    /// The objects, in key order, whose keys start with `prefix`, from the key `start` (inclusive) if given, and that have
    /// one of `terms`, that which the fewest have: all that have all of them are among these. `None` if no index
    /// answers, if so many have each that a walk over all is as quick, or if there are entries that only that would meet.
    pub fn by_terms(&self, terms: &[Term], prefix: &str, start: Option<&str>) -> Option<Vec<&Arc<Object>>> {
        if self.tree.broken > 0 {
            return None;
        }
        let from = start.map_or(prefix, |start| start.max(prefix));
        let mut walks: Vec<_> = terms
            .iter()
            .filter_map(|term| Some((term, self.tree.index_of(term)?.keys(term, from), Vec::new())))
            .collect();
        // All in step: the first one that ends is the shortest.
        for _ in 0..=(self.len() / WORTH_A_WALK).max(FEW) {
            for (term, keys, found) in &mut walks {
                match keys.next().filter(|key| key.starts_with(prefix)) {
                    Some(key) => found.push(key),
                    None => {
                        let objects = found.iter().filter_map(|key| self.get(key)?.object());
                        return Some(objects.filter(|object| term.holds(object)).collect());
                    }
                }
            }
        }
        None
    }
}

/// An index that finds more than this part of all objects saves nothing: each is looked up on its own.
const WORTH_A_WALK: usize = 8;
/// So many are looked up in any case.
const FEW: usize = 1024;

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

    /// An object on a node, with the labels `app`, which is the node's name, and `tier`.
    fn object(key: &str, node: &str) -> CacheEntry {
        let labels = [("app", node), ("tier", "web")].into_iter().collect();
        let fields = [node].into_iter().collect();
        let decoded = Decoded { bytes: "{}".into(), fields, labels, ..Decoded::default() };
        CacheEntry::Object(Arc::new(Object::new(key.into(), 1, 1, true, decoded)))
    }

    fn tree(entries: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::new(&[0], 3);
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
            assert_eq!(keys(s.range(prefix, start).filter_map(CacheEntry::object)), expect, "{prefix} {start:?}");
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
    fn the_indexes_follow_changes_and_old_snapshots_do_not_move() {
        let mut t = tree(&[("/r/a/x", "n1"), ("/r/a/y", "n2"), ("/r/b/x", "n1")]);
        let before = Snapshot::new(1, Arc::new(t.clone()));
        t.set(&"/r/a/x".into(), Some(object("/r/a/x", "n2")));
        t.set(&"/r/b/x".into(), None);
        let after = Snapshot::new(2, Arc::new(t));
        for term in [|n: &str| Term::Field(0, n.into()), |n: &str| Term::Label("app".into(), n.into())] {
            let of =
                |s: &Snapshot, node: &str| keys(s.by_terms(&[term(node)], "", None).unwrap().into_iter()).join(" ");
            assert_eq!([of(&before, "n1"), of(&before, "n2")], ["/r/a/x /r/b/x", "/r/a/y"]);
            assert_eq!([of(&after, "n1"), of(&after, "n2"), of(&after, "n3")], ["", "/r/a/x /r/a/y", ""]);
            let from = |prefix, start| keys(before.by_terms(&[term("n1")], prefix, start).unwrap().into_iter());
            assert_eq!(from("", Some("/r/b")), ["/r/b/x"]);
            assert_eq!(from("/r/a/", None), ["/r/a/x"]);
            assert_eq!(from("/r/a/", Some("/r/a/x\0")), [""; 0]);
        }
        assert!(after.by_terms(&[Term::Field(1, "n1".into())], "", None).is_none());
        assert_eq!((before.tree.bytes(), after.tree.bytes()), (6, 4));
    }

    #[test]
    fn the_term_that_the_fewest_have_answers() {
        let s = Snapshot::new(1, Arc::new(tree(&[("/r/a", "n1"), ("/r/b", "n2"), ("/r/c", "n1")])));
        let label = |key: &str, value: &str| Term::Label(key.into(), value.into());
        let terms = [label("tier", "web"), label("app", "n2"), Term::Field(9, "".into())];
        assert_eq!(keys(s.by_terms(&terms, "", None).unwrap().into_iter()), ["/r/b"]);
        assert!(s.by_terms(&[], "", None).is_none());
    }

    #[test]
    fn labels_are_indexed_while_there_are_many_objects() {
        let mut t = tree(&[("/r/a", "n1"), ("/r/b", "n2")]);
        let indexed = |t: &Tree| t.by_label.is_some();
        assert!(!indexed(&t));
        t.set(&"/r/c".into(), Some(object("/r/c", "n1")));
        assert!(indexed(&t));
        t.set(&"/r/c".into(), None);
        assert!(indexed(&t), "not at once, for it may come back");
        for key in ["/r/a", "/r/b"] {
            t.set(&key.into(), None);
        }
        let mut large = Tree::new(&[], 8);
        (0..8).for_each(|i| drop(large.set(&format!("/r/{i}").into(), Some(object(&format!("/r/{i}"), "n")))));
        assert!(indexed(&large));
        (1..8).for_each(|i| drop(large.set(&format!("/r/{i}").into(), None)));
        assert!(!indexed(&large));
    }

    #[test]
    fn what_is_broken_is_met_by_a_walk_alone() {
        let mut t = tree(&[("/r/a", "n1"), ("/r/b", "n2"), ("/r/c", "n1")]);
        let error = crate::cache::DecodeError("bad".into());
        let broken =
            crate::cache::Broken { key: "/r/d".into(), revision: 1, create_revision: 1, error, encrypted: false };
        t.set(&"/r/d".into(), Some(CacheEntry::Broken(Arc::new(broken))));
        let node = [Term::Field(0, "n1".into())];
        assert!(Snapshot::new(1, Arc::new(t.clone())).by_terms(&node, "", None).is_none());
        t.set(&"/r/d".into(), None);
        assert_eq!(Snapshot::new(1, Arc::new(t)).by_terms(&node, "", None).map(|found| found.len()), Some(2));
    }

    #[test]
    fn a_loaded_tree_is_indexed_like_one_that_grew() {
        let entries: Vec<_> = (0..50).map(|i| (format!("/r/{i:02}"), format!("n{}", i % 7))).collect();
        let mut loaded = Tree::new(&[0], 3);
        let mut grown = Tree::new(&[0], 3);
        for (key, node) in &entries {
            loaded.load(object(key, node));
            grown.set(&key.as_str().into(), Some(object(key, node)));
        }
        loaded.index();
        let (loaded, grown) = (Snapshot::new(1, Arc::new(loaded)), Snapshot::new(1, Arc::new(grown)));
        for term in
            [Term::Field(0, "n3".into()), Term::Label("app".into(), "n5".into()), Term::Label("x".into(), "y".into())]
        {
            let of = |s: &Snapshot| {
                let found = s.by_terms(std::slice::from_ref(&term), "", None).unwrap();
                found.iter().map(|o| o.key().to_string()).collect::<Vec<_>>()
            };
            assert_eq!(of(&loaded), of(&grown), "{term:?}");
        }
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
