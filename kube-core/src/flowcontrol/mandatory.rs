//! The flow schemas and priority levels that every server has, as they must be.

use machinery::{Value, array, object};

/// The spec of a flow schema that nobody may change.
pub(super) fn flow_schema(name: &str) -> Option<Value> {
    let rules = |groups: &[&str]| {
        let subject = |group: &&str| object! { "kind" => "Group", "group" => object! { "name" => *group } };
        array![object! {
            "subjects" => groups.iter().map(subject).collect::<Value>(),
            "resourceRules" => array![object! {
                "verbs" => array!["*"], "apiGroups" => array!["*"], "resources" => array!["*"],
                "clusterScope" => true, "namespaces" => array!["*"],
            }],
            "nonResourceRules" => array![object! { "verbs" => array!["*"], "nonResourceURLs" => array!["*"] }],
        }]
    };
    match name {
        "exempt" => Some(object! {
            "matchingPrecedence" => 1,
            "priorityLevelConfiguration" => object! { "name" => "exempt" },
            "rules" => rules(&["system:masters"]),
        }),
        "catch-all" => Some(object! {
            "matchingPrecedence" => 10_000,
            "priorityLevelConfiguration" => object! { "name" => "catch-all" },
            "distinguisherMethod" => object! { "type" => "ByUser" },
            "rules" => rules(&["system:unauthenticated", "system:authenticated"]),
        }),
        _ => None,
    }
}

/// The spec of a priority level that nobody may change. Of the exempt level's own part anything may change.
pub(super) fn priority_level(name: &str) -> Option<Value> {
    match name {
        "exempt" => Some(object! { "type" => "Exempt" }),
        "catch-all" => Some(object! {
            "type" => "Limited",
            "limited" => object! {
                "nominalConcurrencyShares" => 5,
                "lendablePercent" => 0,
                "limitResponse" => object! { "type" => "Reject" },
            },
        }),
        _ => None,
    }
}
