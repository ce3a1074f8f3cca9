//! Names of resources that pods, quotas and limits count, and how much of them.

use machinery::{
    Str,
    meta::{Quantity, names, quantity::MILLI},
};

use super::{Errors, Field};

/// What containers ask for.
const COMPUTE: &[&str] = &["cpu", "memory", "ephemeral-storage"];
/// What a quota may count of that.
const COMPUTE_QUOTA: &[&str] = &[
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];
/// Objects that a quota may count: whole numbers.
const OBJECTS: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
/// Storage.
const STORAGE: &[&str] = &["storage", "requests.storage"];

/// Whether the resource is memory in large pages.
pub(crate) fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_huge_pages_of_quota(name: &str) -> bool {
    is_huge_pages(name) || name.starts_with("requests.hugepages-")
}

fn is_one_of(name: &str, lists: &[&[&str]]) -> bool {
    lists.iter().any(|list| list.contains(&name))
}

/// Whether the project itself names the resource so that quotas can count it.
pub(crate) fn is_quota_resource(name: &str) -> bool {
    is_one_of(name, &[COMPUTE, COMPUTE_QUOTA, OBJECTS, &STORAGE[1..]]) || is_huge_pages_of_quota(name)
}

fn is_standard(name: &str) -> bool {
    is_one_of(name, &[COMPUTE, COMPUTE_QUOTA, OBJECTS, STORAGE]) || is_huge_pages_of_quota(name)
}

/// Whether the project itself names the resource.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether somebody else names the resource.
pub(crate) fn is_extended_resource(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether more may be promised of it than there is.
pub(crate) fn may_be_overcommitted(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// An entry of a list of resources at its place: the name of any resource. Answers whether it is one.
pub(crate) fn resource_name(entry: &Field<'_>, name: &str, errors: &mut Errors) -> bool {
    let mut messages = names::qualified_name(name);
    if messages.is_empty() && !name.contains('/') && !is_standard(name) {
        messages.push("must be a standard resource type or fully qualified".to_owned());
    }
    let is_one = messages.is_empty();
    for message in messages {
        entry.invalid_as(name, message, errors);
    }
    is_one
}

/// The name of a resource that a container can have.
pub(crate) fn container_resource_name(entry: &Field<'_>, name: &str, errors: &mut Errors) {
    resource_name(entry, name, errors);
    if !name.contains('/') {
        if !COMPUTE.contains(&name) && !is_huge_pages(name) {
            entry.invalid_as(name, "must be a standard resource for containers", errors);
        }
    } else if !is_native(name) && !is_extended_resource(name) {
        entry.invalid_as(name, "doesn't follow extended resource name standard", errors);
    }
}

/// The name of a resource that a quota can count.
pub(crate) fn quota_resource_name(entry: &Field<'_>, name: &str, errors: &mut Errors) {
    resource_name(entry, name, errors);
    if !name.contains('/') && !is_quota_resource(name) {
        entry.invalid_as(name, "must be a standard resource for quota", errors);
    }
}

/// An amount of the resource: not negative, and whole where things are counted.
pub(crate) fn resource_amount(entry: &Field<'_>, name: &str, errors: &mut Errors) {
    amount(entry, name, &entry.quantity(), errors);
}

/// The same of an amount that has been read.
pub(crate) fn amount(entry: &Field<'_>, name: &str, amount: &Quantity, errors: &mut Errors) {
    if amount.sign() < 0 {
        entry.invalid_as(amount.text(), "must be greater than or equal to 0", errors);
    }
    if (OBJECTS.contains(&name) || is_extended_resource(name)) && amount.scaled(MILLI) % 1000 != 0 {
        entry.invalid_as(amount.text(), "must be an integer", errors);
    }
}

impl Field<'_> {
    /// The quantity; none is 0. A malformed one does not get past the decoder.
    pub(crate) fn quantity(&self) -> Quantity {
        Quantity::from_value(self.value()).unwrap_or_default()
    }

    /// The quantity as it is shown.
    pub(crate) fn quantity_text(&self) -> Str {
        self.quantity().text()
    }
}

#[cfg(test)]
mod tests {
    use machinery::object;

    use super::*;

    fn check(rule: fn(&Field<'_>, &str, &mut Errors), name: &str, amount: &str, expect: &[&str]) {
        let list = object! { name => amount };
        let mut errors = Errors::default();
        let root = Field::root(&list);
        rule(&root.key(name), name, &mut errors);
        let texts: Vec<String> = errors.into_vec().iter().map(|e| e.body()).collect();
        assert_eq!(texts, expect, "{name}");
    }

    #[test]
    fn names_say_who_may_count_them() {
        let container = container_resource_name;
        check(container, "cpu", "1", &[]);
        check(container, "hugepages-2Mi", "1", &[]);
        check(container, "example.test/gpu", "1", &[]);
        check(container, "pods", "1", &[r#"Invalid value: "pods": must be a standard resource for containers"#]);
        check(quota_resource_name, "pods", "1", &[]);
        check(quota_resource_name, "count/pods", "1", &[]);
        check(
            quota_resource_name,
            "storage",
            "1",
            &[r#"Invalid value: "storage": must be a standard resource for quota"#],
        );
        check(
            quota_resource_name,
            "gizmos",
            "1",
            &[
                r#"Invalid value: "gizmos": must be a standard resource type or fully qualified"#,
                r#"Invalid value: "gizmos": must be a standard resource for quota"#,
            ],
        );
    }

    #[test]
    fn amounts_are_not_negative_and_things_are_whole() {
        check(resource_amount, "cpu", "1500m", &[]);
        check(resource_amount, "cpu", "-1", &[r#"Invalid value: "-1": must be greater than or equal to 0"#]);
        check(resource_amount, "pods", "1500m", &[r#"Invalid value: "1500m": must be an integer"#]);
        check(resource_amount, "example.test/gpu", "500m", &[r#"Invalid value: "500m": must be an integer"#]);
    }
}
