//! What one patch may cost: depth, copied bytes, moved items. A patch of a few bytes can otherwise multiply a document.

use super::PatchError;
use crate::Value;
use crate::json::MAX_DEPTH;

/// The total size, as JSON, of all values that `copy` operations of one patch may duplicate. Upstream's limit.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// How many list items and object members all operations of one patch may look at or shift. Enough for 10,000
/// operations on lists of 10,000 items; about half a second of work.
const MAX_WORK: usize = 100_000_000;

/// The running account of one patch.
#[derive(Default)]
pub(crate) struct Budget {
    copied: usize,
    work: usize,
}

impl Budget {
    /// Charges the shifting of `items`.
    pub(crate) fn charge(&mut self, items: usize) -> Result<(), PatchError> {
        self.work = self.work.saturating_add(items);
        if self.work > MAX_WORK {
            return Err(PatchError::TooLarge("the operations of the JSON patch move too much data".into()));
        }
        Ok(())
    }

    /// Charges a copy of `value`, by the size of its JSON.
    pub(crate) fn charge_copy(&mut self, value: &Value) -> Result<(), PatchError> {
        let left = MAX_COPIED_BYTES - self.copied;
        match json_size(value, left) {
            Some(size) => {
                self.copied += size;
                self.charge(size)
            }
            None => Err(PatchError::Unprocessable(format!(
                "Unable to complete the copy, the accumulated size increase of copy is above the limit of {MAX_COPIED_BYTES} bytes"
            ))),
        }
    }

    /// Refuses `value` if at depth `at` it would reach deeper than any document may; charges the look at it. Without this,
    /// copies into themselves double the depth, and a later walk overflows the stack.
    pub(crate) fn check_depth(&mut self, value: &Value, at: usize) -> Result<(), PatchError> {
        let mut seen = 0;
        let fits = at <= MAX_DEPTH && fits_depth(value, MAX_DEPTH - at, &mut seen);
        self.charge(seen)?;
        if fits { Ok(()) } else { Err(PatchError::Unprocessable("the patched object exceeded max depth".into())) }
    }
}

fn fits_depth(value: &Value, left: usize, seen: &mut usize) -> bool {
    *seen += 1;
    match value {
        Value::Array(items) => left > 0 && items.iter().all(|v| fits_depth(v, left - 1, seen)),
        Value::Object(members) => left > 0 && members.values().all(|v| fits_depth(v, left - 1, seen)),
        _ => true,
    }
}

/// The size of a value's JSON (escapes not counted), or none if it is above `limit`; stops as soon as that is known.
fn json_size(value: &Value, limit: usize) -> Option<usize> {
    fn walk(value: &Value, left: &mut usize) -> Option<()> {
        let own = match value {
            Value::Null => 4,
            Value::Bool(b) => 5 - usize::from(*b),
            Value::Int(i) => i.checked_ilog10().map_or(2, |n| n as usize + 1),
            Value::Float(_) => 8,
            Value::String(s) => s.len() + 2,
            Value::Array(items) => items.len().max(1) + 1,
            Value::Object(members) => members.len().max(1) + 1,
        };
        *left = left.checked_sub(own)?;
        match value {
            Value::Array(items) => items.iter().try_for_each(|v| walk(v, left)),
            Value::Object(members) => members.iter().try_for_each(|(k, v)| {
                *left = left.checked_sub(k.len() + 3)?;
                walk(v, left)
            }),
            _ => Some(()),
        }
    }
    let mut left = limit;
    walk(value, &mut left)?;
    Some(limit - left)
}

#[cfg(test)]
mod tests {
    use crate::{array, object};

    #[test]
    fn the_size_is_that_of_the_compact_json() {
        let v = object! { "a" => array![1, 22, true], "b" => "x", "c" => object! {} };
        assert_eq!(super::json_size(&v, 1000), Some(r#"{"a":[1,22,true],"b":"x","c":{}}"#.len()));
        assert_eq!(super::json_size(&v, 10), None);
    }
}
