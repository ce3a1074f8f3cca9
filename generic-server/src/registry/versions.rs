//! Objects in versions other than the one that they are stored in.
//!
//! What an object is converted to is kept beside it, so that it is converted once for all who read or watch it.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use machinery::{Str, Value, meta::status::Status};
use storage::cache::{FormId, Object};
use tokio::sync::Semaphore;

use super::{Registry, codec};
use crate::resource::{Conversion, Converter, RemoteConversion, Resource};

/// So many numbers are there for the forms of one version.
const FORMS: u32 = 32;
/// How many objects are sent to be converted at once, and how many bytes of them.
const BATCH_OBJECTS: usize = 200;
const BATCH_BYTES: usize = 2 << 20;
/// How many batches of a list are under way at once.
const BATCHES: usize = 4;
/// Those who wait for the same object meet at one of so many doors.
const DOORS: usize = 16;

/// Lets one of those who want the same object in the same version ask for it; the others find what it has brought.
pub(super) struct Doors([Semaphore; DOORS]);

impl Default for Doors {
    fn default() -> Self {
        Doors(std::array::from_fn(|_| Semaphore::new(1)))
    }
}

/// What objects look like in the version of a row, where not all are stored in it.
pub struct VersionForm {
    api_version: Str,
    /// What the bytes of objects in this version start with.
    head: Bytes,
    /// From 1 on; tells the forms of this version from those of others.
    number: u32,
    converter: Converter,
}

impl VersionForm {
    /// The form of a row's version; `None` if all objects are stored in it.
    pub fn of(row: &Resource, registry: &Registry) -> Option<Self> {
        let converter = row.conversion.clone()?;
        let at = registry.versions().iter().position(|r| r.version == row.version && r.group == row.group);
        let api_version = row.api_version();
        let head = codec::head(&row.kind, &api_version);
        Some(VersionForm { api_version, head, number: at.map_or(0, |i| i as u32) + 1, converter })
    }

    /// The number of a form of objects in this version, of a few that a version has; 0 is their JSON.
    pub fn form(&self, form: u32) -> FormId {
        FormId(self.number * FORMS + form)
    }

    /// Whether somebody else is asked to convert.
    pub fn is_remote(&self) -> bool {
        matches!(self.converter, Converter::Remote(_))
    }

    /// How long the start is that objects in this version have in common.
    pub fn head_len(&self) -> usize {
        self.head.len()
    }

    /// Whether an object is in this version.
    fn is_in(&self, bytes: &[u8]) -> bool {
        bytes.starts_with(&self.head)
    }

    fn encode(&self, object: &Value) -> Bytes {
        codec::encode_after(&self.head, object, true)
    }
}

impl Registry {
    /// The JSON of one object in a version: its own, what it was converted to before, or what it is converted to now.
    pub async fn in_version(&self, version: &VersionForm, object: &Arc<Object>) -> Result<Bytes, Status> {
        if let Some(bytes) = self.known_in(version, object) {
            return Ok(bytes);
        }
        let remote = match &version.converter {
            Converter::Rule(rule) => return self.keep_in(version, object, self.by_rule(version, &**rule, object)?),
            Converter::Remote(remote) => remote,
        };
        let door = &self.doors.0[object.revision() as usize % DOORS];
        let _turn = door.acquire().await.map_err(Status::internal_error)?;
        if let Some(bytes) = self.known_in(version, object) {
            return Ok(bytes);
        }
        let batch = [(0, object.clone())];
        let converted = self.ask(version, &**remote, &batch, false).await?;
        converted.into_iter().next().map(|(_, bytes)| bytes).ok_or_else(|| Status::internal_error("nothing converted"))
    }

