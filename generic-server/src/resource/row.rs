//! A row of the resource table.

use std::sync::Arc;

use machinery::{Str, Value, schema::Schema};

use super::{Printer, Strategy, Verbs};

/// One resource in one version, and all that is to be known of it.
#[derive(Clone)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: Str,
    /// The version served by this row.
    pub version: Str,
    /// The plural name in URLs.
    pub plural: Str,
    /// The singular name.
    pub singular: Str,
    /// The kind.
    pub kind: Str,
    /// The kind of a list.
    pub list_kind: Str,
    /// Short names for people.
    pub short_names: Vec<Str>,
    /// Groups of resources for people (`all`).
    pub categories: Vec<Str>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// What the resource serves.
    pub verbs: Verbs,
    /// The hash in discovery that tells whether two servers store the same version; none for what is not stored.
    pub storage_version_hash: Option<Str>,
    /// Subresources, by name.
    pub subresources: Vec<Subresource>,
    /// The shape of objects in this version. A built-in row's schema is a `Shape::Ref` into the facts table.
    pub schema: Arc<Schema>,
    /// Whether objects are a built-in type (decoded as Go decodes a struct) or a custom resource (pruned and validated).
    pub built_in: bool,
    /// The key's part below the storage prefix: `pods`, `deployments`, `services/specs`, `example.com/widgets`.
    pub storage_path: Str,
    /// The group and version that objects are stored in.
    pub storage_version: (Str, Str),
    /// To and from the storage version; none when this row is the storage version.
    pub conversion: Option<Arc<dyn Conversion>>,
    /// The kind's rules.
    pub strategy: Arc<dyn Strategy>,
    /// Table columns.
    pub printer: Arc<dyn Printer>,
    /// Fields beyond metadata.name and metadata.namespace that field selectors know.
    pub selectable_fields: Vec<SelectableField>,
    /// A Warning header for every request, if the version is deprecated.
    pub deprecation: Option<Str>,
}

/// A field that field selectors may name.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectableField {
    /// As in the selector: `spec.nodeName`. Also the path in the stored object.
    pub name: Str,
    /// What an object without the field counts as having.
    pub default: Str,
}

/// Converts objects between a served version and the stored one. Pure; loses nothing that the stored version can hold.
pub trait Conversion: Send + Sync {
    /// From the stored version to the served one, apiVersion included.
    fn from_storage(&self, object: Value) -> Value;
    /// From the served version to the stored one, apiVersion included.
    fn to_storage(&self, object: Value) -> Value;
}

/// A subresource of a row.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Its name: `status`, `scale`, `log`.
    pub name: Str,
    /// What it is, and so who serves it.
    pub kind: SubresourceKind,
    /// Group, version and kind of its documents, where they differ from the resource's.
    pub response_kind: (Str, Str, Str),
    /// What it serves.
    pub verbs: Verbs,
}

/// Who serves a subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubresourceKind {
    /// The object itself, where only the status may change.
    Status,
    /// A `Scale` of the object: where its parts stand in the object.
    Scale {
        /// Path of the wanted number of replicas.
        spec_replicas: Vec<Str>,
        /// Path of the number of replicas there are.
        status_replicas: Vec<Str>,
        /// Path of the label selector (an object or its text), if the kind has one.
        selector: Option<Vec<Str>>,
    },
    /// A rule of its own, which the server that owns the row registers under `resource/subresource`.
    Other,
}

impl Resource {
    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> Str {
        if self.group.is_empty() { self.version.clone() } else { Str::from(format!("{}/{}", self.group, self.version)) }
    }

    /// `pods` or `deployments.apps`, as error messages name the resource.
    pub fn qualified(&self) -> Str {
        if self.group.is_empty() { self.plural.clone() } else { Str::from(format!("{}.{}", self.plural, self.group)) }
    }

    /// The subresource called `name`.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }
}

impl std::fmt::Debug for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{} {}", self.group, self.version, self.plural)
    }
}
