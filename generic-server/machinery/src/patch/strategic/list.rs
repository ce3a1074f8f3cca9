//! Lists that merge.

use super::lookup::{Strategy, kind, merge_key, merges};
use super::order::{Key, Places, arrange, no_merge_key};
use super::{DIRECTIVE, SET_ELEMENT_ORDER, bad_argument, merge_object, unknown_directive, without_directives};
use crate::Value;
use crate::patch::{PatchError, go_format};
use crate::schema::Schema;

/// Merges a patch's list into one of the object: objects by their merge key, scalars as a set.
pub(super) fn merge(
    before: &[Value],
    patch: &[Value],
    items: &Schema,
    key: Option<&str>,
) -> Result<Vec<Value>, PatchError> {
    if before.is_empty() && patch.is_empty() {
        return Ok(Vec::new());
    }
    if of_objects(before, patch)? {
        let key = key.ok_or_else(|| keyless(items))?;
        return merge_objects(before, patch, items, key);
    }
    let (wanted, was) = (Places::of(patch, None)?, Places::of(before, None)?);
    let mut seen = Places::none();
    let mut merged = Vec::with_capacity(before.len() + patch.len());
    for (i, item) in before.iter().chain(patch).enumerate() {
        let item_key = Key::of(item)?;
        if !seen.has(&item_key) {
            seen.add(item_key, i);
            merged.push(item.clone());
        }
    }
    arrange(merged, &wanted, &was, None)
}

/// Removes scalars from a list. Lists of objects merge even so, as upstream has it.
pub(super) fn delete(
    before: &[Value],
    doomed: &[Value],
    items: &Schema,
    key: Option<&str>,
) -> Result<Vec<Value>, PatchError> {
    if before.is_empty() && doomed.is_empty() {
        return Ok(Vec::new());
    }
    if of_objects(before, doomed)? {
        return merge(before, doomed, items, key);
    }
    let doomed = Places::of(doomed, None)?;
    let mut left = Vec::with_capacity(before.len());
    for item in before {
        if !doomed.has(&Key::of(item)?) {
            left.push(item.clone());
        }
    }
    Ok(left)
}

/// What a patch's list asks for once its directives are read.
struct Wishes<'p> {
    plain: Vec<&'p Value>,
    doomed: Places<'p>,
    replace: bool,
}

fn read_directives<'p>(patch: &'p [Value], key: &str) -> Result<Wishes<'p>, PatchError> {
    let mut wishes = Wishes { plain: Vec::with_capacity(patch.len()), doomed: Places::none(), replace: false };
    for item in patch {
        let Value::Object(members) = item else { return Err(bad_argument("map[string]interface {}", item)) };
        match members.get(DIRECTIVE) {
            None => wishes.plain.push(item),
            Some(directive) => match directive.as_str() {
                Some("delete") => wishes.doomed.add(Key::of_item(item, Some(key))?, 0),
                Some("replace") => wishes.replace = true,
                Some("merge") => {
                    return Err(PatchError::Internal("merging lists cannot yet be specified in the patch".into()));
                }
                _ => return Err(unknown_directive(directive, members)),
            },
        }
    }
    Ok(wishes)
}

fn merge_objects(before: &[Value], patch: &[Value], items: &Schema, key: &str) -> Result<Vec<Value>, PatchError> {
    let wishes = read_directives(patch, key)?;
    if wishes.replace {
        let merged: Vec<Value> = wishes.plain.into_iter().cloned().collect();
        let was = Places::of(&merged, Some(key))?;
        return arrange(merged.clone(), &Places::none(), &was, Some(key));
    }
    let mut kept = Vec::with_capacity(before.len() + wishes.plain.len());
    let mut places = Places::none();
    for item in before {
        // An item without the key matches nothing here; the ordering below refuses it.
        match item.get(key).map(Key::of).transpose()? {
            Some(item_key) if wishes.doomed.has(&item_key) => {}
            item_key => {
                if let Some(item_key) = item_key {
                    places.add(item_key, kept.len());
                }
                kept.push(item);
            }
        }
    }
    let mut merged: Vec<Value> = kept.iter().map(|v| (*v).clone()).collect();
    let mut wanted = Places::none();
    for (i, item) in wishes.plain.into_iter().enumerate() {
        let (Some(value), Value::Object(members)) = (item.get(key), item) else { return Err(no_merge_key(item, key)) };
        let item_key = Key::of(value)?;
        wanted.add(item_key, i);
        match places.get(&item_key) {
            Some(place) => {
                let Value::Object(current) = merged[place].take() else {
                    return Err(bad_argument("map[string]interface {}", kept[place]));
                };
                merged[place] = Value::Object(merge_object(current, members, items)?);
            }
            None => {
                places.add(item_key, merged.len());
                merged.push(item.clone());
            }
        }
    }
    let was: Vec<Value> = kept.into_iter().cloned().collect();
    arrange(merged, &wanted, &Places::of(&was, Some(key))?, Some(key))
}

