//! The field managers of a scale: those who own the replicas of its object, under the scale's own path.

use machinery::{
    Str, Value,
    meta::{GroupVersionKind, TimeForm, Timestamp, status::Status},
    patch::apply::{self, OneVersion, ResetFields, Scale},
    schema::{Schema, builtin},
};

use crate::options::WriteOptions;
use crate::resource::{Resource, SubresourceKind};

const PATH: [&str; 2] = ["metadata", "managedFields"];

/// A write of a scale.
pub(super) struct ScaleFields<'a> {
    /// The version of the request.
    pub(super) row: &'a Resource,
    /// All versions of the kind; empty if there is just one.
    pub(super) versions: &'a [Resource],
    pub(super) options: &'a WriteOptions,
}

impl ScaleFields<'_> {
    /// Gives a scale the managers of its object that own the replicas.
    pub(super) fn show(&self, object: &Value, scale: &mut Value) {
        // Managers that do not decode are none, as for other writes.
        let shown = self.with_paths(|paths| paths.of_parent(object.at(&PATH)));
        if let Ok(Some(fields)) = shown {
            scale.set(&PATH, fields);
        }
    }

    /// Notes which fields an update of the scale sets.
    pub(super) fn track(&self, old: &Value, new: &mut Value) {
        self.with_write(|write| apply::track_update(Some(old), new, scale_schema(), write));
    }

    /// Applies a configuration of the scale.
    pub(super) fn apply(&self, scale: &Value, config: &Value) -> Result<Value, Status> {
        let applied = self.with_write(|w| apply::apply(Some(scale), config, scale_schema(), w, self.options.force));
        applied.map_err(Status::from)
    }

    /// Gives the object the managers that it has after the scale was written.
    pub(super) fn carry_back(&self, scale: &Value, object: &mut Value) {
        let back = self.with_paths(|paths| paths.to_parent(object.at(&PATH), scale.at(&PATH), &self.row.api_version()));
        match back {
            Ok(Some(fields)) => object.set(&PATH, fields),
            Ok(None) => drop(object.remove_at(&PATH)),
            Err(_) => {}
        }
    }

    fn with_write<T>(&self, run: impl FnOnce(&apply::Write<'_>) -> T) -> T {
        let kind = GroupVersionKind::new("autoscaling", "v1", "Scale");
        let now = Timestamp::now().text(TimeForm::Seconds);
        run(&apply::Write {
            manager: &self.options.field_manager,
            subresource: "scale",
            kind: &kind,
            now: &now,
            reset: &ResetFields::None,
            versions: &OneVersion,
        })
    }

    /// Calls `run` with where the replicas are in each version of the kind.
    fn with_paths<T>(&self, run: impl FnOnce(&Scale<'_>) -> T) -> T {
        let versions: Vec<(Str, Option<Vec<&str>>)> = self
            .versions
            .iter()
            .chain([self.row])
            .filter(|row| row.group == self.row.group)
            .map(|row| {
                let path = match row.subresource("scale").map(|s| &s.kind) {
                    Some(SubresourceKind::Scale { spec_replicas, .. }) => {
                        Some(spec_replicas.iter().map(Str::as_str).collect())
                    }
                    _ => None,
                };
                (row.api_version(), path)
            })
            .collect();
        let paths: Vec<(&str, Option<&[&str]>)> = versions.iter().map(|(v, p)| (v.as_str(), p.as_deref())).collect();
        run(&Scale { paths: &paths })
    }
}

fn scale_schema() -> &'static Schema {
    builtin::schema_of("autoscaling", "v1", "Scale").expect("the table has Scale")
}
