//! Making an object.

use std::pin::pin;

use audit::Layer;
use machinery::{
    Value,
    codec::scan,
    meta::{Meta, status::Status, validation},
    request::Verb,
    schema,
};
use storage::{
    Error as StoreError, Expect, KeyValue,
    cache::{CacheEntry, ReadAt},
};
use traces::Span;

use super::{
    Change, Registry, Write, Written, guaranteed_update::Attempt, is_too_large, judge, metadata, reserve::Held,
};
use crate::{admission::Operation, registry::field_manager};

/// How often a generated name is tried anew when it is taken.
const NAME_TRIES: usize = 8;

impl Registry {
    /// Makes an object. `object` is decoded and defaulted, in the version of `write.row`.
    pub async fn create(&self, write: &mut Write<'_>, object: Value) -> Result<Written, Status> {
        let name = metadata::text(&object, "name").to_owned();
        match self.create_with(write, object, None).await? {
            Attempt::Done(written) => Ok(written),
            Attempt::Conflict(taken) => Err(self.exists(&name, taken)),
        }
    }

    /// Makes an object, perhaps because a change found none. The conflict is the object that has its name.
    pub(super) async fn create_with(
        &self,
        write: &mut Write<'_>,
        mut object: Value,
        change: Option<&dyn Change>,
    ) -> Result<Attempt<Written>, Status> {
        if let Some(why) = self.row.strategy.refuse_create() {
            let name = metadata::text(&object, "name");
            return Err(Status::forbidden(&self.group_resource(), name, why));
        }
        self.check_size(&object)?;
        metadata::note_repeated_owners(&mut object, "", write.warnings);
        // One that is none is passed over, as upstream does; and it is the store that minds, which a dry run does not reach.
        if !write.options.dry_run && matches!(metadata::asked_version(&object), Ok(1..)) {
            return Err(Status::unknown_error("resourceVersion should not be set on objects to be created"));
        }
        if self.row.namespaced {
            metadata::metadata_mut(&mut object).insert("namespace", write.namespace);
        } else {
            metadata::metadata_mut(&mut object).remove("namespace");
        }
        metadata::wipe_system_fields(&mut object);
        if !change.is_some_and(Change::tracks_fields) {
            field_manager::track(write, self, None, &mut object).await;
        }
        let name = metadata::text(&object, "name").to_owned();
        self.admit(Operation::Create, write, &name, None, &mut object).await?;
        metadata::note_repeated_owners(&mut object, metadata::AFTER_ADMISSION, write.warnings);
        // The rules of built-in kinds are about the stored version, those of custom resources about the request's.
        let mut object = if self.row.built_in { self.in_stored_version(write.row, object).await? } else { object };
        let generated =
            metadata::text(&object, "name").is_empty() && !metadata::text(&object, "generateName").is_empty();
        let may_forget = !change.is_some_and(Change::tracks_fields);
        let mut tries = 0;
        loop {
            match self.create_once(write, object.clone(), change).await {
                Ok(Attempt::Conflict(_)) if generated => {
                    tries += 1;
                    if tries == NAME_TRIES {
                        let base = metadata::text(&object, "generateName");
                        return Err(Status::generate_name_conflict(&self.group_resource(), base, 1));
                    }
                }
                Err(status) if is_too_large(&status) && may_forget && metadata::forget_managers(&mut object) => {}
                done => return done,
            }
        }
    }

    async fn create_once(
        &self,
        write: &mut Write<'_>,
        mut object: Value,
        change: Option<&dyn Change>,
    ) -> Result<Attempt<Written>, Status> {
        let version = object.at(&["metadata", "resourceVersion"]).filter(|_| write.options.dry_run).cloned();
        metadata::fill_system_fields(&mut object);
        if let Some(version) = version {
            metadata::metadata_mut(&mut object).insert("resourceVersion", version); // only the store takes it away
        }
        if metadata::text(&object, "name").is_empty() {
            let base = metadata::text(&object, "generateName").to_owned();
            if !base.is_empty() {
                metadata::metadata_mut(&mut object).insert("name", self.row.strategy.traits().generate_name(&base));
            }
        }
        let mut held = self.reserve(write, &mut object, None).await?;
        let written = self.create_reserved(write, object, change, &mut held).await;
        held.settle(matches!(written, Ok(Attempt::Done(_)))).await;
        written
    }

