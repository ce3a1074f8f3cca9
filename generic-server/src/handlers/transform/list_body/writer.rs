//! Writes items in the form and the encoding that were agreed on.

use std::sync::Arc;

use bytes::Bytes;
use machinery::{
    Value,
    codec::{cbor, json, protobuf, yaml},
    meta::status::Status,
};
use storage::cache::{FormId, Object};

use super::{
    super::{View, decode},
    items::Item,
};
use crate::{
    negotiate::{Form, Media},
    registry::{Lister, VersionForm},
};

/// Of the numbers noted of an object: 1 if its text is known to be JSON, or the size of its message.
pub(super) const NOTE_WHOLE: usize = 0;
pub(super) const SOUND: u32 = 1;
/// The size of its metadata's message.
const NOTE_METADATA: usize = 1;

/// Writes items in the form that was agreed on.
pub(super) struct Writer {
    pub(super) view: View,
    pub(super) lister: Arc<Lister>,
    /// Whether other forms of the objects are kept beside them.
    pub(super) keep: bool,
    /// What ages in tables are counted from, in seconds.
    pub(super) now: i64,
}

impl Writer {
    /// Appends an item.
    pub(super) fn write(&self, item: &Item, first: bool, out: &mut Vec<u8>) -> Result<(), Status> {
        let (accepted, built_in) = (self.view.accepted, self.view.entry.row.built_in);
        if accepted.media == Media::Protobuf {
            protobuf::put_item(out, &self.message(item)?);
            return Ok(());
        }
        let json = self.json(item)?;
        if accepted.media == Media::Yaml {
            out.extend(yaml::encode(&Value::from(vec![self.value(&json)?])));
            return Ok(());
        }
        if accepted.media == Media::Cbor {
            let whole = built_in && matches!(accepted.form, Form::Whole | Form::Aggregated);
            cbor::put(out, &self.value(&json)?, whole.then(|| &*self.view.entry.row.schema));
            return Ok(());
        }
        if !first {
            out.push(b',');
        }
        match accepted.form {
            _ if accepted.pretty => {
                out.extend_from_slice(b"\n    ");
                json::encode_part_into(out, part_of(accepted.form), &self.value(&json)?, Some(2));
            }
            Form::Whole | Form::Aggregated if built_in => {
                let skip = self.view.version.as_ref().map_or(self.lister.head_len(), VersionForm::head_len);
                out.push(b'{');
                out.extend_from_slice(json.get(skip..).unwrap_or_default());
            }
            Form::Whole | Form::Aggregated => out.extend_from_slice(&json),
            Form::MetadataList { beta } | Form::Metadata { beta } => {
                out.extend_from_slice(&self.view.metadata_document(&json, beta)?);
            }
            Form::Table { .. } => json::encode_part_into(out, json::Part::Row, &self.value(&json)?, None),
        }
        Ok(())
    }

    /// Whether a text is made by way of a tree.
    pub(super) fn parses(&self) -> bool {
        let accepted = self.view.accepted;
        let made = accepted.pretty || matches!(accepted.media, Media::Yaml | Media::Cbor);
        let text = accepted.media != Media::Protobuf;
        text && (made || self.view.version.is_some() || matches!(accepted.form, Form::Table { .. }))
    }

    /// The JSON of an object in the version asked for.
    fn json(&self, item: &Item) -> Result<Bytes, Status> {
        match item {
            Item::Json(json) | Item::Message(json) => Ok(json.clone()),
            Item::Cached(object) => match &self.view.version {
                Some(version) => self.lister.by_rule_in_version(version, object, self.keep),
                None => Ok(object.bytes().clone()),
            },
        }
    }

    /// The tree of an item of a text.
    fn value(&self, json: &Bytes) -> Result<Value, Status> {
        match self.view.accepted.form {
            Form::Table { .. } => Ok(self.view.table_row(&decode(json)?, self.now)),
            Form::MetadataList { beta } | Form::Metadata { beta } => decode(&self.view.metadata_document(json, beta)?),
            Form::Whole | Form::Aggregated => {
                let mut value = decode(json)?;
                if self.view.entry.row.built_in {
                    let object = value.make_object();
                    object.remove("kind");
                    object.remove("apiVersion");
                }
                Ok(value)
            }
        }
    }

    /// The message of an item: as it is kept beside the object, or made.
    pub(super) fn message(&self, item: &Item) -> Result<Bytes, Status> {
        let object = match item {
            Item::Message(message) => return Ok(message.clone()),
            Item::Json(json) => return self.make_message(json).map(Bytes::from),
            Item::Cached(object) => object,
        };
        let Some(form) = self.view.item_form() else { return self.make_message(&self.json(item)?).map(Bytes::from) };
        let cache = self.lister.cache();
        let kept = match cache.kept_form(object, form) {
            Some(kept) => kept,
            None if self.keep => cache.form(object, form, |_| self.view.encode_one(&self.json(item)?, true))?,
            None => return self.make_message(&self.json(item)?).map(Bytes::from),
        };
        let message = protobuf::envelope(&kept).map_err(Status::internal_error)?.raw;
        Ok(kept.slice_ref(message))
    }

    fn make_message(&self, json: &Bytes) -> Result<Vec<u8>, Status> {
        let value = match self.view.accepted.form {
            Form::MetadataList { beta } | Form::Metadata { beta } => decode(&self.view.metadata_document(json, beta)?)?,
            _ => decode(json)?,
        };
        protobuf::message_of(&value).map_err(Status::internal_error)
    }

    /// The size of a cached object's message: once known it is noted, for it does not change.
    pub(super) fn message_len(&self, object: &Arc<Object>) -> Result<usize, Status> {
        let whole = matches!(self.view.accepted.form, Form::Whole | Form::Aggregated);
        let which = if whole { NOTE_WHOLE } else { NOTE_METADATA };
        let stored = self.view.is_stored();
        match object.note(which) {
            len if stored && len > SOUND => return Ok(len as usize),
            _ => {}
        }
        let len = self.message(&Item::Cached(object.clone()))?.len();
        if stored && let Ok(len) = u32::try_from(len) {
            object.set_note(which, len);
        }
        Ok(len)
    }
}

impl View {
    /// The kept form that has the message of a list's item: that of a single object.
    fn item_form(&self) -> Option<FormId> {
        let form = match self.accepted.form {
            Form::MetadataList { beta } => Form::Metadata { beta },
            form => form,
        };
        self.form_id_of(form)
    }
}

/// What an item of a list is, for its members' order.
fn part_of(form: Form) -> json::Part {
    match form {
        Form::Table { .. } => json::Part::Row,
        Form::MetadataList { .. } | Form::Metadata { .. } => json::Part::Metadata,
        Form::Whole | Form::Aggregated => json::Part::Object,
    }
}
