//! The documents themselves, made once for one state of the rows.

use std::{
    cmp::Reverse,
    sync::{Arc, OnceLock},
};

use imbl::OrdMap;
use machinery::{Str, Value, array, codec::json, object};

use super::{
    Document, Freshness, Group, Version,
    listing::{Listing, Segment},
};

/// Everything discovery serves for one state of the rows. Each document is made when it is first asked for, and those of
/// a group are kept for as long as the group stays as it is.
#[derive(Debug, Default)]
pub struct Documents {
    by_name: OrdMap<Str, Arc<Part>>,
    /// As [`super::merge`] orders them, the core group among them.
    ordered: OrdMap<(Reverse<i64>, Str), Arc<Part>>,
    group_list: Kept,
    aggregated_core: Kept,
    aggregated_groups: Kept,
}

/// A listing, and the one before it, as far as either was asked for.
#[derive(Debug, Default)]
struct Kept {
    before: Option<Arc<Listing>>,
    now: OnceLock<Arc<Listing>>,
}

impl Kept {
    /// The same listing of the next state.
    fn next(&self) -> Kept {
        Kept { before: self.now.get().or(self.before.as_ref()).cloned(), now: OnceLock::new() }
    }

    fn get<'a>(
        &self,
        frame: (&'static str, &'static str),
        segments: impl Iterator<Item = &'a Arc<Segment>>,
    ) -> &Listing {
        self.now.get_or_init(|| Arc::new(Listing::new(frame, segments, self.before.as_deref())))
    }
}

/// One group's documents.
#[derive(Debug)]
struct Part {
    group: Group,
    document: OnceLock<Document>,
    /// One a version.
    resources: Vec<OnceLock<Option<Document>>>,
    /// What the list of groups says of it.
    listed: OnceLock<Arc<Segment>>,
    /// What the aggregated document says of it; nothing if nobody serves it.
    aggregated: OnceLock<Option<Arc<Segment>>>,
}

impl Part {
    fn new(group: Group) -> Self {
        let resources = group.versions.iter().map(|_| OnceLock::new()).collect();
        Part { group, document: OnceLock::new(), resources, listed: OnceLock::new(), aggregated: OnceLock::new() }
    }

    fn place(&self) -> (Reverse<i64>, Str) {
        (Reverse(self.group.priority), self.group.name.clone())
    }

    fn listed(&self) -> &Arc<Segment> {
        let name = &self.group.name;
        self.listed.get_or_init(|| Segment::new(name, part(json::Part::Group, &api_group(&self.group))))
    }

    fn aggregated(&self) -> Option<&Arc<Segment>> {
        let name = &self.group.name;
        let made = self.aggregated.get_or_init(|| {
            let served = self.group.versions.iter().any(|v| is_served(&v));
            served.then(|| Segment::new(name, part(json::Part::DiscoveryGroup, &aggregated_item(&self.group))))
        });
        made.as_ref()
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
        let head = (&self.group.name, self.group.priority, self.group.versions.len());
        head == (&group.name, group.priority, group.versions.len())
            && self.group.versions.iter().zip(&group.versions).all(same)
    }
}

impl Documents {
    /// Of groups as [`super::merge`] makes them, the core group among them.
    pub fn new(groups: &[Group]) -> Self {
        Documents::default().with(groups.iter().map(|group| (group.name.clone(), Some(group.clone()))))
    }

    /// These documents with other groups of some names, or none. What has stayed as it was is kept.
    #[must_use]
    pub fn with(&self, changes: impl IntoIterator<Item = (Str, Option<Group>)>) -> Self {
        let (mut by_name, mut ordered) = (self.by_name.clone(), self.ordered.clone());
        for (name, group) in changes {
            let known = by_name.get(&name);
            if known.zip(group.as_ref()).is_some_and(|(known, group)| known.says(group)) {
                continue;
            }
            if let Some(known) = known {
                ordered.remove(&known.place());
                by_name.remove(&name);
            }
            if let Some(part) = group.map(|group| Arc::new(Part::new(group))) {
                ordered.insert(part.place(), part.clone());
                by_name.insert(name, part);
            }
        }
        Documents {
            by_name,
            ordered,
            group_list: self.group_list.next(),
            aggregated_core: self.aggregated_core.next(),
            aggregated_groups: self.aggregated_groups.next(),
        }
    }

