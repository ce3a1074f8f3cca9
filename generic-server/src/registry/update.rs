//! Changing an object: read, change, check, compare-and-swap, and again if somebody else was faster.

use std::pin::pin;

use async_trait::async_trait;
use audit::Layer;
use bytes::Bytes;
use machinery::{
    Value,
    meta::{Meta, field_error::FieldError, gvk::GroupKind, status::Status, validation},
    request::Verb,
    schema,
    value::Path,
};
use storage::{Error as StoreError, Expect};
use traces::Span;

use super::{
    Registry, Write, Written,
    guaranteed_update::{Attempt, Current, GuaranteedUpdate, State},
    is_too_large, metadata,
    reserve::Held,
};
use crate::{
    admission::Operation,
    metrics::keep_times_timed,
    registry::field_manager,
    resource::{SecondLook, WriteContext},
};

/// Makes the new state of an object from its current one. Called again for each newer state.
#[async_trait]
pub trait Change: Send + Sync {
    /// The new state, decoded and defaulted, in the version of the request. `current` is `None` if there is no such
    /// object: whoever can only change answers `None` then.
    async fn apply(&self, current: Option<&Value>, warnings: &mut Vec<String>) -> Result<Option<Value>, Status>;

    /// Whether the fields' managers are already noted (server-side apply does so itself).
    fn tracks_fields(&self) -> bool {
        false
    }

    /// Refuses the creation of an object that was not there, once it is known to be sound.
    async fn may_create(&self) -> Result<(), Status> {
        Ok(())
    }

    /// Whether the new state is the client's document as it stands (PUT), not made from the current one.
    fn replaces(&self) -> bool {
        false
    }
}

/// An update of one object, through all its attempts.
struct Update<'a> {
    key: &'a str,
    name: &'a str,
    change: &'a dyn Change,
    /// The object is too large with its fields' managers.
    forgets_managers: bool,
}

impl Registry {
    /// Changes the object `name`. The change is made anew on each newer state, until it is written or refused.
    pub async fn update(&self, write: &mut Write<'_>, name: &str, change: &dyn Change) -> Result<Written, Status> {
        let key = self.key(write.namespace, name);
        let place = (key.as_str(), name);
        let mut guaranteed = match write.options.dry_run {
            true => GuaranteedUpdate::begin_latest(self, place, "update").await?,
            false => GuaranteedUpdate::begin(self, place, "update").await?,
        };
        let mut update = Update { key: &key, name, change, forgets_managers: false };
        let span = if write.options.dry_run { Span::NONE } else { self.update_span(&key) };
        span.within(pin!(self.update_until_done(write, &mut update, &mut guaranteed))).await
    }

    async fn update_until_done(
        &self,
        write: &mut Write<'_>,
        update: &mut Update<'_>,
        guaranteed: &mut GuaranteedUpdate<'_>,
    ) -> Result<Written, Status> {
        let warned = write.warnings.len();
        loop {
            write.warnings.truncate(warned); // of the attempts only the last one warns
            let attempt = self.attempt(write, update, guaranteed.state()).await;
            let may_forget = !update.forgets_managers && !update.change.tracks_fields();
            if attempt.as_ref().is_err_and(is_too_large) && may_forget {
                update.forgets_managers = true;
            } else if let Some(written) = guaranteed.settle(attempt).await? {
                return Ok(written);
            }
        }
    }

    async fn attempt(
        &self,
        write: &mut Write<'_>,
        update: &Update<'_>,
        state: &State,
    ) -> Result<Attempt<Written>, Status> {
        let begun = write.audit.clock();
        let current = self.current(state)?;
        write.audit.took_since(Layer::Decode, begun);
        match current {
            Some(current) => self.update_current(write, update, &current).await,
            None => self.create_by_update(write, update).await,
        }
    }

    async fn create_by_update(&self, write: &mut Write<'_>, update: &Update<'_>) -> Result<Attempt<Written>, Status> {
        let Update { name, change, .. } = *update;
        let Some(mut object) = change.apply(None, write.warnings).await? else { return Err(self.not_found(name)) };
        // Whatever version is meant, an object is made; but it must be one.
        metadata::asked_version(&object).map_err(Status::unknown_error)?;
        if !change.tracks_fields() {
            self.check_uid(write, name, &object, "")?;
        }
        metadata::metadata_mut(&mut object).remove("resourceVersion");
        self.create_with(write, object, Some(change)).await
    }

