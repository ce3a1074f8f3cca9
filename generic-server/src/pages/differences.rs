//! `/debug/storage/diff?from=WHEN&to=WHEN`: what differs between two states of the embedded store.
//!
//! WHEN is a resourceVersion or a time (RFC 3339); without `to` it is now. The answer has one line of JSON for each object that
//! differs, in the order of their last writes: what happened to it, who did that, as far as managed fields tell, and when. It is
//! made as it is sent, a few objects at a time. Names and managers are told and no contents, but of all objects: so it takes a
//! verb of its own, `diff`, as a snapshot does (see [`super::Snapshots`]).

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use http::{Method, StatusCode};
use machinery::{
    Str, Value,
    codec::json::{self, scan},
    meta::{
        Status,
        time::{TimeForm, Timestamp},
    },
    object,
    patch::apply::FieldSet,
    request::resource_info,
};
use storage::{
    Error, Revision, Store as _,
    cache::{CacheEntry, ReadAt},
    embedded::{Difference, Differences as Part, Embedded},
};
use tokio::task::spawn_blocking;

use crate::{
    body::{Body, BodyError},
    endpoint::Endpoint,
    offload,
    registry::Lister,
    request::Request,
    response::{self, Response},
    table::ResourceTable,
};
use auth::authorize_info;

/// The endpoint.
pub struct Differences {
    store: Arc<Embedded>,
    tables: Vec<Arc<ArcSwap<ResourceTable>>>,
}

/// Which objects are told of.
struct Wanted {
    /// As errors name a resource: `deployments.apps`.
    resource: Option<Str>,
    namespace: Option<Str>,
}

/// An answer on its way.
struct Walk {
    store: Arc<Embedded>,
    /// By what the keys of their objects start with.
    listers: HashMap<String, Arc<Lister>>,
    wanted: Wanted,
    revisions: (Revision, Revision),
    found: VecDeque<Difference>,
    next: Option<Revision>,
}

impl Differences {
    /// Of a store, whose objects are those of these tables.
    pub fn new(store: Arc<Embedded>, tables: Vec<Arc<ArcSwap<ResourceTable>>>) -> Self {
        Differences { store, tables }
    }

    fn listers(&self) -> HashMap<String, Arc<Lister>> {
        let mut listers = HashMap::new();
        for table in &self.tables {
            for registry in table.load().entries().filter_map(|entry| entry.registry.as_ref()) {
                listers.entry(registry.prefix().to_owned()).or_insert_with(|| registry.lister().clone());
            }
        }
        listers
    }

    /// The revision that a parameter names.
    async fn revision(&self, name: &str, text: &str) -> Result<Revision, Status> {
        if let Ok(revision) = text.parse() {
            return Ok(revision);
        }
        let time = Timestamp::parse(text, TimeForm::Seconds);
        let time = time.map_err(|error| {
            Status::bad_request(format!("invalid {name}: it is no resourceVersion, and as a time: {error}"))
        })?;
        if time > Timestamp::now() {
            return Err(Status::bad_request(format!("invalid {name}: {text} is in the future")));
        }
        self.store.revision_at(time.into()).await.map_err(status_of)
    }

    async fn walk(&self, request: &Request) -> Result<Walk, Status> {
        let parameter = |name: &str| request.query.get(name).filter(|text| !text.is_empty());
        let from =
            parameter("from").ok_or_else(|| Status::bad_request("from is missing: a resourceVersion or a time"))?;
        let from = self.revision("from", from).await?;
        let to = match parameter("to") {
            Some(to) => self.revision("to", to).await?,
            None => self.store.revision().await.map_err(status_of)?,
        };
        if from > to {
            return Err(Status::bad_request(format!("from ({from}) is later than to ({to})")));
        }
        let wanted =
            Wanted { resource: parameter("resource").map(Str::from), namespace: parameter("namespace").map(Str::from) };
        let mut walk = Walk {
            store: self.store.clone(),
            listers: self.listers(),
            wanted,
            revisions: (from, to),
            found: VecDeque::new(),
            next: Some(from + 1),
        };
        // What can be refused is refused before the answer begins.
        walk.read().await.map_err(status_of)?;
        Ok(walk)
    }
}

