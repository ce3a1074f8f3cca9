//! What an update or an applied configuration does to the managers' sets, and which fields an applier gives up.

use std::collections::{HashMap, HashSet, hash_map};

use super::compare::{Comparison, compare};
use super::field_set::FieldSet;
use super::managers::{Entry, Managers};
use super::merge::merge;
use super::of_value::field_set;
use super::reconcile::{reconcile, with_named_members};
use super::remove::remove;
use super::types::Type;
use super::validate::validate;
use super::{ResetFields, Versions};
use crate::schema::Schema;
use crate::{Str, Value};

/// A field that another manager owns with a different value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Conflict {
    pub(super) identifier: String,
    pub(super) manager: String,
    pub(super) path: Vec<Str>,
}

/// Why managers could not be updated.
#[derive(Debug)]
pub(super) enum Failure {
    Conflicts(Vec<Conflict>),
    Other(String),
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Failure::Other(text)
    }
}

/// An object in one of its versions.
#[derive(Clone)]
struct Versioned {
    value: Value,
    version: Str,
}

/// What a write does to others' fields in one version.
struct Changes {
    /// The fields that it sets.
    set: FieldSet,
    /// The fields that it removes.
    removed: FieldSet,
}

impl Changes {
    fn of(found: Comparison) -> Self {
        Changes { set: found.modified.union(&found.added), removed: found.removed }
    }
}

/// The types of an object's versions.
pub(super) struct Updater<'a> {
    pub(super) schema: &'a Schema,
    pub(super) version: &'a str,
    pub(super) versions: &'a dyn Versions,
    pub(super) reset: &'a ResetFields,
}

