//! `pods/log`: what a container has written.

use std::sync::Arc;

use async_trait::async_trait;
use generic_server::{
    endpoint::Endpoint,
    options::parse_int,
    request::Request,
    response::{self, Response},
};
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use machinery::{
    meta::{FieldError, GroupKind, GroupResource, TimeForm, Timestamp, status::Status},
    request::Query,
};

use streaming::websocket::is_websocket;

use super::{Outlets, container, target::with_query, websocket};

/// Serves logs.
pub(super) struct Logs {
    pub(super) outlets: Arc<Outlets>,
    /// Whether one of a container's streams may be asked for (PodLogsQuerySplitStreams).
    pub(super) splits: bool,
}

/// What a container writes to, and both.
const STREAMS: [&str; 3] = ["All", "Stderr", "Stdout"];

/// How much of a kubelet's refusal is read, in bytes.
const REFUSAL_LIMIT: usize = 50_000;

#[async_trait]
impl Endpoint for Logs {
    async fn serve(&self, mut request: Request) -> Result<Response, Status> {
        let options = Options::read(&request.query)?;
        let (namespace, name) = (request.info.namespace.clone(), request.info.name.clone());
        let errors = options.validate(self.splits);
        if !errors.is_empty() {
            return Err(Status::invalid(&GroupKind::new("", "PodLogOptions"), &name, errors));
        }
        let pod = self.outlets.pods.get_value(&namespace, &name).await?;
        let container = container::chosen(&pod, request.query.get("container").unwrap_or_default())?;
        let node = pod.str_at(&["spec", "nodeName"]).unwrap_or_default();
        if node.is_empty() {
            let mut nothing = response::text(StatusCode::NO_CONTENT, "");
            nothing.headers_mut().clear();
            return Ok(nothing);
        }
        let kubelet = self.outlets.kubelets.find(node, &self.outlets.pods.group_resource()).await?;
        let path = with_query(&format!("/containerLogs/{namespace}/{name}/{container}"), options.query(self.splits));
        let url = format!("https://{}{path}", kubelet.authority());
        let client = match request.query.flag("insecureSkipTLSVerifyBackend") {
            true => &self.outlets.kubelets.unchecked,
            false => &self.outlets.kubelets.client,
        };
        let target = url.parse().map_err(Status::internal_error)?;
        request.body = None;
        let answer = generic_server::proxy::forward(client, &mut request, target, HeaderMap::new()).await;
        let answer = answer.map_err(|why| Status::unknown_error(format!("Get {url:?}: {why}")))?;
        if !(200..=206).contains(&answer.status().as_u16()) {
            return Err(refusal(answer, &name).await);
        }
        if is_websocket(&request.headers) {
            return websocket::messages(&mut request, answer.into_body());
        }
        Ok(response::bytes(StatusCode::OK, "text/plain", answer.into_body()))
    }
}

/// What a kubelet's refusal means for the client.
async fn refusal(answer: Response, name: &str) -> Status {
    let code = answer.status();
    let body = Limited::new(answer.into_body(), REFUSAL_LIMIT).collect().await;
    let text = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned()).unwrap_or_default();
    match code {
        StatusCode::INTERNAL_SERVER_ERROR => Status::internal_error(text),
        StatusCode::BAD_REQUEST => Status::bad_request(text),
        code => Status::generic(code.as_u16(), "", &GroupResource::new("", "pods/log"), name, &text, 0),
    }
}

/// What of a log is asked for.
#[derive(Debug, Default)]
struct Options {
    follow: bool,
    previous: bool,
    timestamps: bool,
    since_seconds: Option<i64>,
    since_time: Option<Timestamp>,
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
    stream: Option<String>,
}

impl Options {
    fn read(query: &Query) -> Result<Self, Status> {
        let number = |key: &str| query.get(key).filter(|text| !text.is_empty()).map(parse_int).transpose();
        let since_time = query.get("sinceTime").filter(|text| !text.is_empty());
        Ok(Options {
            follow: query.flag("follow"),
            previous: query.flag("previous"),
            timestamps: query.flag("timestamps"),
            since_seconds: number("sinceSeconds")?,
            since_time: since_time
                .map(|text| Timestamp::parse(text, TimeForm::Seconds))
                .transpose()
                .map_err(|e| Status::bad_request(e.to_string()))?,
            tail_lines: number("tailLines")?,
            limit_bytes: number("limitBytes")?,
            stream: query.get("stream").filter(|text| !text.is_empty()).map(str::to_owned),
        })
    }

