//! Computed defaults: the vocabulary in which kinds say what stands where a client said nothing. A member counts as unset as
//! Go's decoder leaves it: texts when empty, numbers when zero, pointers only when absent.

use machinery::{Value, meta::Quantity, object};

/// Sets a text that is absent or empty.
pub(crate) fn text(object: &mut Value, key: &str, default: &'static str) {
    if object.get(key).is_none_or(|v| v.is_null() || v.as_str() == Some("")) {
        object.make_object().insert(key, default);
    }
}

/// Sets a number that is absent or zero.
pub(crate) fn number(object: &mut Value, key: &str, default: i64) {
    if object.get(key).is_none_or(|v| v.is_null() || v.as_i64() == Some(0)) {
        object.make_object().insert(key, default);
    }
}

/// Sets a member that is absent.
pub(crate) fn pointer(object: &mut Value, key: &str, default: impl Into<Value>) {
    if object.get(key).is_none_or(Value::is_null) {
        object.make_object().insert(key, default);
    }
}

/// Sets an absent object to the empty one, and gives it for more.
pub(crate) fn part<'a>(object: &'a mut Value, key: &str) -> &'a mut Value {
    pointer(object, key, object! {});
    object.get_mut(key).expect("set above")
}

/// The object that the member `key` holds, if there is one.
pub(crate) fn within(object: &mut Value, key: &str, rule: impl FnOnce(&mut Value)) {
    if object.get(key).is_some_and(|v| matches!(v, Value::Object(_))) {
        rule(object.get_mut(key).expect("found above"));
    }
}

/// Every item of the list that the member `key` holds.
pub(crate) fn each(object: &mut Value, key: &str, mut rule: impl FnMut(&mut Value)) {
    if object.get(key).and_then(Value::as_array).is_some_and(|items| !items.is_empty()) {
        let items = object.get_mut(key).and_then(Value::as_array_mut).expect("found above");
        items.iter_mut().for_each(&mut rule);
    }
}

/// Members of `from` that `to` lacks, added to it.
pub(crate) fn fill(object: &mut Value, from: &str, to: &str) {
    let Some(source) = object.get(from).and_then(Value::as_object).filter(|m| !m.is_empty()).cloned() else { return };
    let target = object.get(to).and_then(Value::as_object);
    if source.keys().all(|k| target.is_some_and(|t| t.contains_key(k))) {
        return;
    }
    let target = object.make_object().entry(to).make_object();
    for (key, value) in &source {
        if !target.contains_key(key) {
            target.insert(key.clone(), value.clone());
        }
    }
}

/// Rounds the amounts of a list of resources up to thousandths. Only what is finer has one of these suffixes in its
/// canonical form.
pub(crate) fn round(object: &mut Value, key: &str) {
    let is_fine = |v: &Value| v.as_str().is_some_and(|text| text.ends_with(['n', 'u']));
    if !object.get(key).and_then(Value::as_object).is_some_and(|list| list.values().any(is_fine)) {
        return;
    }
    let list = object.get_mut(key).and_then(Value::as_object_mut).expect("found above");
    for (_, value) in list.iter_mut().filter(|(_, v)| is_fine(v)) {
        if let Ok(mut quantity) = Quantity::from_value(value) {
            quantity.round_up(-3);
            *value = Value::from(quantity.text());
        }
    }
}

/// Whether a list or object has nothing in it, or is not there.
pub(crate) fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_as_unset_depends_on_the_type() {
        let mut v = object! { "empty" => "", "zero" => 0, "null" => Value::Null };
        text(&mut v, "empty", "a");
        number(&mut v, "zero", 1);
        pointer(&mut v, "zero", 2);
        pointer(&mut v, "null", 3);
        pointer(&mut v, "absent", 4);
        assert_eq!(v, object! { "empty" => "a", "zero" => 1, "null" => 3, "absent" => 4 });
    }

    #[test]
    fn nothing_is_unshared_when_nothing_is_missing() {
        let mut v =
            object! { "a" => "x", "limits" => object! { "cpu" => "1" }, "requests" => object! { "cpu" => "1" } };
        let before = v.as_object().expect("an object").clone();
        text(&mut v, "a", "y");
        fill(&mut v, "limits", "requests");
        each(&mut v, "none", |_| unreachable!("there is no list"));
        assert!(v.as_object().expect("an object").shares(&before));
    }
}
