//! Typed views of an object's `metadata`: [`Meta`] to read, [`MetaMut`] to write.
//!
//! An absent member, `null` and a member of another type all read as absent: decoding has checked the types.

use super::gvk::GroupVersionKind;
use super::time::{TimeForm, Timestamp};
use crate::{Map, Str, Value};

/// A view of an object's metadata.
#[derive(Clone, Copy, Debug)]
pub struct Meta<'a>(Option<&'a Map>);

impl<'a> Meta<'a> {
    /// Of an object; one without metadata reads as if all of it were absent.
    pub fn of(object: &'a Value) -> Self {
        Meta(object.get("metadata").and_then(Value::as_object))
    }

    /// Of the metadata itself, as a pod template's.
    pub fn new(metadata: &'a Value) -> Self {
        Meta(metadata.as_object())
    }

    fn get(self, key: &str) -> Option<&'a Value> {
        self.0?.get(key)
    }

    fn text(self, key: &str) -> &'a str {
        self.get(key).and_then(Value::as_str).unwrap_or("")
    }

    fn map(self, key: &str) -> Option<&'a Map> {
        self.get(key).and_then(Value::as_object)
    }

    fn list(self, key: &str) -> &'a [Value] {
        self.get(key).and_then(Value::as_array).unwrap_or_default()
    }

    /// The name; empty if there is none.
    pub fn name(self) -> &'a str {
        self.text("name")
    }

    /// The name's beginning when the server is to make it; empty if there is none.
    pub fn generate_name(self) -> &'a str {
        self.text("generateName")
    }

    /// The namespace; empty for cluster-scoped objects.
    pub fn namespace(self) -> &'a str {
        self.text("namespace")
    }

    /// The uid; empty if there is none.
    pub fn uid(self) -> &'a str {
        self.text("uid")
    }

    /// The resourceVersion; empty if there is none.
    pub fn resource_version(self) -> &'a str {
        self.text("resourceVersion")
    }

    /// The generation; 0 if there is none.
    pub fn generation(self) -> i64 {
        self.get("generation").and_then(Value::as_i64).unwrap_or(0)
    }

    /// When it was created, as written.
    pub fn creation_timestamp(self) -> Option<&'a str> {
        self.get("creationTimestamp").and_then(Value::as_str)
    }

    /// When it is to be gone, as written; set while it is being deleted.
    pub fn deletion_timestamp(self) -> Option<&'a str> {
        self.get("deletionTimestamp").and_then(Value::as_str)
    }

    /// Whether it is being deleted.
    pub fn is_terminating(self) -> bool {
        self.deletion_timestamp().is_some()
    }

    /// The grace period of the deletion.
    pub fn deletion_grace_period_seconds(self) -> Option<i64> {
        self.get("deletionGracePeriodSeconds").and_then(Value::as_i64)
    }

    /// All labels.
    pub fn labels(self) -> Option<&'a Map> {
        self.map("labels")
    }

    /// One label.
    pub fn label(self, key: &str) -> Option<&'a str> {
        self.labels()?.get(key)?.as_str()
    }

    /// All annotations.
    pub fn annotations(self) -> Option<&'a Map> {
        self.map("annotations")
    }

    /// One annotation.
    pub fn annotation(self, key: &str) -> Option<&'a str> {
        self.annotations()?.get(key)?.as_str()
    }

    /// The finalizers, in order.
    pub fn finalizers(self) -> impl ExactSizeIterator<Item = &'a str> + Clone {
        self.list("finalizers").iter().map(|f| f.as_str().unwrap_or(""))
    }

    /// Whether there is this finalizer.
    pub fn has_finalizer(self, finalizer: &str) -> bool {
        self.finalizers().any(|f| f == finalizer)
    }

    /// The owners, in order.
    pub fn owner_references(self) -> impl ExactSizeIterator<Item = OwnerReference<'a>> + Clone {
        self.list("ownerReferences").iter().map(OwnerReference)
    }

    /// The owner that controls it.
    pub fn controller(self) -> Option<OwnerReference<'a>> {
        self.owner_references().find(|o| o.is_controller())
    }

    /// The entries of managedFields.
    pub fn managed_fields(self) -> &'a [Value] {
        self.list("managedFields")
    }
}

