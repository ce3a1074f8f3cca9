//! managedFields: who set which field. The bridge between writes and the apply engine.

use std::cell::RefCell;

use async_trait::async_trait;
use bytes::Bytes;
use machinery::{
    Str, Value,
    codec::{cbor, yaml},
    meta::{
        GroupResource, GvkRef, TimeForm, Timestamp,
        status::{Cause, Status},
    },
    patch::apply::{self, ApplyError, ConvertError, Versions},
    schema::{self, Schema, builtin},
};

use crate::{
    decode,
    metrics::keep_times_timed,
    negotiate::Media,
    options::{FieldValidation, WriteOptions},
    registry::{Change, Registry, Write},
    resource::{Converter, Resource},
};

/// The versions that a stored resource is served in: to compare what was set through one with what is set through another.
///
/// The engine is pure, but a conversion may have to be asked for. Then the engine is told that it failed, and runs once
/// more when the answer is there.
struct Siblings<'a> {
    rows: &'a [Resource],
    answers: &'a [Answer],
    asked: RefCell<Option<Question>>,
}

/// An object, its version, and the one that it is wanted in.
#[derive(Clone, PartialEq)]
struct Question {
    object: Value,
    from: Str,
    to: Str,
}

/// A question, and what came of it.
type Answer = (Question, Result<Value, ConvertError>);

const UNSERVED: ConvertError = ConvertError(Str::new_static("a version that is not served"));

/// More conversions than this are not asked for on behalf of one write.
const MAX_QUESTIONS: usize = 64;

impl Siblings<'_> {
    fn row(&self, version: &str) -> Option<&Resource> {
        self.rows.iter().find(|row| row.api_version() == version)
    }
}

impl Versions for Siblings<'_> {
    fn schema(&self, version: &str) -> Option<&Schema> {
        self.row(version).map(|row| &*row.schema)
    }

    fn convert(&self, object: &Value, from: &str, to: &str) -> Result<Value, ConvertError> {
        let row = |version| self.row(version).ok_or(UNSERVED);
        let (from_row, to_row) = (row(from)?, row(to)?);
        if let (Some(Converter::Remote(_)), _) | (_, Some(Converter::Remote(_))) =
            (&from_row.conversion, &to_row.conversion)
        {
            let question = Question { object: object.clone(), from: from.into(), to: to.into() };
            if let Some((_, answer)) = self.answers.iter().find(|(known, _)| *known == question) {
                return answer.clone();
            }
            *self.asked.borrow_mut() = Some(question);
            return Err(ConvertError(Str::new_static("not known yet")));
        }
        let stored = match &from_row.conversion {
            Some(Converter::Rule(rule)) => rule.to_sibling(object.clone()),
            _ => object.clone(),
        };
        Ok(match &to_row.conversion {
            Some(Converter::Rule(rule)) => rule.from_sibling(stored),
            _ => stored,
        })
    }
}

