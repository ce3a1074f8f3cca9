//! Namespaces.

use generic_server::resource::{KindTraits, WriteContext};
use machinery::{Str, Value, array, meta::names, object};

use crate::{
    defaults::{is_empty, part, text},
    strategy::{Rules, SubresourceRules, restore},
    validation::{Errors, Field},
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
    validate,
    revalidate: Some(|cx, new, _, errors| validate(cx, new, errors)),
    validate_status,
    subresources: &[SubresourceRules {
        name: "finalize",
        update: |_, new, old| restore(new, old, &["status"]),
        validate: validate_finalize,
    }],
    resets: &[("finalize", &[&["status"]])],
    traits: KindTraits {
        marks_deletion: true,
        ..Rules::STATUS.returns_deleted().names(names::name_is_dns_label).traits
    },
    ..Rules::PLAIN
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
}

/// Finalizers of the namespace's content go through the finalize subresource alone.
fn update(_cx: &WriteContext<'_>, new: &mut Value, old: &Value) {
    restore(new, old, &["spec", "finalizers"]);
    if new.get("spec").is_none() {
        new.set(&["spec"], object! { "finalizers" => array![] });
    }
}

fn validate(_cx: &WriteContext<'_>, namespace: &Field<'_>, errors: &mut Errors) {
    let spec = namespace.at("spec");
    let finalizers = spec.at("finalizers");
    finalizers.each(|finalizer| finalizer_name(&finalizers.with(finalizer.value()), errors));
}

fn validate_finalize(_cx: &WriteContext<'_>, new: &Field<'_>, _old: &Field<'_>, errors: &mut Errors) {
    new.at("spec").at("finalizers").each(|finalizer| finalizer_name(&finalizer, errors));
}

/// The finalizers of a namespace's content: one of the standard ones, or one with a domain.
fn finalizer_name(finalizer: &Field<'_>, errors: &mut Errors) {
    finalizer.check(names::qualified_name, errors);
    if !finalizer.text().contains('/') && !STANDARD_FINALIZERS.contains(&finalizer.text()) {
        finalizer.invalid("name is neither a standard finalizer name nor is it fully qualified", errors);
    }
}

const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// The phase says whether the namespace is being deleted, and nothing else.
fn validate_status(_cx: &WriteContext<'_>, new: &Field<'_>, _old: &Field<'_>, errors: &mut Errors) {
    let status = new.at("status");
    let phase = status.at("phase");
    let (expected, when) = match new.at("metadata").at("deletionTimestamp").is_set() {
        true => ("Terminating", "not empty"),
        false => ("Active", "empty"),
    };
    if phase.text() != expected {
        let detail = format!("may only be '{expected}' if `deletionTimestamp` is {when}");
        status.at("Phase").invalid_as(phase.text(), detail, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(errors: Errors) -> Vec<String> {
        errors.into_vec().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn finalizers_are_standard_or_have_a_domain() {
        let check = |finalizer: &str, findings: usize| {
            let mut errors = Errors::default();
            finalizer_name(&Field::root(&Value::from(finalizer)), &mut errors);
            assert_eq!(errors.len(), findings, "{finalizer}");
        };
        check("kubernetes", 0);
        check("example.com/mine", 0);
        check("plain", 1);
        check("bad name", 2);
    }

    #[test]
    fn the_phase_follows_the_deletion() {
        let cx = WriteContext {
            group: "",
            version: "v1",
            namespace: "",
            subresource: "status",
            user: &auth::User::default(),
            features: &Default::default(),
        };
        let check = |phase: &str, deleting: bool, expect: &[&str]| {
            let mut namespace = object! { "metadata" => object! {}, "status" => object! { "phase" => phase } };
            if deleting {
                namespace.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
            }
            let (mut errors, field) = (Errors::default(), Field::root(&namespace));
            validate_status(&cx, &field, &field, &mut errors);
            assert_eq!(texts(errors), expect);
        };
        check("Active", false, &[]);
        check("Terminating", true, &[]);
        let refused =
            "status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty";
        check("Active", true, &[refused]);
    }
}
