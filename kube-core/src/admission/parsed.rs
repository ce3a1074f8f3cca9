//! Objects of the cache that plugins ask about again and again, read once for each of their revisions.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use generic_server::registry::Lister;
use machinery::{Value, meta::status::Status};
use storage::cache::{CacheEntry, Object, ReadAt, Snapshot};

/// What was read, by key, with the revision that was.
type Kept<T> = HashMap<Arc<str>, (u64, Arc<T>)>;

/// What plugins know of a kind's objects.
pub(super) struct Parsed<T> {
    lister: Arc<Lister>,
    read: fn(&Value) -> T,
    kept: Mutex<Kept<T>>,
}

impl<T> Parsed<T> {
    /// Reads the objects of a lister, in the storage version.
    pub(super) fn new(lister: Arc<Lister>, read: fn(&Value) -> T) -> Self {
        Parsed { lister, read, kept: Mutex::default() }
    }

    /// Everything in a namespace, by name, and whether that is certainly all: another server may have written since. Waits
    /// for a cache that is not filled yet.
    ///
    /// # Errors
    /// 503 and the like while the cache is not filled.
    pub(super) async fn known(&self, namespace: &str) -> Result<(Vec<Arc<T>>, bool), Status> {
        self.lister.ready().await?;
        let (snapshot, is_latest) = self.lister.cache().peek_all();
        Ok((self.all_of(namespace, &snapshot)?, is_latest))
    }

    /// Everything in a namespace that is known.
    ///
    /// # Errors
    /// 503 and the like while the cache is not filled.
    pub(super) async fn in_namespace(&self, namespace: &str) -> Result<Vec<Arc<T>>, Status> {
        Ok(self.known(namespace).await?.0)
    }

    /// One object, if it is there.
    ///
    /// # Errors
    /// 503 and the like while the cache is not filled, 500 if what is stored cannot be read.
    pub(super) async fn get(&self, namespace: &str, name: &str) -> Result<Option<Arc<T>>, Status> {
        match self.lister.find(namespace, name).await? {
            Some(object) => self.read(&object, &self.lister.cache().latest()).map(Some),
            None => Ok(None),
        }
    }

    /// The same as of now, whatever other servers have written in between.
    ///
    /// # Errors
    /// 503 and the like if the store cannot be asked.
    pub(super) async fn fresh(&self, namespace: &str) -> Result<Vec<Arc<T>>, Status> {
        let read = self.lister.cache().read(ReadAt::Latest).await;
        let snapshot = read.map_err(|error| Status::service_unavailable(error.to_string()))?;
        self.all_of(namespace, &snapshot)
    }

    fn all_of(&self, namespace: &str, snapshot: &Snapshot) -> Result<Vec<Arc<T>>, Status> {
        if snapshot.is_empty() {
            return Ok(Vec::new());
        }
        let entries = snapshot.range(&self.lister.namespace_prefix(namespace), None);
        entries.filter_map(CacheEntry::object).map(|object| self.read(object, snapshot)).collect()
    }

    fn read(&self, object: &Object, snapshot: &Snapshot) -> Result<Arc<T>, Status> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((revision, parsed)) = kept.get(object.key())
            && *revision == object.revision()
        {
            return Ok(parsed.clone());
        }
        let parsed = Arc::new((self.read)(&self.lister.decode(object.bytes())?));
        if kept.len() > 2 * snapshot.len() + 16 {
            kept.retain(|key, _| snapshot.get(key).is_some()); // what is gone is not asked for again
        }
        kept.insert(object.key().clone(), (object.revision(), parsed.clone()));
        Ok(parsed)
    }
}
