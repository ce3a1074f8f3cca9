//! Paths of files inside volumes and containers.

use crate::validation::{Errors, Field};

/// A relative path that never climbs.
pub(super) fn descending(path: &Field<'_>, errors: &mut Errors) {
    if path.text().starts_with('/') {
        path.invalid("must be a relative path", errors);
    }
    no_backsteps(path, errors);
}

/// A path that never climbs.
pub(super) fn no_backsteps(path: &Field<'_>, errors: &mut Errors) {
    if climbs(path.text()) {
        path.invalid("must not contain '..'", errors);
    }
}

/// Whether a path goes up somewhere.
pub(super) fn climbs(path: &str) -> bool {
    path.split('/').any(|step| step == "..")
}

/// A relative path that never climbs, and whose first step no volume plugin uses for itself.
pub(super) fn local(path: &Field<'_>, errors: &mut Errors) {
    descending(path, errors);
    if is_reserved(path.text()) {
        path.invalid("must not start with '..'", errors);
    }
}

fn is_reserved(path: &str) -> bool {
    path.starts_with("..") && !path.starts_with("../")
}

/// Whether [`local`] finds nothing.
pub(super) fn is_local(path: &str) -> bool {
    !path.starts_with('/') && !climbs(path) && !is_reserved(path)
}
