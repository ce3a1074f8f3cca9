//! Rows of built-in kinds, without rules of their own: policies look at objects, not at what makes them valid.

use std::sync::Arc;

use generic_server::{
    printer,
    resource::{Availability, Conversion, Converter, Resource, Strategy, UnknownField},
};
use machinery::{
    Str, Value,
    meta::GroupVersion,
    request::Verbs,
    schema::{LazySchema, Schema, Shape, builtin},
};

/// Group, the versions with the one first that objects are stored in, plural, kind, and whether objects live in namespaces.
type Kind = (&'static str, &'static [&'static str], &'static str, &'static str, bool);

const ADMISSION: &str = "admissionregistration.k8s.io";

/// What policies are made of, what they need to know, and what is written in their presence.
const KINDS: [Kind; 12] = [
    (ADMISSION, &["v1"], "validatingadmissionpolicies", "ValidatingAdmissionPolicy", false),
    (ADMISSION, &["v1"], "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", false),
    (ADMISSION, &["v1"], "mutatingadmissionpolicies", "MutatingAdmissionPolicy", false),
    (ADMISSION, &["v1"], "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", false),
    (ADMISSION, &["v1"], "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", false),
    (ADMISSION, &["v1"], "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", false),
    ("", &["v1"], "namespaces", "Namespace", false),
    ("", &["v1"], "services", "Service", true),
    ("discovery.k8s.io", &["v1"], "endpointslices", "EndpointSlice", true),
    ("", &["v1"], "configmaps", "ConfigMap", true),
    ("", &["v1"], "pods", "Pod", true),
    ("autoscaling", &["v2", "v1"], "horizontalpodautoscalers", "HorizontalPodAutoscaler", true),
];

/// Has no rules of its own.
struct Plain;

impl Strategy for Plain {}

/// Between versions that differ in their names alone, as far as these tests go.
struct Renamed {
    stored: Str,
    served: Str,
}

fn renamed(mut object: Value, to: &Str) -> Value {
    object.set(&["apiVersion"], to.clone());
    object
}

impl Conversion for Renamed {
    fn from_storage(&self, object: Value) -> Value {
        renamed(object, &self.served)
    }

    fn to_storage(&self, object: Value) -> Value {
        renamed(object, &self.stored)
    }
}

/// The rows of all kinds.
pub(crate) fn all() -> Vec<Resource> {
    KINDS.iter().flat_map(|kind| kind.1.iter().map(|version| row(kind, version))).collect()
}

fn row(&(group, versions, plural, kind, namespaced): &Kind, version: &'static str) -> Resource {
    let id = builtin::by_gvk(group, version, kind).expect("it is built in");
    let text = Str::new_static;
    let api_version = |version: &str| match group {
        "" => Str::from(version),
        group => Str::from(format!("{group}/{version}")),
    };
    let conversion = Renamed { stored: api_version(versions[0]), served: api_version(version) };
    Resource {
        group: text(group),
        version: text(version),
        plural: text(plural),
        singular: Str::from(kind.to_ascii_lowercase()),
        kind: text(kind),
        list_kind: Str::from(format!("{kind}List")),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced,
        verbs: Verbs::STANDARD,
        storage_version_hash: Some(text("hash")),
        subresources: Vec::new(),
        schema: LazySchema::from(Schema::of(Shape::Ref(id))),
        built_in: true,
        storage_path: text(plural),
        storage_version: GroupVersion::new(group, versions[0]),
        conversion: (version != versions[0]).then(|| Converter::Rule(Arc::new(conversion))),
        strategy: Arc::new(Plain),
        printer: printer::metadata().printer(),
        selectable_fields: Vec::new(),
        unknown_field: UnknownField::default(),
        deprecation: None,
        availability: Availability::default(),
    }
}
