//! Validates flowcontrol.apiserver.k8s.io PriorityLevelConfigurations.

use generic_server::resource::WriteContext;

use super::{mandatory, validation::conditions};
use crate::validation::{Errors, Field, Go, Member, shown};

const MAX_QUEUES: i64 = 10_000_000;
/// Bits of the hash that picks a flow's queues.
const HASH_BITS: u32 = 60;

const QUEUING: &[Member] = &[
    Member("Queues", "queues", Go::Number),
    Member("HandSize", "handSize", Go::Number),
    Member("QueueLengthLimit", "queueLengthLimit", Go::Number),
];
const RESPONSE: &[Member] = &[Member("Type", "type", Go::Text), Member("Queuing", "queuing", Go::Pointer(QUEUING))];
const LIMITED: &[Member] = &[
    Member("NominalConcurrencyShares", "nominalConcurrencyShares", Go::Number),
    Member("LimitResponse", "limitResponse", Go::Struct(RESPONSE)),
    Member("LendablePercent", "lendablePercent", Go::Plain),
    Member("BorrowingLimitPercent", "borrowingLimitPercent", Go::Plain),
];
const EXEMPT: &[Member] = &[
    Member("NominalConcurrencyShares", "nominalConcurrencyShares", Go::Plain),
    Member("LendablePercent", "lendablePercent", Go::Plain),
];
const SPEC: &[Member] = &[
    Member("Type", "type", Go::Text),
    Member("Limited", "limited", Go::Pointer(LIMITED)),
    Member("Exempt", "exempt", Go::Pointer(EXEMPT)),
];

/// Priority levels.
pub(super) fn level(cx: &WriteContext<'_>, level: &Field<'_>, errors: &mut Errors) {
    let (metadata, spec) = (level.at("metadata"), level.at("spec"));
    let name = metadata.at("name").text();
    let kind = spec.at("type");
    if (name == "exempt") != (kind.text() == "Exempt") {
        kind.invalid_as(kind.text(), "must be 'Exempt' if and only if `name` is 'exempt'", errors);
    }
    let (limited, exempt) = (spec.at("limited"), spec.at("exempt"));
    match kind.text() {
        "Exempt" => {
            if limited.is_set() {
                limited.forbidden("must be nil if the type is not Limited", errors);
            }
            shares(&exempt, errors);
            lendable(&exempt, errors);
        }
        "Limited" => {
            if exempt.is_set() {
                exempt.forbidden("must be nil if the type is Limited", errors);
            }
            if limited.is_set() {
                check_limited(&limited, errors);
            } else {
                limited.required("must not be empty when type is Limited", errors);
            }
        }
        _ => kind.not_supported(&["Exempt", "Limited"], errors),
    }
    equals_the_fixed(&spec, name, errors);
    conditions(cx, level, level, errors);
}

fn equals_the_fixed(spec: &Field<'_>, name: &str, errors: &mut Errors) {
    let Some(fixed) = mandatory::priority_level(name) else { return };
    let mut own = spec.value().clone();
    let except = if name == "exempt" {
        own.remove_at(&["exempt"]);
        " except the 'spec.exempt' field"
    } else {
        ""
    };
    if !own.semantic_eq(&fixed) {
        let detail = format!("spec of '{name}'{except} must equal the fixed value");
        spec.invalid_as(shown(spec.value(), SPEC), detail, errors);
    }
}

fn shares(level: &Field<'_>, errors: &mut Errors) {
    let shares = level.at("nominalConcurrencyShares");
    if shares.int_or_zero() < 0 {
        shares.invalid("must be a non-negative integer", errors);
    }
}

fn lendable(level: &Field<'_>, errors: &mut Errors) {
    let percent = level.at("lendablePercent");
    if !(0..=100).contains(&percent.int_or_zero()) {
        percent.invalid("must be between 0 and 100, inclusive", errors);
    }
}

fn check_limited(limited: &Field<'_>, errors: &mut Errors) {
    shares(limited, errors);
    let response = limited.at("limitResponse");
    let queuing = response.at("queuing");
    match response.at("type").text() {
        "Reject" if queuing.is_set() => {
            queuing.forbidden("must be nil if limited.limitResponse.type is not Limited", errors);
        }
        "Reject" => {}
        "Queue" if queuing.is_set() => check_queuing(&queuing, errors),
        "Queue" => queuing.required("must not be empty if limited.limitResponse.type is Limited", errors),
        _ => response.at("type").not_supported(&["Queue", "Reject"], errors),
    }
    lendable(limited, errors);
    let borrowing = limited.at("borrowingLimitPercent");
    if borrowing.int_or_zero() < 0 {
        borrowing.invalid("if specified, must be a non-negative integer", errors);
    }
}

fn check_queuing(queuing: &Field<'_>, errors: &mut Errors) {
    let positive = |field: &Field<'_>, errors: &mut Errors| {
        let is_positive = field.int_or_zero() > 0;
        if !is_positive {
            field.invalid_as(field.int_or_zero(), "must be positive", errors);
        }
        is_positive
    };
    positive(&queuing.at("queueLengthLimit"), errors);
    let (queues, hand) = (queuing.at("queues"), queuing.at("handSize"));
    if positive(&queues, errors) {
        queues.at_most(MAX_QUEUES, &format!("must not be greater than {MAX_QUEUES}"), errors);
    }
    let (deck, size) = (queues.int_or_zero(), hand.int_or_zero());
    if !positive(&hand, errors) {
        return;
    }
    if size > deck {
        hand.invalid(format!("should not be greater than queues ({deck})"), errors);
    } else if entropy_bits(deck, size) > HASH_BITS {
        let detail = format!(
            "required entropy bits of deckSize {deck} and handSize {size} should not be greater than {HASH_BITS}"
        );
        hand.invalid(detail, errors);
    }
}

/// How many bits it takes to deal a hand.
fn entropy_bits(deck: i64, hand: i64) -> u32 {
    ((deck as f64).log2() * hand as f64).ceil() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_takes_bits_for_each_card() {
        assert_eq!(entropy_bits(64, 8), 48);
        assert_eq!(entropy_bits(1, 1), 0);
        assert_eq!(entropy_bits(100, 10), 67);
    }
}
