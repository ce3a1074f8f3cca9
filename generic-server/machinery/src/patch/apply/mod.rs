//! Server-side apply and field management (KEP-555): who owns which field of an object.
//!
//! [`apply`] merges an applied configuration; [`track_update`] follows every other write. Both keep
//! `metadata.managedFields`. The types decide what a field is: atomic parts are owned as one, lists of objects item by
//! item, maps key by key. Appliers may not change what others own, unless they force it.

mod client_side;
mod compare;
mod element;
mod field_set;
mod items;
mod managers;
mod merge;
mod of_value;
mod plain;
mod reconcile;
mod remove;
mod scale;
mod times;
mod types;
mod updater;
mod validate;

pub use field_set::{FieldSet, FieldSetError};
pub use managers::ManagedFieldsError;
pub use plain::{PlainError, apply_plain};
pub use scale::Scale;
pub use times::{Compared, keep_times};

use crate::meta::GroupVersionKind;
use crate::schema::Schema;
use crate::{Str, Value};
use managers::{Entry, Managers, Operation, take_managers, without_managers};
use types::Type;
use updater::{Conflict, Failure, Updater};

/// The longest name of a manager, in bytes.
pub const MAX_MANAGER: usize = 128;

/// The other versions of a kind.
pub trait Versions {
    /// The schema of a version (`apps/v1`); none if it is not served any more: its entries are dropped.
    fn schema(&self, version: &str) -> Option<&Schema>;
    /// The object, which is in the version `from`, in the version `to`; there is a schema for both.
    ///
    /// # Errors
    /// It cannot be converted.
    fn convert(&self, object: &Value, from: &str, to: &str) -> Result<Value, ConvertError>;
}

/// Why an object cannot be had in another version: what the converter says. What is wrong makes no difference to who
/// asked, so there are no cases.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConvertError(pub Str);

/// For kinds that have one version.
pub struct OneVersion;

impl Versions for OneVersion {
    fn schema(&self, _: &str) -> Option<&Schema> {
        None
    }

    fn convert(&self, object: &Value, _: &str, _: &str) -> Result<Value, ConvertError> {
        Ok(object.clone())
    }
}

/// The fields that an endpoint does not let a client set: nobody comes to own them through it.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ResetFields {
    /// Every field can be set.
    #[default]
    None,
    /// These and all below them are left alone.
    Exclude(FieldSet),
    /// Only what stands at or below one of these paths can be set: member names, and `*` for any element.
    Include(Vec<Vec<Str>>),
}

impl ResetFields {
    /// Excludes members by their paths: `&[&["status"]]`.
    pub fn exclude(paths: &[&[&str]]) -> Self {
        ResetFields::Exclude(FieldSet::of_fields(paths))
    }

    fn filter(&self, set: &FieldSet) -> FieldSet {
        match self {
            ResetFields::None => set.clone(),
            ResetFields::Exclude(fields) => set.recursive_difference(fields),
            ResetFields::Include(patterns) => set.include(patterns),
        }
    }
}

/// Who writes, and how.
#[derive(Clone, Copy)]
pub struct Write<'a> {
    /// The field manager's name: see [`manager_name`].
    pub manager: &'a str,
    /// The subresource that is written; empty for the object itself.
    pub subresource: &'a str,
    /// The kind in the version of the request. The objects are in that version.
    pub kind: &'a GroupVersionKind,
    /// The time, RFC 3339 in whole seconds.
    pub now: &'a str,
    /// What the endpoint does not let clients set.
    pub reset: &'a ResetFields,
    /// The kind's other versions.
    pub versions: &'a dyn Versions,
}

/// Why an applied configuration was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ApplyError {
    /// 400 `BadRequest`.
    #[error("{0}")]
    BadRequest(String),
    /// 409 `Conflict`: other managers own these fields.
    #[error("{message}")]
    Conflict {
        /// The Status' message.
        message: String,
        /// The causes, of the reason `FieldManagerConflict`: message and field.
        causes: Vec<(String, String)>,
    },
    /// 500 without a reason, as upstream answers for configurations that do not fit the type.
    #[error("{0}")]
    Internal(String),
}

