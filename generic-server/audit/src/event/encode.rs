//! An event as JSON, with the members in the order of upstream's type.

use std::{io::Write as _, net::IpAddr};

use bytes::{BufMut, Bytes, BytesMut};
use machinery::{
    Str,
    codec::json,
    meta::{
        status::{Details, Status},
        time::{TimeForm, Timestamp},
    },
};

use super::{Document, Event, Failure, ObjectReference, User};

/// How the line of an event begins: with what it does not say as an item of a list.
const HEAD: &[u8] = b"{\"kind\":\"Event\",\"apiVersion\":\"audit.k8s.io/v1\"";
const TAIL: &[u8] = b"}\n";
/// The mark of an event whose bodies were left out.
const TRUNCATED: (&str, &str) = ("audit.k8s.io/truncated", "true");
/// Bytes of an event without its bodies, as a rule.
const USUAL: usize = 1024;

/// Whether an event is written with its bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bodies {
    Whole,
    LeftOut,
}

impl Event {
    /// The event as a line of the log.
    pub(crate) fn encode(&self, bodies: Bodies) -> Result<Bytes, Failure> {
        let size = if bodies == Bodies::Whole { self.size_of_bodies() } else { 0 };
        let mut out = Members { out: Vec::with_capacity(USUAL + size), first: false };
        out.out.extend_from_slice(HEAD);
        out.text("level", self.level.name());
        out.text("auditID", &self.id);
        out.text("stage", self.stage.name());
        out.text("requestURI", &self.uri);
        out.text("verb", &self.verb);
        out.object("user", |out| out.user(&self.user));
        if let Some((user, constraint)) = &self.impersonated {
            out.object("impersonatedUser", |out| out.user(user));
            if !constraint.is_empty() {
                out.object("authenticationMetadata", |out| out.text("impersonationConstraint", constraint));
            }
        }
        out.addresses(&self.source_ips);
        out.text_if("userAgent", &self.user_agent);
        if let Some(object) = &self.object {
            out.object("objectRef", |out| out.reference(object));
        }
        if self.code != 0 || self.status.is_some() {
            out.object("responseStatus", |out| out.status(self.status.as_deref(), self.code));
        }
        if bodies == Bodies::Whole {
            out.document("requestObject", self.request.as_ref())?;
            out.document("responseObject", self.response.as_ref())?;
        }
        out.time("requestReceivedTimestamp", self.received);
        out.time("stageTimestamp", self.staged);
        out.annotations(&self.annotations, (bodies == Bodies::LeftOut).then_some(TRUNCATED));
        out.out.extend_from_slice(TAIL);
        Ok(out.out.into())
    }
}

/// The members that a line has in a list, from the first key to the closing brace.
fn members(line: &[u8]) -> &[u8] {
    // Behind the head stands a comma, before the end a line feed.
    line.get(HEAD.len() + 1..line.len() - 1).unwrap_or_default()
}

/// A list of events, which is what a webhook is sent.
pub(crate) fn list<'a>(lines: impl Iterator<Item = &'a Bytes> + Clone) -> Bytes {
    const HEAD: &[u8] = b"{\"kind\":\"EventList\",\"apiVersion\":\"audit.k8s.io/v1\",\"metadata\":{},\"items\":[";
    const TAIL: &[u8] = b"]}\n";
    let size: usize = lines.clone().map(Bytes::len).sum();
    let mut out = BytesMut::with_capacity(HEAD.len() + size + TAIL.len());
    out.put_slice(HEAD);
    for (i, line) in lines.enumerate() {
        out.put_slice(if i == 0 { b"{" } else { b",{" });
        out.put_slice(members(line));
    }
    out.put_slice(TAIL);
    out.freeze()
}

/// Writes the members of an object.
struct Members {
    out: Vec<u8>,
    first: bool,
}

impl Members {
    fn key(&mut self, key: &str) {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        json::write_string(&mut self.out, value);
    }