impl<'a> Updater<'a> {
    /// The type in the request's version.
    pub(super) fn ty(&self) -> Type<'a> {
        Type::root(self.schema)
    }

    /// The type in a version; none if there is no such version any more.
    fn at(&self, version: &str) -> Option<Type<'a>> {
        // Versions of another group (Events have two) are unknown here, as upstream has it.
        match version {
            _ if version == self.version => Some(self.ty()),
            _ if group(version) == group(self.version) => self.versions.schema(version).map(Type::root),
            _ => None,
        }
    }

    /// An object in another version; none if there is no such version any more.
    fn convert(&self, object: &Versioned, version: &str) -> Result<Option<Versioned>, String> {
        if object.version == version {
            return Ok(Some(object.clone()));
        }
        let Some(ty) = self.at(version) else { return Ok(None) };
        let value = self.converted(&object.value, &object.version, version, ty)?;
        Ok(Some(Versioned { value, version: version.into() }))
    }

    /// What an object becomes in another version. What that version does not declare is an error.
    fn converted(&self, object: &Value, from: &str, to: &str, ty: Type<'_>) -> Result<Value, String> {
        let value = self.versions.convert(object, from, to).map_err(|why| why.to_string())?;
        if super::is_custom(self.schema) {
            validate(&value, ty, true)?; // built-in conversions cannot make anything else
        }
        Ok(value)
    }

    fn here(&self, value: &Value) -> Versioned {
        Versioned { value: value.clone(), version: self.version.into() }
    }

    /// Brings all sets in line with today's types. Entries of versions that are gone go with them.
    pub(super) fn reconcile(&self, managers: &mut Managers) {
        managers.0.retain_mut(|entry| match self.at(&entry.version) {
            Some(ty) => {
                entry.set = reconcile(&entry.set, ty);
                true
            }
            None => false,
        });
    }

    /// Takes what changed from all managers but `workflow`. Without `force` that is a conflict.
    fn update(
        &self,
        old: &Value,
        new: &Value,
        managers: &mut Managers,
        workflow: Option<&Entry>,
        force: bool,
    ) -> Result<Comparison, Failure> {
        let found = compare(old, new, self.ty()).map_err(|e| format!("failed to compare objects: {e}"))?;
        if found.is_same() {
            managers.0.retain(|e| workflow.is_some_and(|w| w.same_manager(e)) || !e.set.is_empty());
            return Ok(found);
        }
        let own = Changes::of(found.map(|s| self.reset.filter(s)));
        let mut changes: HashMap<Str, Option<Changes>> = HashMap::from([(self.version.into(), Some(own))]);
        let mut conflicts = Vec::new();
        let mut gone = HashSet::new();
        for (i, entry) in managers.0.iter_mut().enumerate() {
            if workflow.is_some_and(|w| w.same_manager(entry)) {
                continue;
            }
            let changes = match changes.entry(entry.version.clone()) {
                hash_map::Entry::Occupied(known) => known.into_mut(),
                hash_map::Entry::Vacant(free) => {
                    free.insert(self.compare_in(old, new, &entry.version)?.map(Changes::of))
                }
            };
            let Some(changes) = changes else {
                gone.insert(i);
                continue;
            };
            let taken = entry.set.intersection(&changes.set);
            if !taken.is_empty() {
                if !force {
                    let (identifier, manager) = (entry.identifier(), entry.shown());
                    conflicts.extend(taken.paths().into_iter().map(|path| Conflict {
                        identifier: identifier.clone(),
                        manager: manager.clone(),
                        path,
                    }));
                }
                entry.set = entry.set.difference(&taken);
            }
            entry.set = entry.set.difference(&changes.removed);
        }
        if !conflicts.is_empty() {
            conflicts.sort_by(|a, b| a.identifier.cmp(&b.identifier)); // stable: paths stay in order
            return Err(Failure::Conflicts(conflicts));
        }
        let mut i = 0;
        managers.0.retain(|e| {
            i += 1;
            !gone.contains(&(i - 1)) && !e.set.is_empty()
        });
        Ok(found)
    }

    fn compare_in(&self, old: &Value, new: &Value, version: &str) -> Result<Option<Comparison>, String> {
        let Some(ty) = self.at(version) else { return Ok(None) };
        let convert = |v: &Value, which: &str| {
            self.converted(v, self.version, version, ty).map_err(|e| format!("failed to convert {which} object: {e}"))
        };
        let (old, new) = (convert(old, "old")?, convert(new, "new")?);
        let found = compare(&old, &new, ty).map_err(|e| format!("failed to compare objects: {e}"))?;
        Ok(Some(found.map(|s| self.reset.filter(s))))
    }

    /// Whether nothing differs between two objects, as far as fields are concerned.
    pub(super) fn is_same(&self, old: &Value, new: &Value) -> bool {
        super::compare::equal(old, new)
    }

    /// The managers after `new` has replaced `old`, and what the one who did it now owns by it.
    pub(super) fn replaced(&self, old: &Value, new: &Value, managers: &mut Managers) -> Result<FieldSet, Failure> {
        self.reconcile(managers);
        let found = self.update(old, new, managers, None, true)?;
        Ok(self.reset.filter(&found.modified.union(&found.added)))
    }

    /// Merges a configuration into the live object, takes out what its applier no longer applies and nobody else does,
    /// and updates the managers. Gives no object if it did not change.
    pub(super) fn apply(
        &self,
        live: &Value,
        config: &Value,
        managers: &mut Managers,
        mut applier: Entry,
        force: bool,
    ) -> Result<Option<Value>, Failure> {
        self.reconcile(managers);
        let merged = merge(live, config, self.ty()).map_err(|e| format!("failed to merge config: {e}"))?;
        applier.set = self.reset.filter(&field_set(config, self.ty()));
        let mut last = None;
        match managers.0.iter_mut().find(|e| e.same_manager(&applier)) {
            Some(before) => last = Some(std::mem::replace(before, applier.clone())),
            None => managers.0.push(applier.clone()),
        }
        let new = self.prune(&merged, managers, last.as_ref()).map_err(|e| format!("failed to prune fields: {e}"))?;
        self.update(live, &new, managers, Some(&applier), force)?;
        managers.0.retain(|e| !e.set.is_empty());
        Ok((!super::compare::equal(live, &new)).then_some(new))
    }

    fn prune(&self, merged: &Value, managers: &Managers, last: Option<&Entry>) -> Result<Value, String> {
        let Some(last) = last.filter(|e| !e.set.is_empty()) else { return Ok(merged.clone()) };
        let here = self.here(merged);
        let (Some(ty), Some(merged)) = (self.at(&last.version), self.convert(&here, &last.version)?) else {
            return Ok(merged.clone());
        };
        let last_set = with_named_members(&last.set, ty);
        let value = remove(&merged.value, &last_set, ty);
        let pruned = Versioned { value, version: merged.version.clone() };
        let pruned = self.add_back_owned(&merged, pruned, managers)?;
        let pruned = self.add_back_dangling(&merged, pruned, &last_set, ty)?;
        match self.convert(&pruned, self.version)? {
            Some(v) => Ok(v.value),
            None => Err(format!("no version {}", self.version)),
        }
    }

    /// Puts back what others, or the new configuration, own.
    fn add_back_owned(&self, merged: &Versioned, pruned: Versioned, managers: &Managers) -> Result<Versioned, String> {
        let mut owned: Vec<(Str, Vec<FieldSet>)> = Vec::new();
        let mut places: HashMap<&Str, usize> = HashMap::new();
        for entry in &managers.0 {
            let place = *places.entry(&entry.version).or_insert(owned.len());
            if place == owned.len() {
                owned.push((entry.version.clone(), Vec::new()));
            }
            owned[place].1.push(entry.set.clone());
        }
        // First in the version that was pruned: a conversion may need what was taken out.
        owned.sort_by_key(|(v, _)| *v != pruned.version);
        let (mut merged, mut pruned) = (merged.clone(), pruned);
        for (version, sets) in owned {
            let set = FieldSet::union_of(sets);
            let Some(ty) = self.at(&version) else { continue };
            let (Some(m), Some(p)) = (self.convert(&merged, &version)?, self.convert(&pruned, &version)?) else {
                continue;
            };
            let named = |set: &FieldSet| with_named_members(set, ty);
            let keep = named(&field_set(&p.value, ty)).union(&named(&set));
            let gone = named(&field_set(&m.value, ty)).difference(&keep);
            pruned = Versioned { value: remove(&m.value, &gone, ty), version };
            merged = m;
        }
        Ok(pruned)
    }

    /// Puts back all that the applier did not own before.
    fn add_back_dangling(
        &self,
        merged: &Versioned,
        pruned: Versioned,
        last: &FieldSet,
        ty: Type<'_>,
    ) -> Result<Versioned, String> {
        let Some(pruned) = self.convert(&pruned, &merged.version)? else { return Ok(merged.clone()) };
        let named = |value: &Value| with_named_members(&field_set(value, ty), ty);
        let gone = named(&merged.value).difference(&named(&pruned.value)).intersection(last);
        Ok(Versioned { value: remove(&merged.value, &gone, ty), version: merged.version.clone() })
    }
}

fn group(version: &str) -> &str {
    version.split_once('/').map_or("", |(group, _)| group)
}
