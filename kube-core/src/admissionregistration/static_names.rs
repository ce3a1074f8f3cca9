//! Names that are kept for policies and webhooks of the server's own files.

use generic_server::resource::WriteContext;
use machinery::{Value, meta::Meta};
use policies::STATIC_SUFFIX;

use crate::validation::{Errors, Field};

fn kept() -> String {
    format!(
        "names ending with {STATIC_SUFFIX:?} are reserved for static manifest-based configurations and cannot be managed via the API"
    )
}

/// Where files are read, no client makes an object of such a name.
pub(super) fn check(cx: &WriteContext<'_>, object: &Field<'_>, errors: &mut Errors) {
    let metadata = object.at("metadata");
    let name = metadata.at("name");
    if cx.features.is_on("ManifestBasedAdmissionControlConfig") && name.text().ends_with(STATIC_SUFFIX) {
        name.invalid(kept(), errors);
    }
}

/// Where an object of such a name is written, its author is warned.
pub(super) fn warn(object: &Value) -> Vec<String> {
    match Meta::of(object).name().ends_with(STATIC_SUFFIX) {
        true => vec![format!("metadata.name: {}", kept())],
        false => Vec::new(),
    }
}
