//! Groups and versions: what one server contributes to discovery, and how contributions are joined.

use std::{collections::HashMap, sync::Arc};

use machinery::Str;

use super::{Resources, compare_versions, priority};
use crate::resource::Resource;

/// A group as one server, or all of them together, serve it.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The name; empty for the core group.
    pub name: Str,
    /// `groupPriorityMinimum`: groups stand by it, highest first, then by name.
    pub priority: i64,
    /// The versions.
    pub versions: Vec<Version>,
}

/// One version of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Version {
    /// The name.
    pub name: Str,
    /// `versionPriority`: versions stand by it, highest first, then the most mature first.
    pub priority: i64,
    /// What it serves. `None` where nobody has said so yet (a remote server that never answered): such a version is listed
    /// in its group and has no resources.
    pub resources: Option<Arc<Resources>>,
    /// Whether the resources are what is served now.
    pub freshness: Freshness,
}

/// Whether what discovery says of a version is up to date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Freshness {
    /// It is.
    #[default]
    Current,
    /// The server behind it does not answer; this is what it said last.
    Stale,
}

impl Freshness {
    /// As documents have it.
    pub const fn name(self) -> &'static str {
        match self {
            Freshness::Current => "Current",
            Freshness::Stale => "Stale",
        }
    }
}

/// The groups of a server's rows, with the priorities of local APIServices. Rows keep their order within a version.
pub fn groups_of<'a>(rows: impl IntoIterator<Item = &'a Resource>) -> Vec<Group> {
    let mut versions: Vec<(&Str, &Str, Vec<&Resource>)> = Vec::new();
    let mut places: HashMap<(&Str, &Str), usize> = HashMap::new();
    for row in rows {
        let at = *places.entry((&row.group, &row.version)).or_insert(versions.len());
        match versions.get_mut(at) {
            Some((_, _, rows)) => rows.push(row),
            None => versions.push((&row.group, &row.version, vec![row])),
        }
    }
    merge(versions.into_iter().map(|(group, version, rows)| {
        let rank = priority(group, version);
        let version = Version {
            name: version.clone(),
            priority: rank.version,
            resources: Some(Arc::new(Resources::from_rows(rows))),
            freshness: Freshness::Current,
        };
        Group { name: group.clone(), priority: rank.group, versions: vec![version] }
    }))
}

/// Joins parts: groups of one name become one, with the highest of their priorities; of two versions of one name the first
/// given stays, with the resources of the first that knows them. All in the order in which documents list them.
pub fn merge(parts: impl IntoIterator<Item = Group>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut places: HashMap<Str, usize> = HashMap::new();
    for part in parts {
        match places.get(&part.name) {
            None => {
                places.insert(part.name.clone(), groups.len());
                groups.push(part);
            }
            Some(&at) => {
                let group = &mut groups[at];
                group.priority = group.priority.max(part.priority);
                for version in part.versions {
                    match group.versions.iter_mut().find(|v| v.name == version.name) {
                        Some(known) => known.resources = known.resources.take().or(version.resources),
                        None => group.versions.push(version),
                    }
                }
            }
        }
    }
    groups.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.name.cmp(&b.name)));
    for group in &mut groups {
        group.versions.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| compare_versions(&a.name, &b.name)));
    }
    groups
}

impl Group {
    /// Adds what only another server has of the group: versions, and resources of versions.
    pub fn complete(&mut self, other: &Group) {
        for version in &other.versions {
            match self.versions.iter_mut().find(|known| known.name == version.name) {
                None => self.versions.push(version.clone()),
                Some(known) => {
                    known.resources = match (known.resources.take(), &version.resources) {
                        (Some(own), Some(others)) => Some(Arc::new(own.with_others_of(others))),
                        (own, others) => own.or(others.clone()),
                    };
                }
            }
        }
        self.versions.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| compare_versions(&a.name, &b.name)));
    }
}

#[cfg(test)]
mod tests {
    use machinery::{Value, object};

    use super::*;

    fn group(name: &str, priority: i64, versions: &[(&str, i64)]) -> Group {
        let version = |(name, priority): &(&str, i64)| Version {
            name: Str::from(*name),
            priority: *priority,
            resources: None,
            freshness: Freshness::Stale,
        };
        Group { name: name.into(), priority, versions: versions.iter().map(version).collect() }
    }

    #[test]
    fn what_only_another_server_has_is_added() {
        let resources = |names: &[&str]| {
            let list: Value = names.iter().map(|name| object! { "resource" => *name, "scope" => "Cluster" }).collect();
            Some(Arc::new(Resources::from_aggregated(&list)))
        };
        let mut own = group("a", 1, &[("v1", 20)]);
        own.versions[0].resources = resources(&["x", "y"]);
        let mut other = group("a", 1, &[("v1", 20), ("v2", 30)]);
        other.versions[0].resources = resources(&["z", "y"]);
        own.complete(&other);
        let versions: Vec<&Str> = own.versions.iter().map(|version| &version.name).collect();
        assert_eq!(versions, ["v2", "v1"]);
        assert_eq!(own.versions[1].resources, resources(&["x", "y", "z"]));
    }

    #[test]
    fn groups_stand_by_priority_then_name_and_versions_by_priority_then_maturity() {
        let parts = [
            group("b", 1000, &[("v1", 100), ("v2beta1", 100)]),
            group("a", 1000, &[("v1", 100)]),
            group("b", 1000, &[("v2", 100), ("v1", 100)]),
            group("c", 2000, &[("v1", 15), ("v2", 30)]),
        ];
        let merged: Vec<(Str, Vec<Str>)> =
            merge(parts).into_iter().map(|g| (g.name, g.versions.into_iter().map(|v| v.name).collect())).collect();
        let expect = [("c", vec!["v2", "v1"]), ("a", vec!["v1"]), ("b", vec!["v2", "v1", "v2beta1"])];
        assert_eq!(merged, expect.map(|(g, vs)| (Str::from(g), vs.into_iter().map(Str::from).collect::<Vec<_>>())));
    }
}