    fn validate(&self, splits: bool) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let mut at_least = |field: &str, value: Option<i64>, least: i64, detail: &str| {
            if let Some(value) = value.filter(|value| *value < least) {
                errors.push(FieldError::invalid(field, value, detail));
            }
        };
        at_least("tailLines", self.tail_lines, 0, "must be greater than or equal to 0");
        at_least("limitBytes", self.limit_bytes, 1, "must be greater than 0");
        if self.since_time.is_none() {
            at_least("sinceSeconds", self.since_seconds, 1, "must be greater than 0");
        } else if self.since_seconds.is_some() {
            let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden("[]", detail));
        }
        match &self.stream {
            Some(_) if !splits => errors.push(FieldError::forbidden("stream", "may not be specified")),
            Some(stream) => {
                if !STREAMS.contains(&stream.as_str()) {
                    errors.push(FieldError::not_supported("stream", stream.as_str(), STREAMS));
                }
                if stream != STREAMS[0] && self.tail_lines.is_some() {
                    let detail = "`tailLines` and specific `stream` are mutually exclusive for now";
                    errors.push(FieldError::forbidden("[]", detail));
                }
            }
            None => {}
        }
        errors
    }

    /// The query for the kubelet.
    fn query(&self, splits: bool) -> impl Iterator<Item = (&'static str, String)> {
        let flag = |key, on: bool| on.then(|| (key, "true".to_owned()));
        let number = |key, number: Option<i64>| number.map(|n| (key, n.to_string()));
        let pairs = [
            flag("follow", self.follow),
            number("limitBytes", self.limit_bytes),
            flag("previous", self.previous),
            number("sinceSeconds", self.since_seconds),
            self.since_time.map(|time| ("sinceTime", time.text(TimeForm::Seconds))),
            splits.then(|| ("stream", self.stream.clone().unwrap_or_else(|| STREAMS[0].to_owned()))),
            number("tailLines", self.tail_lines),
            flag("timestamps", self.timestamps),
        ];
        pairs.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked_and_handed_on() {
        let check = |text: &str, expect: &[&str], handed_on: &str| {
            let options = Options::read(&Query::parse(text)).expect("readable");
            let texts: Vec<String> = options.validate(false).iter().map(ToString::to_string).collect();
            assert_eq!(texts, expect, "{text}");
            assert_eq!(with_query("", options.query(false)), handed_on, "{text}");
        };
        check("", &[], "");
        check("follow=true&tailLines=5&container=c", &[], "?follow=true&tailLines=5");
        check("sinceTime=2020-01-01T00:00:00Z", &[], "?sinceTime=2020-01-01T00%3A00%3A00Z");
        check("tailLines=-1", &["tailLines: Invalid value: -1: must be greater than or equal to 0"], "?tailLines=-1");
        check("stream=Odd", &["stream: Forbidden: may not be specified"], "");
        let both = "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified";
        check(
            "sinceSeconds=5&sinceTime=2020-01-01T00:00:00Z",
            &[both],
            "?sinceSeconds=5&sinceTime=2020-01-01T00%3A00%3A00Z",
        );
        assert!(Options::read(&Query::parse("tailLines=many")).is_err());
        let split = |text: &str, expect: &[&str], handed_on: &str| {
            let options = Options::read(&Query::parse(text)).expect("readable");
            let texts: Vec<String> = options.validate(true).iter().map(ToString::to_string).collect();
            assert_eq!(texts, expect, "{text}");
            assert_eq!(with_query("", options.query(true)), handed_on, "{text}");
        };
        split("", &[], "?stream=All");
        split("stream=Stderr&follow=true", &[], "?follow=true&stream=Stderr");
        split("stream=All&tailLines=1", &[], "?stream=All&tailLines=1");
        let both = "[]: Forbidden: `tailLines` and specific `stream` are mutually exclusive for now";
        split("stream=Stdout&tailLines=1", &[both], "?stream=Stdout&tailLines=1");
        let odd = "stream: Unsupported value: \"Odd\": supported values: \"All\", \"Stderr\", \"Stdout\"";
        split("stream=Odd", &[odd], "?stream=Odd");
    }
}