/// An entry of `ownerReferences`.
#[derive(Clone, Copy, Debug)]
pub struct OwnerReference<'a>(pub &'a Value);

impl<'a> OwnerReference<'a> {
    fn text(self, key: &str) -> &'a str {
        self.0.get(key).and_then(Value::as_str).unwrap_or("")
    }

    fn flag(self, key: &str) -> bool {
        self.0.get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    /// The owner's apiVersion.
    pub fn api_version(self) -> &'a str {
        self.text("apiVersion")
    }

    /// The owner's kind.
    pub fn kind(self) -> &'a str {
        self.text("kind")
    }

    /// The owner's name.
    pub fn name(self) -> &'a str {
        self.text("name")
    }

    /// The owner's uid.
    pub fn uid(self) -> &'a str {
        self.text("uid")
    }

    /// Whether it controls the object.
    pub fn is_controller(self) -> bool {
        self.flag("controller")
    }

    /// Whether its foreground deletion waits for the object.
    pub fn blocks_owner_deletion(self) -> bool {
        self.flag("blockOwnerDeletion")
    }
}

/// The kind of an object by its `apiVersion` and `kind`.
pub fn kind_of(object: &Value) -> GroupVersionKind {
    let api_version = object.str_at(&["apiVersion"]).unwrap_or("");
    let kind = object.get("kind").and_then(Value::as_shared_str).cloned().unwrap_or_default();
    GroupVersionKind::from_api_version(api_version, kind)
}

/// An object's metadata for writing. Members that become empty are removed.
#[derive(Debug)]
pub struct MetaMut<'a>(&'a mut Map);

impl<'a> MetaMut<'a> {
    /// Of an object; metadata that is not there is made.
    pub fn of(object: &'a mut Value) -> Self {
        MetaMut(object.make_object().entry("metadata").make_object())
    }

    /// Of the metadata itself.
    pub fn new(metadata: &'a mut Value) -> Self {
        MetaMut(metadata.make_object())
    }

