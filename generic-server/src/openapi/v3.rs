//! What the built-in documents of OpenAPI v3 have: one a group version, one a group, and those of the paths that are nobody's resources.

use machinery::{Map, Str, Value, array, object, schema::openapi::Flavor};

use super::{
    paths::{Paths, capital, group_id},
    schemas::Schemas,
};
use crate::resource::Resource;

/// Paths, and the definitions that they refer to.
pub(crate) type Content = (Value, Schemas);

/// What the document of a built-in group version has.
pub(crate) fn group_version(rows: &[&Resource]) -> Content {
    let mut schemas = Schemas::new(Flavor::V3);
    if let Some(row) = rows.first() {
        schemas.only_of(&row.group, &row.version);
    }
    let mut paths = Paths::new(&mut schemas);
    for row in rows {
        paths.row(row);
    }
    if let Some(row) = rows.first() {
        let (root, item) = resources_path(row, paths.schemas());
        paths.add(&root, item);
    }
    (paths.into_value(), schemas)
}

const DISCOVERY: &[&str] = &["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"];

/// The path that lists the resources of a row's group version.
pub(crate) fn resources_path(row: &Resource, schemas: &mut Schemas) -> (String, Value) {
    let root = if row.group.is_empty() { "/api/v1/".to_owned() } else { format!("/apis/{}/", row.api_version()) };
    let id = format!("get{}{}APIResources", capital(&group_id(&row.group)), capital(&row.version));
    let tag = format!("{}_{}", group_id(&row.group), row.version);
    let answer = schemas.shared("apis.meta.v1.APIResourceList");
    (root, get(&tag, "get available resources", &id, DISCOVERY, &answer))
}

/// The path that tells of a built-in group.
pub(crate) fn group_path(name: &str, schemas: &mut Schemas) -> (String, Value) {
    let id = group_id(name);
    let answer = schemas.shared("apis.meta.v1.APIGroup");
    let operation = format!("get{}APIGroup", capital(&id));
    (format!("/apis/{name}/"), get(&id, "get information of a group", &operation, DISCOVERY, &answer))
}

/// What the document of a built-in group has.
pub(crate) fn group(name: &str) -> Content {
    let mut schemas = Schemas::new(Flavor::V3);
    let (path, item) = group_path(name, &mut schemas);
    (one(&path, item), schemas)
}

/// A path that is nobody's resource: its name in the index, and what it answers.
pub(crate) struct Page {
    pub(crate) name: &'static str,
    pub(crate) item: fn(&mut Schemas) -> Value,
}

impl Page {
    /// The path itself.
    pub(crate) fn path(&self) -> String {
        format!("/{}/", self.name)
    }

    /// What its document has.
    pub(crate) fn content(&self) -> Content {
        let mut schemas = Schemas::new(Flavor::V3);
        let item = (self.item)(&mut schemas);
        (one(&self.path(), item), schemas)
    }
}

/// All other paths.
pub(crate) const PAGES: [Page; 5] = [
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
            let answer = schemas.add("io.k8s.apimachinery.pkg.version.Info", version_info(schemas.flavor()));
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

/// What `/version` answers: a type that no group has.
fn version_info(flavor: Flavor) -> Value {
    const NAME: &str = "io.k8s.apimachinery.pkg.version.Info";
    const ALWAYS: [&str; 9] =
        ["major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"];
    const SOMETIMES: [&str; 4] = ["emulationMajor", "emulationMinor", "minCompatibilityMajor", "minCompatibilityMinor"];
    let mut properties = Map::new();
    for member in ALWAYS.into_iter().chain(SOMETIMES) {
        let mut schema = object! { "type" => "string" };
        if flavor == Flavor::V3 && ALWAYS.contains(&member) {
            schema.set(&["default"], "");
        }
        if let Some(text) = crate::docs::of_member(NAME, member) {
            schema.set(&["description"], text);
        }
        properties.insert(member, schema);
    }
    let mut out = object! {
        "type" => "object",
        "required" => ALWAYS.to_vec(),
        "properties" => properties,
    };
    if let Some(text) = crate::docs::of_type(NAME) {
        out.set(&["description"], text);
    }
    out
}

#[cfg(test)]
mod tests {
    use machinery::schema::builtin;

    use super::*;

    #[test]
    fn a_groups_document_has_the_definitions_that_it_refers_to_and_no_others() {
        let (paths, schemas) = group("policy");
        assert_eq!(paths.str_at(&["/apis/policy/", "get", "operationId"]), Some("getPolicyAPIGroup"));
        let mut names: Vec<&str> = schemas.built_ins().map(builtin::type_name).collect();
        names.sort_unstable();
        assert_eq!(names, ["APIGroup", "GroupVersionForDiscovery", "ServerAddressByClientCIDR"]);
        assert_eq!(schemas.others().count(), 0);
    }
}