impl ApplyError {
    /// The HTTP status code.
    pub fn code(&self) -> u16 {
        match self {
            ApplyError::BadRequest(_) => 400,
            ApplyError::Conflict { .. } => 409,
            ApplyError::Internal(_) => 500,
        }
    }
}

/// The manager of a request: the `fieldManager` parameter, or what the User-Agent says before its first slash.
pub fn manager_name(field_manager: &str, user_agent: &str) -> String {
    if !field_manager.is_empty() {
        return field_manager.to_owned();
    }
    let mut name = String::new();
    for c in user_agent.split('/').next().unwrap_or_default().chars() {
        if !crate::meta::go_text::is_print(c) {
            continue;
        }
        if name.len() + c.len_utf8() > MAX_MANAGER {
            break;
        }
        name.push(c);
    }
    name
}

/// Applies a configuration to the live object, or to nothing. Gives the merged object with its managers; it is not
/// defaulted, pruned or validated. Without `force`, a change to a field that another manager owns is a conflict.
pub fn apply(
    live: Option<&Value>,
    config: &Value,
    schema: &Schema,
    write: &Write<'_>,
    force: bool,
) -> Result<Value, ApplyError> {
    let found = crate::meta::kind_of(config);
    if found != *write.kind {
        return Err(ApplyError::BadRequest(format!("invalid object type: {found}")));
    }
    if matches!(config.at(&["metadata", "managedFields"]), Some(Value::Array(_))) {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".into()));
    }
    let zero = types::zero(schema);
    let live = live.unwrap_or(&zero);
    let managers = Managers::stored(live.at(&["metadata", "managedFields"]))
        .map_err(|e| ApplyError::Internal(format!("failed to decode managed fields: {e}")))?;
    let bare = without_managers(live);
    validate::validate(config, Type::root(schema), false).map_err(|e| {
        ApplyError::Internal(format!("failed to create typed patch object ({}): {e}", label(config, &found)))
    })?;
    if is_custom(schema) {
        // It may be older than its schema.
        validate::validate(&bare, Type::root(schema), true).map_err(|e| {
            ApplyError::Internal(format!("failed to create typed live object ({}): {e}", label(&bare, write.kind)))
        })?;
    }
    let job = Apply { bare: &bare, zero: &zero, config, schema, write, managers };
    let (mut object, managers) = job.run_as_kubectl(force)?;
    if !is_custom(schema) {
        super::strategic::to_type(&mut object, Some(&bare), schema).map_err(|e| {
            let of = label(config, &found);
            ApplyError::Internal(format!(
                "failed to convert new object ({of}) to proper version: unable to convert unstructured object to {found}: {e}"
            ))
        })?;
    }
    set_managers(&mut object, managers);
    Ok(object)
}

/// One request to apply.
struct Apply<'a> {
    bare: &'a Value,
    zero: &'a Value,
    config: &'a Value,
    schema: &'a Schema,
    write: &'a Write<'a>,
    managers: Managers,
}