    /// One attempt on an object that is there.
    async fn update_current(
        &self,
        write: &mut Write<'_>,
        update: &Update<'_>,
        current: &Current,
    ) -> Result<Attempt<Written>, Status> {
        let Update { name, change, .. } = *update;
        let old_versioned = self.value_in_version(write.row, current.value.clone()).await?;
        let Some(mut new) = change.apply(Some(&old_versioned), write.warnings).await? else {
            return Err(self.not_found(name));
        };
        self.check_size(&new)?;
        if change.replaces() {
            metadata::note_repeated_owners(&mut new, "", write.warnings);
        }
        self.check_version(write, update, &new, current)?;
        self.place(write, &mut new);
        metadata::metadata_mut(&mut new).insert("resourceVersion", current.revision.to_string());
        if !change.tracks_fields() {
            field_manager::track(write, self, Some(&old_versioned), &mut new).await;
        } else {
            keep_times_timed(&old_versioned, &mut new);
        }
        self.admit(Operation::Update, write, name, Some(&old_versioned), &mut new).await?;
        if update.forgets_managers {
            metadata::forget_managers(&mut new);
        }
        metadata::note_repeated_owners(&mut new, metadata::AFTER_ADMISSION, write.warnings);
        // The rules of built-in kinds are about the stored version, those of custom resources about the request's.
        let (mut new, old) = match self.row.built_in {
            true => (self.in_stored_version(write.row, new).await?, &current.value),
            false => (new, &old_versioned),
        };
        metadata::carry_over(&mut new, old);
        let mut held = self.reserve(write, &mut new, Some(old)).await?;
        let attempt = self.update_reserved(write, update, (new, old), current, &mut held).await;
        held.settle(matches!(attempt, Ok(Attempt::Done(_)))).await;
        attempt
    }

    /// Writes the new state, which has what it needs of its kind's pools.
    async fn update_reserved(
        &self,
        write: &mut Write<'_>,
        update: &Update<'_>,
        (mut new, old): (Value, &Value),
        current: &Current,
        held: &mut Held,
    ) -> Result<Attempt<Written>, Status> {
        let Update { key, name, change, .. } = *update;
        self.prepare(write, &mut new, old);
        let verb = if change.replaces() { Verb::Update } else { Verb::Patch };
        self.validate(write, verb, name, (&new, old)).await?;
        if self.row.built_in {
            schema::settle(&self.row.schema, &mut new);
        }
        traces::event("About to Encode", |_| {});
        let (stored, new) = self.to_be_stored(write.row, new).await?;
        traces::event("Encode succeeded", |a| a.int("len", stored.len()));
        if metadata::is_deleting(&current.value) && !metadata::has_finalizers(&new) && self.finishes_deletion(&new) {
            return self.finish(write, update, &stored, current).await;
        }
        let spared = write.options.dry_run
            || self.same_as_stored(&new, current, &stored) && self.is_stored(update, current, &stored).await?;
        if spared {
            return self.unwritten(&stored, current).map(Attempt::Done);
        }
        held.writing();
        traces::event("Transaction prepared", |_| {});
        let put = self.store.put(key, stored.clone(), Expect::Revision(current.revision), self.ttl());
        match write.audit.timed(Layer::Storage, put).await {
            Ok(revision) => {
                traces::event("Txn call completed", |_| {});
                traces::event("Transaction committed", |_| {});
                self.written(key, &stored, revision, false).map(Attempt::Done)
            }
            Err(StoreError::Conflict { current }) => {
                held.refused();
                Ok(Attempt::Conflict(current.map(|kv| *kv)))
            }
            Err(error) => {
                if matches!(error, StoreError::TooLarge { .. }) {
                    held.refused();
                }
                Err(self.store_error(error, "update", name))
            }
        }
    }

    /// What a write is answered with that leaves the revision as it is.
    pub(super) fn unwritten(&self, stored: &Bytes, current: &Current) -> Result<Written, Status> {
        let bytes = self.form.with_revision(stored, current.revision).map_err(|e| Status::internal_error(e.0))?;
        Ok(Written { bytes, created: false })
    }

