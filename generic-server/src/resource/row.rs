//! A row of the resource table.

use std::sync::Arc;

use machinery::{
    Str, Value,
    meta::gvk::{GroupVersion, GroupVersionKind, GroupVersionResource, GvkRef},
    request::Verbs,
    schema::LazySchema,
};

use super::{Converter, Printer, Strategy};
use crate::features::Features;

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
    pub schema: LazySchema,
    /// Whether objects are a built-in type (decoded as Go decodes a struct) or a custom resource (pruned and validated).
    pub built_in: bool,
    /// The key's part below the storage prefix: `pods`, `deployments`, `services/specs`, `example.com/widgets`.
    pub storage_path: Str,
    /// The group and version that objects are stored in.
    pub storage_version: GroupVersion,
    /// How objects that are stored in another version become those of this one, and back; none where all are stored in
    /// this one.
    pub conversion: Option<Converter>,
    /// The kind's rules.
    pub strategy: Arc<dyn Strategy>,
    /// Table columns.
    pub printer: Arc<dyn Printer>,
    /// Fields beyond metadata.name and metadata.namespace that field selectors know.
    pub selectable_fields: Vec<SelectableField>,
    /// How a field selector that names any other field is refused.
    pub unknown_field: UnknownField,
    /// What users are told of the version, if it is deprecated.
    pub deprecation: Option<Deprecation>,
    /// When the resource is there to be served at all.
    pub availability: Availability,
}

/// That a version is deprecated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deprecation {
    /// A Warning header for every request.
    pub warning: Str,
    /// The minor version of Kubernetes without it, like `1.38`; empty if that is not known.
    pub removed_in: Str,
}

/// What must be so for a resource to be served, besides that it is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Availability {
    /// The feature gate that must be on, if there is one.
    pub gate: Option<&'static str>,
    /// The minor version of Kubernetes 1 that has brought it; zero for those that every emulated version has.
    pub introduced: u32,
    /// The first minor version of Kubernetes 1 without it; zero if there is none up to this server's.
    pub removed: u32,
}

impl Availability {
    /// Whether a minor version does not have it any more.
    pub fn is_gone(&self, minor: u32) -> bool {
        self.removed != 0 && self.removed <= minor
    }
}

/// A field that field selectors may name.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectableField {
    /// As in the selector: `spec.nodeName`.
    pub name: Str,
    /// Where the value is in the stored object; of several places the first that is not empty.
    pub paths: Vec<Vec<Str>>,
    /// What an object without the field counts as having.
    pub default: Str,
    /// Whether only another version's selectors know the field: all versions of a resource number the same fields.
    pub hidden: bool,
}

/// The texts with which kinds refuse a field selector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownField {
    /// Kinds without fields of their own: `"x" is not a known field selector: only "metadata.name", "metadata.namespace"`.
    #[default]
    OnlyMetadata,
    /// `field label not supported: x`
    Unsupported,
    /// `field label "x" not supported for Kind`
    UnsupportedForKind,
    /// `field label not supported for group/version, Kind=Kind: x`
    UnsupportedForVersion,
}

impl SelectableField {
    /// A field whose name is also its path in the stored object.
    pub fn new(name: &str) -> Self {
        SelectableField { name: name.into(), paths: vec![split(name)], default: Str::default(), hidden: false }
    }

    /// A field that is called one thing in selectors and another in the stored object.
    pub fn at(name: &str, paths: &[&str]) -> Self {
        SelectableField {
            name: name.into(),
            paths: paths.iter().map(|p| split(p)).collect(),
            default: Str::default(),
            hidden: false,
        }
    }

    /// With what an object without the field counts as having.
    pub fn or(mut self, default: &str) -> Self {
        self.default = default.into();
        self
    }

    /// The text that selectors compare, of an object in the stored version.
    pub fn value(&self, stored: &Value) -> Str {
        let texts = self.paths.iter().filter_map(|path| match path.iter().try_fold(stored, |v, k| v.get(k))? {
            Value::String(s) => Some(s.clone()),
            Value::Bool(b) => Some(Str::new_static(if *b { "true" } else { "false" })),
            Value::Int(i) => Some(Str::from(i.to_string())),
            Value::Float(f) => Some(Str::from(f.to_string())),
            _ => None,
        });
        texts.into_iter().find(|s| !s.is_empty()).unwrap_or_else(|| self.default.clone())
    }
}

fn split(path: &str) -> Vec<Str> {
    path.split('.').map(Str::from).collect()
}

/// A subresource of a row.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Its name: `status`, `scale`, `log`.
    pub name: Str,
    /// What it is, and so who serves it.
    pub kind: SubresourceKind,
    /// The kind of its documents, where they differ from the resource's.
    pub response_kind: GroupVersionKind,
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
    /// Requests are handed on, whatever their method and the path below; the server that owns the row registers who does so.
    Proxy,
    /// A rule of its own, which the server that owns the row registers under `resource/subresource`.
    Other,
}

impl Resource {
    /// The kind in the row's version.
    pub fn gvk(&self) -> GvkRef<'_> {
        GvkRef::new(&self.group, &self.version, &self.kind)
    }

    /// The resource in its version.
    pub fn gvr(&self) -> GroupVersionResource {
        GroupVersionResource::new(self.group.clone(), self.version.clone(), self.plural.clone())
    }

    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> Str {
        if self.group.is_empty() { self.version.clone() } else { Str::from(format!("{}/{}", self.group, self.version)) }
    }

    /// `pods` or `deployments.apps`, as error messages name the resource.
    pub fn qualified(&self) -> Str {
        if self.group.is_empty() { self.plural.clone() } else { Str::from(format!("{}.{}", self.plural, self.group)) }
    }

    /// Whether objects are stored in the row's own version.
    pub fn is_storage_version(&self) -> bool {
        (&self.group, &self.version) == (&self.storage_version.group, &self.storage_version.version)
    }

    /// Leaves out of discovery in which version objects are stored, unless the feature StorageVersionHash is on.
    pub fn show_hash(&mut self, features: &Features) {
        if let Some(hash) = self.storage_version_hash.as_mut().filter(|_| !features.is_on("StorageVersionHash")) {
            *hash = Str::default();
        }
    }

    /// Whether objects are kept in storage; reviews, bindings and componentstatuses are not.
    pub fn is_stored(&self) -> bool {
        self.storage_version_hash.is_some()
    }

    /// The text with which a selector on `field` is refused; `None` if the field is known.
    pub fn refuse_field(&self, field: &str) -> Option<String> {
        let known = match field {
            "metadata.name" => true,
            "metadata.namespace" => self.namespaced || self.unknown_field == UnknownField::OnlyMetadata,
            _ => self.selectable_fields.iter().any(|f| f.name == field && !f.hidden),
        };
        (!known).then(|| match self.unknown_field {
            UnknownField::OnlyMetadata => {
                format!("\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
            }
            UnknownField::Unsupported => format!("field label not supported: {field}"),
            UnknownField::UnsupportedForKind => format!("field label \"{field}\" not supported for {}", self.kind),
            UnknownField::UnsupportedForVersion => {
                format!("field label not supported for {}, Kind={}: {field}", self.api_version(), self.kind)
            }
        })
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
