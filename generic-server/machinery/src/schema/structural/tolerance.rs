//! What an update of a CRD may keep of rules that did not hold before: it was stored when there were no such rules.

use super::check::any_node;
use super::invariants::{self, list, schema, type_of};
use super::{defaults, parse, rules};
use crate::Value;
use crate::value::Path;

/// The rules that a schema need not follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tolerance {
    /// Types have one of the known names.
    pub types: bool,
    /// The schema is structural. (What only structural schemas can do still asks for it.)
    pub structure: bool,
    /// Defaults have no unknown fields.
    pub pruned_defaults: bool,
    /// The items of sets are atomic.
    pub atomic_sets: bool,
    /// The items of sets and maps, and the keys of the latter, are always there.
    pub set_keys: bool,
}

impl Tolerance {
    /// What a stored `openAPIV3Schema` does not follow.
    pub fn of(props: &Value) -> Self {
        let structural = invariants::errors(props, &Path::ROOT).is_empty();
        Tolerance {
            types: any_node(props, &|p| !type_of(p).is_empty() && !rules::TYPES.contains(&type_of(p))),
            structure: !structural,
            pruned_defaults: structural && defaults::any_unpruned(&parse(props)),
            atomic_sets: any_node(props, &|p| {
                p.str_at(&["x-kubernetes-list-type"]) == Some("set")
                    && schema(p, "items").is_some_and(|items| rules::splits(items).is_some())
            }),
            set_keys: any_node(props, &|p| {
                let mut errors = Vec::new();
                rules::keys_are_set(p, &Path::ROOT, &mut errors);
                !errors.is_empty()
            }),
        }
    }

    /// What either tolerates.
    pub fn or(self, other: Self) -> Self {
        Tolerance {
            types: self.types || other.types,
            structure: self.structure || other.structure,
            pruned_defaults: self.pruned_defaults || other.pruned_defaults,
            atomic_sets: self.atomic_sets || other.atomic_sets,
            set_keys: self.set_keys || other.set_keys,
        }
    }
}

/// Whether a schema needs to be structural whatever it was before: it has defaults or one of Kubernetes' extensions.
pub fn needs_structure(props: &Value) -> bool {
    any_node(props, &|p| {
        let flag = |key: &str| invariants::flag(p, key);
        let some = |key: &str| !list(p, key).is_empty();
        p.get("default").is_some_and(|d| !d.is_null())
            || flag("x-kubernetes-embedded-resource")
            || flag("x-kubernetes-int-or-string")
            || p.get("x-kubernetes-preserve-unknown-fields").is_some()
            || p.get("x-kubernetes-list-type").is_some()
            || some("x-kubernetes-list-map-keys")
            || some("x-kubernetes-validations")
    })
}
