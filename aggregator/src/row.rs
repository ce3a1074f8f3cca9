//! The row of APIServices.

use std::sync::{Arc, LazyLock};

use generic_server::resource::{Column, Printer, Resource, Subresource, SubresourceKind, UnknownField, Verbs};
use machinery::{
    Str, Value,
    schema::{Schema, Shape, builtin},
};

use crate::rules::ApiServiceRules;

/// The API group.
pub(crate) const GROUP: &str = "apiregistration.k8s.io";

/// apiservices, v1.
pub(crate) fn api_services() -> Resource {
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
            response_kind: (Str::new_static(GROUP), Str::new_static("v1"), Str::new_static("APIService")),
            verbs: Verbs::STATUS,
        }],
        schema: Arc::new(Schema::of(Shape::Ref(id))),
        built_in: true,
        storage_path: Str::new_static("apiregistration.k8s.io/apiservices"),
        storage_version: (Str::new_static(GROUP), Str::new_static("v1")),
        conversion: None,
        strategy: Arc::new(ApiServiceRules),
        printer: Arc::new(Printed),
        selectable_fields: Vec::new(),
        unknown_field: UnknownField::OnlyMetadata,
        deprecation: None,
    }
}

/// The columns: name, where it is served, whether it is available, age.
struct Printed;

static COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    let column = |name: &'static str, format: &'static str, description: Str| Column {
        name: Str::new_static(name),
        kind: Str::new_static("string"),
        format: Str::new_static(format),
        description,
        priority: 0,
    };
    vec![
        column("Name", "name", Str::default()),
        column("Service", "", Str::new_static("The reference to the service that hosts this API endpoint.")),
        column("Available", "", Str::new_static("Whether this service is available.")),
        column("Age", "", Str::default()),
    ]
});

impl Printer for Printed {
    fn columns(&self) -> &[Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let text = |path: &[&str]| object.str_at(path).unwrap_or("");
        let service = match text(&["spec", "service", "name"]) {
            "" => "Local".to_owned(),
            name => format!("{}/{name}", text(&["spec", "service", "namespace"])),
        };
        let available = object
            .at(&["status", "conditions"])
            .and_then(Value::as_array)
            .unwrap_or_default()
            .iter()
            .find(|c| c.str_at(&["type"]) == Some("Available"));
        let status = available.and_then(|c| c.str_at(&["status"])).unwrap_or("Unknown");
        let available = match (status, available.and_then(|c| c.str_at(&["reason"])).unwrap_or("")) {
            ("True", _) | (_, "") => status.to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        };
        vec![
            text(&["metadata", "name"]).into(),
            service.into(),
            available.into(),
            generic_server::resource::age(object, now),
        ]
    }
}
