//! Rules of flow schemas and priority levels.

use machinery::Value;

use super::{levels, validation};
use crate::{
    defaults::{number, part, pointer, within},
    strategy::Rules,
};

/// An update of the status changes nothing else.
const STATUS_ALONE: Rules = Rules::WORKLOAD.status_alone();

/// The rules of flow schemas.
pub(super) const FLOW_SCHEMAS: Rules = STATUS_ALONE
    .defaults(|schema| within(schema, "spec", |spec| number(spec, "matchingPrecedence", 1000)))
    .validate(validation::flow_schema)
    .validate_status(validation::conditions);

/// The rules of priority levels.
pub(super) const PRIORITY_LEVELS: Rules =
    STATUS_ALONE.defaults(priority_level).validate(levels::level).validate_status(validation::conditions);

fn priority_level(level: &mut Value) {
    within(level, "spec", |spec| {
        if spec.str_at(&["type"]) == Some("Exempt") {
            let exempt = part(spec, "exempt");
            pointer(exempt, "nominalConcurrencyShares", 0);
            pointer(exempt, "lendablePercent", 0);
        }
        within(spec, "limited", |limited| {
            pointer(limited, "nominalConcurrencyShares", 30);
            pointer(limited, "lendablePercent", 0);
            within(limited, "limitResponse", |response| {
                within(response, "queuing", |queuing| {
                    number(queuing, "handSize", 8);
                    number(queuing, "queues", 64);
                    number(queuing, "queueLengthLimit", 50);
                });
            });
        });
    });
}
