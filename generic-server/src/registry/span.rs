//! The spans of what is done in the store, with upstream's names: they are etcd's whatever the store, for that is what people
//! look for.

use machinery::Str;
use traces::Span;

use super::{Lister, Registry};

/// Groups whose Go package is not called as their name begins.
const PACKAGES: [(&str, &str); 3] =
    [("", "core"), ("internal.apiserver.k8s.io", "apiserverinternal"), ("events.k8s.io", "core")];

impl Registry {
    /// An object is made.
    pub(super) fn create_span(&self, key: &str) -> Span {
        self.storage_span("Create etcd3", key)
    }

    /// An object is changed.
    pub(super) fn update_span(&self, key: &str) -> Span {
        let span = self.storage_span("GuaranteedUpdate etcd3", key);
        span.event("initial value restored", |_| {});
        span
    }

    fn storage_span(&self, name: &'static str, key: &str) -> Span {
        traces::span(name, |a| {
            a.text("audit-id", traces::audit_id().unwrap_or_default());
            a.text("key", self.below_root(key));
            a.text("type", self.go_type());
            a.text("group", &self.row.group);
            a.text("resource", &self.row.plural);
        })
    }

    /// The type that upstream stores.
    fn go_type(&self) -> Str {
        if !self.row.built_in {
            return Str::new_static("*unstructured.Unstructured");
        }
        let group = self.row.group.as_str();
        let known = PACKAGES.iter().find(|(name, _)| *name == group).map(|(_, package)| *package);
        let package = known.unwrap_or_else(|| group.split('.').next().unwrap_or_default());
        format!("*{package}.{}", self.row.kind).into()
    }
}

impl Lister {
    /// The key of an object as upstream's storage is asked for it.
    pub(crate) fn shown_key(&self, namespace: &str, name: &str) -> String {
        self.below_root(&self.key(namespace, name)).to_owned()
    }
}
