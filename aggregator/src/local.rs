//! The APIServices of what the chain itself serves: made at start for built-in groups, followed for custom ones.

use std::{collections::HashSet, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use generic_server::{
    discovery::priority,
    registry::Registry,
    server::ResourceTable,
    tasks::{Task, TaskResult},
};
use machinery::{Str, Value, meta::status::Status, object};
use storage::cache::{Everything, Scope};

use crate::row::GROUP;

/// The label that says who keeps an APIService: `onstart` for what is always there, `true` for what comes and goes.
pub(crate) const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// How often tables are compared with the objects.
const TICK: Duration = Duration::from_millis(200);

/// A group version that the chain serves.
type GroupVersion = (Str, Str);

/// Registers the local group versions and keeps them registered.
pub(crate) fn registration(
    registry: Arc<Registry>,
    core: Arc<ArcSwap<ResourceTable>>,
    custom: Arc<ArcSwap<ResourceTable>>,
) -> Task {
    Task::new("kube-apiserver-autoregistration", move |cx| {
        let local = Local { registry: registry.clone(), core: core.clone(), custom: custom.clone() };
        async move {
            local.registry.cache().ready().await?;
            local.reconcile().await?;
            cx.ready();
            let mut follower = local.registry.cache().follow(Scope::All, Arc::new(Everything));
            let mut seen = local.custom.load_full();
            loop {
                tokio::select! {
                    () = cx.cancelled() => return Ok(()),
                    next = follower.next() => if next.is_none() { return Ok(()) },
                    () = tokio::time::sleep(TICK) => {
                        let now = local.custom.load_full();
                        if Arc::ptr_eq(&now, &seen) {
                            continue;
                        }
                        seen = now;
                    }
                }
                local.reconcile().await?;
            }
        }
    })
}

struct Local {
    registry: Arc<Registry>,
    core: Arc<ArcSwap<ResourceTable>>,
    custom: Arc<ArcSwap<ResourceTable>>,
}

impl Local {
    async fn reconcile(&self) -> TaskResult {
        let of = |table: &ArcSwap<ResourceTable>| -> HashSet<GroupVersion> {
            let table = table.load();
            let rows = table.entries().map(|e| (e.row.group.clone(), e.row.version.clone()));
            rows.filter(|(group, _)| group != GROUP).collect()
        };
        let built_in: HashSet<GroupVersion> =
            of(&self.core).into_iter().chain([("apiextensions.k8s.io".into(), "v1".into())]).collect();
        let custom: HashSet<GroupVersion> = &of(&self.custom) - &built_in;
        for (wanted, label) in built_in.iter().map(|v| (v, "onstart")).chain(custom.iter().map(|v| (v, "true"))) {
            self.ensure(wanted, label).await?;
        }
        self.remove_stale(&custom).await
    }

    /// Makes the APIService, or puts back what belongs to us of it.
    async fn ensure(&self, (group, version): &GroupVersion, label: &str) -> TaskResult {
        let name = format!("{version}.{group}");
        let priority = priority(group, version);
        let mut spec = object! {
            "version" => version, "groupPriorityMinimum" => priority.group, "versionPriority" => priority.version,
        };
        if !group.is_empty() {
            spec.make_object().insert("group", group);
        }
        let Some(found) = self.find(&name)? else {
            return self.make(&name, label, spec).await;
        };
        match found.at(&["metadata", "labels", AUTOMANAGED]).and_then(Value::as_str) {
            None => return Ok(()), // somebody's own
            Some(found) if found != label && label == "onstart" => return Ok(()),
            Some(_) => {}
        }
        if found.get("spec") != Some(&spec) {
            let edit = |current: &Value| {
                let mut new = current.clone();
                new.set(&["spec"], spec.clone());
                new.set(&["metadata", "labels", AUTOMANAGED], label);
                Ok(new)
            };
            done(self.registry.edit("", &name, "", edit).await)?;
        }
        Ok(())
    }

    async fn make(&self, name: &str, label: &str, spec: Value) -> TaskResult {
        let labels = object! { AUTOMANAGED => label };
        let service = object! {
            "kind" => "APIService", "apiVersion" => "apiregistration.k8s.io/v1",
            "metadata" => object! { "name" => name, "labels" => labels },
            "spec" => spec,
        };
        done(self.registry.create_as_server(service).await)
    }

    fn find(&self, name: &str) -> Result<Option<Value>, Status> {
        let snapshot = self.registry.cache().latest();
        let object = snapshot.get(&self.registry.key("", name)).and_then(|e| e.object().cloned());
        object.map(|o| self.registry.decode(o.bytes())).transpose()
    }

    /// Removes those of group versions that are gone.
    async fn remove_stale(&self, custom: &HashSet<GroupVersion>) -> TaskResult {
        let snapshot = self.registry.cache().latest();
        let ours = snapshot.range(self.registry.prefix(), None).filter_map(|e| e.object());
        let stale: Vec<Str> = ours
            .filter(|o| o.labels().get(AUTOMANAGED) == Some("true"))
            .filter(|o| {
                let (version, group) = o.name().split_once('.').unwrap_or((o.name(), ""));
                !custom.contains(&(Str::from(group), Str::from(version)))
            })
            .map(|o| Str::from(o.name()))
            .collect();
        for name in stale {
            done(self.registry.delete_as_server("", &name).await)?;
        }
        Ok(())
    }
}

/// What somebody else did in the meantime is no failure: the next look finds it.
fn done<T>(result: Result<T, Status>) -> TaskResult {
    match result {
        Ok(_) => Ok(()),
        Err(status) if status.is_already_exists() || status.is_not_found() || status.is_conflict() => Ok(()),
        Err(status) => Err(status.into()),
    }
}