    /// Makes an object that has a name, and what it needs of its kind's pools.
    async fn create_reserved(
        &self,
        write: &mut Write<'_>,
        mut object: Value,
        change: Option<&dyn Change>,
        held: &mut Held,
    ) -> Result<Attempt<Written>, Status> {
        let strategy = self.row.strategy.clone();
        // Some kinds write their uid and name elsewhere in the object (jobs), so that both come first.
        write.warnings.extend(strategy.early_warnings(&object));
        strategy.prepare_create(&write.context(&self.settings), &mut object);
        if strategy.traits().has_generation() {
            metadata::metadata_mut(&mut object).insert("generation", 1);
        }
        let mut errors = self.consult(write, Verb::Create, &object, None).await;
        errors.extend(judge::findings_of_new(&self.row, &write.context(&self.settings), &object));
        if errors.is_empty() {
            // What every kind's names must be is looked at last.
            errors = validation::validate_path_names(Meta::of(&object));
        }
        let name = metadata::text(&object, "name").to_owned();
        if !errors.is_empty() {
            return Err(Status::invalid(&self.group_kind(), &name, errors));
        }
        write.warnings.extend(strategy.warnings_on_create(&object));
        if let Some(change) = change {
            change.may_create().await?;
        }
        let attributes = write.attributes(Operation::Create, &name, None);
        self.admission.validate(&attributes, &object, write.warnings).await?;
        let key = self.key(write.namespace, &name);
        if self.row.built_in {
            schema::settle(&self.row.schema, &mut object);
        }
        let span = if write.options.dry_run { Span::NONE } else { self.create_span(&key) };
        span.event("About to Encode", |_| {});
        let (stored, object) = self.to_be_stored(write.row, object).await?;
        span.event("Encode succeeded", |a| a.int("len", stored.len()));
        if write.options.dry_run {
            let (taken, is_latest) = self.cache().peek(&key);
            let taken = if is_latest { taken } else { self.entry(&key, ReadAt::Latest).await? };
            return match taken {
                Some(taken) => Err(self.taken(&name, &taken)),
                None => Ok(Attempt::Done(Written { bytes: self.form.encode_unstored(&object), created: true })),
            };
        }
        let then = self.encode_sequel(held.sequel(&object).await, object).await;
        held.writing();
        let put = if then.is_empty() {
            let put = self.store.put(&key, stored.clone(), Expect::Absent, self.ttl());
            let put = write.audit.timed(Layer::Storage, span.within(pin!(put))).await;
            put.map(|revision| (revision, revision))
        } else {
            let put = self.store.put_series(&key, stored.clone(), then, Expect::Absent);
            let put = write.audit.timed(Layer::Storage, span.within(pin!(put))).await;
            put.map(|all| (all.first().copied().unwrap_or(0), all.last().copied().unwrap_or(0)))
        };
        match put {
            Ok((revision, last)) => {
                held.written(last);
                span.event("Txn call succeeded", |_| {});
                self.written(&key, &stored, revision, true).map(Attempt::Done)
            }
            Err(StoreError::Conflict { current }) => {
                held.refused();
                Ok(Attempt::Conflict(current.map(|kv| *kv)))
            }
            Err(error) => {
                if matches!(error, StoreError::TooLarge { .. }) {
                    held.refused();
                }
                Err(self.store_error(error, "create", &name))
            }
        }
    }

    /// The error for a taken name.
    fn exists(&self, name: &str, taken: Option<KeyValue>) -> Status {
        match taken {
            Some(kv) => self.taken(name, &self.cache().entry_of(kv)),
            None => Status::already_exists(&self.group_resource(), name),
        }
    }

    /// The error for a name that an object has; says so if it is on its way out.
    fn taken(&self, name: &str, by: &CacheEntry) -> Status {
        let mut status = Status::already_exists(&self.group_resource(), name);
        if by.object().is_some_and(|object| scan::field(object.bytes(), &["metadata", "deletionTimestamp"]).is_some()) {
            status.message = format!("object is being deleted: {}", status.message);
        }
        status
    }

    /// Lets admission change the object.
    pub(super) async fn admit(
        &self,
        operation: Operation,
        write: &mut Write<'_>,
        name: &str,
        old: Option<&Value>,
        object: &mut Value,
    ) -> Result<(), Status> {
        let attributes = write.attributes(operation, name, old);
        self.admission.mutate(&attributes, object, write.warnings).await
    }
}
