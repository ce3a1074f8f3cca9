//! How objects stand in the store, and how stored bytes become what is sent.
//!
//! An object is stored as JSON that starts with its kind and apiVersion (so that a list can send the rest alone) and
//! carries no resourceVersion. That is spliced in once, at the end of the metadata, when the revision is known. Custom
//! resources are stored in the same way and sent with their apiVersion first, as upstream does.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use machinery::{
    Str, Value,
    codec::{cbor, json, protobuf, scan},
    meta::GroupVersion,
    schema::{self, LazySchema, Shape},
};
use storage::{
    Revision,
    cache::{Decode, DecodeError, Decoded, Fields, Labels},
    encrypt,
};

use crate::resource::{Conversion, Converter, Resource, SelectableField, Strategy};

/// What upstream's protobuf begins with.
const PROTOBUF: &[u8] = b"k8s\0";

/// The stored form of one resource.
pub struct StoredForm {
    /// `{"kind":"K","apiVersion":"V",` which every object starts with.
    head: Bytes,
    kind: Str,
    api_version: Str,
    fields: Vec<SelectableField>,
    /// Ways from other versions, by apiVersion.
    conversions: Vec<(Str, Arc<dyn Conversion>)>,
    strategy: Arc<dyn Strategy>,
    schema: LazySchema,
    custom: Option<Custom>,
}

/// What reading stored custom resources needs.
struct Custom {
    versions: Vec<CustomVersion>,
    /// Objects written later than this revision were written in the schemas as they are now.
    settled: Revision,
}

/// A version that custom resources may be stored in.
struct CustomVersion {
    head: Bytes,
    /// What they start with when they are sent; as long as `head`.
    sent: Bytes,
    api_version: Str,
    schema: LazySchema,
}

/// The way from a row's version.
fn rule_of(row: &Resource) -> Option<(Str, Arc<dyn Conversion>)> {
    match &row.conversion {
        Some(Converter::Rule(rule)) => Some((row.api_version(), rule.clone())),
        _ => None,
    }
}

impl StoredForm {
    /// The form of a row's objects in its storage version. `versions`: the rows of all versions, which tell how to read
    /// what was stored in another one.
    pub fn new(row: &Resource, versions: &[Resource]) -> Self {
        let GroupVersion { group, version } = &row.storage_version;
        let api_version = if group.is_empty() { version.clone() } else { Str::from(format!("{group}/{version}")) };
        StoredForm {
            head: head(&row.kind, &api_version),
            kind: row.kind.clone(),
            api_version,
            fields: row.selectable_fields.clone(),
            conversions: versions.iter().filter_map(rule_of).collect(),
            strategy: row.strategy.clone(),
            schema: row.schema.clone(),
            custom: None,
        }
    }

    /// The form of custom resources: each is in the version that it was stored in, which may be any of `versions`. Those
    /// written up to `settled` may be of another schema.
    pub fn custom(row: &Resource, versions: &[Resource], settled: Revision) -> Self {
        let version = |row: &Resource| {
            let api_version = row.api_version();
            let (head, sent) = (head(&row.kind, &api_version), custom_head(&row.kind, &api_version));
            CustomVersion { head, sent, api_version, schema: row.schema.clone() }
        };
        let custom = Custom { versions: versions.iter().map(version).collect(), settled };
        StoredForm { custom: Some(custom), ..StoredForm::new(row, &[]) }
    }

    /// What a custom resource starts with when it is sent, if not with what it starts with here.
    fn sent_head(&self, stored: &[u8]) -> Option<&Bytes> {
        let mut versions = self.custom.iter().flat_map(|custom| &custom.versions);
        versions.find(|version| stored.starts_with(&version.head)).map(|version| &version.sent)
    }

    /// Whether bytes start as this server has written them.
    fn is_own(&self, stored: &[u8]) -> bool {
        let other = |custom: &Custom| custom.versions.iter().any(|version| stored.starts_with(&version.head));
        stored.starts_with(&self.head) || self.custom.as_ref().is_some_and(other)
    }

    /// What an object starts with.
    fn head_of(&self, object: &Value) -> &Bytes {
        let other = || {
            let found = object.str_at(&["apiVersion"])?;
            self.custom.as_ref()?.versions.iter().find(|version| version.api_version == found)
        };
        other().map_or(&self.head, |version| &version.head)
    }

    /// What every object starts with; a list of built-in objects sends the rest behind a `{`.
    pub fn head(&self) -> &Bytes {
        &self.head
    }

    /// Encodes an object for the store.
    pub fn encode(&self, object: &Value) -> Bytes {
        encode_after(self.head_of(object), object, false)
    }

    /// Encodes an object that is sent and was not stored, with the version that it came with.
    pub fn encode_unstored(&self, object: &Value) -> Bytes {
        let head = self.head_of(object);
        encode_after(self.sent_head(head).unwrap_or(head), object, true)
    }

