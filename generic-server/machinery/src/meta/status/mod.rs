//! `Status`: the one error that handlers return, metav1.Status on the wire.
//!
//! The constructors (in `errors`) carry upstream's texts; their names are those of its api/errors package.

mod errors;

use std::fmt;

use super::field_error::FieldError;
use super::gvk::GroupResource;
use crate::{Map, Str, Value, object};

/// The reasons of v1.36.
pub mod reason {
    #![allow(missing_docs, reason = "the names are the documentation: they are the wire texts themselves")]
    pub const UNAUTHORIZED: &str = "Unauthorized";
    pub const FORBIDDEN: &str = "Forbidden";
    pub const NOT_FOUND: &str = "NotFound";
    pub const ALREADY_EXISTS: &str = "AlreadyExists";
    pub const CONFLICT: &str = "Conflict";
    pub const GONE: &str = "Gone";
    pub const INVALID: &str = "Invalid";
    pub const SERVER_TIMEOUT: &str = "ServerTimeout";
    pub const STORE_READ_ERROR: &str = "StorageReadError";
    pub const TIMEOUT: &str = "Timeout";
    pub const TOO_MANY_REQUESTS: &str = "TooManyRequests";
    pub const BAD_REQUEST: &str = "BadRequest";
    pub const METHOD_NOT_ALLOWED: &str = "MethodNotAllowed";
    pub const NOT_ACCEPTABLE: &str = "NotAcceptable";
    pub const REQUEST_ENTITY_TOO_LARGE: &str = "RequestEntityTooLarge";
    pub const UNSUPPORTED_MEDIA_TYPE: &str = "UnsupportedMediaType";
    pub const INTERNAL_ERROR: &str = "InternalError";
    pub const EXPIRED: &str = "Expired";
    pub const SERVICE_UNAVAILABLE: &str = "ServiceUnavailable";
}

/// A failure (or, for deletions and the like, a success) that is told to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The HTTP status code. 0, which is not sent, is a success: see [`Status::http_code`].
    pub code: u16,
    /// One of [`reason`], or a text that another server chose; empty when unknown.
    pub reason: Str,
    /// For people.
    pub message: String,
    /// For programs. `Some` of an empty [`Details`] is an empty object on the wire, as upstream sends for some errors.
    pub details: Option<Box<Details>>,
    /// `metadata.continue`: where a list that expired can go on without consistency; empty otherwise.
    pub continue_token: Str,
}

/// The details of a [`Status`]; empty members are not sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The object's name.
    pub name: Str,
    /// Its group.
    pub group: Str,
    /// Its kind, or (for most reasons) its resource.
    pub kind: Str,
    /// Its uid.
    pub uid: Str,
    /// What led to the failure.
    pub causes: Vec<Cause>,
    /// When to try again; 0 says nothing.
    pub retry_after_seconds: i32,
}

/// One cause of a failure; empty members are not sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// The machine-readable type, `FieldValueInvalid` and the like.
    pub reason: Str,
    /// For people.
    pub message: String,
    /// The field at fault.
    pub field: String,
}

impl Cause {
    /// A cause that names no field.
    pub fn new(reason: impl Into<Str>, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into(), field: String::new() }
    }
}

impl From<&FieldError> for Cause {
    fn from(error: &FieldError) -> Self {
        Self { reason: Str::new_static(error.kind.reason()), message: error.body(), field: error.field.clone() }
    }
}

impl Details {
    fn of(resource: &GroupResource, name: &str) -> Self {
        Self { name: name.into(), group: resource.group.clone(), kind: resource.resource.clone(), ..Self::default() }
    }

    fn retry(seconds: i32) -> Self {
        Self { retry_after_seconds: seconds, ..Self::default() }
    }
}

