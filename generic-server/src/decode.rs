//! Documents that clients send, as the types of rows: decoded, checked for unknown fields, defaulted.

mod cbor;
mod type_meta;

use std::fmt;

use bytes::Bytes;
use machinery::{
    Value,
    codec::{json, protobuf, yaml},
    meta::{
        GroupVersion, GvkRef,
        field_error::FieldError,
        go_text::{self, no_type_in},
        gvk::GroupKind,
        status::Status,
    },
    schema::{
        self, DecodeError,
        builtin::{self, Scheme},
    },
};

pub(crate) use cbor::type_of as cbor_type;
pub(crate) use type_meta::{no_text_in, type_text};

use crate::{
    negotiate::Media,
    options::FieldValidation,
    resource::{Converter, Resource},
};

pub(crate) const NO_SCALE: &str =
    "no kind is registered for the type v1.Scale in scheme \"pkg/apiserver/customresource_handler.go:781\"";

/// The document of a body as the row's type, and what a strict reader minds in it.
pub(crate) fn decode_object(
    bytes: &Bytes,
    media: Media,
    row: &Resource,
    kind: GvkRef<'_>,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Status> {
    let expected = Expected { gvk: kind, row };
    if media == Media::Cbor {
        return expected.decode_cbor(bytes, validation);
    }
    let (value, mut problems, cut) = expected.parse(bytes, media, validation)?;
    let value = expected.check_kind(value, bytes, media, validation)?;
    let text = matches!(media, Media::Json).then_some(&**bytes);
    let value = conform_text(row, kind, value, text, &mut problems).map_err(|e| expected.unhandled(e))?;
    if cut && depth(&value) >= json::MAX_DEPTH {
        let too_deep = json::decode(bytes).err().map_or_else(String::new, |e| e.to_string());
        return Err(expected.unhandled(too_deep));
    }
    if !problems.is_empty() && row.built_in && matches!(media, Media::Json) {
        problems = in_order_of_text(bytes, row, kind);
    }
    Ok((value, problems))
}

/// Versions that documents of a kind may still be of, although another is served: apiVersion, kind. They have the members of
/// the served one.
const OLDER: [(&str, &str); 1] = [("policy/v1beta1", "Eviction")];

/// The type that a body should hold.
pub(crate) struct Expected<'a> {
    pub(crate) gvk: GvkRef<'a>,
    pub(crate) row: &'a Resource,
}

