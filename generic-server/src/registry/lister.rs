//! One stored resource, to read: its watch cache, its keys, and its objects in all versions. Whoever only reads needs no more
//! than this, and has it before anything can be written.

use std::sync::{Arc, OnceLock};

use machinery::{
    Str, Value,
    codec::json,
    meta::{
        gvk::{GroupKind, GroupResource},
        status::Status,
    },
};
use storage::{
    Error as StoreError, Store,
    cache::{Cache, CacheEntry, CacheError, CacheOptions, Object, ReadAt},
};

use super::{Backing, RegistrySettings, StoredForm, versions::Doors};
use crate::resource::Resource;

/// One stored resource, to read. All versions of a resource share one lister; it speaks the storage version.
pub struct Lister {
    /// The row of the storage version.
    pub row: Arc<Resource>,
    pub(super) store: Arc<dyn Store>,
    /// Started when it is first needed: thousands of resources may have no objects.
    cache: OnceLock<Arc<Cache>>,
    pub(super) form: Arc<StoredForm>,
    pub(super) settings: RegistrySettings,
    pub(super) prefix: Str,
    /// The rows of all versions, if there are several.
    versions: Vec<Resource>,
    pub(super) doors: Doors,
}

impl Lister {
    /// A lister with its cache started, of a resource in one version.
    pub fn start(row: Resource, backing: &Backing) -> Arc<Self> {
        Self::start_versions(row, Vec::new(), Vec::new(), backing)
    }

    /// A lister with its cache started, of a resource that is served in the versions of these rows. `others` are rows of
    /// versions that are not served: objects may have been stored in them.
    pub fn start_versions(
        row: Resource,
        versions: Vec<Resource>,
        others: Vec<Resource>,
        backing: &Backing,
    ) -> Arc<Self> {
        let known: Vec<Resource> = versions.iter().chain(&others).cloned().collect();
        let form = StoredForm::new(&row, &known);
        let lister = Self::with_form(row, form, versions, backing);
        lister.cache();
        lister
    }

    /// A lister of custom resources, whose cache starts when it is first asked for something. `row` is that of the version
    /// which objects are stored in, `versions` are the rows of all versions. Objects written up to the revision `settled`
    /// may be of an older schema, and are brought into the present one of their version when they are read.
    pub fn custom(row: Resource, versions: &[Resource], settled: u64, backing: &Backing) -> Arc<Self> {
        let form = StoredForm::custom(&row, versions, settled);
        Self::with_form(row, form, versions.to_vec(), backing)
    }

    fn with_form(row: Resource, form: StoredForm, versions: Vec<Resource>, backing: &Backing) -> Arc<Self> {
        Arc::new(Lister {
            prefix: format!("{}/{}/", backing.root, row.storage_path).into(),
            store: backing.store_of(&row),
            row: Arc::new(row),
            cache: OnceLock::new(),
            form: Arc::new(form),
            settings: backing.settings.clone(),
            versions: if versions.len() > 1 { versions } else { Vec::new() },
            doors: Doors::default(),
        })
    }

    /// The watch cache, for reads.
    pub fn cache(&self) -> &Arc<Cache> {
        self.cache.get_or_init(|| {
            let indexed = self.indexed_fields();
            let options = CacheOptions { namespaced: self.row.namespaced, indexed, ..CacheOptions::default() };
            Cache::start(self.store.clone(), self.prefix.to_string(), self.form.clone(), options)
        })
    }

    /// The watch cache, if it has been needed.
    pub fn running_cache(&self) -> Option<&Arc<Cache>> {
        self.cache.get()
    }

    /// The selectable fields that the cache has an index by: those that every node's agent selects by.
    pub fn indexed_fields(&self) -> Vec<usize> {
        let fields = &self.row.selectable_fields;
        (0..fields.len()).filter(|i| fields[*i].name == "spec.nodeName").collect()
    }

    /// Waits until the cache knows the objects, for the patience of a read.
    pub async fn ready(&self) -> Result<(), Status> {
        if self.cache().is_live() {
            return Ok(());
        }
        let read = self.cache().read(ReadAt::Any).await;
        read.map(|_| ()).map_err(|e| read_error(&e))
    }

    /// Ends the cache and its watches: the resource is gone, or another registry takes its place.
    pub fn stop(&self) {
        if let Some(cache) = self.cache.get() {
            cache.stop();
        }
    }