impl Walk {
    /// Reads the next part.
    async fn read(&mut self) -> Result<(), Error> {
        let Some(next) = self.next else { return Ok(()) };
        let Part { keys, next } = self.store.differences("/".into(), self.revisions, next).await?;
        self.found.extend(keys);
        self.next = next;
        Ok(())
    }

    /// The next line; `None` at the end.
    async fn line(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            let Some(found) = self.found.pop_front() else {
                if self.next.is_none() {
                    return Ok(None);
                }
                self.read().await?;
                continue;
            };
            if let Some(line) = self.tell(&found).await? {
                return Ok(Some(line));
            }
        }
    }

    /// The lister of a key, and the namespace and the name in it.
    fn place<'k>(&self, key: &'k str) -> Option<(&Arc<Lister>, &'k str, &'k str)> {
        let mut ends = key.rmatch_indices('/').map(|(at, _)| at + 1);
        let (lister, rest) = ends.find_map(|at| Some((self.listers.get(&key[..at])?, &key[at..])))?;
        let (namespace, name) = if lister.row.namespaced { rest.split_once('/')? } else { ("", rest) };
        Some((lister, namespace, name))
    }

    async fn tell(&self, found: &Difference) -> Result<Option<Bytes>, BodyError> {
        let place = self.place(&found.key);
        let (resource, namespace) = place.map_or((None, ""), |(lister, namespace, _)| {
            (Some(Str::from(lister.group_resource().to_string())), namespace)
        });
        if self.wanted.resource.is_some() && self.wanted.resource != resource
            || self.wanted.namespace.as_ref().is_some_and(|wanted| *wanted != namespace)
        {
            return Ok(None);
        }
        let mut line = object! {
            "verb" => match (found.before, found.after) {
                (None, _) => "create",
                (_, None) => "delete",
                _ => "update",
            },
        };
        let Some((lister, namespace, name)) = place else {
            // What the server keeps for itself, or of a definition that is gone.
            line.set(&["key"], &*found.key);
            return Ok(Some(finish(line, found)));
        };
        line.set(&["group"], lister.row.group.as_str());
        line.set(&["resource"], lister.row.plural.as_str());
        if lister.row.namespaced {
            line.set(&["namespace"], namespace);
        }
        line.set(&["name"], name);
        let (before, after) =
            (read(lister, &found.key, found.before).await?, read(lister, &found.key, found.after).await?);
        if let Some(uid) = after.as_ref().or(before.as_ref()).and_then(|text| scan::text(text, &["metadata", "uid"])) {
            line.set(&["uid"], &*uid);
        }
        if let Some(after) = after {
            let large = after.len() + before.as_ref().map_or(0, Bytes::len) > offload::INLINE;
            let managers = match large {
                true => spawn_blocking(move || managers(before.as_ref(), &after)).await?,
                false => managers(before.as_ref(), &after),
            };
            line.set(&["managers"], Value::from(managers));
        }
        Ok(Some(finish(line, found)))
    }
}

fn finish(mut line: Value, found: &Difference) -> Bytes {
    line.set(&["resourceVersion"], found.revision.to_string());
    if let Some(written) = found.written {
        line.set(&["time"], Timestamp::from(written).text(TimeForm::Micros));
    }
    [json::encode(&line), b"\n".to_vec()].concat().into()
}

/// An object as a revision wrote it; `None` if it cannot be read.
async fn read(lister: &Lister, key: &str, revision: Option<Revision>) -> Result<Option<Bytes>, BodyError> {
    let Some(revision) = revision else { return Ok(None) };
    let found = lister.cache().get(key, ReadAt::Exact(revision)).await?;
    Ok(found.as_ref().and_then(CacheEntry::object).map(|object| object.bytes().clone()))
}

