//! The comparisons of a transaction.

use bytes::Bytes;

use crate::{
    error::Refusal,
    key::KeyRange,
    proto::{
        Compare,
        compare::{CompareResult, CompareTarget, TargetUnion},
    },
    record::Version,
    state::State,
};

/// Whether a comparison holds for every key of its range as it is now. A key that is not there compares as zero, and to no
/// value. `value` reads the value of a version.
pub(crate) fn holds(
    compare: &Compare,
    state: &State,
    value: &mut impl FnMut(u64) -> Result<Bytes, Refusal>,
) -> Result<bool, Refusal> {
    let range = KeyRange::of(&compare.key, &compare.range_end);
    let Ok(target) = CompareTarget::try_from(compare.target) else { return Ok(true) };
    let mut none = true;
    for (_, version) in state.range(&range, state.revision) {
        none = false;
        let found = match target {
            CompareTarget::Value => order_of_values(compare, &value(version.position)?),
            target => order_of_numbers(compare, target, version),
        };
        if !is_result(compare, found) {
            return Ok(false);
        }
    }
    if !none {
        return Ok(true);
    }
    Ok(target != CompareTarget::Value && is_result(compare, order_of_numbers(compare, target, &Version::default())))
}

fn order_of_values(compare: &Compare, found: &Bytes) -> std::cmp::Ordering {
    match &compare.target_union {
        Some(TargetUnion::Value(wanted)) => found.cmp(wanted),
        _ => found[..].cmp(&[]),
    }
}

fn order_of_numbers(compare: &Compare, target: CompareTarget, found: &Version) -> std::cmp::Ordering {
    let (found, wanted) = match (target, &compare.target_union) {
        (CompareTarget::Version, Some(TargetUnion::Version(wanted))) => (found.version, *wanted),
        (CompareTarget::Create, Some(TargetUnion::CreateRevision(wanted))) => (found.create_revision, *wanted),
        (CompareTarget::Mod, Some(TargetUnion::ModRevision(wanted))) => (found.revision, *wanted),
        (CompareTarget::Lease, Some(TargetUnion::Lease(wanted))) => (found.lease, *wanted),
        (CompareTarget::Version, _) => (found.version, 0),
        (CompareTarget::Create, _) => (found.create_revision, 0),
        (CompareTarget::Mod, _) => (found.revision, 0),
        (CompareTarget::Lease, _) => (found.lease, 0),
        (CompareTarget::Value, _) => (0, 0),
    };
    found.cmp(&wanted)
}

fn is_result(compare: &Compare, found: std::cmp::Ordering) -> bool {
    match CompareResult::try_from(compare.result) {
        Ok(CompareResult::Equal) => found.is_eq(),
        Ok(CompareResult::NotEqual) => found.is_ne(),
        Ok(CompareResult::Greater) => found.is_gt(),
        Ok(CompareResult::Less) => found.is_lt(),
        // etcd lets a result that it does not know hold.
        Err(_) => true,
    }
}
