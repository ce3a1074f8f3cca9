//! OpenAPI v3 documents: one a group version, one a group, and those of the paths that are nobody's resources.

use std::sync::Arc;

use machinery::{Map, Str, Value, array, object, schema::openapi::Flavor};

use super::{
    paths::{Paths, capital, group_id},
    schemas::Schemas,
};
use crate::resource::Resource;

/// A custom resource's row and the `openAPIV3Schema` of its version.
pub(super) type Custom = (Arc<Resource>, Option<Arc<Value>>);

/// The version that documents of built-in groups describe.
const MINOR: &str = "1.36";

/// The document of a built-in group version.
pub(super) fn group_version(rows: &[&Resource]) -> Value {
    let mut schemas = Schemas::new(Flavor::V3);
    let mut paths = Paths::new(&mut schemas);
    for row in rows {
        paths.row(row);
    }
    if let Some(row) = rows.first() {
        let (root, item) = resources_path(row, paths.schemas());
        paths.add(&root, item);
    }
    let paths = paths.into_value();
    document(paths, schemas)
}

/// The document of a group version of custom resources.
pub(super) fn custom_group_version(rows: &[Custom]) -> Value {
    let mut schemas = Schemas::new(Flavor::V3);
    for (row, props) in rows {
        schemas.custom_kind(row, props.as_deref());
    }
    let mut paths = Paths::new(&mut schemas);
    for (row, _) in rows {
        paths.row(row);
    }
    let paths = paths.into_value();
    object! {
        "openapi" => "3.0.0",
        "info" => object! { "title" => "Kubernetes CRD Swagger", "version" => "v0.1.0" },
        "paths" => paths,
        "components" => object! { "schemas" => schemas.into_value() },
    }
}

const DISCOVERY: &[&str] = &["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"];

/// The path that lists the resources of a row's group version.
pub(super) fn resources_path(row: &Resource, schemas: &mut Schemas) -> (String, Value) {
    let root = if row.group.is_empty() { "/api/v1/".to_owned() } else { format!("/apis/{}/", row.api_version()) };
    let id = format!("get{}{}APIResources", capital(&group_id(&row.group)), capital(&row.version));
    let tag = format!("{}_{}", group_id(&row.group), row.version);
    let answer = schemas.shared("apis.meta.v1.APIResourceList");
    (root, get(&tag, "get available resources", &id, DISCOVERY, &answer))
}

/// The path that tells of a built-in group.
pub(super) fn group_path(name: &str, schemas: &mut Schemas) -> (String, Value) {
    let id = group_id(name);
    let answer = schemas.shared("apis.meta.v1.APIGroup");
    let operation = format!("get{}APIGroup", capital(&id));
    (format!("/apis/{name}/"), get(&id, "get information of a group", &operation, DISCOVERY, &answer))
}

/// The document of a built-in group.
pub(super) fn group(name: &str) -> Value {
    let mut schemas = Schemas::new(Flavor::V3);
    let (path, item) = group_path(name, &mut schemas);
    document(one(&path, item), schemas)
}

/// A path that is nobody's resource: its name in the index, and what it answers.
pub(super) struct Page {
    pub(super) name: &'static str,
    pub(super) item: fn(&mut Schemas) -> Value,
}

impl Page {
    /// The path itself.
    pub(super) fn path(&self) -> String {
        format!("/{}/", self.name)
    }

    /// Its document.
    pub(super) fn document(&self) -> Value {
        let mut schemas = Schemas::new(Flavor::V3);
        let item = (self.item)(&mut schemas);
        document(one(&self.path(), item), schemas)
    }
}

/// All other paths.
pub(super) const PAGES: [Page; 5] = [
    Page {
        name: ".well-known/openid-configuration",
        item: |_| {
            let text = "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'";
            let id = "getServiceAccountIssuerOpenIDConfiguration";
            get("WellKnown", text, id, &["application/json"], &object! { "type" => "string" })
        },
    },
    Page {
        name: "api",
        item: |schemas| {
            let answer = schemas.shared("apis.meta.v1.APIVersions");
            get("core", "get available API versions", "getCoreAPIVersions", DISCOVERY, &answer)
        },
    },
    Page {
        name: "apis",
        item: |schemas| {
            let answer = schemas.shared("apis.meta.v1.APIGroupList");
            get("apis", "get available API versions", "getAPIVersions", DISCOVERY, &answer)
        },
    },
    Page {
        name: "openid/v1/jwks",
        item: |_| {
            let text = "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)";
            let id = "getServiceAccountIssuerOpenIDKeyset";
            get("openid", text, id, &["application/jwk-set+json"], &object! { "type" => "string" })
        },
    },
    Page {
        name: "version",
        item: |schemas| {
            let answer = schemas.add("io.k8s.apimachinery.pkg.version.Info", version_info());
            let text = "get the version information for this server";
            get("version", text, "getCodeVersion", &["application/json"], &answer)
        },
    },
];

fn one(path: &str, item: Value) -> Value {
    Map::from_entries(vec![(path.into(), item)]).into()
}

/// A path that is only read.
fn get(tag: &str, description: &str, id: &str, types: &[&str], schema: &Value) -> Value {
    let content: Map = types.iter().map(|t| (Str::from(*t), object! { "schema" => schema.clone() })).collect();
    object! {
        "get" => object! {
            "tags" => array![tag],
            "description" => description,
            "operationId" => id,
            "responses" => object! {
                "200" => object! { "description" => "OK", "content" => content },
                "401" => object! { "description" => "Unauthorized" },
            },
        },
    }
}