/// The managers that have set fields, and when: those whose entry is new, is of another time or has more fields than before.
/// One that has lost fields to others has done nothing.
fn managers(before: Option<&Bytes>, after: &Bytes) -> Vec<Value> {
    const KEY: [&str; 4] = ["manager", "operation", "subresource", "apiVersion"];
    let entries = |text: &Bytes| -> Vec<Value> {
        let fields = scan::field(text, &["metadata", "managedFields"]).and_then(|fields| json::decode(fields).ok());
        fields.as_ref().and_then(Value::as_array).map(<[Value]>::to_vec).unwrap_or_default()
    };
    let key = |entry: &Value| KEY.map(|member| entry.str_at(&[member]).unwrap_or_default().to_owned());
    let fields =
        |entry: &Value| FieldSet::from_value(entry.get("fieldsV1").unwrap_or(&Value::Null)).unwrap_or_default();
    let before = before.map(entries).unwrap_or_default();
    let known: HashMap<_, &Value> = before.iter().map(|entry| (key(entry), entry)).collect();
    let has_acted = |entry: &Value| {
        known.get(&key(entry)).is_none_or(|old| {
            old.get("time") != entry.get("time") || !fields(entry).difference(&fields(old)).is_empty()
        })
    };
    let told = entries(after).into_iter().filter(has_acted).map(|entry| {
        let mut told = object! {};
        for member in KEY.into_iter().chain(["time"]) {
            if let Some(value) = entry.get(member) {
                told.set(&[member], value.clone());
            }
        }
        told
    });
    told.collect()
}

fn status_of(error: Error) -> Status {
    match error {
        Error::Compacted { .. } => Status::compacted_list(),
        Error::FutureRevision { asked, current } => Status::too_large_resource_version(asked, current, 1),
        error => Status::service_unavailable(error.to_string()),
    }
}

#[async_trait]
impl Endpoint for Differences {
    async fn serve(&self, request: Request) -> Result<Response, Status> {
        if request.method != Method::GET {
            return Err(Status::method_not_allowed());
        }
        let wanted = resource_info("diff", "internal.apiserver.k8s.io", "v1", "embeddedstores");
        authorize_info(&*request.authorizer, &wanted, &request.user).await?;
        let walk = self.walk(&request).await?;
        let lines = stream::try_unfold(walk, |mut walk| async move {
            let line = walk.line().await?;
            Ok::<_, BodyError>(line.map(|line| (line, walk)))
        });
        Ok(response::bytes(StatusCode::OK, "application/jsonl", Body::stream(lines)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managers_are_told_that_have_set_fields() {
        let object = |entries: &str| Bytes::from(format!(r#"{{"metadata":{{"managedFields":[{entries}]}}}}"#));
        let entry = |manager: &str, time: u8, fields: &str| {
            format!(
                r#"{{"manager":"{manager}","operation":"Apply","time":"2026-01-01T00:00:0{time}Z","fieldsV1":{{{fields}}}}}"#
            )
        };
        let (x, y, both) = (r#""f:x":{}"#, r#""f:y":{}"#, r#""f:x":{},"f:y":{}"#);
        let before =
            object(&[("a", x), ("b", x), ("c", x), ("e", both), ("f", x)].map(|(m, f)| entry(m, 1, f)).join(","));
        let after = [("a", 1, x), ("b", 2, x), ("d", 2, y), ("e", 1, y), ("f", 1, both)];
        let after = object(&after.map(|(manager, time, fields)| entry(manager, time, fields)).join(","));
        let names = |managers: Vec<Value>| -> Vec<String> {
            managers.iter().map(|m| m.str_at(&["manager"]).unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(names(managers(Some(&before), &after)), ["b", "d", "f"]);
        assert_eq!(names(managers(None, &after)), ["a", "b", "d", "e", "f"]);
        assert!(managers(Some(&before), &object("")).is_empty());
        assert!(managers(None, &Bytes::from_static(b"no JSON")).is_empty());
    }
}