/// A list with a `$setElementOrder` directive.
pub(super) struct OrderedList<'a> {
    /// The directive's list.
    pub(super) order: &'a [Value],
    /// The object's list, if it has one.
    pub(super) before: Option<&'a [Value]>,
    /// The patch's list, if it has one.
    pub(super) patch: Option<&'a [Value]>,
    /// The items' schema.
    pub(super) items: &'a Schema,
    /// The list's strategy.
    pub(super) strategy: Strategy<'a>,
}

impl OrderedList<'_> {
    /// The list merged and in order; none if there is no list at all.
    pub(super) fn merge(&self) -> Result<Option<Vec<Value>>, PatchError> {
        let key = merge_key(self.strategy);
        self.check_order(key)?;
        let merged = match (self.before, self.patch) {
            (None, None) => return Ok(None),
            (Some(before), None) => before.to_vec(),
            (None, Some(patch)) => patch.iter().filter_map(|v| without_directives(v, false)).collect(),
            (Some(before), Some(patch)) if merges(self.strategy) => merge(before, patch, self.items, key)?,
            (Some(_), Some(patch)) => patch.to_vec(),
        };
        let before = self.before.unwrap_or_default();
        let wanted = match key {
            Some(name) => order_places(self.order, name)?,
            None => Places::of(self.order, None)?,
        };
        let none = self.patch.unwrap_or_default();
        if before.is_empty() && none.is_empty() {
            return Err(PatchError::Internal("no elements in any of the given slices".into()));
        }
        of_objects(before, none)?;
        arrange(merged, &wanted, &Places::of(before, key)?, key).map(Some)
    }

    /// The patch's items must be among those of the directive, in its order.
    fn check_order(&self, key: Option<&str>) -> Result<(), PatchError> {
        let patch = self.patch.unwrap_or_default();
        if self.order.is_empty() || patch.is_empty() {
            return Ok(());
        }
        if key.is_some()
            && let Some(odd) = patch.iter().find(|v| v.as_object().is_none())
        {
            return Err(bad_argument("map[string]interface {}", odd));
        }
        let mut order = self.order.iter();
        for item in patch.iter().filter(|v| v.get(DIRECTIVE).is_none()) {
            let mut found = false;
            for other in order.by_ref() {
                if Key::of_item(item, key)? == Key::of_item(other, key)? {
                    found = true;
                    break;
                }
            }
            if !found {
                let list = |items: &[Value]| go_format(&Value::from(items.to_vec()));
                return Err(PatchError::Internal(format!(
                    "The order in patch list:\n{}\n doesn't match {SET_ELEMENT_ORDER} list:\n{}\n",
                    list(patch),
                    list(self.order)
                )));
            }
        }
        Ok(())
    }
}

/// The places in a directive's list of objects: items without the key are passed over.
fn order_places<'v>(order: &'v [Value], key: &str) -> Result<Places<'v>, PatchError> {
    let mut places = Places::none();
    for (i, item) in order.iter().enumerate() {
        let Value::Object(members) = item else {
            return Err(PatchError::Internal(format!("value for key {i} is not a map")));
        };
        places.add(Key::of(members.get(key).ok_or_else(|| no_merge_key(item, key))?)?, i);
    }
    Ok(places)
}

/// Whether two lists hold objects. All items must be of one type, and not lists.
fn of_objects(a: &[Value], b: &[Value]) -> Result<bool, PatchError> {
    let mut all = a.iter().chain(b);
    let first = all.next().ok_or_else(|| PatchError::Internal("no elements in any of the given slices".into()))?;
    match first {
        Value::Null => return Err(PatchError::Unprocessable("a list that merges holds null".into())),
        Value::Array(_) => return Err(PatchError::Unprocessable("lists of lists are not supported".into())),
        _ => {}
    }
    if all.any(|v| std::mem::discriminant(v) != std::mem::discriminant(first)) {
        let list = |items: &[Value]| go_format(&Value::from(items.to_vec()));
        return Err(PatchError::Internal(format!("list element types are not identical: [{} {}]", list(a), list(b))));
    }
    Ok(matches!(first, Value::Object(_)))
}

fn keyless(items: &Schema) -> PatchError {
    PatchError::Internal(format!("cannot merge lists without merge key for {}", kind(items.resolve())))
}
