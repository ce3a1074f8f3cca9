//! Deleting an object: at once, after a grace period, or when the last finalizer is gone.

use std::pin::pin;

use audit::Layer;
use bytes::Bytes;
use machinery::{
    Str, Value,
    meta::{TimeForm, Timestamp, status::Status},
};
use storage::{Error as StoreError, Expect};

use super::{
    Registry, VersionForm, Write,
    guaranteed_update::{Attempt, GuaranteedUpdate, State},
    metadata,
};
use crate::{
    admission::{Attributes, Operation, OperationOptions},
    options::{DeleteOptions, Propagation},
};

/// What a delete did.
#[derive(Clone, Debug)]
pub enum Deleted {
    /// The object is gone; its last state, in the storage version.
    Gone(Bytes),
    /// It lives on until its finalizers or its grace period are done; its state now.
    Marked(Bytes),
    /// The object is gone, and it could not be read.
    Unread,
}

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// How long an object in deletion was given, if it was given any time.
fn running_grace(object: &Value) -> Option<i64> {
    let grace = object.at(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64);
    grace.filter(|seconds| *seconds > 0 && metadata::is_deleting(object))
}

/// The grace period that is asked for; less than none is a second.
fn asked_grace(options: &DeleteOptions) -> Option<i64> {
    options.grace_period_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds })
}

impl Registry {
    /// Deletes the object `name`.
    pub async fn delete(&self, write: &mut Write<'_>, name: &str, options: &DeleteOptions) -> Result<Deleted, Status> {
        let namespace = write.namespace;
        self.delete_with(namespace, name, options, Some((write, name))).await
    }

    /// Deletes the object `name` as one of a collection: admission hears of no name.
    pub async fn delete_item(
        &self,
        write: &mut Write<'_>,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        let namespace = write.namespace;
        self.delete_with(namespace, name, options, Some((write, ""))).await
    }

    /// Deletes the object `name` without asking admission: it has been asked about the document that led to this.
    pub async fn delete_admitted(
        &self,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        self.delete_with(namespace, name, options, None).await
    }

