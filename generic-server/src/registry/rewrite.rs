//! Writes for subresources that judge a change themselves (binding, eviction): the object's own strategy has no say, and
//! admission sees the document that was posted, not the object.

use machinery::{
    Str, Value,
    meta::{Meta, status::Status},
};
use storage::{Error as StoreError, Expect};

use super::{Registry, Write, Written, metadata};
use crate::admission::{Attributes, Operation};

/// How often a change is tried on a newer state before the client hears of the conflict.
const TRIES: usize = 32;

/// What must hold of the object that is written. Empty texts ask for nothing.
#[derive(Clone, Debug, Default)]
pub struct Preconditions {
    /// Its uid.
    pub uid: Str,
    /// Its resourceVersion.
    pub resource_version: Str,
}

impl Registry {
    /// Lets admission judge a document that is posted to a subresource of the object `name`. It may change the document.
    pub async fn admit_posted(&self, write: &mut Write<'_>, name: &str, document: &mut Value) -> Result<(), Status> {
        let attributes = write.attributes(Operation::Create, name, None);
        self.admission.mutate(&attributes, document, write.warnings).await?;
        self.admission.validate(&attributes, document, write.warnings).await
    }

    /// Lets admission judge a request that is handed on (exec, proxy); its options are in `options`.
    pub async fn admit_connect(&self, write: &mut Write<'_>, name: &str, options: &mut Value) -> Result<(), Status> {
        let attributes = Attributes { dry_run: false, ..write.attributes(Operation::Connect, name, None) };
        self.admission.mutate(&attributes, options, write.warnings).await?;
        self.admission.validate(&attributes, options, write.warnings).await
    }

    /// Writes what `change` makes of the object's state, which is in the storage version. It is called again for each newer
    /// state, and must refuse what it does not allow.
    ///
    /// # Errors
    /// 404 if there is no such object, 409 if a precondition fails, what `change` says, or what the store says.
    pub async fn rewrite(
        &self,
        (namespace, name): (&str, &str),
        preconditions: &Preconditions,
        dry_run: bool,
        change: impl Fn(&mut Value) -> Result<(), Status> + Send + Sync,
    ) -> Result<Written, Status> {
        let key = self.key(namespace, name);
        let mut current = self.current(&key)?;
        for _ in 0..TRIES {
            let Some(state) = &current else { return Err(self.not_found(name)) };
            self.check_state(&key, name, &state.value, preconditions)?;
            let mut new = state.value.clone();
            change(&mut new)?;
            let stored = self.form.encode(&new);
            if dry_run || metadata::unchanged(&new, &state.value) {
                let bytes =
                    self.form.with_revision(&stored, state.revision).map_err(|e| Status::internal_error(e.0))?;
                return Ok(Written { bytes, created: false });
            }
            match self.store.put(&key, stored.clone(), Expect::Revision(state.revision), None).await {
                Ok(revision) => return self.written(&key, &stored, revision, false),
                Err(StoreError::Conflict { current: found }) => {
                    current = found.map(|kv| self.parse(&kv)).transpose()?
                }
                Err(error) => return Err(self.store_error(error, "update", name)),
            }
        }
        Err(Status::stale(&self.group_resource(), name))
    }

    fn check_state(&self, key: &str, name: &str, object: &Value, wanted: &Preconditions) -> Result<(), Status> {
        let meta = Meta::of(object);
        for (what, wanted, found) in
            [("UID", &wanted.uid, meta.uid()), ("ResourceVersion", &wanted.resource_version, meta.resource_version())]
        {
            if !wanted.is_empty() && wanted != found {
                let why = format!(
                    "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
                     failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
                );
                return Err(Status::conflict(&self.group_resource(), name, why));
            }
        }
        Ok(())
    }
}
