//! Limit ranges and quotas.

use machinery::Value;

use crate::{
    defaults::{each, fill, round, within},
    strategy::Rules,
};

/// The rules of limit ranges.
pub(super) const RULES: Rules = Rules::PLAIN.create_on_update().defaults(defaults);

/// The rules of quotas.
pub(super) const QUOTAS: Rules = Rules::STATUS.returns_deleted().defaults(|quota| {
    within(quota, "spec", |spec| round(spec, "hard"));
    within(quota, "status", |status| {
        round(status, "hard");
        round(status, "used");
    });
});

/// A container's limit is at most the maximum, its request the limit or else the minimum.
fn defaults(range: &mut Value) {
    within(range, "spec", |spec| {
        each(spec, "limits", |item| {
            for list in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
                round(item, list);
            }
            if item.str_at(&["type"]) == Some("Container") {
                fill(item, "max", "default");
                fill(item, "default", "defaultRequest");
                fill(item, "min", "defaultRequest");
            }
        });
    });
}