    /// The rows of all versions; empty if there is just one.
    pub fn versions(&self) -> &[Resource] {
        &self.versions
    }

    /// How long the common start of all objects' bytes is (kind and apiVersion): a list leaves it out.
    pub fn head_len(&self) -> usize {
        self.form.head().len()
    }

    /// What the keys of all objects start with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// What the keys of a namespace's objects start with.
    pub fn namespace_prefix(&self, namespace: &str) -> String {
        if namespace.is_empty() || !self.row.namespaced {
            self.prefix.to_string()
        } else {
            format!("{}{namespace}/", self.prefix)
        }
    }

    /// The key of an object.
    pub fn key(&self, namespace: &str, name: &str) -> String {
        self.namespace_prefix(namespace) + name
    }

    /// The resource's name in errors.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.row.group.clone(), self.row.plural.clone())
    }

    pub(super) fn group_kind(&self) -> GroupKind {
        GroupKind::new(self.row.group.clone(), self.row.kind.clone())
    }

    pub(super) fn not_found(&self, name: &str) -> Status {
        Status::not_found(&self.group_resource(), name)
    }

    /// Reads what is stored at a key.
    pub(super) async fn entry(&self, key: &str, at: ReadAt) -> Result<Option<CacheEntry>, Status> {
        let read = self.cache().get(key, at).await;
        read.map_err(|e| read_error(&e))
    }

    /// Reads one object.
    pub async fn get(&self, namespace: &str, name: &str, at: ReadAt) -> Result<Arc<Object>, Status> {
        match self.entry(&self.key(namespace, name), at).await? {
            None => Err(self.not_found(name)),
            Some(entry) => entry.object().cloned().ok_or_else(|| self.unreadable(&entry)),
        }
    }

    /// Whether there is an object, and which: as the cache has it, or, if the cache may just not know it yet, as the store
    /// has it. For what must exist, and may have changed.
    pub async fn find(&self, namespace: &str, name: &str) -> Result<Option<Arc<Object>>, Status> {
        let key = self.key(namespace, name);
        let entry = match self.cache().peek(&key) {
            (None, false) => self.entry(&key, ReadAt::Latest).await?,
            (entry, _) => entry,
        };
        Ok(entry.and_then(|entry| entry.object().cloned()))
    }

    /// The latest state of an object, as a tree in the storage version.
    pub async fn get_value(&self, namespace: &str, name: &str) -> Result<Value, Status> {
        let object = self.get(namespace, name, ReadAt::Latest).await?;
        self.decode(object.bytes())
    }

    /// How many objects there are; asks the store where no cache knows.
    pub async fn count(&self) -> Result<usize, StoreError> {
        match self.cache.get().filter(|cache| cache.is_live()) {
            Some(cache) => Ok(cache.latest().len()),
            None => self.store.count(&self.prefix).await,
        }
    }

    /// What is stored, as far as a cache that runs knows.
    pub(crate) fn stored(&self) -> flowcontrol::Stored {
        let (objects, bytes) = self.cache.get().map_or((0, 0), |cache| cache.volume());
        flowcontrol::Stored { objects, bytes }
    }

    /// How many watchers a change of this object would reach.
    pub(crate) fn watchers_of(&self, namespace: &str, name: &str) -> u64 {
        self.cache.get().map_or(0, |cache| cache.watchers_of(&self.key(namespace, name)))
    }

    /// What flags say of stored resources.
    pub fn settings(&self) -> &RegistrySettings {
        &self.settings
    }

    /// Parses served bytes.
    pub fn decode(&self, bytes: &[u8]) -> Result<Value, Status> {
        json::decode(bytes).map_err(|e| Status::internal_error(format!("stored {}: {e}", self.row.kind)))
    }
}

/// What a failed read of the cache means for the client.
pub fn read_error(error: &CacheError) -> Status {
    match error {
        CacheError::TooLarge { asked, current } => Status::too_large_resource_version(*asked, *current, 1),
        CacheError::Expired { asked, oldest } => Status::too_old_resource_version(*asked, *oldest),
        CacheError::NotReady => Status::too_many_requests(error.to_string(), 1),
        CacheError::Stopped => Status::service_unavailable(error.to_string()),
        CacheError::Store(error) => match error {
            storage::Error::Compacted { .. } => Status::compacted_list(),
            storage::Error::Timeout(_) | storage::Error::Unavailable(_) => Status::timeout(error, 1),
            other => Status::internal_error(other),
        },
    }
}