    /// Checks the resourceVersion and uid that the new state names. One that was made from the current state names that
    /// state's, unless the client's document names another.
    fn check_version(
        &self,
        write: &Write<'_>,
        update: &Update<'_>,
        new: &Value,
        current: &Current,
    ) -> Result<(), Status> {
        let name = update.name;
        let asked = metadata::asked_version(new).map_err(Status::unknown_error)?;
        let pinned = asked != 0;
        let old_uid = metadata::text(&current.value, "uid");
        let names_one = match (self.row.built_in, write.subresource) {
            (true, "" | "scale") => !pinned,
            (false, "scale") => true,
            // A patch cannot be about another object: what it makes of the uid is judged with the rest.
            (false, "") => update.change.replaces(),
            _ => false,
        };
        if names_one {
            self.check_uid(write, name, new, old_uid)?;
        }
        // A scale without a version goes by the object's own.
        if !pinned && write.subresource != "scale" && !self.row.strategy.traits().allows_unconditional_update {
            let error = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
            let resource = GroupKind::new(self.row.group.clone(), self.row.plural.clone());
            return Err(Status::invalid(&resource, name, vec![error]));
        }
        if pinned && asked != current.revision {
            return Err(Status::stale(&self.group_resource(), name));
        }
        Ok(())
    }

