//! `/debug/api_priority_and_fairness/`: what levels, queues and requests look like now.

use std::{sync::Arc, time::SystemTime};

use async_trait::async_trait;
use http::StatusCode;
use machinery::meta::{TimeForm, Timestamp, status::Status};

use super::FlowControl;
use crate::{
    endpoint::Endpoint,
    request::Request,
    response::{self, Response, page_not_found},
};

/// The three tables.
pub struct Dumps(pub Arc<FlowControl>);

#[async_trait]
impl Endpoint for Dumps {
    async fn serve(&self, request: Request) -> Result<Response, Status> {
        let levels = self.0.levels();
        let details = request.query.get("includeRequestDetails").is_some_and(|value| !value.is_empty());
        let text = match request.info.path.rsplit('/').next() {
            Some("dump_priority_levels") => levels.dump_levels(),
            Some("dump_queues") => levels.dump_queues(),
            Some("dump_requests") => levels.dump_requests(details, time),
            _ => return Ok(page_not_found()),
        };
        Ok(response::bytes(StatusCode::OK, "text/plain; charset=utf-8", text.into_bytes().into()))
    }
}

/// RFC 3339 with nanoseconds; what has no time yet has Go's zero one.
fn time(time: Option<SystemTime>) -> String {
    let since = time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    let Some(since) = since else { return "0001-01-01T00:00:00Z".to_owned() };
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let whole = Timestamp::new(seconds, 0).text(TimeForm::Seconds);
    let fraction = format!(".{:09}", since.subsec_nanos());
    format!("{}{}Z", whole.trim_end_matches('Z'), fraction.trim_end_matches('0').trim_end_matches('.'))
}