impl Apply<'_> {
    /// Applies; for kubectl also takes over what client-side apply left behind.
    fn run_as_kubectl(&self, force: bool) -> Result<(Value, Managers), ApplyError> {
        let kubectl = self.write.manager == "kubectl";
        let (object, managers) = match self.run(force) {
            Err(Failure::Conflicts(conflicts)) if kubectl => {
                let left = match client_side::owned(self.bare, self.schema, &self.version()) {
                    Some(owned) => conflicts.into_iter().filter(|c| !owned.has(&c.path)).collect(),
                    None => conflicts,
                };
                if left.is_empty() { self.run(true) } else { Err(Failure::Conflicts(left)) }
            }
            other => other,
        }
        .map_err(|failure| match failure {
            Failure::Conflicts(conflicts) => conflict(&conflicts),
            Failure::Other(text) => ApplyError::Internal(text),
        })?;
        let object = if kubectl { client_side::synced(object, self.config) } else { object };
        Ok((object, managers))
    }

    fn version(&self) -> Str {
        self.write.kind.api_version()
    }

    fn run(&self, force: bool) -> Result<(Value, Managers), Failure> {
        let version = self.version();
        let updater =
            Updater { schema: self.schema, version: &version, versions: self.write.versions, reset: self.write.reset };
        let mut managers = self.managers.clone();
        if managers.0.is_empty() {
            // Nobody kept track so far: what is there belongs to whoever came before.
            let entry = Entry { manager: "before-first-apply".into(), ..self.entry(&version, Operation::Update) };
            record_update(&updater, self.zero, self.bare, &mut managers, entry, self.write.now)?;
        }
        let applier = self.entry(&version, Operation::Apply);
        let changed = updater.apply(self.bare, self.config, &mut managers, applier.clone(), force)?;
        strip(&mut managers, &applier);
        if let Some(entry) = managers.0.iter_mut().find(|e| e.same_manager(&applier)) {
            let before = self.managers.0.iter().find(|e| e.same_manager(&applier));
            entry.time =
                if changed.is_some() { Some(self.write.now.into()) } else { before.and_then(|e| e.time.clone()) };
        }
        Ok((changed.unwrap_or_else(|| self.bare.clone()), managers))
    }

    fn entry(&self, version: &str, operation: Operation) -> Entry {
        Entry {
            manager: self.write.manager.into(),
            operation,
            subresource: self.write.subresource.into(),
            version: version.into(),
            time: None,
            set: FieldSet::new(),
        }
    }
}

/// Sets `new`'s managers after any write but apply: whoever writes owns what changed. `old` is the object before, in the
/// same version; none for a creation.
///
/// `managedFields` that come with `new` count (a client may give up fields, or reset all with `[{}]` or `[]`), except
/// through a subresource. Objects without managers stay without until they are applied to.
pub fn track_update(old: Option<&Value>, new: &mut Value, schema: &Schema, write: &Write<'_>) {
    let wanted = take_managers(new);
    let live = old.and_then(|o| o.at(&["metadata", "managedFields"]));
    if write.subresource.is_empty() && is_reset(wanted.as_ref(), is_custom(schema)) {
        if old.is_some() {
            return;
        }
        return track(old, new, schema, write, Managers::default(), live, false);
    }
    let own = if write.subresource.is_empty() && wanted.as_ref() != live {
        wanted.as_ref().and_then(|w| Managers::decode(Some(w)).ok()).filter(|m| !m.0.is_empty())
    } else {
        None
    };
    match (own, old) {
        (Some(managers), _) => track(old, new, schema, write, managers, live, false),
        (None, old) => {
            let managers = Managers::stored(live).unwrap_or_default();
            if old.is_none() || !managers.0.is_empty() {
                track(old, new, schema, write, managers, live, true);
            }
        }
    }
}

fn track(
    old: Option<&Value>,
    new: &mut Value,
    schema: &Schema,
    write: &Write<'_>,
    mut managers: Managers,
    live: Option<&Value>,
    as_stored: bool,
) {
    let version = write.kind.api_version();
    let updater = Updater { schema, version: &version, versions: write.versions, reset: write.reset };
    let bare = old.map_or_else(|| types::zero(schema), without_managers);
    let entry = Entry {
        manager: write.manager.into(),
        operation: Operation::Update,
        subresource: write.subresource.into(),
        version: version.as_str().into(),
        time: None,
        set: FieldSet::new(),
    };
    let keep = |new: &mut Value| {
        if let Some(live) = live {
            new.set(&["metadata", "managedFields"], live.clone());
        }
    };
    if as_stored && old.is_some() && updater.is_same(&bare, new) {
        return keep(new);
    }
    let fits = !is_custom(schema)
        || (validate::validate(new, updater.ty(), true).is_ok()
            && validate::validate(&bare, updater.ty(), true).is_ok());
    if !fits {
        // What does not fit its type cannot be followed: the managers stay as they were.
        return keep(new);
    }
    match record_update(&updater, &bare, new, &mut managers, entry, write.now) {
        Ok(()) => {
            managers.cap();
            set_managers(new, managers);
        }
        // What does not fit another version that somebody manages it through: no managers are better than wrong ones.
        Err(_) => drop(take_managers(new)),
    }
}