    /// Checks the uid that the new state names against the object's own; none if there is no object.
    fn check_uid(&self, write: &Write<'_>, name: &str, new: &Value, old_uid: &str) -> Result<(), Status> {
        let uid = metadata::text(new, "uid");
        if uid.is_empty() || uid == old_uid {
            return Ok(());
        }
        let key = self.key(write.namespace, name);
        let key = if write.options.dry_run { self.below_root(&key) } else { &key }; // as it is above the storage
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: \
             UID in precondition: {uid}, UID in object meta: {old_uid}"
        );
        Err(Status::conflict(&self.group_resource(), name, why))
    }

    /// Puts the object where the request says it is.
    fn place(&self, write: &Write<'_>, new: &mut Value) {
        if self.row.namespaced {
            metadata::metadata_mut(new).insert("namespace", write.namespace);
        } else {
            metadata::metadata_mut(new).remove("namespace");
        }
    }

    fn prepare(&self, write: &Write<'_>, new: &mut Value, old: &Value) {
        let strategy = &self.row.strategy;
        match write.subresource {
            "" => strategy.prepare_update(&write.context(&self.settings), new, old),
            "status" => strategy.prepare_status_update(&write.context(&self.settings), new, old),
            _ => strategy.prepare_subresource_update(&write.context(&self.settings), new, old),
        }
        // A status is no wish.
        if write.subresource != "status" && strategy.traits().counts_as_change(new, old) {
            metadata::metadata_mut(new).insert("generation", metadata::generation(old) + 1);
        }
    }

    async fn validate(
        &self,
        write: &mut Write<'_>,
        verb: Verb,
        name: &str,
        (new, old): (&Value, &Value),
    ) -> Result<(), Status> {
        let strategy = &self.row.strategy;
        let mut errors = validation::validate_common_update(Meta::of(new), Meta::of(old), self.row.namespaced);
        errors.extend(self.consult(write, verb, new, Some(old)).await);
        self.look_again(&write.context(&self.settings), new, old, &mut errors);
        errors.extend(match write.subresource {
            "" => strategy.validate_update(&write.context(&self.settings), new, old),
            "status" => strategy.validate_status_update(&write.context(&self.settings), new, old),
            _ => strategy.validate_subresource_update(&write.context(&self.settings), new, old),
        });
        let (tolerated, errors): (Vec<_>, Vec<_>) = errors.into_iter().partition(|e| e.tolerated);
        write.warnings.extend(tolerated.iter().map(ToString::to_string));
        if !errors.is_empty() {
            return Err(Status::invalid(&self.group_kind(), name, errors));
        }
        match write.subresource {
            "" => write.warnings.extend(strategy.warnings_on_update(new, old)),
            "status" => write.warnings.extend(strategy.warnings_on_status_update(new)),
            _ => {}
        }
        let attributes = write.attributes(Operation::Update, name, Some(old));
        self.admission.validate(&attributes, new, write.warnings).await
    }

    /// A kind's rules look at the metadata once more, and both findings reach the client.
    fn look_again(&self, cx: &WriteContext<'_>, new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
        let strategy = &self.row.strategy;
        let look = match strategy.traits().second_look {
            look if cx.subresource.is_empty() => look,
            SecondLook::Nothing | SecondLook::Whole => SecondLook::Nothing,
            _ => SecondLook::Changes,
        };
        let path = Path::ROOT.field("metadata");
        let (meta, old_meta) = (Meta::of(new), Meta::of(old));
        let finalizers = || match self.row.built_in && strategy.traits().knows_standard_finalizers {
            true => validation::validate_kube_finalizers(meta, &path),
            false => Vec::new(),
        };
        let changes = || {
            let found = validation::validate_object_meta_update(meta, old_meta, &path);
            [found, finalizers()].concat()
        };
        let whole = || {
            let name_errors = |name: &str, prefix: bool| strategy.name_errors(new, name, prefix);
            let found = validation::validate_object_meta(meta, self.row.namespaced, name_errors, &path);
            [found, finalizers()].concat()
        };
        let rules = || strategy.revalidate(cx, new, old);
        let looks: &[&dyn Fn() -> Vec<FieldError>] = match look {
            SecondLook::Nothing => &[],
            SecondLook::Changes => &[&changes],
            SecondLook::Whole => &[&whole],
            SecondLook::ChangesThenWhole => &[&changes, &whole],
            SecondLook::WholeThenChanges => &[&whole, &rules, &changes],
            SecondLook::WholeTwice => &[&whole, &rules, &whole],
        };
        errors.extend(looks.iter().flat_map(|look| look()));
    }

    /// Whether nothing is left to do for an object in deletion: its grace period is zero.
    fn finishes_deletion(&self, object: &Value) -> bool {
        object.at(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64).unwrap_or(0) == 0
            && self.row.strategy.may_finish_deletion(object)
    }

    /// The update took the last finalizer of an object in deletion: it goes.
    async fn finish(
        &self,
        write: &Write<'_>,
        update: &Update<'_>,
        stored: &Bytes,
        current: &Current,
    ) -> Result<Attempt<Written>, Status> {
        let written = self.unwritten(stored, current)?;
        if write.options.dry_run {
            return Ok(Attempt::Done(written));
        }
        match write.audit.timed(Layer::Storage, self.store.delete(update.key, current.revision)).await {
            Ok(_) => {
                self.release(&current.value).await;
                Ok(Attempt::Done(written))
            }
            // Somebody else took the last finalizer, too, and was faster.
            Err(StoreError::Conflict { current: None }) if current.is_latest => Ok(Attempt::Done(written)),
            Err(StoreError::Conflict { current }) => Ok(Attempt::Conflict(current.map(|kv| *kv))),
            Err(error) => Err(self.store_error(error, "update", update.name)),
        }
    }

    /// Whether the store holds the object as it would be written. The cache may be behind, and an old key may encrypt it;
    /// custom resources may have been written through another version, or in an older schema, and differ from what readers
    /// see. (What is not stored so is written, and then the compare-and-swap decides.)
    async fn is_stored(&self, update: &Update<'_>, current: &Current, stored: &Bytes) -> Result<bool, Status> {
        let failed = |error| self.store_error(error, "update", update.name);
        if !self.row.built_in || !current.is_latest {
            let found = self.store.get(update.key).await.map_err(failed)?.0;
            let Some(found) = found.filter(|found| found.mod_revision == current.revision) else { return Ok(false) };
            if !self.row.built_in && !self.form.same(&found.value, stored) {
                return Ok(false);
            }
        }
        Ok(!self.store.is_stale(update.key).await.map_err(failed)?)
    }

    /// A write that changes nothing for readers keeps the resourceVersion.
    fn same_as_stored(&self, new: &Value, current: &Current, stored: &Bytes) -> bool {
        metadata::unchanged(new, &current.value) || self.form.encode(&current.value) == *stored
    }
}

/// Replaces the whole object (PUT).
pub struct Replace(pub Value);

#[async_trait]
impl Change for Replace {
    async fn apply(&self, current: Option<&Value>, _warnings: &mut Vec<String>) -> Result<Option<Value>, Status> {
        Ok(current.map(|_| self.0.clone()))
    }

    fn replaces(&self) -> bool {
        true
    }
}

/// Replaces the object, or makes it if it is not there (PUT on kinds that allow it).
pub struct ReplaceOrCreate(pub Value);

#[async_trait]
impl Change for ReplaceOrCreate {
    async fn apply(&self, _current: Option<&Value>, _warnings: &mut Vec<String>) -> Result<Option<Value>, Status> {
        Ok(Some(self.0.clone()))
    }

    fn replaces(&self) -> bool {
        true
    }
}
