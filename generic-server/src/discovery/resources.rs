//! The resources of one group version, as the two kinds of discovery documents list them.

use machinery::{
    Map, Str, Value,
    meta::GroupVersionKind,
    object,
    request::{Verb, Verbs},
};

use crate::resource::{Resource, Subresource};

/// The order in which custom resources list their verbs.
const CUSTOM: [Verb; 8] =
    [Verb::Delete, Verb::DeleteCollection, Verb::Get, Verb::List, Verb::Patch, Verb::Create, Verb::Update, Verb::Watch];

/// One group version's resources.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resources {
    /// `resources` of an APIResourceList: subresources are entries of their own.
    pub list: Value,
    /// `resources` of a version in an APIGroupDiscoveryList: subresources stand in their resources.
    pub aggregated: Value,
}

impl Resources {
    /// Of rows of one group version, in the order given.
    pub fn from_rows<'a>(rows: impl IntoIterator<Item = &'a Resource>) -> Self {
        let (mut list, mut aggregated) = (Vec::new(), Vec::new());
        for row in rows {
            list.push(list_entry(row));
            list.extend(row.subresources.iter().map(|sub| list_subentry(row, sub)));
            aggregated.push(aggregated_entry(row));
        }
        Resources { list: list.into(), aggregated: aggregated.into() }
    }

    /// Of the `resources` of an APIResourceList that another server sent. Entries without a name are dropped.
    pub fn from_list(list: &Value) -> Self {
        let mut aggregated: Vec<Value> = Vec::new();
        for entry in list.as_array().unwrap_or_default() {
            let Some(name) = entry.str_at(&["name"]) else { continue };
            match name.split_once('/') {
                None => aggregated.push(lifted(entry, name)),
                Some((parent, sub)) => {
                    let found = aggregated.iter().position(|r| r.str_at(&["resource"]) == Some(parent));
                    let at = found.unwrap_or_else(|| {
                        // A server may serve a subresource of something that it does not serve.
                        aggregated.push(object! { "resource" => parent, "scope" => scope(entry) });
                        aggregated.len() - 1
                    });
                    push(&mut aggregated[at], lifted_sub(entry, sub));
                }
            }
        }
        Resources { list: list.clone(), aggregated: aggregated.into() }
    }

    /// Of the `resources` of a version in an APIGroupDiscoveryList that another server sent.
    pub fn from_aggregated(aggregated: &Value) -> Self {
        let mut list = Vec::new();
        for resource in aggregated.as_array().unwrap_or_default() {
            let Some(name) = resource.str_at(&["resource"]) else { continue };
            let namespaced = resource.str_at(&["scope"]) == Some("Namespaced");
            list.push(lowered(resource, name, namespaced));
            for sub in resource.get("subresources").and_then(Value::as_array).unwrap_or_default() {
                let sub_name = sub.str_at(&["subresource"]).unwrap_or_default();
                list.push(lowered(sub, &format!("{name}/{sub_name}"), namespaced));
            }
        }
        Resources { list: list.into(), aggregated: aggregated.clone() }
    }

    /// With the resources that only another server has.
    #[must_use]
    pub fn with_others_of(&self, other: &Resources) -> Self {
        let own = self.aggregated.as_array().unwrap_or_default();
        let has = |resource: &Value| own.iter().any(|r| r.str_at(&["resource"]) == resource.str_at(&["resource"]));
        let others = other.aggregated.as_array().unwrap_or_default().iter().filter(|resource| !has(resource));
        Resources::from_aggregated(&own.iter().chain(others).cloned().collect())
    }
}

fn verbs(row: &Resource, verbs: Verbs) -> Value {
    let order = if row.built_in { Verb::ALL } else { CUSTOM };
    order.into_iter().filter(|v| verbs.contains(*v)).map(|v| Value::from(v.name())).collect()
}

fn put_list(map: &mut Map, key: &str, list: &[Str]) {
    if !list.is_empty() {
        map.insert(key, list.iter().map(Value::from).collect::<Value>());
    }
}

fn list_entry(row: &Resource) -> Value {
    let mut entry = object! {
        "name" => row.plural.clone(),
        "singularName" => row.singular.clone(),
        "namespaced" => row.namespaced,
        "kind" => row.kind.clone(),
        "verbs" => verbs(row, row.verbs),
    };
    let map = entry.make_object();
    put_list(map, "shortNames", &row.short_names);
    put_list(map, "categories", &row.categories);
    if let Some(hash) = row.storage_version_hash.as_ref().filter(|hash| !hash.is_empty()) {
        map.insert("storageVersionHash", hash);
    }
    entry
}

fn list_subentry(row: &Resource, sub: &Subresource) -> Value {
    let GroupVersionKind { group, version, kind } = &sub.response_kind;
    let mut entry = object! {
        "name" => format!("{}/{}", row.plural, sub.name),
        "singularName" => "",
        "namespaced" => row.namespaced,
        "kind" => kind.clone(),
        "verbs" => verbs_of_subresource(sub),
    };
    if (group, version) != (&row.group, &row.version) {
        entry.set(&["group"], group);
        entry.set(&["version"], version);
    }
    entry
}