    async fn delete_with(
        &self,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
        mut admit: Option<(&mut Write<'_>, &str)>,
    ) -> Result<Deleted, Status> {
        let key = self.key(namespace, name);
        let mut update = GuaranteedUpdate::begin_latest(self, (&key, name), "delete").await?;
        let warned = admit.as_ref().map_or(0, |(write, _)| write.warnings.len());
        loop {
            if let Some((write, _)) = &mut admit {
                write.warnings.truncate(warned); // of the attempts only the last one warns
            }
            let admit = admit.as_mut().map(|(write, asked_name)| (&mut **write, *asked_name));
            let attempt = self.attempt_delete((&key, name), update.state(), options, admit).await;
            if let Some(deleted) = update.settle(attempt).await? {
                return Ok(deleted);
            }
        }
    }

    async fn attempt_delete(
        &self,
        (key, name): (&str, &str),
        state: &State,
        options: &DeleteOptions,
        admit: Option<(&mut Write<'_>, &str)>,
    ) -> Result<Attempt<Deleted>, Status> {
        let entry = state.entry.as_ref().ok_or_else(|| self.not_found(name))?;
        let found = entry.object().ok_or_else(|| self.unreadable(entry))?;
        // What cannot be had in the version of the request is not deleted through it.
        let version = admit.as_ref().and_then(|(write, _)| VersionForm::of(write.row, self));
        let in_version = match version.filter(VersionForm::is_remote) {
            Some(version) => Some(self.decode(&self.in_version(&version, found).await?)?),
            None => None,
        };
        let audit = admit.as_ref().map_or(audit::OFF, |(write, _)| write.audit);
        let begun = audit.clock();
        let (object, revision) = (self.decode(found.bytes())?, found.revision());
        audit.took_since(Layer::Decode, begun);
        self.check_preconditions(name, &object, options)?;
        if self.is_settled(&object, options) {
            return self.state_after(&object, revision).map(Deleted::Marked).map(Attempt::Done);
        }
        if let Some((write, asked_name)) = admit {
            let old = in_version.as_ref().unwrap_or(&object);
            self.admit_delete(write, asked_name, old, options).await?;
        }
        audit.timed(Layer::Storage, self.delete_once((key, name), object, revision, options)).await
    }

    /// Whether an object is on its way out, and this request hastens nothing: what becomes of dependents is settled, and
    /// nobody is asked.
    fn is_settled(&self, object: &Value, options: &DeleteOptions) -> bool {
        let strategy = &self.row.strategy;
        if strategy.traits().marks_deletion {
            return metadata::is_deleting(object) && !strategy.may_finish_deletion(object);
        }
        let running =
            running_grace(object).filter(|_| strategy.grace_period(object, options.grace_period_seconds).is_some());
        running.is_some_and(|running| asked_grace(options).is_none_or(|asked| asked >= running))
    }

    /// Asks admission about the object as it is: it may have become one that stays.
    async fn admit_delete(
        &self,
        write: &mut Write<'_>,
        asked_name: &str,
        old: &Value,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        // Of an object that is deleted by its name, admission sees the grace period that it is given.
        let mut shown = options.clone();
        if !asked_name.is_empty() {
            let grace = self.row.strategy.grace_period(old, options.grace_period_seconds);
            shown.grace_period_seconds = grace.or(shown.grace_period_seconds);
        }
        let attributes = Attributes {
            dry_run: options.dry_run,
            options: OperationOptions::Delete(&shown),
            ..write.attributes(Operation::Delete, asked_name, Some(old))
        };
        self.admission.mutate(&attributes, &mut Value::Null, write.warnings).await?;
        self.admission.validate(&attributes, &Value::Null, write.warnings).await
    }

    /// Refuses with 409 unless the object is the one that the options name.
    pub fn check_preconditions(&self, name: &str, object: &Value, options: &DeleteOptions) -> Result<(), Status> {
        let kind = machinery::meta::gvk::GroupResource::new(self.row.group.clone(), self.row.kind.clone());
        if let Some(uid) = &options.uid {
            let found = metadata::text(object, "uid");
            if uid != found {
                if self.row.strategy.traits().marks_deletion {
                    let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found}");
                    return Err(Status::conflict(&self.group_resource(), name, why));
                }
                let why = format!(
                    "the UID in the precondition ({uid}) does not match the UID in record ({found}). The object might have \
                     been deleted and then recreated"
                );
                return Err(Status::conflict(&kind, name, why));
            }
        }
        if let Some(version) = &options.resource_version {
            let found = metadata::text(object, "resourceVersion");
            if version != found {
                if self.row.strategy.traits().marks_deletion {
                    let why = format!(
                        "Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: \
                         {found}"
                    );
                    return Err(Status::conflict(&self.group_resource(), name, why));
                }
                let why = format!(
                    "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record \
                     ({found}). The object might have been modified"
                );
                return Err(Status::conflict(&kind, name, why));
            }
        }
        Ok(())
    }

    async fn delete_once(
        &self,
        (key, name): (&str, &str),
        object: Value,
        revision: u64,
        options: &DeleteOptions,
    ) -> Result<Attempt<Deleted>, Status> {
        let strategy = &self.row.strategy;
        let grace = strategy.grace_period(&object, options.grace_period_seconds);
        // One that is running is shortened.
        let grace =
            grace.and_then(|given| if running_grace(&object).is_some() { asked_grace(options) } else { Some(given) });
        let mut marked = object.clone();
        let begins = strategy.traits().marks_deletion && !metadata::is_deleting(&object);
        if begins {
            let now = Str::from(Timestamp::now().text(TimeForm::Seconds));
            metadata::metadata_mut(&mut marked).insert("deletionTimestamp", now);
            strategy.mark_deletion(&mut marked);
        } else {
            self.set_finalizers(&mut marked, options);
        }
        let waits = metadata::has_finalizers(&marked) || !strategy.may_finish_deletion(&marked);
        if begins || waits || grace.is_some_and(|seconds| seconds > 0) {
            if !begins {
                self.mark(&mut marked, grace.unwrap_or(0));
            }
            if options.dry_run || metadata::unchanged(&marked, &object) {
                return self.state_after(&marked, revision).map(Deleted::Marked).map(Attempt::Done);
            }
            return Ok(match self.write_mark((key, name), &marked, revision).await? {
                Attempt::Done(revision) => Attempt::Done(Deleted::Marked(self.state_after(&marked, revision)?)),
                Attempt::Conflict(found) => Attempt::Conflict(found),
            });
        }
        // Kinds with a grace period are marked even if it is over at once: watchers see the mark before the end.
        let before = self.form.encode(&object);
        let mut object = object;
        if grace.is_some() {
            object = marked;
            self.mark(&mut object, 0);
        }
        if options.dry_run {
            return self.state_after(&object, revision).map(Deleted::Gone).map(Attempt::Done);
        }
        let is_marked = self.form.encode(&object) == before;
        self.remove((key, name), &object, (revision, is_marked)).await
    }

    /// Takes the object away, whose deletion is to be marked first if it `is_marked` not yet.
    async fn remove(
        &self,
        (key, name): (&str, &str),
        object: &Value,
        (mut revision, is_marked): (u64, bool),
    ) -> Result<Attempt<Deleted>, Status> {
        if !is_marked {
            match self.write_mark((key, name), object, revision).await? {
                Attempt::Done(marked) => revision = marked,
                Attempt::Conflict(found) => return Ok(Attempt::Conflict(found)),
            }
        }
        match self.store.delete(key, revision).await {
            Ok(_) => self.release(object).await,
            // Once it is marked, whoever is in charge of it may take it away first.
            Err(StoreError::Conflict { current: None }) if !is_marked => {}
            Err(StoreError::Conflict { current }) => return Ok(Attempt::Conflict(current.map(|kv| *kv))),
            Err(error) => return Err(self.store_error(error, "delete", name)),
        }
        self.state_after(object, revision).map(Deleted::Gone).map(Attempt::Done)
    }

    /// Writes an object that is marked as being deleted; the revision.
    async fn write_mark(&self, (key, name): (&str, &str), marked: &Value, at: u64) -> Result<Attempt<u64>, Status> {
        let span = self.update_span(key);
        match span.within(pin!(self.store.put(key, self.form.encode(marked), Expect::Revision(at), None))).await {
            Ok(revision) => Ok(Attempt::Done(revision)),
            Err(StoreError::Conflict { current }) => Ok(Attempt::Conflict(current.map(|kv| *kv))),
            Err(error) => Err(self.store_error(error, "delete", name)),
        }
    }

    /// An object as it is, or would be, at a revision.
    fn state_after(&self, object: &Value, revision: u64) -> Result<Bytes, Status> {
        self.form.with_revision(&self.form.encode(object), revision).map_err(|e| Status::internal_error(e.0))
    }

    /// Adds and removes the finalizers by which the garbage collector knows what becomes of dependents.
    fn set_finalizers(&self, object: &mut Value, options: &DeleteOptions) {
        if !self.settings.collects_garbage {
            return; // nobody would take them away
        }
        let present = |name: &str| {
            let finalizers = object.at(&["metadata", "finalizers"]).and_then(Value::as_array).unwrap_or(&[]);
            finalizers.iter().any(|f| f.as_str() == Some(name))
        };
        let asked = match (options.propagation, options.orphan_dependents) {
            _ if !self.row.strategy.traits().may_have_dependents => Some(Propagation::Background),
            (Some(propagation), _) => Some(propagation),
            (None, Some(true)) => Some(Propagation::Orphan),
            (None, Some(false)) => Some(Propagation::Background),
            (None, None) => None,
        };
        let (orphan, foreground) = match asked {
            Some(propagation) => (propagation == Propagation::Orphan, propagation == Propagation::Foreground),
            None if present(ORPHAN) || present(FOREGROUND) => (present(ORPHAN), present(FOREGROUND)),
            None => (self.row.strategy.traits().orphans_by_default, false),
        };
        if (orphan, foreground) == (present(ORPHAN), present(FOREGROUND)) {
            return;
        }
        let finalizers = object.at(&["metadata", "finalizers"]).and_then(Value::as_array).unwrap_or(&[]);
        let mut finalizers: Vec<Value> =
            finalizers.iter().filter(|f| !matches!(f.as_str(), Some(ORPHAN | FOREGROUND))).cloned().collect();
        if orphan {
            finalizers.push(ORPHAN.into());
        }
        if foreground {
            finalizers.push(FOREGROUND.into());
        }
        if finalizers.is_empty() {
            object.remove_at(&["metadata", "finalizers"]);
        } else {
            object.set(&["metadata", "finalizers"], finalizers);
        }
    }

    /// Marks an object as being deleted. A second delete may shorten the grace period, never lengthen it.
    fn mark(&self, object: &mut Value, grace: i64) {
        let now = Timestamp::now();
        let before = object.at(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64);
        if metadata::is_deleting(object) && before.is_none_or(|before| grace >= before) {
            if before.is_none() {
                metadata::metadata_mut(object).insert("deletionGracePeriodSeconds", 0); // marked by a rule of its own
            }
            return;
        }
        let generation = metadata::generation(object);
        // A shorter period counts from the time of the first request.
        let began = before.and_then(|before| {
            let end = Timestamp::parse(metadata::text(object, "deletionTimestamp"), TimeForm::Seconds).ok()?;
            Some(end.plus_seconds(-before))
        });
        let at = Str::from(began.unwrap_or(now).plus_seconds(grace).text(TimeForm::Seconds));
        let counted = !metadata::is_deleting(object);
        let metadata = metadata::metadata_mut(object);
        metadata.insert("deletionTimestamp", at);
        metadata.insert("deletionGracePeriodSeconds", grace);
        if generation > 0 && counted {
            metadata.insert("generation", generation + 1);
        }
        self.row.strategy.mark_deletion(object);
    }
}