impl Expected<'_> {
    fn unrecognized(&self, why: &str, bytes: &[u8]) -> Status {
        let kind = self.gvk.kind;
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({})",
            excerpt(bytes)
        ))
    }

    fn unhandled(&self, why: impl fmt::Display) -> Status {
        let GvkRef { version, kind, .. } = self.gvk;
        Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
    }

    /// The document, what a strict reader minds in it, and whether its deepest parts are cut off: those of a built-in type
    /// may still turn out to be unknown fields, which go.
    fn parse(
        &self,
        bytes: &[u8],
        media: Media,
        validation: FieldValidation,
    ) -> Result<(Value, Vec<String>, bool), Status> {
        let strict = validation != FieldValidation::Ignore;
        // Whoever looks for the kind alone does not mind numbers elsewhere.
        let json_error = |e: json::JsonError| match e {
            json::JsonError::NumberRange(_) => self.unhandled(e),
            e => self.unrecognized(&format!("couldn't get version/kind; json parse error: {e}"), bytes),
        };
        match media {
            Media::Json if self.row.built_in => json::decode_shallow(bytes).map_err(json_error),
            Media::Json if strict => {
                let (value, repeated) = json::decode_strict(bytes).map_err(json_error)?;
                Ok((value, repeated, false))
            }
            Media::Json => Ok((json::decode(bytes).map_err(json_error)?, Vec::new(), false)),
            Media::Yaml if strict => {
                let (value, repeated) =
                    yaml::decode_strict(bytes).map_err(|e| self.unrecognized(&e.to_string(), bytes))?;
                Ok((value, repeated.into_iter().collect(), false))
            }
            Media::Yaml => {
                let value = yaml::decode(bytes).map_err(|e| self.unrecognized(&e.to_string(), bytes))?;
                Ok((value, Vec::new(), false))
            }
            Media::Protobuf => Ok((self.parse_protobuf(bytes)?, Vec::new(), false)),
            Media::Cbor => Ok((self.parse_cbor(bytes)?, Vec::new(), false)),
        }
    }

    fn parse_protobuf(&self, bytes: &[u8]) -> Result<Value, Status> {
        let envelope = protobuf::envelope(bytes).map_err(|e| self.unrecognized(&e.to_string(), bytes))?;
        let older = OLDER.contains(&(envelope.api_version, self.gvk.kind));
        let api_version = if older { "" } else { envelope.api_version };
        // Here a group version that is none counts as not said.
        let named = GroupVersion::parse(api_version).unwrap_or_default();
        let (group, version) = match named.version.as_str() {
            "" => (self.gvk.group, self.gvk.version),
            version => (named.group.as_str(), version),
        };
        let kind = if envelope.kind.is_empty() { self.gvk.kind } else { envelope.kind };
        let found = GvkRef::new(group, version, kind);
        if found != self.gvk {
            let other = builtin::by_gvk(group, version, kind);
            let read = other.map_or(Ok(()), |id| protobuf::decode_raw(id, envelope.raw).map(drop));
            return Err(self.other_kind(found, || read.map_err(|e| DecodeError(e.to_string()))));
        }
        let no_message = || self.unhandled(no_message("unstructured.Unstructured"));
        let id = builtin::by_gvk(group, version, kind).ok_or_else(no_message)?;
        protobuf::decode_raw(id, envelope.raw).map_err(|e| self.unhandled(e))
    }

    /// The document's apiVersion and kind, as it says. A custom resource is asked for them by name.
    fn type_of(&self, value: &Value, bytes: &[u8], media: Media) -> Result<(String, String), Status> {
        let text = matches!(media, Media::Json).then_some(bytes);
        let named = |key: &str| type_text(value, key, text).map_err(|why| self.unrecognized(&why, bytes));
        let (api_version, kind) = (named("apiVersion")?, named("kind")?);
        if self.row.built_in || self.gvk.kind != self.row.kind {
            return Ok((api_version, kind));
        }
        let own = |key: &str| value.str_at(&[key]).unwrap_or_default().to_owned();
        Ok((own("apiVersion"), own("kind")))
    }

    /// Fills in kind and apiVersion, or refuses another kind's document.
    fn check_kind(
        &self,
        value: Value,
        bytes: &[u8],
        media: Media,
        validation: FieldValidation,
    ) -> Result<Value, Status> {
        let mut value = match value {
            Value::Null => Value::object(),
            Value::Object(_) => value,
            other => {
                return Err(self.unrecognized(&no_type_in(&other), bytes));
            }
        };
        let (api_version, kind) = self.type_of(&value, bytes, media)?;
        let expected = if self.gvk.group.is_empty() {
            self.gvk.version.to_owned()
        } else {
            format!("{}/{}", self.gvk.group, self.gvk.version)
        };
        let api_version = match api_version.split_once('/') {
            Some((_, rest)) if rest.contains('/') => {
                return Err(self.unrecognized(&format!("unexpected GroupVersion string: {api_version}"), bytes));
            }
            Some(("", version)) => version.to_owned(), // the core group may be named by nothing
            Some((group, "")) if group == self.gvk.group => expected.clone(),
            _ => api_version,
        };
        // A scale is a built-in type, whoever is scaled.
        if self.row.built_in || (self.gvk.kind != self.row.kind && api_version.is_empty()) {
            let older = OLDER.contains(&(api_version.as_str(), self.gvk.kind));
            let api_version = if api_version.is_empty() || older { expected.clone() } else { api_version };
            let kind = if kind.is_empty() { self.gvk.kind.to_owned() } else { kind };
            if kind != self.gvk.kind || api_version != expected {
                let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
                let found = GvkRef::new(group, version, &kind);
                return Err(self.other_kind(found, || check_readable(found, &value)));
            }
        } else {
            if kind.is_empty() {
                return Err(self.without_kind(bytes, validation));
            }
            if (api_version != expected || kind != self.gvk.kind) && self.gvk.kind == self.row.kind {
                // Metadata are read before anybody looks at the type.
                schema::read_custom(&self.row.schema, &mut value.clone()).map_err(|why| {
                    let version = api_version.rsplit('/').next().unwrap_or_default();
                    let wanted = self.gvk.kind;
                    Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {wanted}: {why}"))
                })?;
            }
            if api_version != expected {
                return Err(Status::bad_request(format!(
                    "the API version in the data ({api_version}) does not match the expected API version ({expected})"
                )));
            }
            if kind != self.gvk.kind {
                let name = value.str_at(&["metadata", "name"]).unwrap_or_default();
                let error = FieldError::invalid("kind", kind.as_str(), format!("must be {}", self.gvk.kind));
                return Err(Status::invalid(&GroupKind::new(self.gvk.group, kind.as_str()), name, vec![error]));
            }
        }
        let object = value.make_object();
        object.insert("kind", self.gvk.kind);
        object.insert("apiVersion", expected);
        Ok(value)
    }

    /// A custom resource that does not say what it is. Who reads strictly has heard of no type then.
    fn without_kind(&self, bytes: &[u8], validation: FieldValidation) -> Status {
        let why = format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(bytes));
        match validation {
            FieldValidation::Ignore => self.unhandled(why),
            FieldValidation::Warn | FieldValidation::Strict => self.unrecognized(&why, bytes),
        }
    }

    /// A document of another type: it is refused as unknown, as one that cannot be read (`read` says why), or as one that
    /// is none of the type wanted, in this order.
    fn other_kind(&self, found: GvkRef<'_>, read: impl FnOnce() -> Result<(), DecodeError>) -> Status {
        let GvkRef { group, version, kind } = found;
        let why = match other_kind(self.gvk, found, read) {
            Some(why) => why,
            None => {
                let [found, expected] = [(group, version), (self.gvk.group, self.gvk.version)]
                    .map(|(group, version)| GroupVersion::new(group, version).to_string());
                return Status::bad_request(format!(
                    "the API version in the data ({found}) does not match the expected API version ({expected})"
                ));
            }
        };
        Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {}: {why}", self.gvk.kind))
    }
}

