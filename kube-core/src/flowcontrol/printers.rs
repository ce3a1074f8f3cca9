//! Table columns of flow schemas and priority levels.

use machinery::{Value, codec::scan};

use generic_server::printer::{AGE, Doc, NAME, NONE, Table, age, condition, int, name, text, text_at, text_or};

/// Flow schemas.
pub(super) const FLOW_SCHEMAS: Table = Table::new(
    &[
        NAME,
        text("PriorityLevel", Doc::Of("flowcontrol.v1.PriorityLevelConfigurationReference", "name")),
        text("MatchingPrecedence", Doc::Text(PRECEDENCE)),
        text("DistinguisherMethod", Doc::Of("flowcontrol.v1.FlowSchemaSpec", "distinguisherMethod")),
        AGE,
        text("MissingPL", Doc::Text("references a broken or non-existent PriorityLevelConfiguration")),
    ],
    |schema, now| {
        let missing = condition(schema, "Dangling").and_then(|c| c.str_at(&["status"])).unwrap_or("?");
        vec![
            name(schema),
            text_at(schema, &["spec", "priorityLevelConfiguration", "name"]),
            Value::Int(int(schema, &["spec", "matchingPrecedence"])),
            text_or(schema, &["spec", "distinguisherMethod", "type"], NONE),
            age(schema, now),
            missing.into(),
        ]
    },
)
.ranked(|schema| {
    let precedence = scan::field(schema, &["spec", "matchingPrecedence"]);
    precedence.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok()).unwrap_or(0)
});

/// The texts of older versions of two fields, which the tables still show.
const PRECEDENCE: &str = "`matchingPrecedence` is used to choose among the FlowSchemas that match a given request. The chosen \
    FlowSchema is among those with the numerically lowest (which we take to be logically highest) MatchingPrecedence.  Each \
    MatchingPrecedence value must be ranged in [1,10000]. Note that if the precedence is not specified, it will be set to 1000 \
    as default.";
const SHARES: &str = "`nominalConcurrencyShares` (NCS) contributes to the computation of the NominalConcurrencyLimit \
    (NominalCL) of this level. This is the number of execution seats available at this priority level. This is used both for \
    requests dispatched from this priority level as well as requests dispatched from other priority levels borrowing seats from \
    this level. The server's concurrency limit (ServerCL) is divided among the Limited priority levels in proportion to their \
    NCS values:\n\nNominalCL(i)  = ceil( ServerCL * NCS(i) / sum_ncs ) sum_ncs = sum[priority level k] NCS(k)\n\nBigger numbers \
    mean a larger nominal concurrency limit, at the expense of every other priority level.\n\nIf not specified, this field \
    defaults to a value of 30.\n\nSetting this field to zero supports the construction of a \"jail\" for this priority level \
    that is used to hold some request(s)";

const QUEUING: &str = "flowcontrol.v1.QueuingConfiguration";

/// Priority levels.
pub(super) const PRIORITY_LEVELS: Table = Table::new(
    &[
        NAME,
        text("Type", Doc::Of("flowcontrol.v1.PriorityLevelConfigurationSpec", "type")),
        text("NominalConcurrencyShares", Doc::Text(SHARES)),
        text("Queues", Doc::Of(QUEUING, "queues")),
        text("HandSize", Doc::Of(QUEUING, "handSize")),
        text("QueueLengthLimit", Doc::Of(QUEUING, "queueLengthLimit")),
        AGE,
    ],
    |level, now| {
        let number = |path: &[&str]| {
            let held = level.at(&["spec", "limited"]).and_then(|limited| limited.at(path)).and_then(Value::as_i64);
            held.map_or_else(|| NONE.into(), Value::Int)
        };
        let queue = |name: &str| number(&["limitResponse", "queuing", name]);
        vec![
            name(level),
            text_at(level, &["spec", "type"]),
            number(&["nominalConcurrencyShares"]),
            queue("queues"),
            queue("handSize"),
            queue("queueLengthLimit"),
            age(level, now),
        ]
    },
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_schemas_are_ordered_by_their_precedence() {
        let rank = FLOW_SCHEMAS.printer().rank().expect("an order");
        assert_eq!(rank(br#"{"metadata":{"name":"a"},"spec":{"matchingPrecedence":800}}"#), 800);
        assert_eq!(rank(br#"{"spec":{}}"#), 0);
        assert!(PRIORITY_LEVELS.printer().rank().is_none());
    }
}
