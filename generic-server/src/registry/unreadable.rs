//! Stored objects that cannot be decrypted or decoded: what is said of them, and how they are deleted all the same.

use machinery::{
    Value,
    meta::{
        field_error::FieldError,
        gvk::GroupKind,
        status::{Cause, Details, Status, reason},
    },
};
use storage::{
    Error as StoreError,
    cache::{Broken, CacheEntry, ReadAt},
};

use super::{Deleted, Lister, Registry, Write};
use crate::admission::{Attributes, Operation};

/// A list names so many of them.
const MOST_NAMED: usize = 100;

impl Lister {
    /// What a get or a delete says of an object that cannot be read.
    pub fn unreadable(&self, entry: &CacheEntry) -> Status {
        let CacheEntry::Broken(broken) = entry else { return Status::internal_error("the object can be read") };
        match (self.settings.deletes_unreadable, broken.encrypted) {
            (true, _) => Status::internal_error(corrupt(self.below_root(&broken.key), broken)),
            (false, true) => Status::internal_error(&broken.error.0),
            (false, false) => Status::unknown_error(&broken.error.0),
        }
    }

    /// What an update says of it.
    pub(super) fn unreadable_state(&self, entry: &CacheEntry) -> Status {
        match entry {
            CacheEntry::Broken(broken) if self.settings.deletes_unreadable => Status::internal_error(what(broken)),
            _ => self.unreadable(entry),
        }
    }

    /// What a list says that met these: which they are, or, without the feature gate AllowUnsafeMalformedObjectDeletion,
    /// which the first is.
    pub fn unreadable_items(&self, entries: &[&CacheEntry]) -> Status {
        let mut broken = entries.iter().filter_map(|entry| match entry {
            CacheEntry::Broken(broken) => Some(broken),
            CacheEntry::Object(_) => None,
        });
        if !self.settings.deletes_unreadable {
            let first = broken.next().map(|b| format!("unable to transform key {:?}: {}", &*b.key, b.error.0));
            return Status::internal_error(first.unwrap_or_default());
        }
        let resource = self.group_resource();
        let mut causes: Vec<Cause> = broken
            .take(MOST_NAMED)
            .map(|b| Cause { field: b.key.to_string(), ..Cause::new("UnexpectedServerResponse", corrupt(&b.key, b)) })
            .collect();
        if entries.len() > MOST_NAMED {
            causes.push(Cause::new("FieldValueTooMany", "too many errors, the list is truncated"));
        }
        let message = format!("failed to read one or more {resource} from the storage");
        Status::new(500, reason::STORE_READ_ERROR, message).with_details(Details {
            name: "list".into(),
            group: resource.group,
            kind: resource.resource,
            causes,
            ..Details::default()
        })
    }

    /// How many a list looks for.
    pub(crate) fn most_unreadable(&self) -> usize {
        if self.settings.deletes_unreadable { MOST_NAMED + 1 } else { 1 }
    }

    /// The key without the prefix that all keys have, with which upstream's storage is asked.
    pub(super) fn below_root<'a>(&self, key: &'a str) -> &'a str {
        let below = self.prefix.len().saturating_sub(self.row.storage_path.len() + 2);
        key.get(below..).unwrap_or(key)
    }

    /// Refuses with 422 unless there is an object `name` and it cannot be read.
    pub async fn check_unreadable(&self, namespace: &str, name: &str) -> Result<(), Status> {
        match self.entry(&self.key(namespace, name), ReadAt::Latest).await? {
            Some(CacheEntry::Broken(_)) => Ok(()),
            _ => {
                // Upstream names the resource where a kind should be.
                let kind = GroupKind::new(self.row.group.clone(), self.row.plural.clone());
                let why = "is exclusively used to delete corrupt object(s), try again by removing this option";
                let field = "ignoreStoreReadErrorWithClusterBreakingPotential";
                Err(Status::invalid(&kind, name, vec![FieldError::invalid(field, true, why)]))
            }
        }
    }
}

impl Registry {
    /// Deletes the object `name`, which cannot be read: without preconditions, and whatever finalizers it may have.
    pub async fn delete_unreadable(&self, write: &mut Write<'_>, name: &str) -> Result<Deleted, Status> {
        let key = self.key(write.namespace, name);
        let entry = self.entry(&key, ReadAt::Latest).await?.ok_or_else(|| self.not_found(name))?;
        let attributes = Attributes { dry_run: false, ..write.attributes(Operation::Delete, name, None) };
        self.admission.mutate(&attributes, &mut Value::Null, write.warnings).await?;
        self.admission.validate(&attributes, &Value::Null, write.warnings).await?;
        match self.store.delete(&key, entry.revision()).await {
            // Somebody was faster.
            Ok(_) | Err(StoreError::Conflict { current: None }) => Ok(Deleted::Unread),
            Err(error) => Err(self.store_error(error, "delete", name)),
        }
    }
}

/// Upstream's error of its storage.
fn corrupt(key: &str, broken: &Broken) -> String {
    let what = what(broken);
    format!("StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {what}")
}

/// At which step it fails, and why.
fn what(broken: &Broken) -> String {
    let (step, revision) = match broken.encrypted {
        true => ("data from the storage is not transformable", 0),
        false => ("object not decodable", broken.revision),
    };
    format!("{step} revision={revision}: {}", broken.error.0)
}
