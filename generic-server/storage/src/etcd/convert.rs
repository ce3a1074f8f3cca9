//! etcd's messages and errors as the store's.

use std::{error::Error as _, sync::Arc};

use bytes::Bytes;
use etcd_client::ResponseHeader;
use tonic::Code;

use crate::{Error, Event, KeyValue, Revision, limits};

/// Why a request failed.
#[derive(Debug)]
pub(super) struct Failure {
    /// The error; `None` if it has to do with a revision, and needs one to be told.
    pub(super) error: Option<Error>,
    /// Without an error: the revision has been compacted (or else is in the future).
    pub(super) compacted: bool,
    /// No server has got the request.
    pub(super) unsent: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure { error: Some(error), compacted: false, unsent: false }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        failure.error.unwrap_or_else(|| Error::Unavailable("etcd refused a revision that was not asked for".into()))
    }
}

/// What lies at the bottom of a failure, if not the failure itself.
fn innermost_cause(status: &tonic::Status) -> Option<String> {
    let mut cause = status.source()?;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    Some(cause.to_string())
}

/// Tells a failure of the client.
pub(super) fn failure(error: &etcd_client::Error) -> Failure {
    let etcd_client::Error::GRpcStatus(status) = error else {
        return Error::Unavailable(error.to_string()).into();
    };
    let message = status.message();
    // The innermost cause says most: "connection refused" rather than "tcp connect error".
    let innermost = innermost_cause(status);
    let text = || match &innermost {
        Some(cause) if !message.contains(cause.as_str()) => format!("etcd: {message}: {cause}"),
        _ => format!("etcd: {message}"),
    };
    let error = match status.code() {
        Code::OutOfRange if message.contains("compacted") => {
            return Failure { error: None, compacted: true, unsent: false };
        }
        Code::OutOfRange if message.contains("future") => {
            return Failure { error: None, compacted: false, unsent: false };
        }
        Code::ResourceExhausted if message.contains("space exceeded") => Error::NoSpace(text()),
        Code::InvalidArgument if message.contains("too large") => {
            Error::TooLarge { size: limits::MAX_VALUE + 1, limit: limits::MAX_VALUE }
        }
        Code::DeadlineExceeded | Code::Cancelled => Error::Timeout(text()),
        Code::DataLoss => Error::Corrupt(text()),
        _ => Error::Unavailable(text()),
    };
    let mut cause = status.source();
    let mut unsent = false;
    while let Some(error) = cause {
        unsent |= error.is::<tonic::ConnectError>();
        cause = error.source();
    }
    Failure { error: Some(error), compacted: false, unsent }
}

/// A response's revision.
pub(super) fn revision_of(header: Option<&ResponseHeader>) -> Revision {
    header.map_or(0, ResponseHeader::revision) as Revision
}

/// The end of the range of keys with a prefix, as etcd has it: `\0` for all keys.
pub(super) fn prefix_end(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

/// A key that etcd holds; [`Error::Corrupt`] if it is no text, as no API server writes.
pub(super) fn key_value(kv: etcd_client::KeyValue) -> Result<KeyValue, Error> {
    let (create_revision, mod_revision) = (kv.create_revision() as Revision, kv.mod_revision() as Revision);
    let (key, value) = kv.into_key_value();
    let key = text(&key)?;
    Ok(KeyValue { key, value: Bytes::from(value), create_revision, mod_revision })
}

fn text(key: &[u8]) -> Result<Arc<str>, Error> {
    let text = std::str::from_utf8(key);
    text.map(Arc::from).map_err(|_| Error::Corrupt(format!("etcd holds the key {:?}", String::from_utf8_lossy(key))))
}

/// A change that etcd tells; `None` for a key that is no text.
pub(super) fn event(event: &etcd_client::Event) -> Option<Event> {
    let kv = event.kv()?;
    let key = text(kv.key()).ok()?;
    let previous = event.prev_kv().filter(|previous| previous.mod_revision() > 0).map(|previous| KeyValue {
        key: key.clone(),
        value: Bytes::copy_from_slice(previous.value()),
        create_revision: previous.create_revision() as Revision,
        mod_revision: previous.mod_revision() as Revision,
    });
    let put = event.event_type() == etcd_client::EventType::Put;
    let created = if put { kv.create_revision() } else { 0 } as Revision;
    Some(Event {
        revision: kv.mod_revision() as Revision,
        key,
        value: put.then(|| Bytes::copy_from_slice(kv.value())),
        create_revision: previous.as_ref().map_or(created, |previous| previous.create_revision),
        previous,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_no_key_with_it_can_be() {
        let check = |prefix: &str, end: &[u8]| assert_eq!(prefix_end(prefix), end, "{prefix}");
        check("/a/", b"/a0");
        check("", b"\0");
        check("a\u{7f}", b"a\x80");
    }

    #[test]
    fn statuses_are_told_as_errors() {
        let check = |code: Code, message: &str, expect: &str| {
            let failed = failure(&etcd_client::Error::GRpcStatus(tonic::Status::new(code, message)));
            let told =
                failed.error.map_or_else(|| format!("compacted: {}", failed.compacted), |error| format!("{error:?}"));
            assert!(told.starts_with(expect), "{told}");
            assert!(!failed.unsent);
        };
        check(Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted", "compacted: true");
        check(Code::OutOfRange, "etcdserver: mvcc: required revision is a future revision", "compacted: false");
        check(Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded", "NoSpace");
        check(Code::ResourceExhausted, "etcdserver: too many requests", "Unavailable");
        check(Code::InvalidArgument, "etcdserver: request is too large", "TooLarge");
        check(Code::Unavailable, "etcdserver: request timed out", "Unavailable");
        check(Code::Unavailable, "etcdserver: no leader", "Unavailable");
    }
}