/// Whether a document can be read as one of the built-in type that it says it is; why not in the decoder's words.
pub(crate) fn check_readable(found: GvkRef<'_>, document: &Value) -> Result<(), DecodeError> {
    let Some(schema) = builtin::schema_of(found.group, found.version, found.kind) else { return Ok(()) };
    schema::decode(schema, document.clone()).map(drop)
}

/// What upstream's decoder says of a document of another type than the one wanted ; `None` if it is of
/// another version of that. `read` says what is wrong with the document as one of its own type.
pub(crate) fn other_kind(
    wanted: GvkRef<'_>,
    found: GvkRef<'_>,
    read: impl FnOnce() -> Result<(), DecodeError>,
) -> Option<String> {
    let GvkRef { group, version, kind } = found;
    let scheme = Scheme::of_group(wanted.group);
    if !scheme.knows(group, version, kind) {
        let api_version = GroupVersion::new(group, version);
        return Some(format!(
            "no kind {kind:?} is registered for version {:?} in scheme {:?}",
            api_version.to_string(),
            scheme.name()
        ));
    }
    if let Err(why) = read() {
        return Some(why.to_string());
    }
    (kind != wanted.kind).then(|| unconverted(wanted, found))
}

/// What upstream says of a kind that it knows and cannot make the one wanted of.
pub(crate) fn unconverted(wanted: GvkRef<'_>, found: GvkRef<'_>) -> String {
    let GvkRef { group, version, kind } = found;
    let package = if wanted.group.is_empty() { "core" } else { wanted.group.split('.').next().unwrap_or("") };
    let from_package = if group.is_empty() { "v1" } else { version };
    format!("converting ({from_package}.{kind}) to ({package}.{}): unknown conversion", wanted.kind)
}

/// [`conform`] of what applying a configuration has made of an object. What the schema of a custom resource does not specify
/// goes without a word: an apply has told already of fields that are not declared.
pub(crate) fn conform_applied(
    row: &Resource,
    kind: GvkRef<'_>,
    mut value: Value,
    problems: &mut Vec<String>,
) -> Result<Value, DecodeError> {
    if row.built_in || kind.kind != row.kind {
        return conform(row, kind, value, problems);
    }
    schema::read_applied(&row.schema, &mut value)?;
    Ok(value)
}

/// Brings a document into the row's type; unknown fields are dropped and noted in `problems`.
///
/// # Errors
/// It is not of the type, or the kind refuses it.
pub fn conform(
    row: &Resource,
    kind: GvkRef<'_>,
    value: Value,
    problems: &mut Vec<String>,
) -> Result<Value, DecodeError> {
    conform_text(row, kind, value, None, problems)
}

