//! Limit ranges and quotas.

use generic_server::resource::WriteContext;
use machinery::Value;

use super::{limits_validation, quota_warnings};
use crate::{
    defaults::{each, fill, round, within},
    strategy::Rules,
};

/// The rules of limit ranges.
pub(super) const RULES: Rules =
    Rules::PLAIN.create_on_update().defaults(defaults).create(name).validate(limits_validation::limit_range);

/// One without a name gets one that nobody else has.
fn name(_cx: &WriteContext<'_>, range: &mut Value) {
    if range.str_at(&["metadata", "name"]).unwrap_or_default().is_empty() {
        let uid = range.at(&["metadata", "uid"]).cloned().unwrap_or_default();
        range.set(&["metadata", "name"], uid);
    }
}

/// The rules of quotas.
pub(super) const QUOTAS: Rules = Rules::STATUS
    .returns_deleted()
    .defaults(|quota| {
        within(quota, "spec", |spec| round(spec, "hard"));
        within(quota, "status", |status| {
            round(status, "hard");
            round(status, "used");
        });
    })
    .validate(limits_validation::quota)
    .validate_update(limits_validation::quota_update)
    .validate_status(limits_validation::quota_status)
    .warn(quota_warnings::warnings);

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
