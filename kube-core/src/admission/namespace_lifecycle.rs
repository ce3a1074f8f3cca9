//! NamespaceLifecycle: objects are made only in namespaces that exist and stay; some namespaces cannot be deleted.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use machinery::{
    Str, Value,
    codec::scan,
    meta::status::{Cause, Status},
};
use storage::cache::{Object, ReadAt};

use generic_server::{
    admission::{Admission, Attributes, Operation, Steps},
    registry::Lister,
};

/// The namespaces that the server itself needs.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// How long a namespace counts as just deleted, and how many do (upstream: the same).
const DELETED_FOR: Duration = Duration::from_secs(30);
const MAX_DELETED: usize = 100;

/// The plugin.
pub struct NamespaceLifecycle {
    namespaces: Arc<Lister>,
    deleted: JustDeleted,
}

/// The namespaces whose deletion this server has begun a moment ago, the latest at the end: a cache may not know it yet.
#[derive(Default)]
struct JustDeleted(Mutex<VecDeque<(Instant, Str)>>);

impl JustDeleted {
    fn note(&self, name: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(at, other)| at.elapsed() < DELETED_FOR && other != name);
        if all.len() == MAX_DELETED {
            all.pop_front();
        }
        all.push_back((Instant::now(), name.into()));
    }

    fn has(&self, name: &str) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().any(|(at, deleted)| deleted == name && at.elapsed() < DELETED_FOR)
    }
}

impl NamespaceLifecycle {
    /// The plugin, for these namespaces.
    pub fn new(namespaces: Arc<Lister>) -> Self {
        NamespaceLifecycle { namespaces, deleted: JustDeleted::default() }
    }

    /// The namespace, as the cache has it; as the store has it, where what the cache has is a reason to refuse, or in doubt.
    async fn namespace(&self, name: &str) -> Result<Option<Arc<Object>>, Status> {
        let (entry, is_latest) = self.namespaces.cache().peek(&self.namespaces.key("", name));
        let known = entry.and_then(|entry| entry.object().cloned());
        if is_latest || known.as_ref().is_some_and(|object| !is_terminating(object)) && !self.deleted.has(name) {
            return Ok(known);
        }
        match self.namespaces.get("", name, ReadAt::Latest).await {
            Ok(object) => Ok(Some(object)),
            Err(status) if status.is_not_found() => Ok(None),
            Err(status) => Err(status),
        }
    }
}

fn is_terminating(namespace: &Object) -> bool {
    scan::field(namespace.bytes(), &["status", "phase"]).is_some_and(|raw| raw == b"\"Terminating\"")
}

#[async_trait]
impl Admission for NamespaceLifecycle {
    fn steps(&self) -> Steps {
        Steps::Mutate
    }

    async fn mutate(&self, a: &Attributes<'_>, object: &mut Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        let is_namespace = a.row.group.is_empty() && a.row.plural == "namespaces";
        if is_namespace {
            if a.operation == Operation::Delete && a.subresource.is_empty() && IMMORTAL.contains(&a.name) {
                return Err(a.forbidden(object, "this namespace may not be deleted"));
            }
            if a.operation == Operation::Delete {
                self.deleted.note(a.name);
            }
            return Ok(());
        }
        // Reviews of local access may name namespaces that do not exist; deletions and updates touch what is there already.
        if a.namespace.is_empty() || a.operation != Operation::Create || a.row.group == "authorization.k8s.io" {
            return Ok(());
        }
        let found = self.namespace(a.namespace).await?;
        let Some(namespace) = found else {
            return Err(Status::not_found(&self.namespaces.group_resource(), a.namespace));
        };
        if is_terminating(&namespace) {
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
