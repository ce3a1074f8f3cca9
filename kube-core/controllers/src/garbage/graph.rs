//! Who depends on whom: a pure state machine. It is told of objects and says which are to be looked at. It holds those
//! objects alone that have owners or wait for dependents, so most objects cost it nothing.

use std::collections::{BTreeSet, HashMap, HashSet};

use machinery::Str;

use super::facts::{Facts, Reference};

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place<K> {
    pub(super) kind: K,
    pub(super) namespace: Str,
    pub(super) name: Str,
}

/// An object that is held.
#[derive(Clone, Debug)]
pub(super) struct Node<K> {
    pub(super) place: Place<K>,
    pub(super) facts: Facts,
}

/// Which objects are to be looked at, by uid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Whether it is to be deleted, or waits no longer.
    Delete(Str),
    /// Its dependents are to forget it.
    Orphan(Str),
}

/// The graph.
pub(super) struct Graph<K> {
    nodes: HashMap<Str, Node<K>>,
    /// Dependents by the uid of an owner, whether it is known or not.
    dependents: HashMap<Str, Dependents>,
}

/// The dependents of one owner.
#[derive(Default)]
struct Dependents {
    uids: BTreeSet<Str>,
    /// How many of them its deletion waits for.
    blocking: usize,
}

impl<K> Default for Graph<K> {
    fn default() -> Self {
        Graph { nodes: HashMap::new(), dependents: HashMap::new() }
    }
}

impl<K: Clone + PartialEq> Graph<K> {
    /// What is held of an object.
    pub(super) fn node(&self, uid: &str) -> Option<&Node<K>> {
        self.nodes.get(uid)
    }

    /// How many objects are held.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The dependents of an object.
    pub(super) fn dependents<'a>(&'a self, uid: &str) -> impl Iterator<Item = (&'a Str, &'a Node<K>)> + use<'a, K> {
        let uids = self.dependents.get(uid).map(|dependents| dependents.uids.iter()).into_iter().flatten();
        uids.filter_map(|uid| self.nodes.get_key_value(uid))
    }

    /// Those that its deletion waits for.
    pub(super) fn blocking<'a>(&'a self, uid: &'a str) -> impl Iterator<Item = (&'a Str, &'a Node<K>)> + use<'a, K> {
        self.dependents(uid).filter(move |(_, node)| node.facts.owners.iter().any(|o| o.uid == uid && o.blocks))
    }

    /// An object is there, or has changed. `is_known` says whether an owner certainly exists; others are looked for.
    pub(super) fn observe(
        &mut self,
        place: Place<K>,
        facts: Facts,
        is_known: impl Fn(&Reference, &Place<K>) -> bool,
        work: &mut Vec<Work>,
    ) {
        let uid = facts.uid.clone();
        let before = self.nodes.remove(&uid);
        let (old_orphans, old_waits) = before.as_ref().map_or((false, false), |n| (n.facts.orphans(), n.facts.waits()));
        let old_owners = before.map(|node| node.facts.owners).unwrap_or_default();
        self.change_owners(&uid, &old_owners, &facts.owners, work);
        let old_owners: HashSet<&Reference> = old_owners.iter().collect();
        let waited_for = |owner: &Reference| self.nodes.get(&owner.uid).is_some_and(|node| node.facts.waits());
        let mut new_owners = facts.owners.iter().filter(|owner| !old_owners.contains(owner));
        if new_owners.any(|owner| !is_known(owner, &place) || waited_for(owner)) {
            work.push(Work::Delete(uid.clone()));
        }
        let (orphans, waits) = (facts.orphans(), facts.waits());
        if !facts.owners.is_empty() || orphans || waits {
            self.nodes.insert(uid.clone(), Node { place, facts });
        }
        if orphans {
            if !old_orphans {
                work.push(Work::Orphan(uid));
            }
        } else if waits && !old_waits {
            work.extend(self.dependents(&uid).map(|(dependent, _)| Work::Delete(dependent.clone())));
            work.push(Work::Delete(uid));
        }
    }

    /// Enters an object as a dependent of its owners, and says which of them nothing blocks any more.
    fn change_owners(&mut self, uid: &Str, old: &[Reference], new: &[Reference], work: &mut Vec<Work>) {
        if old == new {
            return;
        }
        let (old, new) = (blocks_by_owner(old), blocks_by_owner(new));
        for (owner, blocked) in &old {
            let blocks = new.get(owner);
            let Some(dependents) = self.dependents.get_mut(*owner) else { continue };
            if blocks.is_none() {
                dependents.uids.remove(uid);
            }
            let unblocks = *blocked && blocks != Some(&true);
            dependents.blocking -= usize::from(unblocks);
            let (is_free, is_empty) = (dependents.blocking == 0, dependents.uids.is_empty());
            if is_empty {
                self.dependents.remove(*owner);
            }
            // One that others block still is looked at when the last of them is gone.
            if unblocks && is_free && self.nodes.get(*owner).is_some_and(|owner| owner.facts.waits()) {
                work.push(Work::Delete((*owner).clone()));
            }
        }
        for (owner, blocks) in new {
            let dependents = self.dependents.entry(owner.clone()).or_default();
            dependents.uids.insert(uid.clone());
            dependents.blocking += usize::from(blocks && old.get(owner) != Some(&true));
        }
    }

    /// An object is gone, whether it was held or not.
    pub(super) fn remove(&mut self, uid: &str, work: &mut Vec<Work>) {
        if let Some((uid, node)) = self.nodes.remove_entry(uid) {
            self.change_owners(&uid, &node.facts.owners, &[], work);
        }
        work.extend(self.dependents(uid).map(|(dependent, _)| Work::Delete(dependent.clone())));
    }

    /// A kind is no longer served: nothing is known of its objects.
    pub(super) fn forget_kind(&mut self, is_kind: impl Fn(&K) -> bool, work: &mut Vec<Work>) {
        let gone: Vec<Str> =
            self.nodes.iter().filter(|(_, node)| is_kind(&node.place.kind)).map(|(uid, _)| uid.clone()).collect();
        for uid in gone {
            if let Some(node) = self.nodes.remove(&uid) {
                self.change_owners(&uid, &node.facts.owners, &[], work);
            }
        }
    }

    /// Says which objects have owners that are not known: after changes were missed.
    pub(super) fn recheck(&self, is_known: impl Fn(&Reference, &Place<K>) -> bool, work: &mut Vec<Work>) {
        let unsure = |node: &Node<K>| node.facts.owners.iter().any(|owner| !is_known(owner, &node.place));
        work.extend(self.nodes.iter().filter(|(_, node)| unsure(node)).map(|(uid, _)| Work::Delete(uid.clone())));
    }
}

