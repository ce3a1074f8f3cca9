//! The storage-version-migrator-controller: objects are written anew, each as it is, so that they are stored in the version that is
//! stored today. Of the migrations of one resource one runs at a time, the oldest first.
//!
//! Differs: objects are those of the watch cache, at the revision that the status names. Resources of aggregated servers
//! are not migrated: their migrations fail.

mod definition;
mod objects;
mod state;

use std::{sync::Arc, time::Duration};

use machinery::{
    Str, Value,
    json::scan,
    meta::{GrRef, Meta, Timestamp, status::Status},
};
use storage::cache::{CacheEntry, Object, ReadAt};

use crate::{
    client::segment,
    follow::follow,
    objects::written,
    ready::Ready,
    shared::Shared,
    workqueue::{Backoff, Outcome, Queue},
};

const MIGRATIONS: GrRef<'static> = GrRef::new("storagemigration.k8s.io", "storageversionmigrations");
const NAME: &str = "storage-version-migrator-controller";
/// Resources that are migrated at once.
const WORKERS: usize = 5;
/// Seconds in which a resource may still come.
const PATIENCE: i64 = 60;
const RETRY: Duration = Duration::from_secs(5);

/// A resource that is to be migrated.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Resource {
    group: Str,
    plural: Str,
}

/// Runs migrations.
pub(crate) async fn run(shared: Arc<Shared>, ready: Ready) {
    let Some(lister) = shared.listers.get(MIGRATIONS.group, MIGRATIONS.resource).cloned() else {
        tracing::debug!("StorageVersionMigrations are not served: there is nothing to migrate");
        ready.synced();
        return std::future::pending().await;
    };
    let queue: Queue<Resource> = Queue::new(NAME, Backoff::default(), &shared.metrics);
    let added = queue.clone();
    let changed = move |old: Option<&Arc<Object>>, new: Option<&Arc<Object>>| {
        let text = |path: &[&str]| scan::text(new.or(old)?.bytes(), path).map(|text| Str::from(&*text));
        if let Some(plural) = text(&["spec", "resource", "resource"]) {
            let group = text(&["spec", "resource", "group"]).unwrap_or_default();
            added.add(Resource { group, plural });
        }
    };
    let sync = move |resource: Resource| {
        let shared = shared.clone();
        async move { sync(&shared, &resource).await }
    };
    tokio::select! {
        () = follow(&lister, changed, || ready.synced()) => {}
        () = queue.work(WORKERS, sync) => {}
    }
}

/// The migrations of a resource.
async fn all(shared: &Shared, resource: &Resource) -> Result<Vec<Value>, Status> {
    let lister = shared.lister(MIGRATIONS.group, MIGRATIONS.resource);
    let snapshot = lister.cache().read(ReadAt::Latest).await;
    let snapshot = snapshot.map_err(|error| Status::internal_error(error.to_string()))?;
    let migrations =
        snapshot.range("", None).filter_map(CacheEntry::object).map(|object| lister.decode(object.bytes()));
    let migrations = migrations.collect::<Result<Vec<_>, _>>()?;
    let of = |migration: &Value, member: &str| {
        Str::from(migration.str_at(&["spec", "resource", member]).unwrap_or_default())
    };
    let is_its = |m: &Value| of(m, "group") == resource.group && of(m, "resource") == resource.plural;
    Ok(migrations.into_iter().filter(is_its).collect())
}

/// Does the next step for a resource. What it writes calls for the one after it.
async fn sync(shared: &Shared, resource: &Resource) -> Result<Outcome, Status> {
    let migrations = all(shared, resource).await?;
    for migration in migrations.iter().filter(|migration| state::is_running(migration) && state::is_over(migration)) {
        if is_stale(definition::end(shared, resource, state::has_succeeded(migration)).await)? {
            return Ok(Outcome::Retry);
        }
        let mut migration = migration.clone();
        state::end_turn(&mut migration);
        if write(shared, &migration).await? == Outcome::Retry {
            return Ok(Outcome::Retry);
        }
    }
    if let Some(running) = migrations.iter().find(|m| state::is_running(m) && !state::is_over(m)) {
        return proceed(shared, resource, running.clone()).await;
    }
    let Some(mut next) = state::next(&migrations).cloned() else { return Ok(Outcome::Done) };
    if is_stale(definition::begin(shared, resource, Meta::of(&next).name()).await)? {
        return Ok(Outcome::Retry);
    }
    state::add(&mut next, state::RUNNING, "MigrationRunning", "The migration is running");
    write(shared, &next).await
}

/// Whether a definition has changed at the same time, so that it is to be looked at anew.
fn is_stale(result: Result<(), Status>) -> Result<bool, Status> {
    match result {
        Err(status) if status.is_conflict() => Ok(true),
        Err(status) if !status.is_not_found() => Err(status),
        _ => Ok(false),
    }
}

async fn write(shared: &Shared, migration: &Value) -> Result<Outcome, Status> {
    let name = segment(Meta::of(migration).name()).to_string();
    let path = format!("/apis/{}/v1beta1/{}/{name}/status", MIGRATIONS.group, MIGRATIONS.resource);
    written(shared.client().update(&path, migration).await)
}

async fn fail(shared: &Shared, mut migration: Value, why: &str) -> Result<Outcome, Status> {
    state::add(&mut migration, state::FAILED, "StorageVersionMigrationFailed", why);
    write(shared, &migration).await
}

/// Goes on with the migration whose turn it is.
async fn proceed(shared: &Shared, resource: &Resource, mut migration: Value) -> Result<Outcome, Status> {
    let kind = match objects::find(shared, resource) {
        Ok(kind) => kind,
        Err(objects::Unfit::Absent) => {
            let made = Meta::of(&migration)
                .creation_timestamp()
                .and_then(|text| Timestamp::parse(text, machinery::meta::TimeForm::Seconds).ok());
            // It may be that the resource comes later.
            if made.is_some_and(|made| made.seconds() + PATIENCE > Timestamp::now().seconds()) {
                return Ok(Outcome::After(RETRY));
            }
            return fail(shared, migration, "resource does not exist in discovery").await;
        }
        Err(objects::Unfit::Verbs(why)) => return fail(shared, migration, &why).await,
    };
    let until = migration.str_at(&["status", "resourceVersion"]).unwrap_or_default();
    if until.is_empty() {
        let revision = objects::latest(&kind).await?.revision();
        migration.set(&["status", "resourceVersion"], revision.to_string());
        return write(shared, &migration).await;
    }
    let Ok(until) = until.parse() else {
        return fail(shared, migration, "the resourceVersion of the status is no number").await;
    };
    match objects::migrate(shared, &kind, until).await? {
        Some(why) => fail(shared, migration, &format!("migration encountered unhandled error: {why}")).await,
        None => {
            state::add(&mut migration, state::SUCCEEDED, "StorageVersionMigrationSucceeded", "");
            write(shared, &migration).await
        }
    }
}
