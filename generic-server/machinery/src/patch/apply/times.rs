//! Writes that change nothing but when somebody last wrote.

use super::managers::without_managers;
use crate::Value;

/// How an object and what it was before compare, and how that was found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// They differ, as their `managedFields` tell; or not in times, which is all that matters here.
    UnequalFast,
    /// They differ in something else.
    UnequalSlow,
    /// They differ in times of `managedFields` alone.
    EqualSlow,
}

/// Keeps the old times if a write changed nothing else: the object is then as it was. Both are whole objects.
pub fn keep_times(old: &Value, new: &mut Value) -> Compared {
    let (Some(Value::Array(before)), Some(Value::Array(after))) =
        (old.at(&["metadata", "managedFields"]), new.at(&["metadata", "managedFields"]))
    else {
        return Compared::UnequalFast;
    };
    let pairs = || before.iter().zip(after.iter());
    let is_retimed = before.len() == after.len() && pairs().any(|(a, b)| a.get("time") != b.get("time"));
    if !is_retimed || !pairs().all(|(a, b)| is_same_but_time(a, b)) {
        return Compared::UnequalFast;
    }
    if without_managers(old) != without_managers(new) {
        return Compared::UnequalSlow;
    }
    new.set(&["metadata", "managedFields"], Value::Array(before.clone()));
    Compared::EqualSlow
}

/// Whether two entries of `managedFields` differ in their times at most.
fn is_same_but_time(a: &Value, b: &Value) -> bool {
    let others = |entry: &Value| entry.as_object().map_or(0, |o| o.len() - usize::from(o.get("time").is_some()));
    let mut members = a.as_object().into_iter().flat_map(|members| members.iter());
    others(a) == others(b) && members.all(|(name, value)| *name == "time" || b.get(name) == Some(value))
}