/// Runs what may need conversions that have to be asked for, until it has all of them.
async fn with_answers<T>(registry: &Registry, mut run: impl FnMut(&Siblings<'_>) -> T) -> T {
    let mut answers: Vec<Answer> = Vec::new();
    loop {
        let siblings = Siblings { rows: registry.versions(), answers: &answers, asked: RefCell::default() };
        let result = run(&siblings);
        let Some(question) = siblings.asked.into_inner() else { return result };
        if answers.len() == MAX_QUESTIONS {
            return result;
        }
        let row = registry.versions().iter().find(|row| row.api_version() == question.to);
        let answer = match row {
            Some(row) => {
                let converted = registry.value_of_request(row, question.object.clone()).await;
                converted.map_err(|status| ConvertError(status.message.into()))
            }
            None => Err(UNSERVED),
        };
        answers.push((question, answer));
    }
}

/// Calls `run` with what the apply engine wants to know of a write.
fn with_write<T>(
    row: &Resource,
    siblings: &Siblings<'_>,
    manager: &str,
    subresource: &str,
    run: impl FnOnce(&apply::Write<'_>) -> T,
) -> T {
    let kind = row.gvk().to_owned();
    let now = Timestamp::now().text(TimeForm::Seconds);
    run(&apply::Write {
        manager,
        subresource,
        kind: &kind,
        now: &now,
        reset: &row.strategy.reset_fields(&row.version, subresource),
        versions: siblings,
    })
}

/// Notes in `new` which fields this write sets. Both objects are in the version of the request.
pub(crate) async fn track(write: &Write<'_>, registry: &Registry, old: Option<&Value>, new: &mut Value) {
    let (row, manager) = (write.row, &write.options.field_manager);
    let mut written = new.clone();
    if row.built_in {
        schema::omit_empty(&row.schema, &mut written);
    }
    let tracked = with_answers(registry, |siblings| {
        let mut tracked = written.clone();
        with_write(row, siblings, manager, write.subresource, |w| {
            apply::track_update(old, &mut tracked, &row.schema, w);
        });
        tracked
    })
    .await;
    match tracked.at(&["metadata", "managedFields"]) {
        Some(managers) => new.set(&["metadata", "managedFields"], managers.clone()),
        None => {
            new.remove_at(&["metadata", "managedFields"]);
        }
    }
    if let Some(old) = old {
        keep_times_timed(old, new);
    }
}

/// Notes which fields a virtual object (a review) came with: it is answered, not stored.
pub fn track_virtual(row: &Resource, options: &WriteOptions, new: &mut Value) {
    let alone = Siblings { rows: &[], answers: &[], asked: RefCell::default() };
    with_write(row, &alone, &options.field_manager, "", |w| apply::track_update(None, new, &row.schema, w));
}

/// Notes which fields a document came with that is posted to a subresource and is of another kind than the resource:
/// (group, version, kind) of a built-in type.
pub fn track_posted(kind: GvkRef<'_>, subresource: &str, options: &WriteOptions, document: &mut Value) {
    let Some(schema) = builtin::schema_of(kind.group, kind.version, kind.kind) else { return };
    let now = Timestamp::now().text(TimeForm::Seconds);
    let write = apply::Write {
        manager: &options.field_manager,
        subresource,
        kind: &kind.to_owned(),
        now: &now,
        reset: &apply::ResetFields::None,
        versions: &apply::OneVersion,
    };
    apply::track_update(None, document, schema, &write);
}

/// Reads an applied configuration: an object (nothing is an empty one), and keys that the document repeats.
pub(crate) fn read_applied(
    bytes: &Bytes,
    media: Media,
    validation: FieldValidation,
) -> Result<(Value, Option<String>), Status> {
    if media == Media::Cbor {
        let config =
            cbor::decode(bytes).map_err(|error| Status::bad_request(format!("error decoding YAML: {error}")))?;
        return Ok((if config.is_null() { Value::object() } else { config }, None));
    }
    let strict = validation != FieldValidation::Ignore;
    let bad =
        |e: yaml::YamlError| Status::bad_request(format!("error decoding YAML: error converting YAML to JSON: {e}"));
    let (config, repeated) =
        if strict { yaml::decode_strict(bytes).map_err(bad)? } else { (yaml::decode(bytes).map_err(bad)?, None) };
    let config = match config {
        Value::Object(_) => config,
        Value::Null => Value::object(),
        other => {
            let found = match other {
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Bool(_) => "bool",
                _ => "number",
            };
            return Err(Status::bad_request(format!(
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go \
                 value of type map[string]interface {{}}"
            )));
        }
    };
    if let (Some(repeated), FieldValidation::Strict) = (&repeated, validation) {
        let text = format!("error strict decoding YAML: error converting YAML to JSON: {repeated}");
        return Err(Status::bad_request(text));
    }
    Ok((config, repeated))
}

/// A server-side apply.
pub struct Apply<'a> {
    row: &'a Resource,
    registry: &'a Registry,
    namespace: &'a str,
    name: &'a str,
    subresource: &'a str,
    options: &'a WriteOptions,
    config: Value,
    /// Keys that the document repeats.
    repeated: Option<String>,
}

impl<'a> Apply<'a> {
    /// Reads the applied configuration.
    pub fn read(
        row: &'a Resource,
        registry: &'a Registry,
        (namespace, name, subresource): (&'a str, &'a str, &'a str),
        (bytes, media): (&Bytes, Media),
        options: &'a WriteOptions,
    ) -> Result<Self, Status> {
        let (config, repeated) = read_applied(bytes, media, options.field_validation)?;
        Ok(Apply { row, registry, namespace, name, subresource, options, config, repeated })
    }

    async fn merged(&self, current: Option<&Value>) -> Result<Value, Status> {
        let manager = &self.options.field_manager;
        let merge = |siblings: &Siblings<'_>| {
            with_write(self.row, siblings, manager, self.subresource, |write| {
                apply::apply(current, &self.config, &self.row.schema, write, self.options.force)
            })
        };
        with_answers(self.registry, merge).await.map_err(refuse)
    }
}

#[async_trait]
impl Change for Apply<'_> {
    async fn apply(&self, current: Option<&Value>, warnings: &mut Vec<String>) -> Result<Option<Value>, Status> {
        if current.is_none() && !self.subresource.is_empty() {
            return Ok(None);
        }
        if let (Some(repeated), FieldValidation::Warn) = (&self.repeated, self.options.field_validation) {
            warnings.extend(decode::repeated_keys(repeated));
        }
        let object = self.merged(current).await?;
        let uid = self.config.str_at(&["metadata", "uid"]).unwrap_or("");
        decode::check_name(&object, self.name)?;
        decode::check_namespace(&object, self.namespace, self.row.namespaced)?;
        if current.is_none() && !uid.is_empty() {
            let resource = GroupResource::new(self.row.group.clone(), self.row.plural.clone());
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(Status::conflict(&resource, self.name, why));
        }
        let (row, kind) = (self.row, self.row.gvk());
        let mut problems = Vec::new();
        let object = decode::conform_applied(row, kind, object, &mut problems).map_err(Status::unknown_error)?;
        match self.options.field_validation {
            FieldValidation::Strict if !problems.is_empty() => {
                return Err(Status::bad_request(format!("strict decoding error: {}", problems.join(", "))));
            }
            FieldValidation::Warn => warnings.extend(problems),
            _ => {}
        }
        Ok(Some(object))
    }

    fn tracks_fields(&self) -> bool {
        true
    }
}

fn refuse(error: ApplyError) -> Status {
    match error {
        ApplyError::BadRequest(text) => Status::bad_request(text),
        ApplyError::Internal(text) => Status::unknown_error(text),
        ApplyError::Conflict { message, causes } => {
            let causes = causes.into_iter().map(|(message, field)| Cause {
                reason: Str::new_static("FieldManagerConflict"),
                message,
                field,
            });
            Status::apply_conflict(message, causes.collect())
        }
    }
}
