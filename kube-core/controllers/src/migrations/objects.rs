//! The objects that a migration writes.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use machinery::{
    codec::json,
    meta::{GrRef, Meta, status::Status},
    object,
    request::Verb,
};
use storage::cache::{CacheEntry, Object, ReadAt, Snapshot};

use super::{NAME, Resource};
use crate::{client::Client, kinds::StoredKind, shared::Shared};

/// Why a resource cannot be migrated.
pub(super) enum Unfit {
    /// There is none.
    Absent,
    /// It lacks verbs; what is said then.
    Verbs(String),
}

/// The kind of a resource.
pub(super) fn find(shared: &Shared, resource: &Resource) -> Result<Arc<StoredKind>, Unfit> {
    let lacks = |version: &str| {
        let place = format!("{}/{version}, Resource={}", resource.group, resource.plural);
        Unfit::Verbs(format!("resource {place:?} does not support discovery operations: [update patch list]"))
    };
    let Some(kind) = shared.kinds.list().resource(GrRef::new(&resource.group, &resource.plural)).cloned() else {
        let version = shared.kinds.version_of(&resource.group, &resource.plural);
        return Err(version.map_or(Unfit::Absent, |version| lacks(&version)));
    };
    let can = [Verb::Update, Verb::Patch, Verb::List].iter().all(|verb| kind.verbs.contains(*verb));
    if can { Ok(kind) } else { Err(lacks(&kind.version)) }
}

/// The latest state of a kind.
pub(super) async fn latest(kind: &StoredKind) -> Result<Snapshot, Status> {
    kind.lister.ready().await?;
    let read = kind.lister.cache().read(ReadAt::Latest).await;
    read.map_err(|error| Status::internal_error(error.to_string()))
}

/// Writes the objects that were written last at this revision or before; why that cannot be done, if it cannot. What has changed
/// since needs it no more.
pub(super) async fn migrate(shared: &Shared, kind: &StoredKind, until: u64) -> Result<Option<String>, Status> {
    let snapshot = latest(kind).await?;
    let client = shared.client();
    for object in snapshot.range("", None).filter_map(CacheEntry::object).filter(|object| object.revision() <= until) {
        match write(&client, kind, object).await {
            Ok(()) => {}
            Err(status) if status.is_conflict() => {}
            Err(status) if may_pass(&status) => return Err(status),
            Err(status) => return Ok(Some(status.message)),
        }
    }
    Ok(None)
}

/// Whether the server has only no time for it now.
fn may_pass(status: &Status) -> bool {
    ["ServerTimeout", "TooManyRequests", "ServiceUnavailable", "InternalError", "Timeout"].iter().any(|r| status.is(r))
}

/// Applies nothing to an object that is still the same one.
async fn write(client: &Client, kind: &StoredKind, object: &Object) -> Result<(), Status> {
    let value = kind.lister.decode(object.bytes())?;
    let meta = Meta::of(&value);
    let config = object! {
        "apiVersion" => kind.api_version(), "kind" => kind.kind.clone(),
        "metadata" => object! { "uid" => meta.uid(), "resourceVersion" => meta.resource_version() },
    };
    let path = format!("{}?fieldManager={NAME}", kind.path(object.namespace().unwrap_or_default(), object.name()));
    let body: Bytes = json::encode(&config).into();
    let types = ("application/json", "application/apply-patch+yaml");
    client.send(Method::PATCH, &path, types, body).await.map(drop)
}
