//! A row for tests.

use std::sync::Arc;

use machinery::{
    Str,
    meta::GroupVersion,
    request::Verbs,
    schema::{LazySchema, Schema, Shape, builtin},
};

use crate::printer::Table;
use crate::resource::{Availability, Resource, Strategy, UnknownField};

/// Has no rules of its own.
struct Plain;

impl Strategy for Plain {}

/// Config maps, without rules of their own.
pub(crate) fn config_maps() -> Resource {
    let id = builtin::by_gvk("", "v1", "ConfigMap").expect("it is built in");
    let text = Str::new_static;
    Resource {
        group: Str::default(),
        version: text("v1"),
        plural: text("configmaps"),
        singular: text("configmap"),
        kind: text("ConfigMap"),
        list_kind: text("ConfigMapList"),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: Verbs::STANDARD,
        storage_version_hash: Some(text("hash")),
        subresources: Vec::new(),
        schema: LazySchema::from(Schema::of(Shape::Ref(id))),
        built_in: true,
        storage_path: text("configmaps"),
        storage_version: GroupVersion::new("", "v1"),
        conversion: None,
        strategy: Arc::new(Plain),
        printer: Table::new(&[], |_, _| Vec::new()).printer(),
        selectable_fields: Vec::new(),
        unknown_field: UnknownField::default(),
        deprecation: None,
        availability: Availability::default(),
    }
}
