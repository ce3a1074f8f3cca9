//! Objects in versions other than the one that they are stored in.
//!
//! What an object is converted to is kept beside it, so that it is converted once for all who read or watch it.

use std::{iter::Peekable, sync::Arc, vec};

use bytes::Bytes;
use futures_util::{StreamExt, stream, stream::BoxStream};
use machinery::{Str, Value, meta::status::Status};
use storage::cache::{Fields, FormId, Labels, Object};
use tokio::sync::Semaphore;

use super::{Lister, codec};
use crate::resource::{Conversion, Converter, RemoteConversion, Resource};

/// So many numbers are there for the forms of one version.
const FORMS: u32 = 32;
/// How many objects are sent to be converted at once, and how many bytes of them.
const BATCH_OBJECTS: usize = 200;
const BATCH_BYTES: usize = 2 << 20;
/// How many batches of a list are under way at once.
const BATCHES: usize = 2;
/// Where an object says which state it is; what is stored does not.
const RESOURCE_VERSION: [&str; 2] = ["metadata", "resourceVersion"];
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
#[derive(Clone)]
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
    pub fn of(row: &Resource, lister: &Lister) -> Option<Self> {
        let converter = row.conversion.clone()?;
        let at = lister.versions().iter().position(|r| r.version == row.version && r.group == row.group);
        let api_version = row.api_version();
        let head = if row.built_in { codec::head } else { codec::custom_head }(&row.kind, &api_version);
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

impl Lister {
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
        let converted = self.ask(version, &**remote, &batch).await?;
        converted.into_iter().next().map(|(_, bytes)| bytes).ok_or_else(|| Status::internal_error("nothing converted"))
    }

    /// The JSON of one object in a version that a rule of this server converts to; `keep`: kept beside the object.
    pub fn by_rule_in_version(&self, version: &VersionForm, object: &Arc<Object>, keep: bool) -> Result<Bytes, Status> {
        match (self.known_in(version, object), &version.converter) {
            (Some(bytes), _) => Ok(bytes),
            (None, Converter::Rule(rule)) => {
                let bytes = self.by_rule(version, &**rule, object)?;
                if keep { self.keep_in(version, object, bytes) } else { Ok(bytes) }
            }
            (None, Converter::Remote(_)) => Err(Status::internal_error("no rule converts the object")),
        }
    }

    /// The JSON of many objects in a version, in their order, batch by batch: of what is not drawn only the next batches
    /// are converted.
    pub fn stream_in_version(
        self: &Arc<Self>,
        version: VersionForm,
        objects: Vec<Arc<Object>>,
    ) -> BoxStream<'static, Result<Vec<Bytes>, Status>> {
        let (lister, version) = (self.clone(), Arc::new(version));
        let mut objects = objects.into_iter().peekable();
        let batches = {
            let (lister, version) = (lister.clone(), version.clone());
            std::iter::from_fn(move || Batch::take(&mut objects, |object| lister.known_in(&version, object)))
        };
        let convert = move |batch| {
            let (lister, version) = (lister.clone(), version.clone());
            async move { lister.batch_in_version(&version, batch).await }
        };
        stream::iter(batches).map(convert).buffered(BATCHES).boxed()
    }

    async fn batch_in_version(&self, version: &VersionForm, batch: Batch) -> Result<Vec<Bytes>, Status> {
        let Batch { mut found, missing } = batch;
        if missing.is_empty() {
            return Ok(found);
        }
        let converted = match &version.converter {
            Converter::Remote(remote) => self.ask(version, &**remote, &missing).await?,
            Converter::Rule(rule) => {
                let convert = |(i, object): (usize, Arc<Object>)| Ok((i, self.by_rule(version, &**rule, &object)?));
                missing.into_iter().map(convert).collect::<Result<_, Status>>()?
            }
        };
        for (i, bytes) in converted {
            found[i] = bytes;
        }
        Ok(found)
    }

    /// What selectors look at in an object that is in this version of the resource.
    pub fn selectable(&self, row: &Resource, bytes: &[u8]) -> Result<(Labels, Fields), Status> {
        codec::selectable(&row.selectable_fields, bytes).map_err(|e| Status::internal_error(e.0))
    }

    /// The JSON of an object that is in no cache.
    pub async fn bytes_in_version(&self, version: &VersionForm, bytes: &Bytes) -> Result<Bytes, Status> {
        if version.is_in(bytes) {
            return Ok(bytes.clone());
        }
        let object = self.decode(bytes)?;
        Ok(version.encode(&self.convert_stored(&version.converter, &version.api_version, object).await?))
    }

    /// An object as it is stored, in the version of a row.
    pub async fn value_in_version(&self, row: &Resource, object: Value) -> Result<Value, Status> {
        match &row.conversion {
            Some(converter) => self.convert_stored(converter, &row.api_version(), object).await,
            None => Ok(object),
        }
    }

    /// An object that a request is about, in the version of a row.
    pub(crate) async fn value_of_request(&self, row: &Resource, object: Value) -> Result<Value, Status> {
        match &row.conversion {
            Some(converter) => self.convert(converter, &row.api_version(), object).await,
            None => Ok(object),
        }
    }

    /// An object, in whichever version of the resource it is, in the version of a row.
    ///
    /// # Errors
    /// What a webhook that converts answers.
    pub async fn value_as(&self, row: &Resource, object: Value) -> Result<Value, Status> {
        let is_in = |row: &Resource| object.str_at(&["apiVersion"]) == Some(&row.api_version());
        if is_in(row) {
            return Ok(object);
        }
        if let Some(remote @ Converter::Remote(_)) = &row.conversion {
            return self.convert(remote, &row.api_version(), object).await;
        }
        let stored = match self.versions().iter().find(|row| is_in(row)) {
            Some(from) => self.in_stored_version(from, object).await?,
            None => object,
        };
        self.value_in_version(row, stored).await
    }

    /// An object, in the version of a row, in the version that objects are stored in.
    pub(super) async fn in_stored_version(&self, row: &Resource, object: Value) -> Result<Value, Status> {
        match &row.conversion {
            None => Ok(object),
            Some(Converter::Rule(rule)) => Ok(rule.to_storage(object)),
            Some(converter) => self.convert_stored(converter, &self.row.api_version(), object).await,
        }
    }

    /// What the store is to hold of an object that was judged, and what that is to readers. Built-in objects are judged in
    /// the version that they are stored in.
    pub(super) async fn to_be_stored(&self, row: &Resource, object: Value) -> Result<(Bytes, Value), Status> {
        let is_stored_version = row.version == self.row.version;
        if self.row.built_in || is_stored_version && !self.row.strategy.leaves_defaults_to_readers(&row.version) {
            return Ok((self.form.encode(&object), object));
        }
        let object = if is_stored_version { object } else { self.in_stored_version(row, object).await? };
        self.form.encode_bare(object).map_err(|e| Status::internal_error(e.0))
    }

    async fn convert(&self, converter: &Converter, api_version: &str, object: Value) -> Result<Value, Status> {
        if object.str_at(&["apiVersion"]) == Some(api_version) {
            return Ok(object);
        }
        match converter {
            Converter::Rule(rule) => Ok(rule.from_storage(object)),
            Converter::Remote(remote) => {
                let converted = remote.convert(vec![object], api_version).await?;
                converted.into_iter().next().ok_or_else(|| Status::internal_error("nothing converted"))
            }
        }
    }

    /// Converts on the way out of the store or into it, where objects have no resourceVersion.
    async fn convert_stored(
        &self,
        converter: &Converter,
        api_version: &str,
        mut object: Value,
    ) -> Result<Value, Status> {
        let revision = object.remove_at(&RESOURCE_VERSION);
        let mut converted = self.convert(converter, api_version, object).await?;
        if let Some(revision) = revision {
            converted.set(&RESOURCE_VERSION, revision);
        }
        Ok(converted)
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
    ) -> Result<Vec<(usize, Bytes)>, Status> {
        let bare = |(_, object): &(usize, Arc<Object>)| {
            let mut value = self.decode(object.bytes())?;
            value.remove_at(&RESOURCE_VERSION);
            Ok(value)
        };
        let values = batch.iter().map(bare).collect::<Result<Vec<_>, Status>>()?;
        let converted = remote.convert(values, &version.api_version).await?;
        let kept = batch.iter().zip(converted).map(|((i, object), mut value)| {
            value.set(&RESOURCE_VERSION, object.revision().to_string());
            Ok((*i, self.keep_in(version, object, version.encode(&value))?))
        });
        kept.collect()
    }
}

/// Objects that are converted together: neither too many nor too large.
struct Batch {
    /// The JSON of each, where it is known; else nothing yet.
    found: Vec<Bytes>,
    /// The others, by their position.
    missing: Vec<(usize, Arc<Object>)>,
}

impl Batch {
    /// The next one; `None` at the end.
    fn take(
        objects: &mut Peekable<vec::IntoIter<Arc<Object>>>,
        known: impl Fn(&Arc<Object>) -> Option<Bytes>,
    ) -> Option<Batch> {
        objects.peek()?;
        let mut batch = Batch { found: Vec::new(), missing: Vec::new() };
        let mut room = BATCH_BYTES;
        let fits = |object: &Arc<Object>, batch: &Batch, room: usize| {
            batch.found.is_empty() || batch.missing.len() < BATCH_OBJECTS && object.bytes().len() <= room
        };
        while let Some(object) = objects.next_if(|object| fits(object, &batch, room)) {
            room = room.saturating_sub(object.bytes().len());
            let bytes = known(&object);
            if bytes.is_none() {
                batch.missing.push((batch.found.len(), object));
            }
            batch.found.push(bytes.unwrap_or_default());
        }
        Some(batch)
    }
}