fn verbs_of_subresource(sub: &Subresource) -> Value {
    sub.verbs.iter().map(|v| Value::from(v.name())).collect()
}

fn aggregated_entry(row: &Resource) -> Value {
    let mut entry = object! {
        "resource" => row.plural.clone(),
        "responseKind" => response_kind(row, &row.group, &row.version, &row.kind),
        "scope" => if row.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource" => row.singular.clone(),
        "verbs" => verbs(row, row.verbs),
    };
    let map = entry.make_object();
    put_list(map, "shortNames", &row.short_names);
    put_list(map, "categories", &row.categories);
    if !row.subresources.is_empty() {
        let subresources = row.subresources.iter().map(|sub| {
            let GroupVersionKind { group, version, kind } = &sub.response_kind;
            object! {
                "subresource" => sub.name.clone(),
                "responseKind" => response_kind(row, group, version, kind),
                "verbs" => verbs_of_subresource(sub),
            }
        });
        map.insert("subresources", subresources.collect::<Value>());
    }
    entry
}

/// Built-in rows leave the group and version out where they are the row's own; custom resources name them.
fn response_kind(row: &Resource, group: &Str, version: &Str, kind: &Str) -> Value {
    let own = row.built_in && (group, version) == (&row.group, &row.version);
    let (group, version) = if own { (Str::default(), Str::default()) } else { (group.clone(), version.clone()) };
    object! { "group" => group, "version" => version, "kind" => kind.clone() }
}

fn scope(entry: &Value) -> &'static str {
    if entry.get("namespaced").and_then(Value::as_bool) == Some(true) { "Namespaced" } else { "Cluster" }
}

fn push(resource: &mut Value, sub: Value) {
    let list = resource.at_mut(&["subresources"]);
    if list.as_array().is_none() {
        *list = Value::from(Vec::<Value>::new());
    }
    list.as_array_mut().expect("made a list above").push(sub);
}

/// Copies members that are there and say something.
fn copy(from: &Value, to: &mut Map, names: &[(&str, &str)]) {
    for (old, new) in names {
        if let Some(value) = from.get(old).filter(|v| !matches!(v, Value::Null)) {
            to.insert(*new, value.clone());
        }
    }
}

fn lifted_kind(entry: &Value) -> Value {
    object! {
        "group" => entry.str_at(&["group"]).unwrap_or_default(),
        "version" => entry.str_at(&["version"]).unwrap_or_default(),
        "kind" => entry.str_at(&["kind"]).unwrap_or_default(),
    }
}

fn lifted(entry: &Value, name: &str) -> Value {
    let mut out = object! { "resource" => name, "responseKind" => lifted_kind(entry), "scope" => scope(entry) };
    let names = [
        ("singularName", "singularResource"),
        ("verbs", "verbs"),
        ("shortNames", "shortNames"),
        ("categories", "categories"),
    ];
    copy(entry, out.make_object(), &names);
    out
}

fn lifted_sub(entry: &Value, name: &str) -> Value {
    let mut out = object! { "subresource" => name, "responseKind" => lifted_kind(entry) };
    copy(entry, out.make_object(), &[("verbs", "verbs")]);
    out
}

fn lowered(entry: &Value, name: &str, namespaced: bool) -> Value {
    let mut out = object! {
        "name" => name,
        "singularName" => entry.str_at(&["singularResource"]).unwrap_or_default(),
        "namespaced" => namespaced,
        "kind" => entry.str_at(&["responseKind", "kind"]).unwrap_or_default(),
    };
    let map = out.make_object();
    copy(entry, map, &[("verbs", "verbs"), ("shortNames", "shortNames"), ("categories", "categories")]);
    for name in ["group", "version"] {
        let value = entry.str_at(&["responseKind", name]).unwrap_or_default();
        if !value.is_empty() {
            map.insert(name, value);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    #[test]
    fn another_servers_list_and_its_aggregated_form_say_the_same() {
        let list = json::decode(
            br#"[{"name":"things","singularName":"thing","namespaced":true,"kind":"Thing","verbs":["get"],"shortNames":["th"]},
                {"name":"things/scale","singularName":"","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale","verbs":["get"]},
                {"name":"nodes/stats","singularName":"","namespaced":false,"kind":"Stats","verbs":["get"]}]"#,
        )
        .expect("valid");
        let aggregated = Resources::from_list(&list).aggregated;
        assert_eq!(
            aggregated,
            json::decode(
                br#"[{"resource":"things","responseKind":{"group":"","version":"","kind":"Thing"},"scope":"Namespaced","singularResource":"thing","verbs":["get"],"shortNames":["th"],
                     "subresources":[{"subresource":"scale","responseKind":{"group":"autoscaling","version":"v1","kind":"Scale"},"verbs":["get"]}]},
                    {"resource":"nodes","scope":"Cluster","subresources":[{"subresource":"stats","responseKind":{"group":"","version":"","kind":"Stats"},"verbs":["get"]}]}]"#
            )
            .expect("valid")
        );
        let back = Resources::from_aggregated(&aggregated).list;
        assert_eq!(back.as_array().map(|l| &l[..2]), list.as_array().map(|l| &l[..2]));
    }
}
