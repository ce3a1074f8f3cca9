//! The server's table as definitions come and go.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use arc_swap::ArcSwap;
use generic_server::server::{Entry, ResourceTable};
use machinery::Str;

use super::Served;

/// The rows of the definitions of a group, by the definitions' names.
type Group = BTreeMap<Str, Vec<Arc<Entry>>>;

/// Puts rows into the table and takes them out, a group at a time.
pub(crate) struct Tables {
    table: Arc<ArcSwap<ResourceTable>>,
    groups: Mutex<HashMap<Str, Group>>,
}

impl Tables {
    pub(crate) fn new(table: Arc<ArcSwap<ResourceTable>>) -> Self {
        Tables { table, groups: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Str, Group>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves the rows of the definition `name`, in place of those it had.
    pub(crate) fn set(&self, name: &str, served: &Served) {
        let mut groups = self.lock();
        groups.entry(served.group.clone()).or_default().insert(name.into(), served.entries.clone());
        self.publish(&groups, &served.group);
    }

    /// Serves the definition's rows no more.
    pub(crate) fn remove(&self, name: &str, served: &Served) {
        let mut groups = self.lock();
        if let Some(group) = groups.get_mut(&served.group) {
            group.remove(name);
            if group.is_empty() {
                groups.remove(&served.group);
            }
        }
        self.publish(&groups, &served.group);
    }

    fn publish(&self, groups: &HashMap<Str, Group>, group: &Str) {
        let entries = groups.get(group).into_iter().flat_map(|g| g.values().flatten().cloned()).collect();
        let table = self.table.load().with_group(group, entries);
        self.table.store(Arc::new(table));
    }
}
