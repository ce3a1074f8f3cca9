//! `pods/ephemeralcontainers`: containers that are added to a running pod, to look into it.

use generic_server::resource::WriteContext;
use machinery::{Value, meta::FieldError};

use super::validation;
use crate::{
    strategy::{SubresourceRules, restore, restore_metadata},
    validation::{Errors, Field},
};

const EPHEMERAL: [&str; 2] = ["spec", "ephemeralContainers"];

/// The rules of the subresource.
pub(super) const EPHEMERAL_CONTAINERS: SubresourceRules =
    SubresourceRules { name: "ephemeralcontainers", update, validate };

/// Only the ephemeral containers may change.
fn update(_cx: &WriteContext<'_>, new: &mut Value, old: &Value) {
    let containers = new.at(&EPHEMERAL).cloned();
    restore(new, old, &["spec"]);
    restore(new, old, &["status"]);
    restore_metadata(new, old);
    match containers {
        Some(containers) => new.set(&EPHEMERAL, containers),
        None => drop(new.remove_at(&EPHEMERAL)),
    }
}

/// They may be added, and stay what they are then.
fn validate(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    if old.at("metadata").at("annotations").key("kubernetes.io/config.mirror").is_set() {
        *errors = Errors::default();
        errors.push(FieldError::forbidden("[]", "static pods do not support ephemeral containers"));
        return;
    }
    validation::validate_pod(new, old.value(), errors);
    validation::ephemeral_containers(new, old.value(), errors);
}

#[cfg(test)]
mod tests {
    use auth::User;
    use generic_server::features::Features;
    use machinery::{array, object};

    use super::*;

    fn cx<'a>(user: &'a User, features: &'a Features) -> WriteContext<'a> {
        WriteContext { group: "", version: "v1", namespace: "n", subresource: "ephemeralcontainers", user, features }
    }

    fn pod(image: &str, ephemeral: Value) -> Value {
        object! {
            "metadata" => object! { "labels" => object! { "image" => image } },
            "spec" => object! {
                "containers" => array![object! { "name" => "c", "image" => image }], "ephemeralContainers" => ephemeral,
            },
        }
    }

    #[test]
    fn nothing_else_changes() {
        let (old, mut new) = (pod("a", array![]), pod("b", array![object! { "name" => "debug" }]));
        update(&cx(&User::default(), &Features::default()), &mut new, &old);
        assert_eq!(new.str_at(&["metadata", "labels", "image"]), Some("a"));
        assert_eq!(new.at(&["spec", "containers"]), old.at(&["spec", "containers"]));
        assert_eq!(new.at(&EPHEMERAL), Some(&array![object! { "name" => "debug" }]));
    }

    #[test]
    fn what_is_there_stays() {
        let check = |new: Value, expect: &[&str]| {
            let old = pod("a", array![object! { "name" => "debug", "image" => "i" }]);
            let (user, mut errors) = (User::default(), Errors::default());
            let new = pod("a", new);
            validate(&cx(&user, &Features::default()), &Field::root(&new), &Field::root(&old), &mut errors);
            let texts: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
            let ours: Vec<&str> =
                texts.iter().filter_map(|t| t.lines().next()).filter(|t| t.contains("existing")).collect();
            assert_eq!(ours, expect);
        };
        check(array![object! { "name" => "debug", "image" => "i" }, object! { "name" => "more" }], &[]);
        check(
            array![],
            &[r#"spec.ephemeralContainers: Forbidden: existing ephemeral containers "debug" may not be removed"#],
        );
        check(
            array![object! { "name" => "debug", "image" => "j" }],
            &[r#"spec.ephemeralContainers: Forbidden: existing ephemeral containers "debug" may not be changed"#],
        );
    }
}
