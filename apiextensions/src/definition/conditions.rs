//! The conditions of a definition.

use machinery::{
    Value,
    meta::{TimeForm, Timestamp},
    object,
};

/// The names do not conflict with those of other definitions of the group.
pub(crate) const NAMES_ACCEPTED: &str = "NamesAccepted";
/// The resource is served.
pub(crate) const ESTABLISHED: &str = "Established";
/// The definition is being deleted.
pub(crate) const TERMINATING: &str = "Terminating";
/// A protected group's approval annotation is in order.
pub(crate) const API_APPROVED: &str = "KubernetesAPIApprovalPolicyConformant";

/// A condition without its time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    pub(crate) kind: &'static str,
    pub(crate) status: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Condition {
    /// A condition; `holds` is its status.
    pub(crate) fn new(kind: &'static str, holds: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Condition { kind, status: if holds { "True" } else { "False" }, reason, message: message.into() }
    }

    /// Whether a definition has the condition already.
    pub(crate) fn is_in(&self, definition: &Value) -> bool {
        condition(definition, self.kind).is_some_and(|found| {
            found.str_at(&["status"]) == Some(self.status)
                && found.str_at(&["reason"]).unwrap_or("") == self.reason
                && found.str_at(&["message"]).unwrap_or("") == self.message
        })
    }
}

/// The condition of a type.
pub(crate) fn condition<'a>(definition: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = definition.at(&["status", "conditions"])?.as_array()?;
    conditions.iter().find(|c| c.str_at(&["type"]) == Some(kind))
}

/// Whether a condition's status is True.
pub(crate) fn is_true(definition: &Value, kind: &str) -> bool {
    condition(definition, kind).and_then(|c| c.str_at(&["status"])) == Some("True")
}

/// Sets a condition. The time of its last transition stays if the status does.
pub(crate) fn set_condition(definition: &mut Value, new: &Condition) {
    let old = condition(definition, new.kind).filter(|c| c.str_at(&["status"]) == Some(new.status));
    let since = old.and_then(|c| c.get("lastTransitionTime")).filter(|t| !t.is_null()).cloned();
    let since = since.unwrap_or_else(|| Value::from(Timestamp::now().text(TimeForm::Seconds)));
    let mut value = object! { "type" => new.kind, "status" => new.status, "lastTransitionTime" => since };
    for (key, text) in [("reason", new.reason), ("message", new.message.as_str())] {
        if !text.is_empty() {
            value.make_object().insert(key, text);
        }
    }
    let conditions = definition.at_mut(&["status", "conditions"]);
    if conditions.as_array().is_none() {
        *conditions = Value::from(Vec::<Value>::new());
    }
    let list = conditions.as_array_mut().expect("made a list above");
    match list.iter_mut().find(|c| c.str_at(&["type"]) == Some(new.kind)) {
        Some(found) => *found = value,
        None => list.push(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transition_is_a_change_of_status_alone() {
        let mut definition = object! {};
        let accepted = Condition::new(NAMES_ACCEPTED, true, "NoConflicts", "no conflicts found");
        set_condition(&mut definition, &accepted);
        assert!(accepted.is_in(&definition) && is_true(&definition, NAMES_ACCEPTED));
        definition.at_mut(&["status", "conditions"]).as_array_mut().expect("a list")[0]
            .set(&["lastTransitionTime"], "2020-01-01T00:00:00Z");
        let other = Condition::new(NAMES_ACCEPTED, true, "Other", "");
        set_condition(&mut definition, &other);
        let time =
            |d: &Value| condition(d, NAMES_ACCEPTED).and_then(|c| c.str_at(&["lastTransitionTime"])).map(str::to_owned);
        assert_eq!(time(&definition).as_deref(), Some("2020-01-01T00:00:00Z"));
        set_condition(&mut definition, &Condition::new(NAMES_ACCEPTED, false, "KindConflict", "x"));
        assert_ne!(time(&definition).as_deref(), Some("2020-01-01T00:00:00Z"));
        assert_eq!(definition.at(&["status", "conditions"]).and_then(Value::as_array).map(<[_]>::len), Some(1));
    }
}
