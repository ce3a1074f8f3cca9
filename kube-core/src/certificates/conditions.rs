//! The conditions of a CertificateSigningRequest: approved or denied, and once for all.

use machinery::Value;

use crate::validation::{Errors, Field, Seen};

const APPROVED: &str = "Approved";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";

fn kind(condition: &Value) -> &str {
    condition.str_at(&["type"]).unwrap_or_default()
}

fn has(conditions: &[Value], wanted: &str) -> bool {
    conditions.iter().any(|condition| kind(condition) == wanted)
}

/// What is wrong with conditions. What the old ones have already is let be.
pub(super) fn validate(conditions: &Field<'_>, old: &[Value], errors: &mut Errors) {
    let nameless = has(old, "");
    let undecided = has(old, APPROVED) && has(old, DENIED);
    let mut old_kinds = Seen::default();
    let repeated = !old.iter().all(|condition| old_kinds.insert(kind(condition)));
    let mut kinds = Seen::default();
    for (i, value) in conditions.items().iter().enumerate() {
        let condition = conditions.index(i);
        let name = kind(value);
        if name.is_empty() && !nameless {
            condition.at("type").required("", errors);
        }
        let allowed: &[&str] = match name {
            APPROVED | DENIED | FAILED => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        condition.at("status").required_one_of(allowed, errors);
        let opposite = match name {
            APPROVED => Some(DENIED),
            DENIED => Some(APPROVED),
            _ => None,
        };
        if !undecided && opposite.is_some_and(|opposite| kinds.contains(opposite)) {
            conditions.invalid_as(name, "Approved and Denied conditions are mutually exclusive", errors);
        }
        if !kinds.insert(name) && !repeated {
            condition.at("type").duplicate(errors);
        }
    }
}

/// A decision stays, and is made only through the approval.
pub(super) fn validate_update(new: &Field<'_>, old: &Field<'_>, approves: bool, errors: &mut Errors) {
    let of = |conditions: &Field<'_>, wanted: &str| -> Vec<Value> {
        conditions.items().iter().filter(|condition| kind(condition) == wanted).cloned().collect()
    };
    for decision in [APPROVED, DENIED, FAILED] {
        if of(new, decision).len() < of(old, decision).len() {
            new.forbidden(format!("updates may not remove a condition of type {decision:?}"), errors);
        }
    }
    if approves {
        return;
    }
    for decision in [APPROVED, DENIED] {
        let (now, before) = (of(new, decision), of(old, decision));
        if now.len() > before.len() {
            new.forbidden(format!("updates may not add a condition of type {decision:?}"), errors);
        } else if now.len() == before.len() && !Value::from(now).semantic_eq(&Value::from(before)) {
            new.forbidden(format!("updates may not modify a condition of type {decision:?}"), errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use machinery::{codec::json, object};

    use super::*;

    fn texts(rule: impl FnOnce(&Field<'_>, &mut Errors), conditions: &str) -> Vec<String> {
        let conditions = json::decode(conditions.as_bytes()).expect("JSON");
        let object = object! { "conditions" => conditions };
        let mut errors = Errors::default();
        rule(&Field::root(&object).at("conditions"), &mut errors);
        errors.into_vec().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn one_decision_and_each_condition_once() {
        let check = |conditions: &str, expect: &[&str]| {
            assert_eq!(texts(|field, errors| validate(field, &[], errors), conditions), expect);
        };
        check(r#"[{"type": "Approved", "status": "True"}, {"type": "Other", "status": "Unknown"}]"#, &[]);
        check(
            r#"[{"type": "Approved", "status": "False"}, {"type": "Denied", "status": "True"}, {"type": "", "status": "True"}]"#,
            &[
                "conditions[0].status: Unsupported value: \"False\": supported values: \"True\"",
                "conditions: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive",
                "conditions[2].type: Required value",
            ],
        );
        check(
            r#"[{"type": "Failed", "status": "True"}, {"type": "Failed", "status": "True"}]"#,
            &["conditions[1].type: Duplicate value: \"Failed\""],
        );
    }

    #[test]
    fn a_decision_stays() {
        let check = |old: &str, new: &str, approves: bool, expect: &[&str]| {
            let old = json::decode(old.as_bytes()).expect("JSON");
            let old = object! { "conditions" => old };
            let rule = |field: &Field<'_>, errors: &mut Errors| {
                validate_update(field, &Field::root(&old).at("conditions"), approves, errors);
            };
            assert_eq!(texts(rule, new), expect);
        };
        let approved = r#"[{"type": "Approved", "status": "True", "reason": "r"}]"#;
        check("[]", approved, true, &[]);
        check("[]", approved, false, &["conditions: Forbidden: updates may not add a condition of type \"Approved\""]);
        check(
            approved,
            "[]",
            true,
            &["conditions: Forbidden: updates may not remove a condition of type \"Approved\""],
        );
        let other = approved.replace("\"r\"", "\"s\"");
        check(
            approved,
            &other,
            false,
            &["conditions: Forbidden: updates may not modify a condition of type \"Approved\""],
        );
        check(approved, approved, false, &[]);
    }
}
