//! The documents themselves, made once for one state of the rows.

use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{Arc, OnceLock},
};

use aws_lc_rs::digest;
use bytes::Bytes;
use machinery::{Str, Value, array, codec::json, object};

use super::{Freshness, Group, Version};

/// A discovery document. It is made as a value or as JSON; the other form is made when it is first asked for.
#[derive(Debug)]
pub struct Document {
    value: OnceLock<Value>,
    json: OnceLock<(Bytes, Str)>,
}

impl Document {
    fn new(value: Value) -> Self {
        Document { value: value.into(), json: OnceLock::new() }
    }

    fn of_text(text: Vec<u8>) -> Self {
        Document { value: OnceLock::new(), json: tagged(text).into() }
    }

    /// The document.
    pub fn value(&self) -> &Value {
        let read = |text: &(Bytes, Str)| json::decode(&text.0).expect("this server has written it");
        self.value.get_or_init(|| self.json.get().map(read).unwrap_or_default())
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
        self.json.get_or_init(|| tagged(json::encode(self.value())))
    }
}

/// A text as it is sent, and its ETag.
fn tagged(mut text: Vec<u8>) -> (Bytes, Str) {
    let mut etag = String::from("\"");
    for byte in digest::digest(&digest::SHA512, &text).as_ref() {
        write!(etag, "{byte:02X}").expect("a String takes all writes");
    }
    etag.push('"');
    text.push(b'\n');
    (Bytes::from(text), etag.into())
}

/// Everything discovery serves for one state of the rows. Each document is made when it is first asked for, and those of
/// a group are kept for as long as the group stays as it is.
#[derive(Debug)]
pub struct Documents {
    /// As [`super::merge`] orders them, the core group among them.
    groups: Vec<Arc<Part>>,
    by_name: HashMap<Str, Arc<Part>>,
    group_list: OnceLock<Document>,
    aggregated_core: OnceLock<Document>,
    aggregated_groups: OnceLock<Document>,
}

/// One group's documents.
#[derive(Debug)]
struct Part {
    group: Group,
    document: OnceLock<Document>,
    /// One a version.
    resources: Vec<OnceLock<Option<Document>>>,
    /// What the aggregated document says of the group, as JSON; nothing if nobody serves it.
    item: OnceLock<Vec<u8>>,
}

impl Part {
    fn new(group: Group) -> Self {
        let resources = group.versions.iter().map(|_| OnceLock::new()).collect();
        Part { group, document: OnceLock::new(), resources, item: OnceLock::new() }
    }

    fn item(&self) -> &[u8] {
        self.item.get_or_init(|| {
            let served = self.group.versions.iter().any(|v| is_served(&v));
            if served { json::encode(&aggregated_item(&self.group)) } else { Vec::new() }
        })
    }

    /// Whether the documents say what a group is now.
    fn says(&self, group: &Group) -> bool {
        let same = |(a, b): (&Version, &Version)| {
            let resources = match (&a.resources, &b.resources) {
                (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                (None, None) => true,
                _ => false,
            };
            a.name == b.name && a.freshness == b.freshness && resources
        };
        let versions = self.group.versions.len() == group.versions.len();
        versions && self.group.name == group.name && self.group.versions.iter().zip(&group.versions).all(same)
    }
}

impl Documents {
    /// Of groups as [`super::merge`] orders them, the core group among them.
    pub fn new(groups: &[Group]) -> Self {
        Self::after(None, groups.to_vec())
    }

    /// [`Documents::new`], with what has stayed as it was in the documents until now.
    pub fn after(before: Option<&Documents>, groups: Vec<Group>) -> Self {
        let part = |group: Group| {
            let known = before.and_then(|before| before.by_name.get(&group.name)).filter(|part| part.says(&group));
            known.cloned().unwrap_or_else(|| Arc::new(Part::new(group)))
        };
        let groups: Vec<Arc<Part>> = groups.into_iter().map(part).collect();
        Documents {
            by_name: groups.iter().map(|part| (part.group.name.clone(), part.clone())).collect(),
            groups,
            group_list: OnceLock::new(),
            aggregated_core: OnceLock::new(),
            aggregated_groups: OnceLock::new(),
        }
    }