impl Status {
    /// A failure without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: Str::new_static(reason),
            message: message.into(),
            details: None,
            continue_token: Str::default(),
        }
    }

    /// A success without a code: what a deletion answers, with the object's details.
    pub fn success(details: Option<Details>) -> Self {
        Self {
            code: 0,
            reason: Str::default(),
            message: String::new(),
            details: details.map(Box::new),
            continue_token: Str::default(),
        }
    }

    /// The code of the HTTP response.
    pub fn http_code(&self) -> u16 {
        if self.code == 0 { 200 } else { self.code }
    }

    /// With these details instead.
    pub fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// With one more cause.
    pub fn with_cause(mut self, cause: Cause) -> Self {
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// With a time to wait before the next try.
    pub fn with_retry_after(mut self, seconds: i32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// Whether the reason is `reason`.
    pub fn is(&self, reason: &str) -> bool {
        self.reason == reason
    }

    /// Whether an object was not found.
    pub fn is_not_found(&self) -> bool {
        self.is(reason::NOT_FOUND)
    }

    /// Whether an object was there already.
    pub fn is_already_exists(&self) -> bool {
        self.is(reason::ALREADY_EXISTS)
    }

    /// Whether another write came first.
    pub fn is_conflict(&self) -> bool {
        self.is(reason::CONFLICT)
    }

    /// The seconds to wait before the next try, if the error says so.
    pub fn retry_after(&self) -> Option<i32> {
        self.details.as_ref().map(|d| d.retry_after_seconds).filter(|s| *s > 0)
    }

    /// The object on the wire.
    pub fn to_value(&self) -> Value {
        let mut value = object! {
            "kind" => "Status",
            "apiVersion" => "v1",
            "metadata" => Value::object(),
            "status" => if self.code < 400 { "Success" } else { "Failure" },
        };
        let members = value.make_object();
        if self.code != 0 {
            members.insert("code", i64::from(self.code));
        }
        put(members, "message", &self.message);
        put(members, "reason", &self.reason);
        if let Some(details) = &self.details {
            members.insert("details", details.to_value());
        }
        if !self.continue_token.is_empty() {
            members.insert("metadata", object! { "continue" => &self.continue_token });
        }
        value
    }

    /// From the object on the wire; `None` if it is not a Status. A missing code is read as 500 for a failure.
    pub fn from_value(value: &Value) -> Option<Self> {
        if value.str_at(&["kind"]) != Some("Status") {
            return None;
        }
        if !matches!(value.str_at(&["apiVersion"]), Some("v1" | "meta.k8s.io/v1")) {
            return None;
        }
        let success = value.str_at(&["status"]) == Some("Success");
        let code = value.get("code").and_then(Value::as_i64).and_then(|c| u16::try_from(c).ok()).filter(|c| *c > 0);
        Some(Self {
            continue_token: value.str_at(&["metadata", "continue"]).unwrap_or("").into(),
            code: code.unwrap_or(if success { 0 } else { 500 }),
            reason: text(value, "reason"),
            message: text(value, "message").into(),
            details: value.get("details").filter(|d| !d.is_null()).map(|d| Box::new(Details::from_value(d))),
        })
    }
}

fn put(members: &mut Map, key: &'static str, text: &str) {
    if !text.is_empty() {
        members.insert(Str::new_static(key), text);
    }
}

fn text(value: &Value, key: &str) -> Str {
    value.get(key).and_then(Value::as_shared_str).cloned().unwrap_or_default()
}

impl Details {
    fn to_value(&self) -> Value {
        let mut out = Map::new();
        put(&mut out, "name", &self.name);
        put(&mut out, "group", &self.group);
        put(&mut out, "kind", &self.kind);
        put(&mut out, "uid", &self.uid);
        if !self.causes.is_empty() {
            out.insert("causes", self.causes.iter().map(Cause::to_value).collect::<Value>());
        }
        if self.retry_after_seconds != 0 {
            out.insert("retryAfterSeconds", self.retry_after_seconds);
        }
        out.into()
    }

    fn from_value(value: &Value) -> Self {
        let causes = value.get("causes").and_then(Value::as_array).unwrap_or_default();
        Self {
            name: text(value, "name"),
            group: text(value, "group"),
            kind: text(value, "kind"),
            uid: text(value, "uid"),
            causes: causes.iter().map(Cause::from_value).collect(),
            retry_after_seconds: value
                .get("retryAfterSeconds")
                .and_then(Value::as_i64)
                .and_then(|s| i32::try_from(s).ok())
                .unwrap_or(0),
        }
    }
}

impl Cause {
    fn to_value(&self) -> Value {
        let mut out = Map::new();
        put(&mut out, "reason", &self.reason);
        put(&mut out, "message", &self.message);
        put(&mut out, "field", &self.field);
        out.into()
    }

    fn from_value(value: &Value) -> Self {
        Self {
            reason: text(value, "reason"),
            message: text(value, "message").into(),
            field: text(value, "field").into(),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}