fn document(paths: Value, schemas: Schemas) -> Value {
    let mut components = object! {
        "securitySchemes" => object! {
            "BearerToken" => object! {
                "type" => "apiKey",
                "description" => "Bearer Token authentication",
                "name" => "authorization",
                "in" => "header",
            },
        },
    };
    let schemas = schemas.into_value();
    if schemas.as_object().is_some_and(|s| !s.is_empty()) {
        components.set(&["schemas"], schemas);
    }
    object! {
        "openapi" => "3.0.0",
        "info" => object! { "title" => "Kubernetes", "version" => MINOR },
        "paths" => paths,
        "components" => components,
    }
}

/// What `/version` answers: a type that no group has.
fn version_info() -> Value {
    const NAME: &str = "io.k8s.apimachinery.pkg.version.Info";
    const ALWAYS: [&str; 9] =
        ["major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"];
    const SOMETIMES: [&str; 4] = ["emulationMajor", "emulationMinor", "minCompatibilityMajor", "minCompatibilityMinor"];
    let mut properties = Map::new();
    for member in ALWAYS.into_iter().chain(SOMETIMES) {
        let mut schema = object! { "type" => "string" };
        if ALWAYS.contains(&member) {
            schema.set(&["default"], "");
        }
        if let Some(text) = super::docs::of_member(NAME, member) {
            schema.set(&["description"], text);
        }
        properties.insert(member, schema);
    }
    let mut out = object! {
        "type" => "object",
        "required" => ALWAYS.to_vec(),
        "properties" => properties,
    };
    if let Some(text) = super::docs::of_type(NAME) {
        out.set(&["description"], text);
    }
    out
}

#[cfg(test)]
mod tests {
    use machinery::schema::{Schema, Shape};

    use super::*;
    use crate::resource::{SelectableField, Strategy, Subresource, SubresourceKind, UnknownField, Verbs};

    struct NoRules;

    impl Strategy for NoRules {}

    fn clocks() -> Resource {
        let status = Subresource {
            name: "status".into(),
            kind: SubresourceKind::Status,
            response_kind: ("time.example.dev".into(), "v1".into(), "Clock".into()),
            verbs: Verbs::STATUS,
        };
        Resource {
            group: "time.example.dev".into(),
            version: "v1".into(),
            plural: "clocks".into(),
            singular: "clock".into(),
            kind: "Clock".into(),
            list_kind: "ClockList".into(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            verbs: Verbs::STANDARD,
            storage_version_hash: None,
            subresources: vec![status],
            schema: Schema::of(Shape::Any).into(),
            built_in: false,
            storage_path: "time.example.dev/clocks".into(),
            storage_version: ("time.example.dev".into(), "v1".into()),
            conversion: None,
            strategy: Arc::new(NoRules),
            printer: crate::printer::metadata().printer(),
            selectable_fields: vec![SelectableField::new("spec.hour")],
            unknown_field: UnknownField::Unsupported,
            deprecation: None,
        }
    }

    #[test]
    fn a_custom_resource_has_paths_operations_and_definitions() {
        let props = object! { "type" => "object", "description" => "A clock." };
        let made = custom_group_version(&[(Arc::new(clocks()), Some(Arc::new(props)))]);
        let paths = made.get("paths").and_then(Value::as_object).expect("paths");
        let names: Vec<&str> = paths.keys().map(Str::as_str).collect();
        assert_eq!(
            names,
            [
                "/apis/time.example.dev/v1/clocks",
                "/apis/time.example.dev/v1/namespaces/{namespace}/clocks",
                "/apis/time.example.dev/v1/namespaces/{namespace}/clocks/{name}",
                "/apis/time.example.dev/v1/namespaces/{namespace}/clocks/{name}/status",
            ]
        );
        let check = |path: usize, method: &str, id: &str| {
            assert_eq!(paths.get(names[path]).and_then(|p| p.str_at(&[method, "operationId"])), Some(id));
        };
        check(0, "get", "listTimeExampleDevV1ClockForAllNamespaces");
        check(1, "delete", "deleteTimeExampleDevV1CollectionNamespacedClock");
        check(2, "put", "replaceTimeExampleDevV1NamespacedClock");
        check(3, "patch", "patchTimeExampleDevV1NamespacedClockStatus");
        let clock = made.at(&["components", "schemas", "dev.example.time.v1.Clock"]).expect("the kind");
        assert_eq!(clock.str_at(&["description"]), Some("A clock."));
        let fields = array![object! { "fieldPath" => "spec.hour" }];
        assert_eq!(clock.get("x-kubernetes-selectable-fields"), Some(&fields));
        assert!(made.at(&["components", "schemas", "io.k8s.apimachinery.pkg.apis.meta.v1.Time"]).is_some());
    }

    #[test]
    fn a_groups_document_has_the_definitions_that_it_refers_to_and_no_others() {
        let made = group("policy");
        let id = made.str_at(&["paths", "/apis/policy/", "get", "operationId"]);
        assert_eq!(id, Some("getPolicyAPIGroup"));
        let schemas = made.at(&["components", "schemas"]).and_then(Value::as_object).expect("schemas");
        let names: Vec<&str> = schemas.keys().filter_map(|k| k.rsplit('.').next()).collect();
        assert_eq!(names, ["APIGroup", "GroupVersionForDiscovery", "ServerAddressByClientCIDR"]);
    }

    #[test]
    fn group_names_become_words() {
        let check = |group: &str, id: &str| assert_eq!(group_id(group), id);
        check("", "core");
        check("apps", "apps");
        check("rbac.authorization.k8s.io", "rbacAuthorization");
        check("flowcontrol.apiserver.k8s.io", "flowcontrolApiserver");
        check("crd-openapi.example.dev", "crdOpenapiExampleDev");
    }
}
