//! The registry of one stored resource: reads from the watch cache, writes through the strategy into the store.

mod backing;
mod codec;
mod consult;
mod create;
mod delete;
mod encoded;
pub mod field_manager;
mod guaranteed_update;
mod judge;
mod lister;
mod listers;
mod measured;
pub(crate) mod metadata;
mod own;
mod reserve;
mod rewrite;
mod span;
#[cfg(test)]
mod tests;
mod unreadable;
mod update;
mod versions;

use std::{ops::Deref, sync::Arc};

use audit::Recorder;
use bytes::Bytes;
use machinery::{Value, codec::json, meta::status::Status};
use storage::Error as StoreError;

pub use backing::{Backing, Placement, RegistrySettings};
pub use codec::StoredForm;
pub use consult::{Consult, Judged};
pub use delete::Deleted;
pub use judge::findings_of_new;
pub use lister::{Lister, read_error};
pub use listers::{ByResource, Listers, Registries};
pub use measured::register_storage_operations;
pub use metadata::wipe_system_fields;
pub use own::Place;
pub use reserve::{Reservation, Reserve};
pub use rewrite::Preconditions;
pub use update::{Change, Replace, ReplaceOrCreate};
pub use versions::VersionForm;

pub use crate::decode::defaulted;
use crate::{
    admission::{Admission, Attributes, Operation, OperationOptions, Reinvocation},
    options::WriteOptions,
    resource::{Resource, WriteContext},
};
use auth::User;

/// One stored resource, to write: what its [lister](Lister) reads, who admits writes, and what they are judged by beyond the
/// object itself. It is a small value: several may write for one lister.
#[derive(Clone)]
pub struct Registry {
    lister: Arc<Lister>,
    admission: Arc<dyn Admission>,
    /// The pools that objects take from, if the kind has any.
    reserve: Option<Arc<dyn Reserve>>,
    /// Rules that look beyond the object, if the kind has any.
    consult: Option<Arc<dyn Consult>>,
}

/// A registry reads as its lister does.
impl Deref for Registry {
    type Target = Lister;

    fn deref(&self) -> &Lister {
        &self.lister
    }
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

    fn context<'b>(&'b self, settings: &'b RegistrySettings) -> WriteContext<'b> {
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
    /// Writes what the lister reads, if `admission` admits it.
    pub fn new(lister: Arc<Lister>, admission: Arc<dyn Admission>) -> Self {
        Registry { lister, admission, reserve: None, consult: None }
    }

    /// The same, whose objects take from these pools.
    pub fn reserving(self, pools: Arc<dyn Reserve>) -> Self {
        Registry { reserve: Some(pools), ..self }
    }

    /// The same, whose writes are judged by these rules too.
    pub fn consulting(self, rules: Arc<dyn Consult>) -> Self {
        Registry { consult: Some(rules), ..self }
    }

    /// What it reads with.
    pub fn lister(&self) -> &Arc<Lister> {
        &self.lister
    }

    /// When the store is to forget an object that is written now.
    fn ttl(&self) -> Option<std::time::Duration> {
        self.row.strategy.traits().expires.then_some(self.settings.event_ttl)
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
            | StoreError::NewerFormat { .. }
            | StoreError::NewerSnapshot { .. }
            | StoreError::NoTimes => Status::internal_error(error),
        }
    }
}

/// Whether the store refused a write because the object is too large. Without its managers it may fit: those of an object
/// with very many fields take as much as the fields, and only applies need them.
fn is_too_large(status: &Status) -> bool {
    status.code == 413
}
