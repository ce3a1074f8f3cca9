//! The registry of one stored resource: reads from the watch cache, writes through the strategy into the store.

mod backing;
mod codec;
mod consult;
mod create;
mod delete;
pub mod field_manager;
mod guaranteed_update;
mod measured;
pub(crate) mod metadata;
mod own;
mod reserve;
mod rewrite;
mod unreadable;
mod update;
mod versions;

use std::sync::{Arc, OnceLock};

use audit::Recorder;
use bytes::Bytes;
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
    cache::{Cache, CacheError, Entry, Object, Options, ReadAt},
};

pub use backing::{Backing, Settings};
pub use codec::StoredForm;
pub use consult::{Consult, Judged};
pub use delete::Deleted;
pub use measured::register_storage_operations;
pub use metadata::wipe_system_fields;
pub use own::Place;
pub use reserve::{Reservation, Reserve};
pub use rewrite::Preconditions;
pub use update::{Change, Replace, ReplaceOrCreate};
pub use versions::VersionForm;

use crate::{
    admission::{Admission, Attributes, Operation, OperationOptions, Reinvocation},
    options::WriteOptions,
    resource::{Resource, WriteContext},
};
use auth::User;

/// One stored resource. All versions of a resource share one registry; it speaks the storage version.
pub struct Registry {
    /// The row of the storage version.
    pub row: Arc<Resource>,
    store: Arc<dyn Store>,
    /// Started when it is first needed: thousands of resources may have no objects.
    cache: OnceLock<Arc<Cache>>,
    admission: Arc<dyn Admission>,
    form: Arc<StoredForm>,
    settings: Settings,
    prefix: Str,
    /// The rows of all versions, if there are several.
    versions: OnceLock<Vec<Resource>>,
    doors: versions::Doors,
    /// The pools that objects take from, if the kind has any.
    reserve: OnceLock<Arc<dyn Reserve>>,
    /// Rules that look beyond the object, if the kind has any.
    consult: OnceLock<Arc<dyn Consult>>,
}

/// Who writes, how, and where: what every write carries through the registry.
pub struct Write<'a> {
    /// The row that the request came through (perhaps another version than the stored one).
    pub row: &'a Resource,
    /// The namespace; empty for cluster-scoped resources.
    pub namespace: &'a str,
    /// The subresource; empty for the resource itself.
    pub subresource: &'a str,
    /// Who.
    pub user: &'a User,
    /// What is recorded of it.
    pub audit: &'a Recorder,
    /// The options.
    pub options: &'a WriteOptions,
    /// Warnings for the client, in order.
    pub warnings: &'a mut Vec<String>,
}

impl<'a> Write<'a> {
    /// The write as admission sees it.
    fn attributes<'b>(&self, operation: Operation, name: &'b str, old: Option<&'b Value>) -> Attributes<'b>
    where
        'a: 'b,
    {
        Attributes {
            operation,
            row: self.row,
            namespace: self.namespace,
            name,
            subresource: self.subresource,
            user: self.user,
            audit: self.audit,
            dry_run: self.options.dry_run,
            options: OperationOptions::Write(self.options),
            old,
            rounds: Reinvocation::default(),
        }
    }

    fn context<'b>(&'b self, settings: &'b Settings) -> WriteContext<'b> {
        WriteContext {
            group: &self.row.group,
            version: &self.row.version,
            namespace: self.namespace,
            subresource: self.subresource,
            user: self.user,
            features: &settings.features,
        }
    }
}

/// The result of a write: an object as it is stored, or as it would be (dry run).
#[derive(Clone, Debug)]
pub struct Written {
    /// JSON in the storage version.
    pub bytes: Bytes,
    /// Whether the object is new.
    pub created: bool,
}

impl Registry {
    /// A registry with its cache started.
    pub fn start(row: Resource, backing: &Backing) -> Arc<Self> {
        Self::start_versions(row, Vec::new(), Vec::new(), backing)
    }

    /// A registry with its cache started, of a resource that is served in the versions of these rows. `others` are rows of
    /// versions that are not served: objects may have been stored in them.
    pub fn start_versions(
        row: Resource,
        versions: Vec<Resource>,
        others: Vec<Resource>,
        backing: &Backing,
    ) -> Arc<Self> {
        let known: Vec<Resource> = versions.iter().chain(&others).cloned().collect();
        let form = StoredForm::new(&row, &known);
        let registry = Self::with_form(row, form, backing);
        if versions.len() > 1 {
            registry.set_versions(versions);
        }
        registry.cache();
        registry
    }

    /// A registry of custom resources, whose cache starts when it is first asked for something. `row` is that of the version
    /// which objects are stored in, `versions` are the rows of all versions. Objects written up to the revision `settled`
    /// may be of an older schema, and are brought into the present one of their version when they are read.
    pub fn custom(row: Resource, versions: &[Resource], settled: u64, backing: &Backing) -> Arc<Self> {
        let form = StoredForm::custom(&row, versions, settled);
        Self::with_form(row, form, backing)
    }

