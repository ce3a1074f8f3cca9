//! Rules of roles and bindings.

use machinery::{Value, meta::names};

use crate::{
    defaults::{each, text, within},
    strategy::Rules,
};

const GROUP: &str = "rbac.authorization.k8s.io";

/// The rules of roles: names may be what they like, as long as they fit a path.
pub(super) const ROLES: Rules = Rules::PLAIN.create_on_update().names(names::name_is_path_segment);

/// The rules of bindings.
pub(super) const BINDINGS: Rules = ROLES.defaults(binding);

fn binding(binding: &mut Value) {
    within(binding, "roleRef", |role| text(role, "apiGroup", GROUP));
    each(binding, "subjects", |subject| {
        if let Some("User" | "Group") = subject.str_at(&["kind"]) {
            text(subject, "apiGroup", GROUP);
        }
    });
}