    /// The JSON of many objects in a version, in their order. They are converted in batches.
    pub async fn all_in_version(&self, version: &VersionForm, objects: &[Arc<Object>]) -> Result<Vec<Bytes>, Status> {
        let mut found = Vec::with_capacity(objects.len());
        let mut missing = Vec::new();
        for (i, object) in objects.iter().enumerate() {
            let known = match (self.known_in(version, object), &version.converter) {
                (Some(bytes), _) => bytes,
                (None, Converter::Rule(rule)) => {
                    self.keep_in(version, object, self.by_rule(version, &**rule, object)?)?
                }
                (None, Converter::Remote(_)) => {
                    missing.push((i, object.clone()));
                    Bytes::new()
                }
            };
            found.push(known);
        }
        if let Converter::Remote(remote) = &version.converter {
            let asked = batches(missing)
                .into_iter()
                .map(|batch| async move { self.ask(version, &**remote, &batch, true).await });
            let converted: Vec<Vec<(usize, Bytes)>> = stream::iter(asked).buffered(BATCHES).try_collect().await?;
            for (i, bytes) in converted.into_iter().flatten() {
                found[i] = bytes;
            }
        }
        Ok(found)
    }

    /// The JSON of an object that is in no cache.
    pub async fn bytes_in_version(&self, version: &VersionForm, bytes: &Bytes) -> Result<Bytes, Status> {
        if version.is_in(bytes) {
            return Ok(bytes.clone());
        }
        Ok(version.encode(&self.convert(&version.converter, &version.api_version, self.decode(bytes)?).await?))
    }

    /// An object in the version of a row.
    pub async fn value_in_version(&self, row: &Resource, object: Value) -> Result<Value, Status> {
        match &row.conversion {
            Some(converter) => self.convert(converter, &row.api_version(), object).await,
            None => Ok(object),
        }
    }

    /// An object, in the version of a row, in the version that objects are stored in.
    pub(super) async fn in_stored_version(&self, row: &Resource, object: Value) -> Result<Value, Status> {
        match &row.conversion {
            None => Ok(object),
            Some(Converter::Rule(rule)) => Ok(rule.to_storage(object)),
            Some(converter) => self.convert(converter, &self.row.api_version(), object).await,
        }
    }

    async fn convert(&self, converter: &Converter, api_version: &str, object: Value) -> Result<Value, Status> {
        if object.str_at(&["apiVersion"]) == Some(api_version) {
            return Ok(object);
        }
        match converter {
            Converter::Rule(rule) => Ok(rule.from_storage(object)),
            Converter::Remote(remote) => {
                let converted = remote.convert(vec![object], api_version, false).await?;
                converted.into_iter().next().ok_or_else(|| Status::internal_error("nothing converted"))
            }
        }
    }

    fn known_in(&self, version: &VersionForm, object: &Arc<Object>) -> Option<Bytes> {
        if version.is_in(object.bytes()) {
            return Some(object.bytes().clone());
        }
        self.cache().kept_form(object, version.form(0))
    }

    fn keep_in(&self, version: &VersionForm, object: &Arc<Object>, bytes: Bytes) -> Result<Bytes, Status> {
        self.cache().form(object, version.form(0), |_| Ok(bytes))
    }

    fn by_rule(&self, version: &VersionForm, rule: &dyn Conversion, object: &Object) -> Result<Bytes, Status> {
        Ok(version.encode(&rule.from_storage(self.decode(object.bytes())?)))
    }

    /// Has a batch converted, and keeps what comes of it.
    async fn ask(
        &self,
        version: &VersionForm,
        remote: &dyn RemoteConversion,
        batch: &[(usize, Arc<Object>)],
        list: bool,
    ) -> Result<Vec<(usize, Bytes)>, Status> {
        let values = batch.iter().map(|(_, object)| self.decode(object.bytes())).collect::<Result<Vec<_>, _>>()?;
        let converted = remote.convert(values, &version.api_version, list).await?;
        let kept = batch
            .iter()
            .zip(converted)
            .map(|((i, object), value)| Ok((*i, self.keep_in(version, object, version.encode(&value))?)));
        kept.collect()
    }
}

/// Objects in batches that are neither too many nor too large.
fn batches(objects: Vec<(usize, Arc<Object>)>) -> Vec<Vec<(usize, Arc<Object>)>> {
    let mut batches: Vec<Vec<_>> = Vec::new();
    let mut room = 0;
    for item in objects {
        let size = item.1.bytes().len();
        match batches.last_mut().filter(|batch| batch.len() < BATCH_OBJECTS && size <= room) {
            Some(batch) => {
                room -= size;
                batch.push(item);
            }
            None => {
                room = BATCH_BYTES.saturating_sub(size);
                batches.push(vec![item]);
            }
        }
    }
    batches
}
