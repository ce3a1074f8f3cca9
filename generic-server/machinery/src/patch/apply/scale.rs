//! Managers of a scaled object, as its scale subresource shows and changes them: only those of the replicas count, under
//! the scale's own path.

use std::collections::HashMap;

use super::field_set::FieldSet;
use super::managers::{Entry, Identity, ManagedFieldsError, Managers};
use super::reconcile::field_path;
use crate::{Str, Value};

const SCALE_VERSION: &str = "autoscaling/v1";

/// Where the replicas of a kind are, in each of its versions.
pub struct Scale<'a> {
    /// Version and path of member names: `("apps/v1", &["spec", "replicas"])`. A version without a scale has no path.
    pub paths: &'a [(&'a str, Option<&'a [&'a str]>)],
}

impl Scale<'_> {
    fn path(&self, version: &str) -> Option<Option<Vec<Str>>> {
        let (_, path) = self.paths.iter().find(|(v, _)| *v == version)?;
        Some(path.map(field_path))
    }

    /// The scale's `managedFields`, from those of the object.
    ///
    /// # Errors
    /// Those cannot be read.
    pub fn of_parent(&self, parent: Option<&Value>) -> Result<Option<Value>, ManagedFieldsError> {
        let entries = Managers::decode(parent)?.0.into_iter().filter_map(|entry| {
            let path = self.path(&entry.version)??;
            entry.set.has(&path).then(|| Entry { set: replicas(), version: SCALE_VERSION.into(), ..entry })
        });
        Ok(Managers(entries.collect()).encode())
    }

    /// The object's `managedFields`, after the scale was written in the object's `version`.
    ///
    /// # Errors
    /// Those of one of the two cannot be read.
    pub fn to_parent(
        &self,
        parent: Option<&Value>,
        scale: Option<&Value>,
        version: &str,
    ) -> Result<Option<Value>, ManagedFieldsError> {
        let mut scaled: Vec<Option<Entry>> = Managers::decode(scale)?.0.into_iter().map(Some).collect();
        let places: HashMap<Identity, usize> =
            scaled.iter().flatten().enumerate().map(|(i, entry)| (entry.identity(), i)).collect();
        let mut out = Managers::default();
        let parent = Managers::decode(parent)?;
        let times: HashMap<Identity, Option<Str>> =
            parent.0.iter().map(|entry| (entry.identity(), entry.time.clone())).collect();
        for mut entry in parent.0.iter().cloned() {
            let Some(path) = self.path(&entry.version) else { continue };
            let owned = path.filter(|p| entry.set.has(p));
            if let Some(path) = owned {
                // Who updates is known with the version, which is another one here: such an entry is always made anew.
                match places.get(&entry.identity()).and_then(|i| scaled[*i].take()) {
                    Some(_) => {}
                    None => entry.set = entry.set.difference(&of_path(&path)),
                }
            }
            if !entry.set.is_empty() {
                out.0.push(entry);
            }
        }
        let here = self.path(version).flatten().unwrap_or_default();
        for entry in scaled.into_iter().flatten() {
            if entry.set.has(&field_path(&["spec", "replicas"])) {
                // An entry that is new here has no time, as upstream has it.
                let time = times.get(&entry.identity()).cloned().flatten();
                out.0.push(Entry { set: of_path(&here), version: version.into(), time, ..entry });
            }
        }
        Ok(out.encode())
    }
}

fn replicas() -> FieldSet {
    FieldSet::of_fields(&[&["spec", "replicas"]])
}

fn of_path(path: &[Str]) -> FieldSet {
    let names: Vec<&str> = path.iter().filter_map(|k| k.strip_prefix("f:")).collect();
    if names.is_empty() { FieldSet::new() } else { FieldSet::of_fields(&[&names]) }
}
