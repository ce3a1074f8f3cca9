//! Writes for subresources that judge a change themselves (binding, eviction): the object's own strategy has no say, and
//! admission sees the document that was posted, not the object.

use std::pin::pin;

use machinery::{
    Str, Value,
    meta::{Meta, status::Status},
};
use storage::{Error as StoreError, Expect};

use super::{
    Registry, Write, Written,
    guaranteed_update::{Attempt, GuaranteedUpdate, State},
    metadata,
};
use crate::admission::{Attributes, Operation};

/// What must hold of the object that is written. Empty texts ask for nothing.
#[derive(Clone, Debug, Default)]
pub struct Preconditions {
    /// Its uid.
    pub uid: Str,
    /// Its resourceVersion.
    pub resource_version: Str,
}

impl Registry {
    /// Lets admission change or refuse a document that is posted to a subresource of the object `name`.
    pub async fn mutate_posted(&self, write: &mut Write<'_>, name: &str, document: &mut Value) -> Result<(), Status> {
        let attributes = write.attributes(Operation::Create, name, None);
        self.admission.mutate(&attributes, document, write.warnings).await
    }

    /// Lets admission judge such a document when it is complete.
    pub async fn validate_posted(&self, write: &mut Write<'_>, name: &str, document: &Value) -> Result<(), Status> {
        let attributes = write.attributes(Operation::Create, name, None);
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
        let mut update = match dry_run {
            true => GuaranteedUpdate::begin_latest(self, (&key, name), "update").await?,
            false => GuaranteedUpdate::begin(self, (&key, name), "update").await?,
        };
        loop {
            let attempt = self.rewrite_once((&key, name), update.state(), preconditions, dry_run, &change).await;
            if let Some(written) = update.settle(attempt).await? {
                return Ok(written);
            }
        }
    }

    async fn rewrite_once(
        &self,
        (key, name): (&str, &str),
        state: &State,
        preconditions: &Preconditions,
        dry_run: bool,
        change: &(impl Fn(&mut Value) -> Result<(), Status> + Send + Sync),
    ) -> Result<Attempt<Written>, Status> {
        let Some(current) = self.current(state)? else { return Err(self.not_found(name)) };
        // A dry run ends above the storage, which puts its prefix before all keys.
        let shown = if dry_run { self.below_root(key) } else { key };
        self.check_state(shown, name, &current.value, preconditions)?;
        let mut new = current.value.clone();
        change(&mut new)?;
        let stored = self.form.encode(&new);
        if dry_run || current.is_latest && metadata::unchanged(&new, &current.value) {
            return self.unwritten(&stored, &current).map(Attempt::Done);
        }
        let span = self.update_span(key);
        let put = self.store.put(key, stored.clone(), Expect::Revision(current.revision), None);
        match span.within(pin!(put)).await {
            Ok(revision) => self.written(key, &stored, revision, false).map(Attempt::Done),
            Err(StoreError::Conflict { current }) => Ok(Attempt::Conflict(current.map(|kv| *kv))),
            Err(error) => Err(self.store_error(error, "update", name)),
        }
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