    /// To read.
    pub fn as_meta(&self) -> Meta<'_> {
        Meta(Some(self.0))
    }

    /// The members, for what has no method here.
    pub fn members(&mut self) -> &mut Map {
        self.0
    }

    fn set_text(&mut self, key: &'static str, text: impl Into<Str>) {
        let text = text.into();
        if text.is_empty() {
            self.0.remove(key);
        } else {
            self.0.insert(Str::new_static(key), text);
        }
    }

    fn set_or_remove(&mut self, key: &'static str, value: Option<impl Into<Value>>) {
        match value {
            Some(value) => self.0.insert(Str::new_static(key), value),
            None => self.0.remove(key),
        };
    }

    /// Sets the name.
    pub fn set_name(&mut self, name: impl Into<Str>) {
        self.set_text("name", name);
    }

    /// Sets the namespace.
    pub fn set_namespace(&mut self, namespace: impl Into<Str>) {
        self.set_text("namespace", namespace);
    }

    /// Sets the uid.
    pub fn set_uid(&mut self, uid: impl Into<Str>) {
        self.set_text("uid", uid);
    }

    /// Sets the resourceVersion.
    pub fn set_resource_version(&mut self, version: impl Into<Str>) {
        self.set_text("resourceVersion", version);
    }

    /// Sets the generation; 0 removes it.
    pub fn set_generation(&mut self, generation: i64) {
        self.set_or_remove("generation", (generation != 0).then_some(generation));
    }

    /// Sets the time of creation.
    pub fn set_creation_timestamp(&mut self, time: Timestamp) {
        self.set_text("creationTimestamp", time.text(TimeForm::Seconds));
    }

    /// Sets or removes the time of deletion.
    pub fn set_deletion_timestamp(&mut self, time: Option<Timestamp>) {
        self.set_or_remove("deletionTimestamp", time.map(|t| t.text(TimeForm::Seconds)));
    }

    /// Sets or removes the grace period of the deletion.
    pub fn set_deletion_grace_period_seconds(&mut self, seconds: Option<i64>) {
        self.set_or_remove("deletionGracePeriodSeconds", seconds);
    }

    /// Sets a label.
    pub fn set_label(&mut self, key: impl Into<Str>, value: impl Into<Str>) {
        self.0.entry("labels").make_object().insert(key, Value::String(value.into()));
    }

    /// Sets an annotation.
    pub fn set_annotation(&mut self, key: impl Into<Str>, value: impl Into<Str>) {
        self.0.entry("annotations").make_object().insert(key, Value::String(value.into()));
    }

    /// Removes an annotation, and says whether it was there.
    pub fn remove_annotation(&mut self, key: &str) -> bool {
        let Some(annotations) = self.0.get_mut("annotations").and_then(Value::as_object_mut) else { return false };
        let removed = annotations.remove(key).is_some();
        if annotations.is_empty() {
            self.0.remove("annotations");
        }
        removed
    }

    /// Sets the finalizers.
    pub fn set_finalizers<S: Into<Str>>(&mut self, finalizers: impl IntoIterator<Item = S>) {
        let list: Vec<Value> = finalizers.into_iter().map(|f| Value::String(f.into())).collect();
        self.set_or_remove("finalizers", (!list.is_empty()).then_some(list));
    }

    /// Adds a finalizer behind the others, unless it is there.
    pub fn add_finalizer(&mut self, finalizer: &str) {
        if !self.as_meta().has_finalizer(finalizer) {
            let with = self.as_meta().finalizers().chain([finalizer]).map(Str::from).collect::<Vec<_>>();
            self.set_finalizers(with);
        }
    }

    /// Removes a finalizer, and says whether it was there.
    pub fn remove_finalizer(&mut self, finalizer: &str) -> bool {
        let there = self.as_meta().has_finalizer(finalizer);
        if there {
            let without = self.as_meta().finalizers().filter(|f| *f != finalizer).map(Str::from).collect::<Vec<_>>();
            self.set_finalizers(without);
        }
        there
    }

    /// Sets managedFields.
    pub fn set_managed_fields(&mut self, entries: Vec<Value>) {
        self.set_or_remove("managedFields", (!entries.is_empty()).then_some(entries));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{array, object};

    #[test]
    fn metadata_reads() {
        let object = object! {
            "apiVersion" => "apps/v1", "kind" => "ReplicaSet",
            "metadata" => object! {
                "name" => "a", "generation" => 3, "labels" => object! { "k" => "v" },
                "finalizers" => array!["x", "y"],
                "ownerReferences" => array![
                    object! { "kind" => "A", "uid" => "1" }, object! { "kind" => "B", "controller" => true },
                ],
            },
        };
        let meta = Meta::of(&object);
        assert_eq!((meta.name(), meta.namespace(), meta.generation()), ("a", "", 3));
        assert_eq!((meta.label("k"), meta.label("l"), meta.annotation("k")), (Some("v"), None, None));
        assert!(meta.has_finalizer("y") && !meta.has_finalizer("z") && !meta.is_terminating());
        assert_eq!(meta.controller().map(OwnerReference::kind), Some("B"));
        assert_eq!(kind_of(&object), GroupVersionKind::new("apps", "v1", "ReplicaSet"));
        assert_eq!(Meta::of(&Value::Null).name(), "");
    }

    #[test]
    fn metadata_is_written_and_what_is_empty_goes() {
        let mut object = Value::object();
        let mut meta = MetaMut::of(&mut object);
        meta.set_name("a");
        meta.set_generation(1);
        meta.set_generation(0);
        meta.add_finalizer("x");
        meta.add_finalizer("x");
        meta.set_annotation("k", "v");
        meta.set_creation_timestamp(Timestamp::new(0, 5));
        assert_eq!(meta.as_meta().finalizers().len(), 1);
        assert!(meta.remove_finalizer("x") && !meta.remove_finalizer("x"));
        assert!(meta.remove_annotation("k"));
        assert_eq!(
            object,
            object! { "metadata" => object! { "name" => "a", "creationTimestamp" => "1970-01-01T00:00:00Z" } }
        );
    }
}
