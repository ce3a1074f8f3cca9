//! The stored kinds of all servers in this process: built-in ones, and custom ones as they come and go.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use arc_swap::ArcSwap;
use generic_server::{
    registry::Lister,
    table::{ResourceTable, TableEntry},
};
use machinery::{
    Str,
    meta::{GrRef, GroupKind, GroupResource},
    request::{Verb, Verbs},
};

use crate::client::segment;

/// One stored resource, whatever versions it is served in.
pub(crate) struct StoredKind {
    /// Its group.
    pub(crate) group: Str,
    /// The version that requests use: the stored one if it is served.
    pub(crate) version: Str,
    /// All versions that it is served in.
    pub(crate) versions: Vec<Str>,
    /// The plural name.
    pub(crate) plural: Str,
    /// The kind.
    pub(crate) kind: Str,
    /// Whether its objects are in namespaces.
    pub(crate) namespaced: bool,
    /// What may be done with it.
    pub(crate) verbs: Verbs,
    /// Whether its objects have a scale.
    pub(crate) has_scale: bool,
    /// Where its objects are.
    pub(crate) lister: Arc<Lister>,
}

impl StoredKind {
    /// `v1` or `apps/v1`.
    pub(crate) fn api_version(&self) -> Str {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version).into() }
    }

    /// Its resource.
    pub(crate) fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group.clone(), self.plural.clone())
    }

    /// The path of a collection; an empty namespace: of all of them.
    pub(crate) fn collection(&self, namespace: &str) -> String {
        collection(&self.group, &self.version, &self.plural, namespace)
    }

    /// The path of an object.
    pub(crate) fn path(&self, namespace: &str, name: &str) -> String {
        format!("{}/{}", self.collection(namespace), segment(name))
    }
}

/// The path of a collection.
pub(crate) fn collection(group: &str, version: &str, plural: &str, namespace: &str) -> String {
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    if namespace.is_empty() {
        format!("{root}/{plural}")
    } else {
        format!("{root}/namespaces/{}/{plural}", segment(namespace))
    }
}

/// The kinds at one time.
#[derive(Default)]
pub(crate) struct List {
    kinds: Vec<Arc<StoredKind>>,
    by_name: HashMap<GroupKind, Arc<StoredKind>>,
    by_plural: HashMap<GroupResource, Arc<StoredKind>>,
}

impl List {
    fn of<'a>(entries: impl Iterator<Item = &'a Arc<TableEntry>>) -> Self {
        let mut places: Vec<(&Arc<Lister>, Vec<&TableEntry>)> = Vec::new();
        let mut at: HashMap<(usize, &str), usize> = HashMap::new();
        for entry in entries {
            let Some(registry) = entry.registry.as_ref().filter(|_| entry.row.is_stored()) else { continue };
            let lister = registry.lister();
            let place = *at.entry((Arc::as_ptr(lister) as usize, &entry.row.group)).or_insert_with(|| {
                places.push((lister, Vec::new()));
                places.len() - 1
            });
            places[place].1.push(entry);
        }
        let mut list = List::default();
        for (lister, rows) in places {
            let chosen = rows.iter().find(|entry| entry.row.is_storage_version()).unwrap_or(&rows[0]);
            let row = &chosen.row;
            let kind = Arc::new(StoredKind {
                group: row.group.clone(),
                version: row.version.clone(),
                versions: rows.iter().map(|entry| entry.row.version.clone()).collect(),
                plural: row.plural.clone(),
                kind: row.kind.clone(),
                namespaced: row.namespaced,
                verbs: row.verbs,
                has_scale: row.subresource("scale").is_some(),
                lister: lister.clone(),
            });
            list.by_name.insert(GroupKind::new(row.group.clone(), row.kind.clone()), kind.clone());
            list.by_plural.insert(kind.group_resource(), kind.clone());
            list.kinds.push(kind);
        }
        list
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[Arc<StoredKind>] {
        &self.kinds
    }

    /// The kind that owner references mean by these; it must be served in that version.
    pub(crate) fn find(&self, api_version: &str, kind: &str) -> Option<&Arc<StoredKind>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let found = self.by_name.get(&GroupKind::new(group, kind))?;
        found.versions.iter().any(|served| served == version).then_some(found)
    }

    /// The kind of a resource.
    pub(crate) fn resource(&self, of: GrRef<'_>) -> Option<&Arc<StoredKind>> {
        self.by_plural.get(&of.to_owned())
    }

    /// Those whose objects in namespaces can be deleted, each place of objects once.
    pub(crate) fn in_namespaces(&self) -> Vec<Arc<StoredKind>> {
        let mut seen = std::collections::HashSet::new();
        let deletable = |kind: &&Arc<StoredKind>| kind.namespaced && kind.verbs.contains(Verb::Delete);
        let first = |kind: &&Arc<StoredKind>| seen.insert(kind.lister.prefix().to_owned());
        self.kinds.iter().filter(deletable).filter(first).cloned().collect()
    }
}

/// The tables that kinds are read from, and what was read last.
pub(crate) struct Kinds {
    tables: Vec<Arc<ArcSwap<ResourceTable>>>,
    last: Mutex<(Vec<Arc<ResourceTable>>, Arc<List>)>,
}

impl Kinds {
    pub(crate) fn new(tables: Vec<Arc<ArcSwap<ResourceTable>>>) -> Self {
        Kinds { tables, last: Mutex::default() }
    }

    /// The kinds now. Costs nothing while they stay the same.
    pub(crate) fn list(&self) -> Arc<List> {
        let tables: Vec<_> = self.tables.iter().map(|table| table.load_full()).collect();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let same = last.0.len() == tables.len() && last.0.iter().zip(&tables).all(|(a, b)| Arc::ptr_eq(a, b));
        if !same {
            let list = List::of(tables.iter().flat_map(|table| table.entries()));
            *last = (tables, Arc::new(list));
        }
        last.1.clone()
    }

    /// A version that a resource is served in, stored or not.
    pub(crate) fn version_of(&self, group: &str, plural: &str) -> Option<Str> {
        let is_it = |row: &generic_server::resource::Resource| row.group == group && row.plural == plural;
        self.tables.iter().find_map(|table| {
            let table = table.load();
            let mut entries = table.entries();
            entries.find(|entry| is_it(&entry.row)).map(|entry| entry.row.version.clone())
        })
    }

    /// Whether any kind is of this group version: it is served here, not by another server.
    pub(crate) fn has_version(&self, group: &str, version: &str) -> bool {
        self.tables.iter().any(|table| table.load().has_version(group, version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_api() {
        assert_eq!(collection("", "v1", "pods", "a"), "/api/v1/namespaces/a/pods");
        assert_eq!(collection("apps", "v1", "deployments", ""), "/apis/apps/v1/deployments");
        assert_eq!(collection("example.com", "v1", "ws", "x y"), "/apis/example.com/v1/namespaces/x%20y/ws");
    }
}