    fn text_if(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.text(key, value);
        }
    }

    fn number(&mut self, key: &str, value: i64) {
        self.key(key);
        write!(self.out, "{value}").expect("a vector takes everything");
    }

    fn object(&mut self, key: &str, write: impl FnOnce(&mut Self)) {
        self.key(key);
        self.braced(write);
    }

    fn braced(&mut self, write: impl FnOnce(&mut Self)) {
        self.out.push(b'{');
        self.first = true;
        write(self);
        self.out.push(b'}');
        self.first = false;
    }

    fn list<T>(&mut self, key: &str, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        if items.is_empty() {
            return;
        }
        self.key(key);
        self.out.push(b'[');
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.out.push(b',');
            }
            write(self, item);
        }
        self.out.push(b']');
    }

    fn texts(&mut self, key: &str, texts: &[Str]) {
        self.list(key, texts, |this, text| json::write_string(&mut this.out, text));
    }

    fn user(&mut self, user: &User) {
        self.text_if("username", &user.name);
        self.text_if("uid", &user.uid);
        self.texts("groups", &user.groups);
        if user.extra.is_empty() {
            return;
        }
        let mut extra: Vec<&(Str, Vec<Str>)> = user.extra.iter().collect();
        extra.sort_by(|a, b| a.0.cmp(&b.0));
        self.object("extra", |this| {
            for (key, values) in extra {
                if !std::mem::take(&mut this.first) {
                    this.out.push(b',');
                }
                json::write_string(&mut this.out, key);
                this.out.extend_from_slice(b":[");
                for (i, value) in values.iter().enumerate() {
                    if i > 0 {
                        this.out.push(b',');
                    }
                    json::write_string(&mut this.out, value);
                }
                this.out.push(b']');
            }
        });
    }

    fn addresses(&mut self, addresses: &[IpAddr]) {
        self.list("sourceIPs", addresses, |this, address| {
            write!(this.out, "\"{address}\"").expect("a vector takes everything");
        });
    }

    fn reference(&mut self, object: &ObjectReference) {
        self.text_if("resource", &object.resource);
        self.text_if("namespace", &object.namespace);
        self.text_if("name", &object.name);
        self.text_if("uid", &object.uid);
        self.text_if("apiGroup", &object.group);
        self.text_if("apiVersion", &object.version);
        self.text_if("resourceVersion", &object.resource_version);
        self.text_if("subresource", &object.subresource);
    }

    fn status(&mut self, status: Option<&Status>, code: u16) {
        self.object("metadata", |_| {});
        if let Some(status) = status {
            self.text("status", if status.code < 400 { "Success" } else { "Failure" });
            self.text_if("message", &status.message);
            self.text_if("reason", &status.reason);
            if let Some(details) = &status.details {
                self.object("details", |this| this.details(details));
            }
        }
        if code != 0 {
            self.number("code", code.into());
        }
    }

    fn details(&mut self, details: &Details) {
        self.text_if("name", &details.name);
        self.text_if("group", &details.group);
        self.text_if("kind", &details.kind);
        self.text_if("uid", &details.uid);
        self.list("causes", &details.causes, |this, cause| {
            this.braced(|this| {
                this.text_if("reason", &cause.reason);
                this.text_if("message", &cause.message);
                this.text_if("field", &cause.field);
            });
        });
        if details.retry_after_seconds != 0 {
            self.number("retryAfterSeconds", details.retry_after_seconds.into());
        }
    }

    fn document(&mut self, key: &str, document: Option<&Document>) -> Result<(), Failure> {
        match document {
            None => {}
            Some(Document::Json(pieces)) => {
                self.key(key);
                pieces.iter().for_each(|piece| self.out.extend_from_slice(piece));
                // The line feed behind a body is none of a document.
                let end = self.out.trim_ascii_end().len();
                self.out.truncate(end);
            }
            Some(Document::Foreign(text)) => {
                let value = json::decode(text).map_err(|why| Failure(format!("{key}: {why}")))?;
                self.key(key);
                json::encode_into(&mut self.out, &value);
            }
        }
        Ok(())
    }

    fn time(&mut self, key: &str, time: Option<Timestamp>) {
        self.key(key);
        match time {
            None => self.out.extend_from_slice(b"null"),
            Some(time) => {
                self.out.push(b'"');
                self.out.extend_from_slice(time.text(TimeForm::Micros).as_bytes());
                self.out.push(b'"');
            }
        }
    }

    fn annotations(&mut self, annotations: &[(std::borrow::Cow<'static, str>, Str)], more: Option<(&str, &str)>) {
        let own = annotations.iter().map(|(key, value)| (key.as_ref(), value.as_str()));
        let mut all: Vec<(&str, &str)> = own.chain(more).collect();
        if all.is_empty() {
            return;
        }
        all.sort_unstable();
        self.object("annotations", |this| {
            for (key, value) in all {
                if !std::mem::take(&mut this.first) {
                    this.out.push(b',');
                }
                json::write_string(&mut this.out, key);
                this.out.push(b':');
                json::write_string(&mut this.out, value);
            }
        });
    }
}
