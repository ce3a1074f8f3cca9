//! DefaultStorageClass and DefaultIngressClass: who names no class gets the one that is marked as the default.

use std::sync::Arc;

use async_trait::async_trait;
use generic_server::{
    admission::{Admission, Attributes, Operation, Steps},
    registry::Lister,
};
use machinery::{Str, Value, meta::status::Status};

/// A plugin for one kind of object and its classes.
pub(super) struct DefaultClass {
    pub(super) classes: Arc<Lister>,
    pub(super) kind: &'static ClassOf,
}

/// Whose class it is, and how it is named.
pub(super) struct ClassOf {
    group: &'static str,
    plural: &'static str,
    /// The member that names the class.
    member: &'static str,
    /// The annotation that names one, too.
    annotation: &'static str,
    /// Annotations of a class that is the default.
    marks: &'static [&'static str],
}

/// Claims to storage.
pub(super) const STORAGE: ClassOf = ClassOf {
    group: "",
    plural: "persistentvolumeclaims",
    member: "storageClassName",
    annotation: "volume.beta.kubernetes.io/storage-class",
    marks: &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"],
};

/// Ingresses.
pub(super) const INGRESS: ClassOf = ClassOf {
    group: "networking.k8s.io",
    plural: "ingresses",
    member: "ingressClassName",
    annotation: "kubernetes.io/ingress.class",
    marks: &["ingressclass.kubernetes.io/is-default-class"],
};

#[async_trait]
impl Admission for DefaultClass {
    fn steps(&self) -> Steps {
        Steps::Mutate
    }

    async fn mutate(&self, a: &Attributes<'_>, object: &mut Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        let kind = self.kind;
        let is_ours = a.row.group == kind.group && a.row.plural == kind.plural && a.subresource.is_empty();
        if a.operation != Operation::Create || !is_ours {
            return Ok(());
        }
        let is_named = object.at(&["spec", kind.member]).is_some_and(|name| !name.is_null())
            || object.at(&["metadata", "annotations", kind.annotation]).is_some();
        if is_named {
            return Ok(());
        }
        self.classes.ready().await?;
        if let Some(class) = self.default() {
            object.set(&["spec", kind.member], class);
        }
        Ok(())
    }
}

impl DefaultClass {
    /// The default class: of several the newest, of those the first by name.
    fn default(&self) -> Option<Str> {
        let snapshot = self.classes.cache().latest();
        let mut found: Option<(String, Str)> = None;
        for entry in snapshot.range(self.classes.prefix(), None).filter_map(|entry| entry.object()) {
            let Ok(class) = self.classes.decode(entry.bytes()) else { continue };
            let is_marked = |mark: &&str| class.str_at(&["metadata", "annotations", mark]) == Some("true");
            if !self.kind.marks.iter().any(is_marked) {
                continue;
            }
            let made = class.str_at(&["metadata", "creationTimestamp"]).unwrap_or_default();
            if found.as_ref().is_none_or(|(newest, _)| made > newest.as_str()) {
                found = Some((made.to_owned(), Str::from(entry.name())));
            }
        }
        found.map(|(_, name)| name)
    }
}
