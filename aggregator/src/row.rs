//! The row of APIServices.

use std::sync::Arc;

use generic_server::{
    printer,
    resource::{Availability, Resource, Subresource, SubresourceKind, UnknownField},
};
use machinery::{
    Str,
    meta::{GroupVersion, GroupVersionKind},
    request::Verbs,
    schema::{Schema, Shape, builtin},
};

use crate::rules::ApiServiceRules;

/// The API group.
pub(crate) const GROUP: &str = "apiregistration.k8s.io";

/// The row of APIServices.
pub fn api_services() -> Resource {
    let id = builtin::by_gvk(GROUP, "v1", "APIService").expect("the table has APIService");
    Resource {
        group: Str::new_static(GROUP),
        version: Str::new_static("v1"),
        plural: Str::new_static("apiservices"),
        singular: Str::new_static("apiservice"),
        kind: Str::new_static("APIService"),
        list_kind: Str::new_static("APIServiceList"),
        short_names: Vec::new(),
        categories: vec![Str::new_static("api-extensions")],
        namespaced: false,
        verbs: Verbs::STANDARD,
        storage_version_hash: Some(Str::new_static("InPBPD7+PqM=")),
        subresources: vec![Subresource {
            name: Str::new_static("status"),
            kind: SubresourceKind::Status,
            response_kind: GroupVersionKind::new(GROUP, "v1", "APIService"),
            verbs: Verbs::STATUS,
        }],
        schema: Schema::of(Shape::Ref(id)).into(),
        built_in: true,
        storage_path: Str::new_static("apiregistration.k8s.io/apiservices"),
        storage_version: GroupVersion::new(Str::new_static(GROUP), Str::new_static("v1")),
        conversion: None,
        strategy: Arc::new(ApiServiceRules),
        printer: printer::api_service().printer(),
        selectable_fields: Vec::new(),
        unknown_field: UnknownField::OnlyMetadata,
        deprecation: None,
        availability: Availability::default(),
    }
}