    /// Encodes a custom resource that came from another version. It has the defaults of that version, not those of its
    /// own, and is stored so: whoever reads it finds them in the schema of then, told by the order of its first members.
    /// Answers the bytes, and what they are to readers.
    pub fn encode_bare(&self, object: Value) -> Result<(Bytes, Value), DecodeError> {
        let mut read = object.clone();
        if let Some(custom) = &self.custom {
            custom.bring_up_to_date(&mut read)?;
        }
        if read == object {
            return Ok((self.encode(&object), object));
        }
        let mut bare = object;
        bare.remove_at(&["metadata", "resourceVersion"]);
        Ok((json::encode(&bare).into(), read))
    }

    /// Whether stored bytes hold the same object as others do, however they are written.
    pub fn same(&self, stored: &[u8], other: &[u8]) -> bool {
        let read = |bytes: &[u8]| {
            let mut object = match bytes.starts_with(cbor::SELF_DESCRIBED) {
                true => cbor::decode(bytes).ok()?,
                false => json::decode(bytes).ok()?,
            };
            object.remove_at(&["metadata", "resourceVersion"]);
            Some(object)
        };
        stored == other || read(stored).is_some_and(|stored| Some(stored) == read(other))
    }

    /// Splices the revision into stored bytes.
    pub fn with_revision(&self, stored: &Bytes, revision: Revision) -> Result<Bytes, DecodeError> {
        Ok(self.read(stored, revision)?.bytes)
    }

    fn read(&self, stored: &Bytes, revision: Revision) -> Result<Decoded, DecodeError> {
        let unsettled = self.custom.as_ref().is_some_and(|custom| revision <= custom.settled);
        if unsettled || !self.is_own(stored) {
            return self.read_form(&self.rewrite(stored)?, revision);
        }
        self.read_form(stored, revision)
    }

    fn read_form(&self, stored: &Bytes, revision: Revision) -> Result<Decoded, DecodeError> {
        let (metadata, fields) = metadata_and_fields(&self.fields, stored)?;
        let end = metadata.range.end - 1; // before the closing brace
        let empty = stored[metadata.range.start + 1..end].iter().all(u8::is_ascii_whitespace);
        let mut bytes = BytesMut::with_capacity(stored.len() + 42);
        let sent_head = self.sent_head(stored).map_or(&[][..], |head| head);
        bytes.put_slice(sent_head);
        bytes.put_slice(&stored[sent_head.len()..end]);
        if !empty {
            bytes.put_u8(b',');
        }
        bytes.put_slice(b"\"resourceVersion\":\"");
        let start = bytes.len();
        bytes.put_slice(revision.to_string().as_bytes());
        let version_at = start..bytes.len();
        bytes.put_u8(b'"');
        bytes.put_slice(&stored[end..]);
        Ok(Decoded { bytes: bytes.freeze(), version_at, labels: labels(&metadata), fields })
    }

    /// Brings bytes of another writer (protobuf, CBOR, another member order, another version, a resourceVersion within) into
    /// this form.
    fn rewrite(&self, stored: &[u8]) -> Result<Bytes, DecodeError> {
        if let Some(why) = encrypt::broken(stored) {
            return Err(DecodeError(why.to_owned()));
        }
        let mut object = if stored.starts_with(PROTOBUF) {
            self.read_protobuf(stored)?
        } else if stored.starts_with(cbor::SELF_DESCRIBED) {
            cbor::decode(stored).map_err(|e| DecodeError(e.to_string()))?
        } else {
            json::decode(stored).map_err(|e| DecodeError(e.to_string()))?
        };
        self.convert(&mut object);
        let api_version = match &self.custom {
            Some(custom) => &custom.bring_up_to_date(&mut object)?.api_version,
            None => &self.api_version,
        };
        let text = |key| object.get(key).and_then(Value::as_str).unwrap_or("");
        if text("kind") != self.kind || text("apiVersion") != api_version {
            let found = format!("{} {}", text("apiVersion"), text("kind"));
            return Err(DecodeError(format!("found {found:?}, expected {} {}", self.api_version, self.kind)));
        }
        Ok(self.encode(&object))
    }

    /// Reads upstream's protobuf. What is of a version that nobody serves is read as the one that is.
    fn read_protobuf(&self, stored: &[u8]) -> Result<Value, DecodeError> {
        let read = protobuf::decode(stored).or_else(|error| match self.schema.shape {
            Shape::Ref(id) => protobuf::decode_as(id, stored),
            _ => Err(error),
        });
        read.map_err(|error| DecodeError(error.to_string()))
    }

