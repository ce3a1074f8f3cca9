//! `?at=TIME`: a get or a list of what was there at a moment, an extension of our own.
//!
//! TIME is RFC 3339, to the millisecond. The state is that of the last write by then, and the answer is that of a list at that
//! resourceVersion with resourceVersionMatch=Exact. Whoever may read an object now may read what it was.

use std::time::SystemTime;

use machinery::meta::{
    status::Status,
    time::{TimeForm, Timestamp},
};
use storage::{Error, Revision, cache::CacheError};

use crate::{
    registry::{Lister, read_error},
    request::Request,
};

/// The moment that a request asks for; 400 for what is none, and for one to come.
pub(super) fn moment(request: &Request) -> Result<Option<SystemTime>, Status> {
    let Some(text) = request.query.get("at").filter(|text| !text.is_empty()) else { return Ok(None) };
    if request.query.get("resourceVersion").is_some_and(|version| !version.is_empty()) {
        return Err(Status::bad_request("at and resourceVersion name a state each: only one of them is allowed"));
    }
    let time = Timestamp::parse(text, TimeForm::Seconds);
    let time = time.map_err(|error| Status::bad_request(format!("invalid at: {error}")))?;
    if time > Timestamp::now() {
        return Err(Status::bad_request(format!("invalid at: {text} is in the future")));
    }
    Ok(Some(time.into()))
}

/// Refuses a moment where there is none: writes, and watches.
pub(super) fn refuse(request: &Request) -> Result<(), Status> {
    match request.query.get("at").is_some_and(|text| !text.is_empty()) {
        true => Err(Status::bad_request("at is for get and list alone")),
        false => Ok(()),
    }
}

/// The revision of the state at a moment; 410 if it is not kept.
pub(super) async fn revision(lister: &Lister, time: SystemTime) -> Result<Revision, Status> {
    lister.cache().revision_at(time).await.map_err(|error| match error {
        CacheError::Expired { .. } => Status::compacted_list(),
        CacheError::Store(Error::NoTimes) => {
            Status::bad_request("at needs the embedded store: etcd does not tell when its revisions were written")
        }
        error => read_error(&error),
    })
}
