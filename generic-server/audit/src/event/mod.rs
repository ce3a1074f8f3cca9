//! An event (`audit.k8s.io/v1`): what is told of a request at one of its stages.

pub(crate) mod encode;
mod legacy;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, net::IpAddr, sync::Arc};

use bytes::Bytes;
use machinery::{
    Str,
    meta::{status::Status, time::Timestamp},
};

use crate::level::Level;

/// A stage of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// It is known what is asked and by whom; nothing was done yet.
    #[default]
    RequestReceived,
    /// The header of an answer that lasts (a watch, an exec) is about to be sent.
    ResponseStarted,
    /// Nothing more will be sent.
    ResponseComplete,
    /// The server panicked.
    Panic,
}

impl Stage {
    /// All stages, as upstream lists them.
    pub const ALL: [Stage; 4] = [Stage::RequestReceived, Stage::ResponseStarted, Stage::ResponseComplete, Stage::Panic];

    /// As policies and events write it.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::RequestReceived => "RequestReceived",
            Stage::ResponseStarted => "ResponseStarted",
            Stage::ResponseComplete => "ResponseComplete",
            Stage::Panic => "Panic",
        }
    }
}

/// A user.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct User {
    /// The name.
    pub name: Str,
    /// The UID.
    pub uid: Str,
    /// The groups.
    pub groups: Vec<Str>,
    /// More facts, by key.
    pub extra: Vec<(Str, Vec<Str>)>,
}

/// What the request is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectReference {
    /// The resource.
    pub resource: Str,
    /// The namespace.
    pub namespace: Str,
    /// The name: of the path, or of the object that was sent.
    pub name: Str,
    /// The UID that was sent.
    pub uid: Str,
    /// The API group.
    pub group: Str,
    /// The API version.
    pub version: Str,
    /// The resourceVersion that was sent.
    pub resource_version: Str,
    /// The subresource.
    pub subresource: Str,
}

/// A body, as JSON.
#[derive(Clone, Debug)]
pub enum Document {
    /// Compact JSON in pieces, which are known to be sound.
    Json(Vec<Bytes>),
    /// What a client sent, which has to be read and compacted: a line break in it must not begin a line of the log.
    Foreign(Bytes),
}

impl Document {
    pub(crate) fn len(&self) -> usize {
        match self {
            Document::Json(pieces) => pieces.iter().map(Bytes::len).sum(),
            Document::Foreign(text) => text.len(),
        }
    }
}

/// Why an event could not be written as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

/// An event in the forms that backends take.
pub(crate) struct Prepared {
    /// The level at which it is recorded.
    pub(crate) level: Level,
    /// The stage.
    pub(crate) stage: Stage,
    /// Its line of the log.
    pub(crate) line: Result<Bytes, Failure>,
    /// The same without the bodies, if a backend finds it too long.
    pub(crate) lean: Option<Bytes>,
    /// Its line of text, if a backend writes that.
    pub(crate) legacy: Option<Bytes>,
}

/// An event that is gathered.
#[derive(Clone, Debug, Default)]
pub struct Event {
    pub(crate) level: Level,
    pub(crate) id: Str,
    pub(crate) stage: Stage,
    pub(crate) uri: Str,
    pub(crate) verb: Str,
    pub(crate) user: User,
    pub(crate) impersonated: Option<(User, &'static str)>,
    pub(crate) source_ips: Vec<IpAddr>,
    pub(crate) user_agent: Str,
    pub(crate) object: Option<ObjectReference>,
    /// The code of the answer, 0 while there is none.
    pub(crate) code: u16,
    /// What it says, if it is a Status.
    pub(crate) status: Option<Arc<Status>>,
    pub(crate) request: Option<Document>,
    pub(crate) response: Option<Document>,
    pub(crate) received: Option<Timestamp>,
    pub(crate) staged: Option<Timestamp>,
    pub(crate) annotations: Vec<(Cow<'static, str>, Str)>,
}

impl Event {
    /// Notes an annotation. The first value of a key stays.
    pub(crate) fn annotate(&mut self, key: Cow<'static, str>, value: Str) {
        match self.annotations.iter().find(|(own, _)| *own == key) {
            None => self.annotations.push((key, value)),
            Some((_, own)) if *own == value => {}
            Some(_) => tracing::warn!(%key, audit_id = %self.id, "an audit annotation has another value already"),
        }
    }

    /// Bytes of its bodies.
    pub(crate) fn size_of_bodies(&self) -> usize {
        [&self.request, &self.response].into_iter().flatten().map(Document::len).sum()
    }
}
