//! Waking up when what was left of a namespace is gone.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use machinery::Str;
use storage::cache::{Everything, Scope};
use tokio::task::JoinSet;

use crate::{kinds::StoredKind, workqueue::Queue};

/// One watch for each kind of which a namespace has objects that wait to go.
pub(super) struct Watchers {
    queue: Queue<Str>,
    running: Mutex<HashMap<Str, JoinSet<()>>>,
}

impl Watchers {
    pub(super) fn new(queue: Queue<Str>) -> Self {
        Watchers { queue, running: Mutex::default() }
    }

    /// Ends the watches of a namespace.
    pub(super) fn forget(&self, namespace: &str) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(namespace);
    }

    /// Has the namespace looked at again when nothing is left of one of these kinds.
    pub(super) fn watch(&self, namespace: &Str, kinds: &[Arc<StoredKind>]) {
        let mut watches = JoinSet::new();
        for kind in kinds {
            watches.spawn(wait(kind.clone(), namespace.clone(), self.queue.clone()));
        }
        self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(namespace.clone(), watches);
    }
}

async fn wait(kind: Arc<StoredKind>, namespace: Str, queue: Queue<Str>) {
    let cache = kind.lister.cache();
    let prefix = kind.lister.namespace_prefix(&namespace);
    let mut follower = cache.follow(Scope::Namespace(namespace.clone()), Arc::new(Everything));
    while follower.next().await.is_some() {
        if cache.latest().range(&prefix, None).next().is_none() {
            break;
        }
    }
    queue.add(namespace);
}
