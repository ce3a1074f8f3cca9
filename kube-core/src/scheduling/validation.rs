//! Validates scheduling.k8s.io PriorityClasses.

use generic_server::resource::WriteContext;

use crate::validation::{Errors, Field};

/// The greatest value of a class that is not the system's.
const HIGHEST: i64 = 1_000_000_000;

/// The system's own classes: name, value.
const SYSTEM: &[(&str, i64)] = &[("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

pub(super) fn class(_cx: &WriteContext<'_>, class: &Field<'_>, errors: &mut Errors) {
    let metadata = class.at("metadata");
    let (name, value) = (metadata.at("name"), class.at("value"));
    if name.text().starts_with("system-") {
        if let Some(why) = not_the_systems(class, name.text()) {
            let detail =
                format!("priority class names with 'system-' prefix are reserved for system use only. error: {why}");
            name.forbidden(detail, errors);
        }
    } else if value.int_or_zero() > HIGHEST {
        value.forbidden(format!("maximum allowed value of a user defined priority is {HIGHEST}"), errors);
    }
    let policy = class.at("preemptionPolicy");
    if policy.is_set() {
        policy.required_one_of(&["PreemptLowerPriority", "Never"], errors);
    }
}

fn not_the_systems(class: &Field<'_>, name: &str) -> Option<String> {
    let Some((_, value)) = SYSTEM.iter().find(|(known, _)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if class.at("value").int_or_zero() != *value {
        return Some(format!("value of {name} PriorityClass must be {value}"));
    }
    class.at("globalDefault").is_true().then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

pub(super) fn class_update(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    if new.at("value").int_or_zero() != old.at("value").int_or_zero() {
        new.at("value").forbidden("may not be changed in an update.", errors);
    }
    new.at("preemptionPolicy").immutable(&old.at("preemptionPolicy"), errors);
}

#[cfg(test)]
mod tests {
    use machinery::object;

    use super::*;

    #[test]
    fn names_and_values_of_the_system_are_its_own() {
        let check = |name: &str, value: i64, expect: &[&str]| {
            let object = object! { "metadata" => object! { "name" => name }, "value" => value };
            let cx = WriteContext {
                group: "scheduling.k8s.io",
                version: "v1",
                namespace: "",
                subresource: "",
                user: &auth::User::default(),
                features: &Default::default(),
            };
            let mut errors = Errors::default();
            class(&cx, &Field::root(&object), &mut errors);
            let texts: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
            assert_eq!(texts, expect, "{name}");
        };
        check("mine", 1_000_000_000, &[]);
        check("system-node-critical", 2_000_001_000, &[]);
        check(
            "mine",
            1_000_000_001,
            &["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
        );
        check(
            "system-mine",
            1,
            &[
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. \
               error: system-mine is not a known system priority class",
            ],
        );
    }
}