/// Owners by uid, and whether an object with these references blocks their deletion.
fn blocks_by_owner(references: &[Reference]) -> HashMap<&Str, bool> {
    let mut owners = HashMap::new();
    for reference in references {
        *owners.entry(&reference.uid).or_default() |= reference.blocks;
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A graph of kinds that are words, and what it has said.
    #[derive(Default)]
    struct Told {
        graph: Graph<&'static str>,
        work: Vec<Work>,
    }

    fn owner(uid: &'static str, blocks: bool) -> Reference {
        Reference { uid: uid.into(), name: uid.into(), kind: "Map".into(), api_version: "v1".into(), blocks }
    }

    impl Told {
        fn observe(&mut self, uid: &'static str, owners: &[Reference], finalizer: &str, known: bool) -> String {
            let facts = Facts {
                uid: uid.into(),
                owners: owners.to_vec(),
                deleting: !finalizer.is_empty(),
                orphan: finalizer == "orphan",
                foreground: finalizer == "foreground",
            };
            let place = Place { kind: "maps", namespace: "ns".into(), name: uid.into() };
            self.graph.observe(place, facts, |_, _| known, &mut self.work);
            self.said()
        }

        fn remove(&mut self, uid: &str) -> String {
            self.graph.remove(uid, &mut self.work);
            self.said()
        }

        fn said(&mut self) -> String {
            let word = |work| match work {
                Work::Delete(uid) => format!("delete {uid}"),
                Work::Orphan(uid) => format!("orphan {uid}"),
            };
            self.work.drain(..).map(word).collect::<Vec<_>>().join(", ")
        }
    }

    #[test]
    fn what_has_no_owners_is_not_held() {
        let mut t = Told::default();
        assert_eq!(t.observe("a", &[], "", true), "");
        assert_eq!(t.observe("b", &[], "other", true), "");
        assert_eq!((t.graph.len(), t.remove("a").as_str()), (0, ""));
    }

    #[test]
    fn dependents_are_looked_at_when_an_owner_goes_or_is_not_there() {
        let mut t = Told::default();
        assert_eq!(t.observe("d1", &[owner("o", false)], "", true), "");
        assert_eq!(t.observe("d2", &[owner("o", false), owner("p", false)], "", true), "");
        assert_eq!(t.observe("d3", &[owner("gone", false)], "", false), "delete d3");
        assert_eq!(t.observe("d3", &[owner("gone", false)], "", false), "", "once");
        assert_eq!(t.remove("o"), "delete d1, delete d2");
        t.graph.recheck(|reference, _| reference.uid != "p", &mut t.work);
        assert_eq!(t.said(), "delete d2");
    }

    #[test]
    fn an_owner_waits_for_those_that_block_it() {
        let mut t = Told::default();
        t.observe("d1", &[owner("o", true)], "", true);
        t.observe("d2", &[owner("o", false)], "", true);
        assert_eq!(t.observe("o", &[], "foreground", true), "delete d1, delete d2, delete o");
        assert_eq!(t.observe("o", &[], "foreground", true), "");
        assert_eq!(t.graph.blocking("o").map(|(uid, _)| uid.as_str()).collect::<Vec<_>>(), ["d1"]);
        assert_eq!(t.observe("d3", &[owner("o", true)], "", true), "delete d3", "late, and not left behind");
        assert_eq!(t.observe("d3", &[owner("o", false)], "", true), "delete d3", "d1 blocks it still");
        assert_eq!(t.remove("d1"), "delete o");
        assert_eq!(t.graph.blocking("o").count(), 0);
        assert_eq!(t.observe("d2", &[], "", true), "", "it did not block");
        t.remove("d3");
        t.remove("o");
        assert_eq!((t.graph.len(), t.graph.dependents.len()), (0, 0));
    }

    #[test]
    fn orphaning_comes_before_waiting() {
        let mut t = Told::default();
        t.observe("d", &[owner("o", true)], "", true);
        assert_eq!(t.observe("o", &[], "orphan", true), "orphan o");
        assert_eq!(t.observe("o", &[], "orphan", true), "");
        assert_eq!(t.graph.dependents("o").map(|(uid, _)| uid.as_str()).collect::<Vec<_>>(), ["d"]);
    }

    #[test]
    fn objects_of_a_kind_that_is_gone_are_forgotten() {
        let mut t = Told::default();
        t.observe("d", &[owner("o", true)], "", true);
        t.graph.forget_kind(|kind| *kind == "maps", &mut t.work);
        assert_eq!((t.graph.len(), t.graph.dependents.len(), t.remove("o").as_str()), (0, 0, ""));
    }
}
