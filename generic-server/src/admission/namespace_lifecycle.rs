//! NamespaceLifecycle: objects are made only in namespaces that exist and stay; some namespaces cannot be deleted.

use std::sync::Arc;

use async_trait::async_trait;
use machinery::{
    Value,
    meta::status::{Cause, Status},
};
use storage::cache::{Cache, ReadAt};

use super::{Admission, Attributes, Operation};
use crate::registry::Registry;

/// The namespaces that the server itself needs.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The plugin.
pub struct NamespaceLifecycle {
    /// The namespaces.
    pub namespaces: Arc<Registry>,
}

#[async_trait]
impl Admission for NamespaceLifecycle {
    async fn mutate(&self, a: &Attributes<'_>, object: &mut Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        let is_namespace = a.row.group.is_empty() && a.row.plural == "namespaces";
        if is_namespace {
            if a.operation == Operation::Delete && a.subresource.is_empty() && IMMORTAL.contains(&a.name) {
                return Err(a.forbidden(object, "this namespace may not be deleted"));
            }
            return Ok(());
        }
        // Reviews of local access may name namespaces that do not exist; deletions and updates touch what is there already.
        if a.namespace.is_empty() || a.operation != Operation::Create || a.row.group == "authorization.k8s.io" {
            return Ok(());
        }
        let cache: &Arc<Cache> = self.namespaces.cache();
        let key = self.namespaces.key("", a.namespace);
        let mut found = cache.latest().get(&key).and_then(|e| e.object().cloned());
        if found.is_none() {
            // Another server may have made it just now: ask the store before refusing.
            found = cache.read(ReadAt::Latest).await.ok().and_then(|s| s.get(&key).and_then(|e| e.object().cloned()));
        }
        let Some(namespace) = found else {
            return Err(Status::not_found(&self.namespaces.group_resource(), a.namespace));
        };
        let terminating = machinery::codec::scan::field(namespace.bytes(), &["status", "phase"])
            .is_some_and(|raw| raw == b"\"Terminating\"");
        if terminating {
            let why =
                format!("unable to create new content in namespace {} because it is being terminated", a.namespace);
            let cause = Cause {
                reason: "NamespaceTerminating".into(),
                message: format!("namespace {} is being terminated", a.namespace),
                field: "metadata.namespace".into(),
            };
            return Err(a.forbidden(object, why).with_cause(cause));
        }
        Ok(())
    }
}