    fn core(&self) -> impl Iterator<Item = &Arc<Part>> {
        self.ordered.values().filter(|part| part.group.name.is_empty())
    }

    fn named(&self) -> impl Iterator<Item = &Arc<Part>> {
        self.ordered.values().filter(|part| !part.group.name.is_empty())
    }

    /// `/api`: the versions of the core group, and where the server is to be found from everywhere.
    pub fn core_versions(&self, server_address: &str) -> Value {
        object! {
            "kind" => "APIVersions",
            "versions" => self.core().flat_map(|part| &part.group.versions).map(|v| Value::from(&v.name)).collect::<Value>(),
            "serverAddressByClientCIDRs" => array![
                object! { "clientCIDR" => "0.0.0.0/0", "serverAddress" => server_address },
            ],
        }
    }

    /// `/apis`: all groups but the core one.
    pub fn group_list(&self) -> &Listing {
        let frame = (r#"{"kind":"APIGroupList","apiVersion":"v1","groups":["#, "]}\n");
        self.group_list.get(frame, self.named().map(|part| part.listed()))
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
    pub fn aggregated_core(&self) -> &Listing {
        self.aggregated_core.get(AGGREGATED, self.core().filter_map(|part| part.aggregated()))
    }

    /// `/apis` as an APIGroupDiscoveryList.
    pub fn aggregated_groups(&self) -> &Listing {
        self.aggregated_groups.get(AGGREGATED, self.named().filter_map(|part| part.aggregated()))
    }
}

/// What stands around the items of an APIGroupDiscoveryList.
const AGGREGATED: (&str, &str) =
    (r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":["#, "]}\n");

/// What a listing says of a group, in text.
fn part(part: json::Part, value: &Value) -> Vec<u8> {
    let mut text = Vec::with_capacity(512);
    json::encode_part_into(&mut text, part, value, None);
    text
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
    fn listings_are_of_the_groups_that_are_there_in_order() {
        let version = |name: &str, freshness| Version { name: name.into(), priority: 1, resources: None, freshness };
        let group = |name: &str, versions| Group { name: name.into(), priority: 1, versions };
        let documents = Documents::new(&[
            group("", vec![version("v1", Freshness::Stale)]),
            group("a", vec![version("v1", Freshness::Stale), version("v2", Freshness::Current)]),
            group("nobody's", vec![version("v1", Freshness::Current)]),
            group("z", vec![version("v1", Freshness::Stale)]),
        ]);
        let document = documents.aggregated_groups().value();
        let items = document.get("items").and_then(Value::as_array).expect("items");
        let names: Vec<_> = items.iter().map(|item| item.str_at(&["metadata", "name"])).collect();
        assert_eq!(names, [Some("a"), Some("z")]);
        assert_eq!(items[0].get("versions").and_then(Value::as_array).map(<[Value]>::len), Some(1));
        let text: Vec<u8> = documents.aggregated_groups().json().iter().flat_map(|piece| piece.text()).collect();
        assert_eq!([json::encode_document(&document), b"\n".to_vec()].concat(), text, "its members are in order");

        let more =
            documents.with([("a".into(), None), ("b".into(), Some(group("b", vec![version("v1", Freshness::Stale)])))]);
        let document = more.group_list().value();
        let groups = document.get("groups").and_then(Value::as_array).expect("groups");
        let names: Vec<_> = groups.iter().map(|group| group.str_at(&["name"])).collect();
        assert_eq!(names, [Some("b"), Some("nobody's"), Some("z")]);
        assert_eq!(Documents::new(&[]).aggregated_core().value().get("items"), Some(&array![]));
    }
}
