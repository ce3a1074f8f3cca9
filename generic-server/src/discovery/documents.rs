//! The documents themselves, made once for one state of the rows.

use std::{collections::HashMap, sync::OnceLock};

use aws_lc_rs::digest;
use bytes::Bytes;
use machinery::{Str, Value, array, codec::json, object};

use super::{Freshness, Group, Version};

/// A discovery document. The value is there for other media types; the JSON is written when it is first asked for.
#[derive(Debug)]
pub struct Document {
    value: Value,
    json: OnceLock<(Bytes, Str)>,
}

impl Document {
    fn new(value: Value) -> Self {
        Document { value, json: OnceLock::new() }
    }

    /// The document.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The document as JSON, with the newline that ends every JSON answer.
    pub fn json(&self) -> Bytes {
        self.written().0.clone()
    }

    /// The ETag: the SHA-512 of the document, quoted.
    pub fn etag(&self) -> &Str {
        &self.written().1
    }

    fn written(&self) -> &(Bytes, Str) {
        self.json.get_or_init(|| {
            let mut text = json::encode(&self.value);
            let mut etag = String::from("\"");
            for byte in digest::digest(&digest::SHA512, &text).as_ref() {
                etag.push_str(&format!("{byte:02X}"));
            }
            etag.push('"');
            text.push(b'\n');
            (Bytes::from(text), etag.into())
        })
    }
}

/// Everything discovery serves for one state of the rows.
#[derive(Debug)]
pub struct Documents {
    core_versions: Vec<Str>,
    group_list: Document,
    groups: HashMap<Str, Document>,
    resources: HashMap<(Str, Str), Document>,
    aggregated_core: Document,
    aggregated_groups: Document,
}

impl Documents {
    /// Of groups as [`super::merge`] orders them, the core group among them.
    pub fn new(groups: &[Group]) -> Self {
        let (core, named): (Vec<&Group>, Vec<&Group>) = groups.iter().partition(|g| g.name.is_empty());
        let resources = groups.iter().flat_map(|group| {
            group.versions.iter().filter_map(move |version| {
                let key = (group.name.clone(), version.name.clone());
                Some((key, Document::new(resource_list(group, version)?)))
            })
        });
        Documents {
            core_versions: core.iter().flat_map(|g| g.versions.iter().map(|v| v.name.clone())).collect(),
            group_list: Document::new(object! {
                "kind" => "APIGroupList",
                "apiVersion" => "v1",
                "groups" => named.iter().map(|g| api_group(g)).collect::<Value>(),
            }),
            groups: named.iter().map(|g| (g.name.clone(), Document::new(group_document(g)))).collect(),
            resources: resources.collect(),
            aggregated_core: Document::new(aggregated(&core)),
            aggregated_groups: Document::new(aggregated(&named)),
        }
    }

    /// `/api`: the versions of the core group, and where the server is to be found from everywhere.
    pub fn core_versions(&self, server_address: &str) -> Value {
        object! {
            "kind" => "APIVersions",
            "versions" => self.core_versions.iter().map(Value::from).collect::<Value>(),
            "serverAddressByClientCIDRs" => array![
                object! { "clientCIDR" => "0.0.0.0/0", "serverAddress" => server_address },
            ],
        }
    }

    /// `/apis`: all groups but the core one.
    pub fn group_list(&self) -> &Document {
        &self.group_list
    }

    /// `/apis/GROUP`
    pub fn group(&self, name: &str) -> Option<&Document> {
        self.groups.get(name)
    }

    /// `/api/v1` and `/apis/GROUP/VERSION`; `None` also for versions whose resources are not known.
    pub fn resources(&self, group: &str, version: &str) -> Option<&Document> {
        self.resources.get(&(Str::from(group), Str::from(version)))
    }

    /// `/api` as an APIGroupDiscoveryList.
    pub fn aggregated_core(&self) -> &Document {
        &self.aggregated_core
    }

    /// `/apis` as an APIGroupDiscoveryList.
    pub fn aggregated_groups(&self) -> &Document {
        &self.aggregated_groups
    }
}

fn group_version(group: &Str, version: &Str) -> Str {
    if group.is_empty() { version.clone() } else { Str::from(format!("{group}/{version}")) }
}

fn api_group(group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|v| object! { "groupVersion" => group_version(&group.name, &v.name), "version" => v.name.clone() })
        .collect();
    let preferred = versions.first().cloned();
    let mut out = object! { "name" => group.name.clone(), "versions" => versions };
    if let Some(preferred) = preferred {
        out.set(&["preferredVersion"], preferred);
    }
    out
}

fn group_document(group: &Group) -> Value {
    let mut out = api_group(group);
    out.set(&["kind"], "APIGroup");
    out.set(&["apiVersion"], "v1");
    out
}

fn resource_list(group: &Group, version: &Version) -> Option<Value> {
    let mut out = object! {
        "kind" => "APIResourceList",
        "groupVersion" => group_version(&group.name, &version.name),
        "resources" => version.resources.as_ref()?.list.clone(),
    };
    if !group.name.is_empty() {
        out.set(&["apiVersion"], "v1"); // the core group's list is older than apiVersion in it
    }
    Some(out)
}

/// Whether a version is more than somebody's claim that it is served here.
fn is_served(version: &&Version) -> bool {
    version.resources.is_some() || version.freshness == Freshness::Stale
}

fn aggregated(groups: &[&Group]) -> Value {
    let item = |group: &&Group| {
        let version = |version: &Version| {
            let mut out = object! { "version" => version.name.clone(), "freshness" => version.freshness.name() };
            if let Some(resources) = &version.resources {
                out.set(&["resources"], resources.aggregated.clone());
            }
            out
        };
        let metadata = if group.name.is_empty() {
            Value::object()
        } else {
            object! { "name" => group.name.clone() }
        };
        object! {
            "metadata" => metadata,
            "versions" => group.versions.iter().filter(is_served).map(version).collect::<Value>(),
        }
    };
    object! {
        "kind" => "APIGroupDiscoveryList",
        "apiVersion" => "apidiscovery.k8s.io/v2",
        "metadata" => Value::object(),
        "items" => groups.iter().filter(|g| g.versions.iter().any(|v| is_served(&v))).map(item).collect::<Value>(),
    }
}
