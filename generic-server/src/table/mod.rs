//! The rows of one server, by group. A table is immutable; one with another group differs from it in that group alone, so
//! that thousands of groups can come and go one by one.

mod cache_metrics;
mod install;
mod metrics;
mod store_metrics;

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use imbl::{OrdMap, ordmap::DiffItem};
use machinery::Str;

use crate::{
    discovery::{self, Group},
    endpoint::{AfterWrite, Endpoint},
    openapi::RowParts,
    registry::Registry,
    resource::Resource,
};

pub use cache_metrics::CacheMetrics;
pub use install::{Endpoints, entries};
pub use metrics::StorageMetrics;
pub use store_metrics::StoreMetrics;

/// A row, and who serves it.
pub struct TableEntry {
    /// The row.
    pub row: Resource,
    /// Where its objects are; none for a virtual resource.
    pub registry: Option<Arc<Registry>>,
    /// Who serves a virtual resource (the key is empty), and subresources with rules of their own.
    pub endpoints: HashMap<Str, Arc<dyn Endpoint>>,
    /// What is done after a write, before its answer goes out.
    pub after_write: Option<Arc<dyn AfterWrite>>,
    /// What OpenAPI says of the row.
    pub openapi: RowParts,
}

/// The rows of one server: group, version, plural name.
#[derive(Clone, Default)]
pub struct ResourceTable {
    groups: OrdMap<Str, Arc<GroupRows>>,
}

/// The rows of one group.
pub struct GroupRows {
    /// In the order given, which listings keep.
    entries: Vec<Arc<TableEntry>>,
    /// By version and plural name.
    sorted: Vec<Arc<TableEntry>>,
    discovery: OnceLock<Vec<Group>>,
}

/// Whether they are the very same rows: a table with another group keeps all others as they are.
impl PartialEq for GroupRows {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl GroupRows {
    /// Rows that are all of one group.
    fn new(entries: Vec<Arc<TableEntry>>) -> Self {
        let mut sorted = entries.clone();
        sorted.sort_by(|a, b| key(a).cmp(&key(b)));
        GroupRows { entries, sorted, discovery: OnceLock::new() }
    }

    fn get(&self, version: &str, plural: &str) -> Option<&Arc<TableEntry>> {
        let found = self.sorted.binary_search_by(|entry| key(entry).cmp(&(version, plural)));
        found.ok().map(|at| &self.sorted[at])
    }

    /// The rows, in the order given.
    pub fn entries(&self) -> &[Arc<TableEntry>] {
        &self.entries
    }

    /// The names of the versions that have rows, each once.
    pub fn versions(&self) -> impl Iterator<Item = &Str> {
        let first =
            |i: usize| self.sorted[..i].last().is_none_or(|before| before.row.version != self.sorted[i].row.version);
        (0..self.sorted.len()).filter(move |i| first(*i)).map(|i| &self.sorted[i].row.version)
    }

    /// Whether the group has rows of built-in types.
    pub fn is_built_in(&self) -> bool {
        self.entries.iter().any(|e| e.row.built_in)
    }

    /// What discovery says of the group.
    pub fn discovery(&self) -> &[Group] {
        self.discovery.get_or_init(|| discovery::groups_of(self.entries.iter().map(|e| &e.row)))
    }
}

fn key(entry: &TableEntry) -> (&str, &str) {
    (&entry.row.version, &entry.row.plural)
}

impl ResourceTable {
    /// A table of these rows; their order within a group is kept for listings.
    pub fn new(entries: impl IntoIterator<Item = Arc<TableEntry>>) -> Self {
        let mut groups: Vec<(Str, Vec<Arc<TableEntry>>)> = Vec::new();
        for entry in entries {
            match groups.iter_mut().find(|(group, _)| *group == entry.row.group) {
                Some((_, rows)) => rows.push(entry),
                None => groups.push((entry.row.group.clone(), vec![entry])),
            }
        }
        let groups = groups.into_iter().map(|(group, rows)| (group, Arc::new(GroupRows::new(rows))));
        ResourceTable { groups: groups.collect() }
    }

    /// This table with just these rows in a group.
    #[must_use]
    pub fn with_group(&self, group: &Str, entries: Vec<Arc<TableEntry>>) -> Self {
        let groups = if entries.is_empty() {
            self.groups.without(group)
        } else {
            self.groups.update(group.clone(), Arc::new(GroupRows::new(entries)))
        };
        ResourceTable { groups }
    }

    /// The groups whose rows are others than in a table that this one was made from. Quick, however many groups there are.
    pub fn changed_groups(&self, before: &ResourceTable) -> Vec<Str> {
        let name = |item: DiffItem<'_, '_, Str, Arc<GroupRows>>| match item {
            DiffItem::Add(name, _) | DiffItem::Remove(name, _) | DiffItem::Update { new: (name, _), .. } => {
                name.clone()
            }
        };
        before.groups.diff(&self.groups).map(name).collect()
    }

    /// The row of a resource.
    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<TableEntry>> {
        self.group(group)?.get(version, plural)
    }

    /// The rows of a group; `None` if it has none.
    pub fn group(&self, group: &str) -> Option<&Arc<GroupRows>> {
        self.groups.get(group)
    }

    /// The groups, by name.
    pub fn groups(&self) -> impl Iterator<Item = &Arc<GroupRows>> {
        self.groups.values()
    }

    /// The names of the groups.
    pub fn group_names(&self) -> impl Iterator<Item = &Str> {
        self.groups.keys()
    }

    /// Whether any row is of this group version.
    pub fn has_version(&self, group: &str, version: &str) -> bool {
        self.group(group).is_some_and(|rows| rows.entries.iter().any(|e| e.row.version == version))
    }

    /// Whether any row is of this group.
    pub fn has_group(&self, group: &str) -> bool {
        self.groups.contains_key(group)
    }

    /// All rows: groups by name, rows of a group in the order given.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<TableEntry>> {
        self.groups.values().flat_map(|rows| rows.entries.iter())
    }
}
