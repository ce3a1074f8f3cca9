//! What one kind does with a write: small, pure, synchronous rules.

use std::sync::Arc;

use machinery::{Str, Value, meta::field_error::FieldError, patch::apply::ResetFields};

use auth::User;

use super::KindTraits;
use crate::features::Features;

/// What a rule may know about the write it judges.
#[derive(Clone, Copy, Debug)]
pub struct WriteContext<'a> {
    /// The group of the request.
    pub group: &'a str,
    /// The version of the request.
    pub version: &'a str,
    /// The namespace of the request; empty for cluster-scoped resources.
    pub namespace: &'a str,
    /// The subresource written through; empty for the resource itself.
    pub subresource: &'a str,
    /// Who writes.
    pub user: &'a User,
    /// Which features are on.
    pub features: &'a Features,
}

/// One kind's rules. All have defaults; a kind writes down only what is particular to it.
///
/// Objects come and go in the row's storage version, defaulted. `prepare_*` may change the new object and nothing else;
/// `validate*` change nothing.
pub trait Strategy: Send + Sync {
    /// What the kind is like.
    fn traits(&self) -> &KindTraits {
        &KindTraits::PLAIN
    }

    /// The same rules in a server with these features, where the defaults differ.
    fn with_features(&self, _features: &Features) -> Option<Arc<dyn Strategy>> {
        None
    }

    /// Defaults that depend on other fields; static ones are in the schema. Runs on every decoded object.
    fn default(&self, _object: &mut Value) {}

    /// Why a document is none of the kind, though it has its shape: an annotation that stands for a field holds no value of
    /// the field.
    fn refuse_document(&self, _object: &Value) -> Option<String> {
        None
    }

    /// Brings a new object into its initial state: drops what a client may not set.
    fn prepare_create(&self, _cx: &WriteContext<'_>, object: &mut Value) {
        if self.traits().has_status
            && let Some(object) = object.as_object_mut()
        {
            object.remove("status");
        }
    }

    /// What is wrong with a new object, beyond its metadata.
    fn validate(&self, _cx: &WriteContext<'_>, _object: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    /// Brings an update into line: restores what this request may not change.
    fn prepare_update(&self, _cx: &WriteContext<'_>, new: &mut Value, old: &Value) {
        if self.traits().has_status {
            restore(new, old, "status");
        }
    }

    /// What is wrong with an update, beyond its metadata.
    fn validate_update(&self, cx: &WriteContext<'_>, new: &Value, _old: &Value) -> Vec<FieldError> {
        self.validate(cx, new)
    }

    /// Brings an update of the status subresource into line: only status and some metadata may change.
    fn prepare_status_update(&self, _cx: &WriteContext<'_>, new: &mut Value, old: &Value) {
        let fields: Vec<Str> = [new, old]
            .into_iter()
            .filter_map(|v| v.as_object())
            .flat_map(|m| m.keys().cloned())
            .filter(|k| !matches!(k.as_str(), "metadata" | "status" | "apiVersion" | "kind"))
            .collect();
        for field in fields {
            restore(new, old, &field);
        }
    }

    /// Brings an update through a subresource other than status into line: restores what it may not change.
    fn prepare_subresource_update(&self, _cx: &WriteContext<'_>, _new: &mut Value, _old: &Value) {}

    /// What is wrong with an update through a subresource other than status, beyond the object's metadata.
    fn validate_subresource_update(&self, cx: &WriteContext<'_>, new: &Value, old: &Value) -> Vec<FieldError> {
        self.validate_update(cx, new, old)
    }

    /// What is wrong with an update of the status subresource.
    fn validate_status_update(&self, _cx: &WriteContext<'_>, _new: &Value, _old: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    /// Warnings for the author of a new object as it came, whether or not it is accepted.
    fn early_warnings(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Warnings for the author of a new object.
    fn warnings_on_create(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Warnings for the author of an update.
    fn warnings_on_update(&self, new: &Value, _old: &Value) -> Vec<String> {
        self.warnings_on_create(new)
    }

    /// Warnings for the author of an update of the status.
    fn warnings_on_status_update(&self, _new: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Whether what judges an object of a version may take long although the object is small: it is done outside of the reactor.
    fn takes_long(&self, _version: &str) -> bool {
        false
    }

    /// Whether a write in this version drops what its schema has a default for, so that only readers see the default.
    fn leaves_defaults_to_readers(&self, _version: &str) -> bool {
        false
    }

    /// Fields that a write through the resource or a subresource, in this version, does not set, and so nobody comes to own
    /// through it.
    fn reset_fields(&self, _version: &str, subresource: &str) -> ResetFields {
        match subresource {
            "" if self.traits().has_status => ResetFields::exclude(&[&["status"]]),
            "status" => ResetFields::exclude(&[&["spec"]]),
            _ => ResetFields::None,
        }
    }

    /// Why no object can be made at present.
    fn refuse_create(&self) -> Option<&'static str> {
        None
    }
    /// Why the object of this name may not be deleted by name. (That a whole collection goes is not asked about.)
    fn refuse_delete(&self, _name: &str) -> Option<&'static str> {
        None
    }
    /// What is wrong with the new object of an update, as far as upstream says so before it looks at what changed in the
    /// metadata.
    fn revalidate(&self, _cx: &WriteContext<'_>, _new: &Value, _old: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    /// What is wrong with an object's name (or, with `prefix`, its generateName), for kinds whose names depend on the object.
    fn name_errors(&self, _object: &Value, name: &str, prefix: bool) -> Vec<String> {
        (self.traits().names)(name, prefix)
    }

    /// Seconds that a deleted object lives on for its owner to finish (pods); `None`: deleted at once.
    /// `asked` is the request's gracePeriodSeconds.
    fn grace_period(&self, _object: &Value, _asked: Option<i64>) -> Option<i64> {
        None
    }

    /// Whether an object in deletion may go once it has no finalizers (namespaces wait for their content: spec.finalizers).
    fn may_finish_deletion(&self, _object: &Value) -> bool {
        true
    }

    /// What else changes about an object when its deletion begins (a namespace's phase).
    fn mark_deletion(&self, _object: &mut Value) {}

    /// Brings an object that another server stored in an older version, which no row serves, into the storage version.
    /// Its kind and group are the row's; the apiVersion is set by the caller.
    fn upgrade(&self, _object: &mut Value) {}
}

/// Puts a member of the old object into the new one, or removes it if the old one has none.
fn restore(new: &mut Value, old: &Value, field: &str) {
    match old.get(field) {
        Some(value) => {
            if new.get(field) != Some(value) {
                new.make_object().insert(field, value.clone());
            }
        }
        None => {
            new.make_object().remove(field);
        }
    }
}
