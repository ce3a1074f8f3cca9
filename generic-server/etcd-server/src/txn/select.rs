//! Selects and sorts the keys of a range request.

use std::cmp::Ordering;

use bytes::Bytes;

use super::answer::Selected;
use crate::{
    error::Refusal,
    key::KeyRange,
    proto::{
        RangeRequest,
        range_request::{SortOrder, SortTarget},
    },
    record::Version,
    state::State,
};

/// Picks the keys of a range. What is sorted by value is picked whole, to be sorted when the values are there.
pub(crate) fn select(state: &State, request: &RangeRequest) -> Result<Selected, Refusal> {
    let revision = state.readable(request.revision)?;
    let range = KeyRange::of(&request.key, &request.range_end);
    let mut found = Selected { revision: state.revision, keys_only: request.keys_only, ..Selected::default() };
    let limit = usize::try_from(request.limit).unwrap_or(0);
    let (order, target) = order_of(request);
    // In the order of keys it ends at the limit, but the rest is counted.
    let in_order = order == SortOrder::None || (order, target) == (SortOrder::Ascend, SortTarget::Key);
    let most = if limit > 0 && in_order { limit } else { usize::MAX };
    for (key, version) in state.range(&range, revision) {
        found.count += 1;
        if request.count_only || !is_wanted(request, version) {
            continue;
        }
        if found.items.len() < most {
            found.items.push((key.clone(), *version));
        } else {
            found.more = true;
        }
    }
    match (target, in_order) {
        (_, true) => {}
        (SortTarget::Value, false) => {
            found.by_value = Some(order == SortOrder::Descend);
            found.limit = limit;
            return Ok(found);
        }
        (target, false) => {
            let descend = order == SortOrder::Descend;
            found.items.sort_by(|one, other| directed(by(target, one, other), descend));
        }
    }
    found.limit = limit;
    found.cut();
    Ok(found)
}

/// The order that counts: a target other than the key is sorted by, even if no order was asked for.
fn order_of(request: &RangeRequest) -> (SortOrder, SortTarget) {
    let order = SortOrder::try_from(request.sort_order).unwrap_or_default();
    let target = SortTarget::try_from(request.sort_target).unwrap_or_default();
    match (order, target) {
        (SortOrder::None, SortTarget::Key) => (SortOrder::None, SortTarget::Key),
        (SortOrder::None, target) => (SortOrder::Ascend, target),
        both => both,
    }
}

pub(super) fn directed(order: Ordering, descend: bool) -> Ordering {
    if descend { order.reverse() } else { order }
}

fn by(target: SortTarget, (one_key, one): &(Bytes, Version), (other_key, other): &(Bytes, Version)) -> Ordering {
    match target {
        SortTarget::Version => one.version.cmp(&other.version),
        SortTarget::Create => one.create_revision.cmp(&other.create_revision),
        SortTarget::Mod => one.revision.cmp(&other.revision),
        SortTarget::Key | SortTarget::Value => one_key.cmp(other_key),
    }
}

/// Whether a key is within the bounds of revisions that a request sets (0: none).
fn is_wanted(request: &RangeRequest, version: &Version) -> bool {
    let within = |least: i64, most: i64, found: i64| (least == 0 || found >= least) && (most == 0 || found <= most);
    within(request.min_mod_revision, request.max_mod_revision, version.revision)
        && within(request.min_create_revision, request.max_create_revision, version.create_revision)
}