/// [`conform`] of a document that was read from this JSON text.
fn conform_text(
    row: &Resource,
    kind: GvkRef<'_>,
    value: Value,
    text: Option<&[u8]>,
    problems: &mut Vec<String>,
) -> Result<Value, DecodeError> {
    let own = kind.kind == row.kind;
    let builtin;
    let shape = if own {
        &*row.schema
    } else {
        builtin = builtin::schema_of(kind.group, kind.version, kind.kind);
        builtin.ok_or_else(|| DecodeError(format!("no kind {:?} is registered", kind.kind)))?
    };
    if !row.built_in && own {
        let mut value = value;
        let unknown = schema::read_custom(shape, &mut value)?;
        problems.extend(unknown.iter().map(|path| unknown_field(path)));
        return Ok(value);
    }
    let mut value = value;
    // An empty list asks to forget all managers, as [{}] does; decoding would drop it.
    if value.at(&["metadata", "managedFields"]).and_then(Value::as_array).is_some_and(<[Value]>::is_empty) {
        value.set(&["metadata", "managedFields"], vec![Value::object()]);
    }
    let (mut value, unknown) = schema::decode_text(shape, value, text)?;
    problems.extend(unknown.iter().map(|path| unknown_field(path)));
    schema::apply_defaults(shape, &mut value);
    if own {
        value = default_in_storage_version(row, value);
        if let Some(why) = row.strategy.refuse_document(&value) {
            return Err(DecodeError(why));
        }
    }
    Ok(value)
}

/// An object of the row's type with its defaults.
pub fn defaulted(row: &Resource, mut value: Value) -> Value {
    schema::apply_defaults(&row.schema, &mut value);
    default_in_storage_version(row, value)
}

/// Computed defaults are those of the storage version, by way of which every object goes.
fn default_in_storage_version(row: &Resource, value: Value) -> Value {
    let Some(Converter::Rule(conversion)) = &row.conversion else {
        let mut value = value;
        row.strategy.default(&mut value);
        return value;
    };
    let mut stored = conversion.to_storage(value);
    row.strategy.default(&mut stored);
    conversion.from_storage(stored)
}

/// How many containers are in each other.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// What a strict reader minds in a document of a built-in type, in the order in which it was written.
fn in_order_of_text(bytes: &[u8], row: &Resource, kind: GvkRef<'_>) -> Vec<String> {
    let own = kind.kind == row.kind;
    let shape = if own { Some(&*row.schema) } else { builtin::schema_of(kind.group, kind.version, kind.kind) };
    let findings = shape.and_then(|shape| json::strict_findings(bytes, shape).ok());
    findings.unwrap_or_default().iter().map(ToString::to_string).collect()
}

fn unknown_field(path: &str) -> String {
    format!("unknown field {}", go_text::quote(path))
}

/// The lines of go-yaml's error about repeated keys, one a warning.
pub(crate) fn repeated_keys(text: &str) -> Vec<String> {
    text.lines().skip(1).map(|line| line.trim().to_owned()).collect()
}

pub(crate) fn report(
    expected: &Expected<'_>,
    validation: FieldValidation,
    problems: Vec<String>,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    match validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => {
            for problem in problems {
                if problem.starts_with("yaml: unmarshal errors:") {
                    warnings.extend(repeated_keys(&problem));
                } else {
                    warnings.push(problem);
                }
            }
        }
        FieldValidation::Strict if problems.is_empty() => {}
        FieldValidation::Strict => {
            return Err(expected.unhandled(format!("strict decoding error: {}", problems.join(", "))));
        }
    }
    Ok(())
}

/// The start of a body as upstream quotes it in errors: text if it looks like JSON, hexadecimal otherwise.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    const SHOWN: usize = 30;
    if bytes.is_empty() {
        return "<empty>".to_owned();
    }
    let more = if bytes.len() > SHOWN { " ..." } else { "" };
    let start = &bytes[..bytes.len().min(SHOWN)];
    if bytes.starts_with(b"{") {
        return String::from_utf8_lossy(start).into_owned() + more;
    }
    start.iter().map(|b| format!("{b:02x}")).collect::<String>() + more
}

/// What upstream says of a Go type that cannot be written as protobuf, nor read.
pub(crate) fn no_message(go_type: &str) -> String {
    format!(
        "object *{go_type} does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message"
    )
}

/// The body's namespace must be the path's, or be left out.
pub fn check_namespace(object: &Value, namespace: &str, namespaced: bool) -> Result<(), Status> {
    let found = object.str_at(&["metadata", "namespace"]).unwrap_or("");
    if namespaced && !found.is_empty() && found != namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// The body's name must be there and be the path's.
pub(crate) fn check_name(object: &Value, name: &str) -> Result<(), Status> {
    match object.str_at(&["metadata", "name"]).unwrap_or("") {
        "" => Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        found if found != name => Err(Status::bad_request(format!(
            "the name of the object ({found}) does not match the name on the URL ({name})"
        ))),
        _ => Ok(()),
    }
}