    fn with_form(row: Resource, form: StoredForm, backing: &Backing) -> Arc<Self> {
        Arc::new(Registry {
            prefix: format!("{}/{}/", backing.root, row.storage_path).into(),
            store: backing.store_of(&row),
            row: Arc::new(row),
            cache: OnceLock::new(),
            admission: backing.admission.clone(),
            form: Arc::new(form),
            settings: backing.settings.clone(),
            versions: OnceLock::new(),
            doors: versions::Doors::default(),
            reserve: OnceLock::new(),
            consult: OnceLock::new(),
        })
    }

    /// The watch cache, for reads.
    pub fn cache(&self) -> &Arc<Cache> {
        self.cache.get_or_init(|| {
            let indexed = self.indexed_fields();
            let options = Options { namespaced: self.row.namespaced, indexed, ..Options::default() };
            Cache::start(self.store.clone(), self.prefix.to_string(), self.form.clone(), options)
        })
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
        read.map(|_| ()).map_err(|e| read_error(&e, &self.group_resource()))
    }

    /// Ends the cache and its watches: the resource is gone, or another registry takes its place.
    pub fn stop(&self) {
        if let Some(cache) = self.cache.get() {
            cache.stop();
        }
    }

    /// Says in which versions the resource is served, when there are several. Said once.
    pub fn set_versions(&self, rows: Vec<Resource>) {
        // A second saying would be of the same rows; whoever changes rows makes a new registry.
        let _ = self.versions.set(rows);
    }

    /// The rows of all versions; empty if there is just one.
    pub fn versions(&self) -> &[Resource] {
        self.versions.get().map_or(&[], Vec::as_slice)
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

    fn group_kind(&self) -> GroupKind {
        GroupKind::new(self.row.group.clone(), self.row.kind.clone())
    }

    fn not_found(&self, name: &str) -> Status {
        Status::not_found(&self.group_resource(), name)
    }

    /// Reads what is stored at a key.
    async fn entry(&self, key: &str, at: ReadAt) -> Result<Option<Entry>, Status> {
        let read = self.cache().get(key, at).await;
        read.map_err(|e| read_error(&e, &self.group_resource()))
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
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// When the store is to forget an object that is written now.
    fn ttl(&self) -> Option<std::time::Duration> {
        self.row.strategy.expires().then_some(self.settings.event_ttl)
    }

    /// Parses served bytes.
    pub fn decode(&self, bytes: &[u8]) -> Result<Value, Status> {
        json::decode(bytes).map_err(|e| Status::internal_error(format!("stored {}: {e}", self.row.kind)))
    }

    /// The object that was written at `revision`: the cache's own, or made here if the cache is not there yet.
    fn written(&self, key: &str, stored: &Bytes, revision: u64, created: bool) -> Result<Written, Status> {
        let cached =
            self.cache().latest().get(key).and_then(|e| e.object().cloned()).filter(|o| o.revision() == revision);
        let bytes = match cached {
            Some(object) => object.bytes().clone(),
            None => self.form.with_revision(stored, revision).map_err(|e| Status::internal_error(e.0))?,
        };
        Ok(Written { bytes, created })
    }

    /// Refuses a custom resource that defaults have made much larger than any store takes, before it is written down.
    fn check_size(&self, object: &Value) -> Result<(), Status> {
        const FAR_TOO_LARGE: usize = 6 << 20; // four times what etcd takes
        if !self.row.built_in && json::is_longer_than(object, FAR_TOO_LARGE) {
            return Err(Status::request_entity_too_large("etcdserver: request is too large"));
        }
        Ok(())
    }

    /// What a failed write means for the client.
    fn store_error(&self, error: StoreError, verb: &str, name: &str) -> Status {
        match error {
            StoreError::Conflict { .. } => Status::stale(&self.group_resource(), name),
            StoreError::TooLarge { .. } => {
                Status::request_entity_too_large(format!("etcdserver: request is too large ({error})"))
            }
            StoreError::Timeout(_) => Status::server_timeout(&self.group_resource(), verb, 2),
            StoreError::NoSpace(_) | StoreError::Unavailable(_) | StoreError::Closed | StoreError::Locked(_) => {
                Status::service_unavailable(error.to_string())
            }
            StoreError::Compacted { .. }
            | StoreError::FutureRevision { .. }
            | StoreError::Corrupt(_)
            | StoreError::InvalidKey(_)
            | StoreError::NewerFormat { .. } => Status::internal_error(error),
        }
    }
}

/// Whether the store refused a write because the object is too large. Without its managers it may fit: those of an object
/// with very many fields take as much as the fields, and only applies need them.
fn is_too_large(status: &Status) -> bool {
    status.code == 413
}
/// What a failed read of the cache means for the client.
pub fn read_error(error: &CacheError, _resource: &GroupResource) -> Status {
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
