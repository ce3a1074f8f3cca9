//! The row of CustomResourceDefinitions.

use std::sync::{Arc, LazyLock};

use generic_server::{
    printer,
    resource::{Availability, Column, Printer, Resource, Subresource, SubresourceKind, UnknownField},
};
use machinery::{
    Str, Value,
    meta::{GroupVersion, GroupVersionKind},
    request::Verbs,
    schema::{Schema, Shape, builtin},
};

use super::strategy::DefinitionStrategy;

const GROUP: &str = "apiextensions.k8s.io";
const KIND: &str = "CustomResourceDefinition";

/// The row of CustomResourceDefinitions.
pub fn row() -> Resource {
    let (group, version, kind) = (Str::new_static(GROUP), Str::new_static("v1"), Str::new_static(KIND));
    let id = builtin::by_gvk(GROUP, "v1", KIND).expect("the facts table has definitions");
    Resource {
        plural: Str::new_static("customresourcedefinitions"),
        singular: Str::new_static("customresourcedefinition"),
        list_kind: Str::new_static("CustomResourceDefinitionList"),
        short_names: vec![Str::new_static("crd"), Str::new_static("crds")],
        categories: vec![Str::new_static("api-extensions")],
        namespaced: false,
        verbs: Verbs::STANDARD,
        // Of the version that upstream says it prefers to store.
        storage_version_hash: Some(super::storage_hash(GROUP, "v1beta1", KIND)),
        subresources: vec![Subresource {
            name: Str::new_static("status"),
            kind: SubresourceKind::Status,
            response_kind: GroupVersionKind::new(group.clone(), version.clone(), kind.clone()),
            verbs: Verbs::STATUS,
        }],
        schema: Schema::of(Shape::Ref(id)).into(),
        built_in: true,
        storage_path: Str::new_static("apiextensions.k8s.io/customresourcedefinitions"),
        storage_version: GroupVersion::new(group.clone(), version.clone()),
        conversion: None,
        strategy: Arc::new(DefinitionStrategy),
        printer: Arc::new(Plain),
        selectable_fields: Vec::new(),
        unknown_field: UnknownField::default(),
        deprecation: None,
        availability: Availability::default(),
        group,
        version,
        kind,
    }
}

/// The name, and when the definition was made.
struct Plain;

static COLUMNS: LazyLock<[Column; 2]> = LazyLock::new(|| {
    let date = |name| Column { name: Str::new_static(name), kind: Str::new_static("date"), ..printer::AGE.column() };
    [printer::NAME.column(), date("Created At")]
});

impl Printer for Plain {
    fn columns(&self) -> &[Column] {
        &*COLUMNS
    }

    fn cells(&self, object: &Value, _now: i64) -> Vec<Value> {
        let text = |path: &[&str]| Value::from(object.str_at(path).unwrap_or_default());
        vec![text(&["metadata", "name"]), text(&["metadata", "creationTimestamp"])]
    }

    fn has_no_rows(&self) -> bool {
        true
    }
}
