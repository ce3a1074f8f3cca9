//! Rules of roles and bindings.

use machinery::{Value, meta::names};

use super::validation;
use crate::{
    defaults::{each, text, within},
    strategy::Rules,
};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Names may be what they like, as long as they fit a path.
const NAMED: Rules = Rules::PLAIN.create_on_update().names(names::name_is_path_segment);

/// The rules of roles in a namespace.
pub(super) const ROLES: Rules =
    NAMED.validate(validation::role).revalidate(|cx, new, _, errors| validation::role(cx, new, errors));

/// The rules of roles of the cluster.
pub(super) const CLUSTER_ROLES: Rules =
    NAMED.validate(validation::cluster_role).revalidate(|cx, new, _, errors| validation::cluster_role(cx, new, errors));

/// The rules of bindings in a namespace.
pub(super) const ROLE_BINDINGS: Rules = NAMED
    .defaults(binding)
    .validate(validation::role_binding)
    .revalidate(|cx, new, _, errors| validation::role_binding(cx, new, errors))
    .validate_update(validation::keeps_role);

/// The rules of bindings of the cluster.
pub(super) const CLUSTER_ROLE_BINDINGS: Rules = NAMED
    .defaults(binding)
    .validate(validation::cluster_role_binding)
    .revalidate(|cx, new, _, errors| validation::cluster_role_binding(cx, new, errors))
    .validate_update(validation::keeps_role);

fn binding(binding: &mut Value) {
    within(binding, "roleRef", |role| text(role, "apiGroup", GROUP));
    each(binding, "subjects", |subject| {
        if let Some("User" | "Group") = subject.str_at(&["kind"]) {
            text(subject, "apiGroup", GROUP);
        }
    });
}
