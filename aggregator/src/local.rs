//! The APIServices of what the chain itself serves: made at start for built-in groups, followed for custom ones.

use std::{collections::HashSet, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use generic_server::{
    discovery::priority,
    registry::Registry,
    table::ResourceTable,
    tasks::{Task, TaskResult},
};
use machinery::{
    Str, Value,
    codec::{json, scan},
    meta::{GroupVersion, status::Status},
    object,
};
use storage::cache::{Everything, Followed, Object, Scope, WatchEvent};

use crate::row::GROUP;

/// The label that says who keeps an APIService: `onstart` for what is always there, `true` for what comes and goes.
pub(crate) const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
const BUILT_IN: &str = "onstart";
const CUSTOM: &str = "true";
/// How often tables are compared with the objects.
const TICK: Duration = Duration::from_millis(200);

/// Registers the local group versions and keeps them registered. What changes is looked at, not everything.
pub(crate) fn registration(
    registry: Arc<Registry>,
    core: Arc<ArcSwap<ResourceTable>>,
    custom: Arc<ArcSwap<ResourceTable>>,
) -> Task {
    let task = Task::new("kube-apiserver-autoregistration", move |cx| {
        let local = Local::new(registry.clone(), &core, custom.clone());
        async move {
            local.registry.cache().ready().await?;
            let mut follower = local.registry.cache().follow(Scope::All, Arc::new(Everything));
            let mut seen = local.custom.load_full();
            let mut begun = false;
            loop {
                tokio::select! {
                    () = cx.cancelled() => return Ok(()),
                    next = follower.next() => match next {
                        None => return Ok(()),
                        Some(Followed::Reset(_)) => {
                            local.settle_all().await?;
                            begun = true;
                            cx.ready();
                        }
                        Some(Followed::Event(WatchEvent::Object { object, .. })) => {
                            local.settle(&group_version(object.name())).await?;
                        }
                        Some(Followed::Event(WatchEvent::Bookmark { .. })) => {}
                    },
                    () = tokio::time::sleep(TICK), if begun => {
                        let now = local.custom.load_full();
                        if !Arc::ptr_eq(&now, &seen) {
                            local.follow(&seen, &now).await?;
                            seen = now;
                        }
                    }
                }
            }
        }
    });
    // Before that the groups of custom resources are not known, and their APIServices would seem stale.
    task.after("crd-informer-synced")
}

/// The group version of an APIService's name.
fn group_version(name: &str) -> GroupVersion {
    let (version, group) = name.split_once('.').unwrap_or((name, ""));
    GroupVersion::new(group, version)
}

struct Local {
    registry: Arc<Registry>,
    /// The group versions that are always there.
    built_in: HashSet<GroupVersion>,
    custom: Arc<ArcSwap<ResourceTable>>,
}

impl Local {
    fn new(registry: Arc<Registry>, core: &ArcSwap<ResourceTable>, custom: Arc<ArcSwap<ResourceTable>>) -> Self {
        let built_in = versions(&core.load()).chain([GroupVersion::new("apiextensions.k8s.io", "v1")]).collect();
        Local { registry, built_in, custom }
    }

    /// Looks at everything: at the beginning, and when changes may have been missed.
    async fn settle_all(&self) -> TaskResult {
        let custom: HashSet<GroupVersion> = versions(&self.custom.load()).collect();
        for wanted in self.built_in.iter().chain(custom.difference(&self.built_in)) {
            self.settle(wanted).await?;
        }
        let snapshot = self.registry.cache().latest();
        let ours = snapshot.range(self.registry.prefix(), None).filter_map(|e| e.object());
        let ours = ours.filter(|o| o.labels().get(AUTOMANAGED) == Some(CUSTOM)).map(|o| group_version(o.name()));
        let stale: Vec<GroupVersion> = ours.filter(|found| !custom.contains(found)).collect();
        for gone in stale {
            self.settle(&gone).await?;
        }
        Ok(())
    }

    /// Looks at the group versions of what has changed between two tables.
    async fn follow(&self, before: &ResourceTable, now: &ResourceTable) -> TaskResult {
        for group in now.changed_groups(before) {
            let of = |table: &ResourceTable| -> HashSet<Str> {
                table.group(&group).into_iter().flat_map(|rows| rows.versions().cloned()).collect()
            };
            for version in of(before).union(&of(now)) {
                self.settle(&GroupVersion::new(group.clone(), version.clone())).await?;
            }
        }
        Ok(())
    }

    /// Makes, mends or removes the APIService of a group version, whichever is due.
    async fn settle(&self, wanted: &GroupVersion) -> TaskResult {
        let GroupVersion { group, version } = wanted;
        if self.built_in.contains(wanted) {
            return self.ensure(wanted, BUILT_IN).await;
        }
        if group != GROUP && self.custom.load().has_version(group, version) {
            return self.ensure(wanted, CUSTOM).await;
        }
        let name = format!("{version}.{group}");
        let snapshot = self.registry.cache().latest();
        let found = snapshot.get(&self.registry.key("", &name)).and_then(|e| e.object());
        if found.is_some_and(|o| o.labels().get(AUTOMANAGED) == Some(CUSTOM)) {
            done(self.registry.delete_as_server("", &name).await)?;
        }
        Ok(())
    }

    /// Makes the APIService, or puts back what belongs to us of it.
    async fn ensure(&self, GroupVersion { group, version }: &GroupVersion, label: &str) -> TaskResult {
        let name = format!("{version}.{group}");
        let priority = priority(group, version);
        let mut spec = object! {
            "version" => version, "groupPriorityMinimum" => priority.group, "versionPriority" => priority.version,
        };
        if !group.is_empty() {
            spec.make_object().insert("group", group);
        }
        let snapshot = self.registry.cache().latest();
        let found = snapshot.get(&self.registry.key("", &name)).and_then(|e| e.object());
        // As it should be: told without a look into it.
        let as_wanted = |o: &Arc<Object>| scan::field(o.bytes(), &["spec"]) == Some(&json::encode(&spec)[..]);
        if found.is_some_and(|o| o.labels().get(AUTOMANAGED) == Some(label) && as_wanted(o)) {
            return Ok(());
        }
        let found = found.map(|o| self.registry.decode(o.bytes())).transpose()?;
        let Some(found) = found else {
            return self.make(&name, label, spec).await;
        };
        match found.at(&["metadata", "labels", AUTOMANAGED]).and_then(Value::as_str) {
            None => return Ok(()), // somebody's own
            Some(found) if found != label && label == BUILT_IN => return Ok(()),
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
}

/// The group versions that have rows.
fn versions(table: &ResourceTable) -> impl Iterator<Item = GroupVersion> {
    let rows = table.groups().filter_map(|rows| Some((rows, rows.entries().first()?.row.group.clone())));
    rows.filter(|(_, group)| group != GROUP)
        .flat_map(|(rows, group)| rows.versions().map(move |version| GroupVersion::new(group.clone(), version.clone())))
}

/// What somebody else did in the meantime is no failure: the next look finds it.
fn done<T>(result: Result<T, Status>) -> TaskResult {
    match result {
        Ok(_) => Ok(()),
        Err(status) if status.is_already_exists() || status.is_not_found() || status.is_conflict() => Ok(()),
        Err(status) => Err(status.into()),
    }
}