    fn core(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().map(|part| &part.group).filter(|group| group.name.is_empty())
    }

    fn named(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().map(|part| &part.group).filter(|group| !group.name.is_empty())
    }

    /// `/api`: the versions of the core group, and where the server is to be found from everywhere.
    pub fn core_versions(&self, server_address: &str) -> Value {
        object! {
            "kind" => "APIVersions",
            "versions" => self.core().flat_map(|g| &g.versions).map(|v| Value::from(&v.name)).collect::<Value>(),
            "serverAddressByClientCIDRs" => array![
                object! { "clientCIDR" => "0.0.0.0/0", "serverAddress" => server_address },
            ],
        }
    }

    /// `/apis`: all groups but the core one.
    pub fn group_list(&self) -> &Document {
        self.group_list.get_or_init(|| {
            Document::new(object! {
                "kind" => "APIGroupList",
                "apiVersion" => "v1",
                "groups" => self.named().map(api_group).collect::<Value>(),
            })
        })
    }

    /// Whether a group other than the core one is served.
    pub fn has_group(&self, name: &str) -> bool {
        !name.is_empty() && self.by_name.contains_key(name)
    }

    /// `/apis/GROUP`
    pub fn group(&self, name: &str) -> Option<&Document> {
        let part = self.by_name.get(name).filter(|_| !name.is_empty())?;
        Some(part.document.get_or_init(|| Document::new(group_document(&part.group))))
    }

    /// `/api/v1` and `/apis/GROUP/VERSION`; `None` also for versions whose resources are not known.
    pub fn resources(&self, group: &str, version: &str) -> Option<&Document> {
        let part = self.by_name.get(group)?;
        let at = part.group.versions.iter().position(|v| v.name == version)?;
        let make = || resource_list(&part.group, &part.group.versions[at]).map(Document::new);
        part.resources[at].get_or_init(make).as_ref()
    }

    /// `/api` as an APIGroupDiscoveryList.
    pub fn aggregated_core(&self) -> &Document {
        self.aggregated_core.get_or_init(|| aggregated(self.groups.iter().filter(|part| part.group.name.is_empty())))
    }

    /// `/apis` as an APIGroupDiscoveryList.
    pub fn aggregated_groups(&self) -> &Document {
        self.aggregated_groups.get_or_init(|| aggregated(self.groups.iter().filter(|part| !part.group.name.is_empty())))
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

/// The aggregated document is put together of its items' texts, so that one group more costs little where there are many.
fn aggregated<'a>(parts: impl Iterator<Item = &'a Arc<Part>>) -> Document {
    let mut text = br#"{"apiVersion":"apidiscovery.k8s.io/v2","items":["#.to_vec();
    for (n, item) in parts.map(|part| part.item()).filter(|item| !item.is_empty()).enumerate() {
        if n > 0 {
            text.push(b',');
        }
        text.extend_from_slice(item);
    }
    text.extend_from_slice(br#"],"kind":"APIGroupDiscoveryList","metadata":{}}"#);
    Document::of_text(text)
}

fn aggregated_item(group: &Group) -> Value {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_aggregated_document_is_the_json_of_its_value() {
        let version = |name: &str, freshness| Version { name: name.into(), priority: 1, resources: None, freshness };
        let group = |name: &str, versions| Group { name: name.into(), priority: 1, versions };
        let documents = Documents::new(&[
            group("", vec![version("v1", Freshness::Stale)]),
            group("a", vec![version("v1", Freshness::Stale), version("v2", Freshness::Current)]),
            group("nobody's", vec![version("v1", Freshness::Current)]),
            group("z", vec![version("v1", Freshness::Stale)]),
        ]);
        let document = documents.aggregated_groups();
        let text = document.json();
        assert_eq!(json::encode(document.value()), &text[..text.len() - 1]);
        let items = document.value().get("items").and_then(Value::as_array).expect("items");
        let names: Vec<_> = items.iter().map(|item| item.str_at(&["metadata", "name"])).collect();
        assert_eq!(names, [Some("a"), Some("z")]);
        assert_eq!(items[0].get("versions").and_then(Value::as_array).map(<[Value]>::len), Some(1));
        assert_eq!(Documents::new(&[]).aggregated_core().value().get("items"), Some(&array![]));
    }
}
