//! What other servers have behind the aggregator, by the discovery of the whole chain.

use machinery::{
    Str, Value,
    meta::status::Status,
    request::{Verb, Verbs},
};

use crate::{
    client::{Client, segment},
    kinds::{Kinds, collection},
};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A resource of another server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) group: Str,
    pub(crate) version: Str,
    pub(crate) plural: Str,
    pub(crate) kind: Str,
    pub(crate) namespaced: bool,
    pub(crate) verbs: Verbs,
}

impl Resource {
    /// The path of a collection; an empty namespace: of all of them.
    pub(crate) fn collection(&self, namespace: &str) -> String {
        collection(&self.group, &self.version, &self.plural, namespace)
    }

    /// The path of an object.
    pub(crate) fn path(&self, namespace: &str, name: &str) -> String {
        format!("{}/{}", self.collection(namespace), segment(name))
    }

    /// `apps/v1`.
    pub(crate) fn api_version(&self) -> Str {
        format!("{}/{}", self.group, self.version).into()
    }
}

/// What discovery says of other servers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Those with the verbs that were asked for, each in its preferred version.
    pub(crate) resources: Vec<Resource>,
    /// The group versions of servers that are down, each with whether it may have resources with these verbs.
    pub(crate) stale: Vec<(Str, bool)>,
}

impl Found {
    /// What could not be found out; none if all is known.
    pub(crate) fn failure(&self) -> Option<String> {
        failure(self.stale.iter().map(|(version, _)| version))
    }

    /// The same, but for what is known to have no such resources.
    pub(crate) fn unknown(&self) -> Option<String> {
        failure(self.stale.iter().filter(|(_, may_have)| *may_have).map(|(version, _)| version))
    }
}

fn failure<'a>(stale: impl Iterator<Item = &'a Str>) -> Option<String> {
    let mut stale: Vec<&Str> = stale.collect();
    stale.sort_unstable();
    let each = stale.iter().map(|version| format!("{version}: stale GroupVersion discovery: {version}"));
    let (count, all) = (stale.len(), each.collect::<Vec<_>>().join(", "));
    (count > 0).then(|| {
        format!(
            "Discovery failed for some groups, {count} failing: unable to retrieve the complete list of server APIs: {all}"
        )
    })
}

/// Asks for the resources of other servers that have these verbs.
pub(crate) async fn discover(client: &Client, kinds: &Kinds, wanted: &[Verb]) -> Result<Found, Status> {
    let document = client.get("/apis", AGGREGATED).await?;
    Ok(read(&document, wanted, |group, version| kinds.has_version(group, version)))
}

fn read(document: &Value, wanted: &[Verb], is_local: impl Fn(&str, &str) -> bool) -> Found {
    let mut found = Found::default();
    for group in items(document, "items") {
        let name = group.str_at(&["metadata", "name"]).unwrap_or_default();
        let mut seen: Vec<Str> = Vec::new();
        for version in items(group, "versions") {
            let text = version.str_at(&["version"]).unwrap_or_default();
            if is_local(name, text) {
                continue;
            }
            let listed = items(version, "resources");
            let resources = listed.iter().map(|resource| resource_of(name, text, resource));
            let mut usable = resources.filter(|found| wanted.iter().all(|verb| found.verbs.contains(*verb)));
            if version.str_at(&["freshness"]) == Some("Stale") {
                let may_have = listed.is_empty() || usable.next().is_some();
                found.stale.push((format!("{name}/{text}").into(), may_have));
                continue;
            }
            // The preferred version comes first.
            let new: Vec<Resource> = usable.filter(|resource| !seen.contains(&resource.plural)).collect();
            seen.extend(new.iter().map(|resource| resource.plural.clone()));
            found.resources.extend(new);
        }
    }
    found
}

fn items<'a>(value: &'a Value, member: &str) -> &'a [Value] {
    value.get(member).and_then(Value::as_array).unwrap_or_default()
}

fn resource_of(group: &str, version: &str, resource: &Value) -> Resource {
    let text = |path: &[&str]| Str::from(resource.str_at(path).unwrap_or_default());
    let named = |verb: &Verb| items(resource, "verbs").iter().any(|known| known.as_str() == Some(verb.name()));
    let verbs: Vec<Verb> = Verb::ALL.into_iter().filter(named).collect();
    Resource {
        group: group.into(),
        version: version.into(),
        plural: text(&["resource"]),
        kind: text(&["responseKind", "kind"]),
        namespaced: resource.str_at(&["scope"]) == Some("Namespaced"),
        verbs: Verbs::of(&verbs),
    }
}

#[cfg(test)]
mod tests {
    use machinery::{array, object};

    use super::*;

    #[test]
    fn the_preferred_version_counts_and_servers_that_are_down_are_told() {
        let resource = |plural: &str, scope: &str, verbs: Value| {
            object! { "resource" => plural, "scope" => scope, "verbs" => verbs }
        };
        let all = || array!["delete", "list", "deletecollection"];
        let version = |name: &str, freshness: &str, resources: Value| {
            object! { "version" => name, "freshness" => freshness, "resources" => resources }
        };
        let group = |name: &str, versions: Value| {
            object! { "metadata" => object! { "name" => name }, "versions" => versions }
        };
        let flunders = || resource("flunders", "Namespaced", all());
        let document = object! { "items" => array![
            group("apps", array![version("v1", "Current", array![flunders()])]),
            group("wardle.example.com", array![
                version("v1beta1", "Current", array![flunders(), resource("fischers", "Cluster", all())]),
                version("v1alpha1", "Current", array![flunders(), resource("old", "Namespaced", array!["delete"])]),
            ]),
            group("down.example.com", array![version("v1", "Stale", array![flunders()])]),
            group("metrics.example.com", array![version("v1", "Stale", array![resource("nodes", "Cluster", array!["list"])])]),
            group("never.example.com", array![version("v1", "Stale", array![])]),
        ] };
        let found = read(&document, &[Verb::Delete], |group, _| group == "apps");
        let names: Vec<_> =
            found.resources.iter().map(|r| format!("{} {} {}", r.api_version(), r.plural, r.namespaced)).collect();
        assert_eq!(
            names,
            [
                "wardle.example.com/v1beta1 flunders true",
                "wardle.example.com/v1beta1 fischers false",
                "wardle.example.com/v1alpha1 old true"
            ]
        );
        assert!(found.resources[0].verbs.contains(Verb::List) && !found.resources[2].verbs.contains(Verb::List));
        let down = |count: usize, which: &[&str]| {
            let each = which.iter().map(|version| format!("{version}: stale GroupVersion discovery: {version}"));
            Some(format!(
                "Discovery failed for some groups, {count} failing: unable to retrieve the complete list of server APIs: {}",
                each.collect::<Vec<_>>().join(", ")
            ))
        };
        let (gone, metrics, never) = ("down.example.com/v1", "metrics.example.com/v1", "never.example.com/v1");
        assert_eq!(found.failure(), down(3, &[gone, metrics, never]));
        assert_eq!(found.unknown(), down(2, &[gone, never]), "nothing can be deleted of the other one");
        assert_eq!((Found::default().failure(), Found::default().unknown()), (None, None));
    }
}
