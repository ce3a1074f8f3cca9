//! What is served as plain HTTP: health, version, metrics.

use ::http::{Method, Response, StatusCode, Uri, header::CONTENT_TYPE};
use tonic::body::Body;

use crate::{CLUSTER_VERSION, VERSION, proto::AlarmType, services::Context};

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

pub(super) async fn answer(context: &Context, method: &Method, uri: &Uri) -> Response<Body> {
    if *method != Method::GET && *method != Method::HEAD {
        return response(StatusCode::METHOD_NOT_ALLOWED, TEXT, "Method Not Allowed\n");
    }
    match uri.path() {
        "/health" => match trouble(context, uri.query().unwrap_or_default()).await {
            None => response(StatusCode::OK, JSON, r#"{"health":"true","reason":""}"#),
            Some(reason) => {
                let body = format!(r#"{{"health":"false","reason":"{reason}"}}"#);
                response(StatusCode::SERVICE_UNAVAILABLE, JSON, body)
            }
        },
        "/livez" | "/readyz" => match context.database.health().await {
            Ok(()) => response(StatusCode::OK, TEXT, "ok\n"),
            Err(refusal) => response(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{refusal}\n")),
        },
        "/version" => {
            let body = format!(r#"{{"etcdserver":"{VERSION}","etcdcluster":"{CLUSTER_VERSION}"}}"#);
            response(StatusCode::OK, JSON, body)
        }
        "/metrics" => {
            let text = context.metrics.text(&context.database).await;
            response(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text)
        }
        _ => response(StatusCode::NOT_FOUND, TEXT, "404 page not found\n"),
    }
}

/// An answer of the gateway; without one there is no such path.
pub(super) fn json(answer: Option<(StatusCode, String)>) -> Response<Body> {
    match answer {
        Some((status, body)) => response(status, JSON, body),
        None => response(StatusCode::NOT_FOUND, TEXT, "404 page not found\n"),
    }
}

/// A request that cannot be read.
pub(super) fn bad_request(why: &str) -> Response<Body> {
    response(StatusCode::BAD_REQUEST, TEXT, format!("{why}\n"))
}

/// What ails the member, in etcd's words: an alarm that the query does not exclude, or a store that cannot be written.
async fn trouble(context: &Context, query: &str) -> Option<&'static str> {
    let excluded = |name: &str| query.split('&').any(|pair| pair.strip_prefix("exclude=") == Some(name));
    let raised = context.database.alarms();
    let alarm = [(AlarmType::Nospace, "ALARM NOSPACE"), (AlarmType::Corrupt, "ALARM CORRUPT")]
        .into_iter()
        .find(|(alarm, _)| raised.contains(&(*alarm as i32)) && !excluded(alarm.as_str_name()));
    match alarm {
        Some((_, reason)) => Some(reason),
        None => context.database.health().await.is_err().then_some("QGET ERROR"),
    }
}

fn response(status: StatusCode, content_type: &'static str, body: impl Into<bytes::Bytes>) -> Response<Body> {
    let body = Body::new(http_body_util::Full::new(body.into()));
    let built = Response::builder().status(status).header(CONTENT_TYPE, content_type).body(body);
    built.expect("status and header are valid")
}
