//! Routes, discovery, OpenAPI and what authorizers see are read from one table: what is in it is in all of them, and what is
//! taken out of it is in none.

use std::{collections::BTreeSet, sync::Arc};

use arc_swap::ArcSwap;
use generic_server::{
    discovery::{Documents, groups_of},
    endpoint::Endpoint,
    features::{BINARY, Minor},
    pages::OpenApi,
    request::{Request, RequestParts},
    resource::Resource,
    table::{ResourceTable, TableEntry},
};
use http::{HeaderMap, Method};
use http_body_util::BodyExt as _;
use machinery::{
    Value,
    codec::json,
    request::{Query, RequestInfo, Verb, Verbs, resolve},
};

/// (group version, resource or resource/subresource, verb)
type Facts = BTreeSet<(String, String, &'static str)>;

const NAMESPACE: &str = "some-namespace";
const NAME: &str = "some-name";

fn all_of(row: &Resource) -> impl Iterator<Item = (String, Verbs)> {
    let own = std::iter::once((row.plural.to_string(), row.verbs));
    own.chain(row.subresources.iter().map(|sub| (format!("{}/{}", row.plural, sub.name), sub.verbs)))
}

/// What the rows say.
fn of_rows(rows: &[Resource]) -> Facts {
    let row = |row: &Resource| {
        let version = row.api_version().to_string();
        let verbs = all_of(row).flat_map(|(name, verbs)| verbs.iter().map(move |verb| (name.clone(), verb.name())));
        verbs.map(|(name, verb)| (version.clone(), name, verb)).collect::<Vec<_>>()
    };
    rows.iter().flat_map(row).collect()
}

/// What discovery says.
fn of_discovery(rows: &[Resource]) -> Facts {
    let documents = Documents::new(&groups_of(rows));
    let versions: BTreeSet<_> = rows.iter().map(|row| (row.group.clone(), row.version.clone())).collect();
    let mut facts = Facts::new();
    for (group, version) in versions {
        let document =
            documents.resources(&group, &version).expect("a version with rows has a document").value().clone();
        let group_version = document.str_at(&["groupVersion"]).expect("it says which").to_owned();
        for resource in document.get("resources").and_then(Value::as_array).expect("resources") {
            let name = resource.str_at(&["name"]).expect("a name");
            for verb in resource.get("verbs").and_then(Value::as_array).expect("verbs") {
                let verb = Verb::ALL.into_iter().find(|v| Some(v.name()) == verb.as_str()).expect("a verb");
                facts.insert((group_version.clone(), name.to_owned(), verb.name()));
            }
        }
    }
    facts
}

/// What the operations of OpenAPI are to a router and an authorizer: each is resolved as a request, and has a row.
async fn of_openapi(rows: &[Resource]) -> Facts {
    let entries = rows.iter().map(|row| {
        Arc::new(TableEntry {
            row: row.clone(),
            registry: None,
            endpoints: Default::default(),
            after_write: None,
            openapi: Default::default(),
        })
    });
    let table = ResourceTable::new(entries);
    let served = OpenApi::new(vec![Arc::new(ArcSwap::from_pointee(table.clone()))], Arc::new(|_| None), Minor(BINARY));
    let mut facts = Facts::new();
    let documents: BTreeSet<String> = rows
        .iter()
        .map(|row| format!("/openapi/v3/{}/{}", if row.group.is_empty() { "api" } else { "apis" }, row.api_version()))
        .collect();
    for path in documents {
        let answer = served.serve(request(&path)).await.expect("answers");
        assert_eq!(answer.status(), 200, "{path}");
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        let document = json::decode(&body).expect("JSON");
        for (path, item) in document.get("paths").and_then(Value::as_object).expect("paths").iter() {
            for (method, operation) in item.as_object().expect("an item").iter() {
                let Some(action) = operation.str_at(&["x-kubernetes-action"]) else { continue };
                facts.extend(fact_of(&table, method, path, action));
            }
        }
    }
    facts
}

fn fact_of(
    table: &ResourceTable,
    method: &str,
    template: &str,
    action: &str,
) -> Option<(String, String, &'static str)> {
    let path = template.replace("{namespace}", NAMESPACE).replace("{name}", NAME).replace("{path}", "x");
    let query = Query::parse(if action.starts_with("watch") { "watch=1" } else { "" });
    let info = resolve(&method.to_uppercase(), &path, &query);
    let row = &table.get(&info.group, &info.version, &info.resource).unwrap_or_else(|| panic!("no row for {path}")).row;
    let named = template.ends_with("}") && !template.ends_with("{namespace}");
    assert_eq!(info.namespace == NAMESPACE, row.namespaced && template.contains("{namespace}"), "{path}");
    assert!(!named || info.name == NAME, "{path}");
    // Who streams or proxies takes methods that are no verbs of discovery's.
    if action == "connect" && matches!(method, "head" | "options") {
        return None;
    }
    Some((row.api_version().to_string(), what(&info), info.verb.name()))
}

fn what(info: &RequestInfo) -> String {
    match info.subresource.as_str() {
        "" => info.resource.to_string(),
        subresource => format!("{}/{subresource}", info.resource),
    }
}

fn request(path: &str) -> Request {
    let uri = path.parse().expect("a path");
    RequestParts::new(Method::GET, uri, HeaderMap::new(), Arc::new(auth::Mode::AlwaysAllow)).into()
}

#[tokio::test]
async fn what_is_in_the_table_is_in_discovery_and_openapi_and_is_what_requests_ask_for() {
    let rows = kube_core::resources();
    let facts = of_rows(&rows);
    assert!(facts.len() > 500, "{}", facts.len());
    assert_eq!(of_discovery(&rows), facts);
    assert_eq!(of_openapi(&rows).await, facts);
}

#[tokio::test]
async fn what_is_taken_out_of_the_table_is_in_none_of_them() {
    let mut rows = kube_core::resources();
    rows.retain(|row| row.group != "batch" && row.plural != "deployments");
    rows.iter_mut().filter(|row| row.plural == "configmaps").for_each(|row| row.verbs = row.verbs.without(Verb::Watch));
    let facts = of_rows(&rows);
    assert!(!facts.iter().any(|(version, name, _)| version.starts_with("batch/") || name.starts_with("deployments")));
    assert!(!facts.contains(&("v1".to_owned(), "configmaps".to_owned(), "watch")));
    assert_eq!(of_discovery(&rows), facts);
    assert_eq!(of_openapi(&rows).await, facts);
}
