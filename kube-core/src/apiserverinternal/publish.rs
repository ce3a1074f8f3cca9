//! Says for each built-in resource in which version this server stores it, which it can read, and which it serves.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use generic_server::{
    discovery::compare_versions,
    registry::Registry,
    resource::Resource,
    tasks::{Task, TaskResult},
};
use machinery::{
    Str, Value,
    meta::{Status, TimeForm, Timestamp},
    object,
    schema::builtin::Scheme,
};
use policies::Tables;

use super::rules::common_version;
use crate::coordination::server_name;

/// How often what is said is put right.
const INTERVAL: Duration = Duration::from_secs(600);
/// The condition of servers that agree.
const EQUAL: &str = "AllEncodingVersionsEqual";

/// Writes a StorageVersion for each built-in resource that the tables serve.
pub fn storage_versions(registry: &Arc<Registry>, tables: Tables, host: &str) -> Task {
    let (registry, server) = (registry.clone(), Str::from(server_name(host)));
    Task::new("built-in-resources-storage-version-updater", move |cx| {
        let (registry, tables, server) = (registry.clone(), tables.clone(), server.clone());
        async move {
            registry.cache().ready().await?;
            loop {
                for (name, said) in says(&tables, &server) {
                    publish(&registry, &name, &said).await?;
                }
                cx.ready();
                tokio::select! {
                    () = cx.cancelled() => return Ok(()),
                    () = tokio::time::sleep(INTERVAL) => {}
                }
            }
        }
    })
    .after("start-kube-apiserver-identity-lease-controller")
}

/// What this server says of each resource, by the object's name. Resources that share their place in the store are one, that
/// of the group that they are stored as.
fn says(tables: &Tables, server: &Str) -> BTreeMap<String, Value> {
    let loaded: Vec<_> = tables.0.iter().map(|table| table.load_full()).collect();
    let rows: Vec<&Resource> = loaded
        .iter()
        .flat_map(|table| table.entries())
        .map(|entry| &entry.row)
        .filter(|row| row.built_in && row.is_stored())
        .collect();
    let mut said = BTreeMap::new();
    for row in rows.iter().filter(|row| row.group == row.storage_version.group) {
        let shares = |other: &&&Resource| other.storage_path == row.storage_path;
        let (own, others): (Vec<&Resource>, Vec<&Resource>) =
            rows.iter().filter(shares).copied().partition(|other| other.group == row.group);
        let of = |version: &str| api_version(&row.group, version);
        let mut decodable = Scheme::versions_of(&row.group, &row.kind);
        decodable.sort_by(|a, b| compare_versions(a, b));
        let others = others.iter().map(|other| other.api_version().to_string());
        let decodable: Vec<Value> =
            decodable.into_iter().map(of).chain(others).map(|version| Value::from(version.as_str())).collect();
        let served: Vec<Value> = own.iter().map(|other| Value::from(other.api_version())).collect();
        let group = if row.group.is_empty() { "core" } else { row.group.as_str() };
        let says = object! {
            "apiServerID" => server.clone(),
            "encodingVersion" => of(&row.storage_version.version).as_str(),
            "decodableVersions" => decodable,
            "servedVersions" => served,
        };
        said.insert(format!("{group}.{}", row.plural), says);
    }
    said
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

async fn publish(registry: &Arc<Registry>, name: &str, said: &Value) -> TaskResult {
    let update = async || registry.edit("", name, "status", |version| Ok(with(version.clone(), said))).await;
    match update().await {
        Ok(_) => return Ok(()),
        Err(status) if status.is_not_found() => {}
        Err(status) => return Err(status.into()),
    }
    let version = object! {
        "kind" => "StorageVersion",
        "apiVersion" => "internal.apiserver.k8s.io/v1alpha1",
        "metadata" => object! { "name" => name },
        "spec" => object! {},
    };
    match registry.create_as_server(version).await {
        Err(status) if !status.is_already_exists() => Err(status.into()),
        _ => update().await.map(drop).map_err(|status: Status| status.into()),
    }
}

/// The object with what a server says, and whether all say the same.
fn with(version: Value, said: &Value) -> Value {
    let mut servers = version.at(&["status", "storageVersions"]).and_then(Value::as_array).unwrap_or_default().to_vec();
    match servers.iter_mut().find(|server| server.get("apiServerID") == said.get("apiServerID")) {
        Some(server) => *server = said.clone(),
        None => servers.push(said.clone()),
    }
    of_servers(version, servers)
}

/// The object when these servers are all that say something, and whether they say the same.
pub fn of_servers(mut version: Value, servers: Vec<Value>) -> Value {
    let common = common_version(&servers).map(Str::from);
    let before = version.str_at(&["status", "commonEncodingVersion"]).map(Str::from);
    condition(&mut version, common.is_some(), before.is_some() && common.is_some() && before != common);
    match common {
        Some(common) => version.set(&["status", "commonEncodingVersion"], common),
        None => drop(version.remove_at(&["status", "commonEncodingVersion"])),
    }
    version.set(&["status", "storageVersions"], servers);
    version
}

/// Says whether servers agree; `changed`: they do, on another version than before.
fn condition(version: &mut Value, agree: bool, changed: bool) {
    let (status, reason, message) = match agree {
        true => ("True", "CommonEncodingVersionSet", "Common encoding version set"),
        false => ("False", "CommonEncodingVersionUnset", "Common encoding version unset"),
    };
    let mut conditions = version.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default().to_vec();
    let known = conditions.iter().position(|c| c.str_at(&["type"]) == Some(EQUAL));
    let old = known.map(|at| &conditions[at]).filter(|c| c.str_at(&["status"]) == Some(status) && !changed);
    let since = old.and_then(|c| c.get("lastTransitionTime")).cloned();
    let made = object! {
        "type" => EQUAL,
        "status" => status,
        "lastTransitionTime" => since.unwrap_or_else(|| Timestamp::now().text(TimeForm::Seconds).into()),
        "reason" => reason,
        "message" => message,
    };
    match known {
        Some(at) => conditions[at] = made,
        None => conditions.push(made),
    }
    version.set(&["status", "conditions"], conditions);
}

#[cfg(test)]
mod tests {
    use machinery::array;

    use super::*;

    fn said(server: &str, version: &str) -> Value {
        object! { "apiServerID" => server, "encodingVersion" => version, "decodableVersions" => array![version] }
    }

    #[test]
    fn servers_agree_or_do_not() {
        let status = |version: &Value, path: &[&str]| version.at(path).cloned();
        let common = ["status", "commonEncodingVersion"];
        let one = with(object! {}, &said("a", "v1"));
        assert_eq!(status(&one, &common), Some("v1".into()));
        let same = with(one.clone(), &said("a", "v1"));
        assert_eq!(same, one);
        let two = with(one, &said("b", "v2"));
        assert_eq!(status(&two, &common), None);
        let conditions = two.at(&["status", "conditions"]).and_then(Value::as_array).expect("one");
        assert_eq!(conditions[0].str_at(&["status"]), Some("False"));
        let again = with(two, &said("a", "v2"));
        assert_eq!(status(&again, &common), Some("v2".into()));
    }
}
