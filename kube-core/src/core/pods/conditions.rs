//! Conditions in a status: one of each type.

use machinery::{Value, array};

/// Puts a condition among those of an object's status. It keeps the time of its last transition while its status stays.
pub(super) fn put(object: &mut Value, mut condition: Value) {
    let conditions = object.at_mut(&["status", "conditions"]);
    if conditions.as_array().is_none() {
        *conditions = array![];
    }
    let conditions = conditions.as_array_mut().expect("made above");
    match conditions.iter_mut().find(|c| c.get("type") == condition.get("type")) {
        Some(found) => {
            if let (true, Some(since)) =
                (found.get("status") == condition.get("status"), found.get("lastTransitionTime"))
            {
                condition.set(&["lastTransitionTime"], since.clone());
            }
            *found = condition;
        }
        None => conditions.push(condition),
    }
}

/// The condition of a type.
pub(super) fn get<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_array)?;
    conditions.iter().find(|c| c.str_at(&["type"]) == Some(kind))
}

#[cfg(test)]
mod tests {
    use machinery::object;

    use super::*;

    #[test]
    fn a_transition_is_a_change_of_status() {
        let condition = |status: &str, at: &str| {
            object! { "type" => "T", "status" => status, "lastTransitionTime" => at }
        };
        let mut object = object! {};
        put(&mut object, condition("True", "1"));
        put(&mut object, condition("True", "2"));
        assert_eq!(get(&object, "T"), Some(&condition("True", "1")));
        put(&mut object, condition("False", "3"));
        assert_eq!(get(&object, "T"), Some(&condition("False", "3")));
        assert_eq!(get(&object, "U"), None);
    }
}
