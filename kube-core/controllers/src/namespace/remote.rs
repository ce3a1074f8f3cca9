//! What aggregated servers have in namespaces, by the discovery of the whole chain.

use machinery::{Str, Value, meta::status::Status};

use crate::{client::Client, kinds::Kinds};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A resource of another server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Resource {
    pub(super) group: Str,
    pub(super) version: Str,
    pub(super) plural: Str,
    pub(super) has_list: bool,
    pub(super) has_delete_collection: bool,
}

/// What discovery says of other servers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) resources: Vec<Resource>,
    /// What could not be found out.
    pub(super) failure: Option<String>,
}

/// Asks for the resources of other servers whose objects can be deleted.
pub(super) async fn discover(client: &Client, kinds: &Kinds) -> Result<Found, Status> {
    let document = client.get("/apis", AGGREGATED).await?;
    Ok(read(&document, |group, version| kinds.has_version(group, version)))
}

fn read(document: &Value, is_local: impl Fn(&str, &str) -> bool) -> Found {
    let mut found = Found::default();
    let mut stale = Vec::new();
    for group in document.get("items").and_then(Value::as_array).unwrap_or_default() {
        let name = group.str_at(&["metadata", "name"]).unwrap_or_default();
        let mut seen: Vec<&str> = Vec::new();
        for version in group.get("versions").and_then(Value::as_array).unwrap_or_default() {
            let text = version.str_at(&["version"]).unwrap_or_default();
            if is_local(name, text) {
                continue;
            }
            if version.str_at(&["freshness"]) == Some("Stale") {
                stale.push(format!("{name}/{text}"));
                continue;
            }
            for resource in version.get("resources").and_then(Value::as_array).unwrap_or_default() {
                let plural = resource.str_at(&["resource"]).unwrap_or_default();
                let verbs = resource.get("verbs").and_then(Value::as_array).unwrap_or_default();
                let has = |verb: &str| verbs.iter().any(|known| known.as_str() == Some(verb));
                // The preferred version comes first.
                if resource.str_at(&["scope"]) != Some("Namespaced") || !has("delete") || seen.contains(&plural) {
                    continue;
                }
                seen.push(plural);
                found.resources.push(Resource {
                    group: name.into(),
                    version: text.into(),
                    plural: plural.into(),
                    has_list: has("list"),
                    has_delete_collection: has("deletecollection"),
                });
            }
        }
    }
    found.failure = (!stale.is_empty()).then(|| {
        stale.sort_unstable();
        let each = stale.iter().map(|version| format!("{version}: stale GroupVersion discovery: {version}"));
        let all = each.collect::<Vec<_>>().join(", ");
        let count = stale.len();
        format!(
            "Discovery failed for some groups, {count} failing: unable to retrieve the complete list of server APIs: {all}"
        )
    });
    found
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
        ] };
        let found = read(&document, |group, _| group == "apps");
        let names: Vec<_> =
            found.resources.iter().map(|r| format!("{}/{} {}", r.group, r.version, r.has_list)).collect();
        assert_eq!(names, ["wardle.example.com/v1beta1 true", "wardle.example.com/v1alpha1 false"]);
        assert_eq!(
            found.failure.as_deref(),
            Some(
                "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: \
                 down.example.com/v1: stale GroupVersion discovery: down.example.com/v1"
            )
        );
    }
}