    /// From another version of the kind into the stored one.
    fn convert(&self, object: &mut Value) {
        let found = Str::from(object.str_at(&["apiVersion"]).unwrap_or(""));
        let group = |api_version: &str| api_version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
        if found == self.api_version || self.custom.is_some() || group(&found) != group(&self.api_version) {
            return;
        }
        match self.conversions.iter().find(|(version, _)| *version == found) {
            Some((_, conversion)) => *object = conversion.to_storage(std::mem::take(object)),
            None => self.strategy.upgrade(object),
        }
        object.make_object().insert("apiVersion", &self.api_version);
    }
}

impl Custom {
    /// Prunes and defaults what an older schema of the object's version let be. What cannot be read as metadata stays as
    /// it is. Answers the version.
    fn bring_up_to_date(&self, object: &mut Value) -> Result<&CustomVersion, DecodeError> {
        let found = object.str_at(&["apiVersion"]).unwrap_or("");
        let version = self.versions.iter().find(|version| version.api_version == found);
        let version = version
            .ok_or_else(|| DecodeError(format!("request to convert CR from an invalid group/version: {found}")))?;
        if schema::read_custom(&version.schema, object).is_err() {
            schema::prune(&version.schema, object);
        }
        if object.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0) == 0 {
            object.set(&["metadata", "generation"], 1);
        }
        Ok(version)
    }
}

impl Decode for StoredForm {
    fn decode(&self, _key: &str, value: &Bytes, revision: Revision) -> Result<Decoded, DecodeError> {
        self.read(value, revision)
    }
}

/// Encodes an object, but for kind and apiVersion, behind a head that has them.
pub(super) fn encode_after(head: &[u8], object: &Value, with_revision: bool) -> Bytes {
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(head);
    let members = object.as_object().into_iter().flatten();
    for (key, value) in members.filter(|(k, _)| k != "kind" && k != "apiVersion") {
        json::write_string(&mut out, key);
        out.push(b':');
        match value {
            Value::Object(metadata)
                if !with_revision && key == "metadata" && metadata.contains_key("resourceVersion") =>
            {
                let mut metadata = metadata.clone();
                metadata.remove("resourceVersion");
                json::encode_into(&mut out, &Value::Object(metadata));
            }
            value => json::encode_into(&mut out, value),
        }
        out.push(b',');
    }
    out.pop(); // the last comma: of a member, or of the head
    out.push(b'}');
    out.into()
}

/// `{"kind":"K","apiVersion":"V",`
pub(super) fn head(kind: &str, api_version: &str) -> Bytes {
    let mut out = b"{\"kind\":".to_vec();
    json::write_string(&mut out, kind);
    out.extend_from_slice(b",\"apiVersion\":");
    json::write_string(&mut out, api_version);
    out.push(b',');
    out.into()
}

/// `{"apiVersion":"V","kind":"K",`: what custom resources start with when they are sent.
pub(super) fn custom_head(kind: &str, api_version: &str) -> Bytes {
    let mut out = b"{\"apiVersion\":".to_vec();
    json::write_string(&mut out, api_version);
    out.extend_from_slice(b",\"kind\":");
    json::write_string(&mut out, kind);
    out.push(b',');
    out.into()
}

/// What selectors look at in an object's JSON: its labels, and the values of these fields.
pub(super) fn selectable(fields: &[SelectableField], bytes: &[u8]) -> Result<(Labels, Fields), DecodeError> {
    let (metadata, fields) = metadata_and_fields(fields, bytes)?;
    Ok((labels(&metadata), fields))
}

fn metadata_and_fields<'a>(
    fields: &[SelectableField],
    bytes: &'a [u8],
) -> Result<(scan::MetaRef<'a>, Fields), DecodeError> {
    let paths: Vec<&[Str]> = fields.iter().flat_map(|field| &field.paths).map(Vec::as_slice).collect();
    let (metadata, found) =
        scan::metadata_and_fields(bytes, &paths).ok_or_else(|| DecodeError("no metadata".into()))?;
    let mut found = found.into_iter();
    let fields = fields.iter().map(|field| select(field, found.by_ref().take(field.paths.len()))).collect();
    Ok((metadata, fields))
}

fn labels(metadata: &scan::MetaRef<'_>) -> Labels {
    metadata.labels.iter().map(|(k, v)| (Str::from(&**k), Str::from(&**v))).collect()
}

/// A selectable field's text: of what stands at its places the first that is not empty.
fn select<'a>(field: &SelectableField, places: impl Iterator<Item = Option<&'a [u8]>>) -> Str {
    let text = |raw: &[u8]| match json::decode(raw) {
        Ok(Value::String(text)) => text,
        Ok(Value::Null) | Err(_) => Str::default(),
        Ok(_) => String::from_utf8_lossy(raw).into_owned().into(),
    };
    // All places are drawn: the next field's come after them.
    let found = places.map(|raw| raw.map(text)).collect::<Vec<_>>();
    found.into_iter().flatten().find(|text| !text.is_empty()).unwrap_or_else(|| field.default.clone())
}
