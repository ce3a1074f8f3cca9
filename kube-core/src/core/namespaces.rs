//! Namespaces.

use generic_server::resource::WriteContext;
use machinery::{Str, Value, array, meta::names, object};

use crate::{
    defaults::{is_empty, part, text},
    strategy::{Rules, restore},
};

/// The label by which selectors find a namespace by its name.
const NAME: &str = "kubernetes.io/metadata.name";

/// The rules of namespaces.
pub(super) const RULES: Rules = Rules {
    defaults,
    create,
    update,
    may_finish,
    deleting,
    names: names::name_is_dns_label,
    ..Rules::STATUS.returns_deleted()
};

fn defaults(namespace: &mut Value) {
    let name = namespace.str_at(&["metadata", "name"]).filter(|n| !n.is_empty()).map(Str::from);
    if let Some(name) = name
        && namespace.str_at(&["metadata", "labels", NAME]) != Some(&name)
    {
        namespace.set(&["metadata", "labels", NAME], name);
    }
    text(part(namespace, "status"), "phase", "Active");
}

fn create(_cx: &WriteContext<'_>, namespace: &mut Value) {
    namespace.set(&["status"], object! { "phase" => "Active" });
    let held = namespace.at(&["spec", "finalizers"]).and_then(Value::as_array).unwrap_or_default();
    if !held.iter().any(|f| f.as_str() == Some("kubernetes")) {
        let mut finalizers = held.to_vec();
        finalizers.push(Value::from("kubernetes"));
        namespace.set(&["spec", "finalizers"], finalizers);
    }
    // The name may have been generated after the defaults were computed.
    defaults(namespace);
}

/// What lives in a namespace must be gone before it: its finalizers say so.
fn may_finish(namespace: &Value) -> bool {
    is_empty(namespace.at(&["spec", "finalizers"]))
}

fn deleting(namespace: &mut Value) {
    namespace.set(&["status", "phase"], "Terminating");
    // A namespace has no grace period: it lives until its content is gone.
    namespace.remove_at(&["metadata", "deletionGracePeriodSeconds"]);
}

/// Finalizers of the namespace's content go through the finalize subresource alone.
fn update(_cx: &WriteContext<'_>, new: &mut Value, old: &Value) {
    restore(new, old, &["spec", "finalizers"]);
    if new.get("spec").is_none() {
        new.set(&["spec"], object! { "finalizers" => array![] });
    }
}
