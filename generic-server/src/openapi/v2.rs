//! What only the document of OpenAPI v2 has: everything is in one, for clients from before v3.

use std::collections::BTreeSet;

use machinery::{Map, Str, Value, array, object, schema::openapi::Flavor};

use super::{cbor, frame::Described, members::Members, paths::Paths, schemas::Schemas, shared::SharedParameters, v3};
use crate::resource::Resource;

/// The paths of all built-in rows, and of what is nobody's, written group by group; and the definitions that they refer to.
/// And the parameters that they share.
pub(crate) fn built_in(rows: &[&Resource], described: Described, members: &mut Members) -> (Schemas, SharedParameters) {
    let (mut schemas, mut shared) = (Schemas::new(Flavor::V2), SharedParameters::default());
    let mut share = |paths: &mut Value| {
        paths.make_object().iter_mut().for_each(|(_, item)| shared.take_from(item));
    };
    for of_group in rows.chunk_by(|a, b| a.group == b.group) {
        let mut paths = Paths::new(&mut schemas);
        of_group.iter().for_each(|row| paths.row(row));
        let mut paths = paths.into_value();
        if described.cbor {
            cbor::add_all(&mut paths);
        }
        lower_all(&mut paths);
        share(&mut paths);
        members.put_all(&paths);
    }
    let mut paths = Paths::new(&mut schemas);
    let told = discovery(rows, described, &mut paths);
    let mut paths = paths.into_value();
    lower_all(&mut paths);
    for path in told {
        // What is told is asked for in the encodings that it comes in; what authenticates others is just told.
        let keys = path.starts_with("/openid/") || path.starts_with("/.well-known/");
        let types = paths.at(&[&path, "get", "produces"]).cloned();
        if keys {
            paths.remove_at(&[&path, "get", "consumes"]);
        } else {
            paths.set(&[&path, "get", "consumes"], types);
        }
    }
    share(&mut paths);
    members.put_all(&paths);
    (schemas, shared)
}

/// The paths that tell what there is: of groups, of their versions, and those that are nobody's resources.
fn discovery(rows: &[&Resource], described: Described, paths: &mut Paths<'_>) -> Vec<String> {
    let mut told = Vec::new();
    let mut add = |paths: &mut Paths<'_>, path: String, item: Value| {
        paths.add(&path, item);
        told.push(path);
    };
    let (mut groups, mut versions) = (BTreeSet::new(), BTreeSet::new());
    for row in rows {
        if !row.group.is_empty() && groups.insert(&row.group) {
            let (path, item) = v3::group_path(&row.group, paths.schemas());
            add(paths, path, item);
        }
        if versions.insert((&row.group, &row.version)) {
            let (path, mut item) = v3::resources_path(row, paths.schemas());
            if described.cbor {
                cbor::add(&mut item);
            }
            add(paths, path, item);
        }
    }
    for page in &v3::PAGES {
        let item = (page.item)(paths.schemas());
        add(paths, page.path(), item);
    }
    told
}

/// Rewrites paths of v3 as v2 says them.
pub(crate) fn lower_all(paths: &mut Value) {
    paths.make_object().iter_mut().for_each(|(_, item)| lower(item));
}

/// What v2 says otherwise of paths of custom resources, which come behind those of built-in ones: they take the parameters
/// that those have brought, and say in which encodings even what has no body is asked for.
pub(crate) fn customize_all(paths: &mut Value) {
    let anything = array!["*/*"];
    for (_, item) in paths.make_object().iter_mut() {
        SharedParameters::default().take_from(item);
        for (_, operation) in item.make_object().iter_mut() {
            if operation.get("consumes") == Some(&anything) {
                operation.set(&["consumes"], array!["application/json", "application/yaml"]);
            }
        }
    }
}

/// Rewrites a path of v3 as v2 says it: bodies are parameters, media types stand in lists.
fn lower(item: &mut Value) {
    if let Some(parameters) = item.get_mut("parameters").and_then(Value::as_array_mut) {
        parameters.iter_mut().for_each(flatten);
    }
    for (key, operation) in item.make_object().iter_mut() {
        if key != "parameters" {
            lower_operation(operation);
        }
    }
}

fn lower_operation(operation: &mut Value) {
    let map = operation.make_object();
    let mut parameters = map.remove("parameters").and_then(|p| p.as_array().map(<[Value]>::to_vec)).unwrap_or_default();
    parameters.iter_mut().for_each(flatten);
    let mut consumes = array!["*/*"];
    if let Some(body) = map.remove("requestBody") {
        let content = body.get("content").and_then(Value::as_object).cloned().unwrap_or_default();
        consumes = listed(&content);
        let schema = content.values().next().and_then(|c| c.get("schema")).cloned();
        let mut parameter = object! { "name" => "body", "in" => "body", "schema" => schema };
        if let Some(required) = body.get("required") {
            parameter.set(&["required"], required.clone());
        }
        parameters.insert(0, parameter);
    }
    let mut produces = Value::from(Vec::<Value>::new());
    if let Some(responses) = map.get_mut("responses").and_then(Value::as_object_mut) {
        for (_, response) in responses.iter_mut() {
            let Some(content) = response.make_object().remove("content") else { continue };
            let content = content.as_object().cloned().unwrap_or_else(Map::new);
            produces = listed(&content);
            if let Some(schema) = content.values().next().and_then(|c| c.get("schema")) {
                response.set(&["schema"], schema.clone());
            }
        }
    }
    map.insert("consumes", consumes);
    map.insert("produces", produces);
    map.insert("schemes", array!["https"]);
    if !parameters.is_empty() {
        map.insert("parameters", parameters);
    }
}

/// The media types of v2, in the order in which upstream's routes name them.
const ORDER: [&str; 13] = [
    "text/plain",
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/cbor",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
    "application/cbor-seq",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/apply-patch+cbor",
];

fn listed(content: &Map) -> Value {
    let mut types: Vec<&Str> = content.keys().collect();
    types.sort_by_key(|name| ORDER.iter().position(|known| known == name));
    types.into_iter().map(Value::from).collect()
}

/// The schema's members stand in the parameter itself.
fn flatten(parameter: &mut Value) {
    if let Some(Value::Object(schema)) = parameter.make_object().remove("schema") {
        parameter.make_object().extend(schema.into_entries());
    }
}
