//! The server's table as definitions come and go.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use arc_swap::ArcSwap;
use generic_server::table::{ResourceTable, TableEntry};
use machinery::Str;

use super::Served;

/// The rows of the definitions of a group, by the definitions' names.
type Group = BTreeMap<Str, Vec<Arc<TableEntry>>>;

/// Puts rows into the table and takes them out, a group at a time.
pub(crate) struct Tables {
    table: Arc<ArcSwap<ResourceTable>>,
    groups: Mutex<Groups>,
}

#[derive(Default)]
struct Groups {
    all: HashMap<Str, Group>,
    /// The groups that are to be published later, while that is put off.
    held: Option<HashSet<Str>>,
}

impl Tables {
    pub(crate) fn new(table: Arc<ArcSwap<ResourceTable>>) -> Self {
        Tables { table, groups: Mutex::default() }
    }

    /// Puts off the publication of changes until [`Tables::release`]: there will be many.
    pub(crate) fn hold(&self) {
        self.lock().held.get_or_insert_default();
    }

    /// Publishes what was put off.
    pub(crate) fn release(&self) {
        let mut groups = self.lock();
        let mut table = ResourceTable::clone(&self.table.load());
        for group in groups.held.take().into_iter().flatten() {
            table = table.with_group(&group, groups.entries(&group, &table));
        }
        self.table.store(Arc::new(table));
    }

    fn lock(&self) -> MutexGuard<'_, Groups> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves the rows of the definition `name`, in place of those it had.
    pub(crate) fn set(&self, name: &str, served: &Served) {
        let mut groups = self.lock();
        groups.all.entry(served.group.clone()).or_default().insert(name.into(), served.entries.clone());
        self.publish(&mut groups, &served.group);
    }

    /// Serves the definition's rows no more.
    pub(crate) fn remove(&self, name: &str, served: &Served) {
        let mut groups = self.lock();
        if let Some(group) = groups.all.get_mut(&served.group) {
            group.remove(name);
            if group.is_empty() {
                groups.all.remove(&served.group);
            }
        }
        self.publish(&mut groups, &served.group);
    }

    fn publish(&self, groups: &mut Groups, group: &Str) {
        if let Some(held) = &mut groups.held {
            held.insert(group.clone());
            return;
        }
        let table = self.table.load();
        let table = table.with_group(group, groups.entries(group, &table));
        self.table.store(Arc::new(table));
    }
}

impl Groups {
    /// The rows of a group: those of built-in types, which are always there, and those of its definitions.
    fn entries(&self, group: &Str, table: &ResourceTable) -> Vec<Arc<TableEntry>> {
        let before = table.group(group).into_iter().flat_map(|rows| rows.entries());
        let fixed = before.filter(|entry| entry.row.built_in);
        let custom = self.all.get(group).into_iter().flat_map(|g| g.values().flatten());
        fixed.chain(custom).cloned().collect()
    }
}