/// Adds to an updater's entry what it changed. Its time changes only then.
fn record_update(
    updater: &Updater<'_>,
    old: &Value,
    new: &Value,
    managers: &mut Managers,
    mut entry: Entry,
    now: &str,
) -> Result<(), Failure> {
    entry.set = strip_set(&updater.replaced(old, new, managers)?);
    if entry.set.is_empty() {
        return Ok(());
    }
    entry.time = Some(now.into());
    match managers.0.iter_mut().find(|e| e.same_manager(&entry)) {
        Some(before) => {
            entry.set = entry.set.union(&before.set);
            *before = entry;
        }
        None => managers.0.push(entry),
    }
    Ok(())
}

fn is_custom(schema: &Schema) -> bool {
    schema.as_object().is_none_or(|o| o.definition.is_none())
}

/// Whether a write asks to forget all managers. Custom resources lose an empty list when they are read.
fn is_reset(managed_fields: Option<&Value>, custom: bool) -> bool {
    let blank = |entry: &Value| entry.as_object().is_some_and(|m| m.values().all(Value::is_null));
    match managed_fields {
        Some(Value::Array(entries)) => match entries.as_slice() {
            [] => !custom,
            [only] => blank(only),
            _ => false,
        },
        _ => false,
    }
}

/// The fields that the server sets and nobody owns.
fn stripped() -> &'static FieldSet {
    static SET: std::sync::LazyLock<FieldSet> = std::sync::LazyLock::new(|| {
        FieldSet::of_fields(&[
            &["apiVersion"],
            &["kind"],
            &["metadata"],
            &["metadata", "name"],
            &["metadata", "namespace"],
            &["metadata", "creationTimestamp"],
            &["metadata", "selfLink"],
            &["metadata", "uid"],
            &["metadata", "clusterName"],
            &["metadata", "generation"],
            &["metadata", "managedFields"],
            &["metadata", "resourceVersion"],
        ])
    });
    &SET
}

fn strip_set(set: &FieldSet) -> FieldSet {
    set.difference(stripped())
}

fn strip(managers: &mut Managers, manager: &Entry) {
    if let Some(entry) = managers.0.iter_mut().find(|e| e.same_manager(manager)) {
        entry.set = strip_set(&entry.set);
    }
    managers.0.retain(|e| !e.set.is_empty());
}

fn set_managers(object: &mut Value, managers: Managers) {
    match managers.encode() {
        Some(fields) => object.set(&["metadata", "managedFields"], fields),
        None => drop(take_managers(object)),
    }
}

/// Whether `managedFields` would be accepted: what admission made of them is dropped otherwise.
pub fn is_valid(managed_fields: Option<&Value>) -> bool {
    Managers::decode(managed_fields).is_ok()
}

/// An object in texts about it: `namespace/name; group/version, Kind=kind`.
fn label(object: &Value, kind: &GroupVersionKind) -> String {
    let text = |key| object.str_at(&["metadata", key]).unwrap_or_default();
    format!("{}/{}; {kind}", text("namespace"), text("name"))
}

fn conflict(conflicts: &[Conflict]) -> ApplyError {
    let causes: Vec<(String, String)> =
        conflicts.iter().map(|c| (format!("conflict with {}", c.manager), reconcile::shown(&c.path))).collect();
    let message = match causes.as_slice() {
        [(cause, field)] => format!("Apply failed with 1 conflict: {cause}: {field}"),
        many => {
            let mut lines = Vec::new();
            for (i, (c, (_, field))) in conflicts.iter().zip(many).enumerate() {
                if i == 0 || conflicts[i - 1].identifier != c.identifier {
                    lines.push(format!("conflicts with {}:", c.manager));
                }
                lines.push(format!("- {field}"));
            }
            format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n"))
        }
    };
    ApplyError::Conflict { message, causes }
}

#[cfg(test)]
mod tests;
