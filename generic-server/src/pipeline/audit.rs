//! Step: who did what, and what came of it? The events of a request are emitted here; what they hold is gathered by the
//! request's [`Recorder`] on its way.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use audit::{Attributes, Auditor, Document, Layer, Recorder, Stage};
use auth::User;
use bytes::Bytes;
use http::{StatusCode, header};
use machinery::{
    Str,
    codec::{cbor, json, protobuf, yaml},
    meta::{
        go_text::quote,
        go_url::GoUrl,
        status::{Status, reason},
    },
    request::Verb,
};

use crate::{
    negotiate::{Accepted, Media},
    recorded::{Completion, OfTunnel, SentStatus, Shown, managed_fields},
    request::{Request, source_ips},
    response::{self, Response},
};

/// How the recorder of a request begins: it gathers what comes before the policy is asked.
pub(super) fn recorder(auditor: Option<&Arc<Auditor>>, id: &Str, received: Instant) -> Recorder {
    Recorder::new(auditor, id, received)
}

/// Asks the policy about a request whose user is known (`None`: nobody could be authenticated).
fn begin(request: &Request, user: Option<&User>, received: Instant) {
    let info = &request.info;
    let attributes = Attributes {
        user: user.map(|user| (user.name.as_str(), user.groups.as_slice())),
        verb: info.verb_name(),
        is_resource: info.is_resource,
        path: &info.path,
        group: &info.group,
        version: &info.version,
        resource: &info.resource,
        subresource: &info.subresource,
        namespace: &info.namespace,
        name: &info.name,
    };
    request.audit.begin(&attributes, || audit::Request {
        uri: uri_of(request),
        source_ips: source_ips(request),
        user_agent: request.headers.get(header::USER_AGENT).map(|v| v.as_bytes().to_vec()).unwrap_or_default(),
        user: user.map(shown).unwrap_or_default(),
        received: SystemTime::now().checked_sub(received.elapsed()),
        is_measured: info.verb != Verb::Watch,
    });
}

/// A request that is refused before it is known who asks: one event tells of it.
pub(super) fn refused_early(request: &Request, received: Instant) {
    if request.audit.is_on() {
        begin(request, None, received);
    }
}

/// The first event of a request. An answer, if it may not go on without it.
pub(super) async fn received(request: &Request, received: Instant, patience: Instant) -> Option<Response> {
    if !request.audit.is_on() {
        return None;
    }
    begin(request, Some(&request.user), received);
    let ack = request.audit.emit(Stage::RequestReceived);
    if ack.wait_until(request.deadline.unwrap_or(patience)).await {
        return None;
    }
    request.audit.refused();
    tracing::error!("the audit backends have not taken the event of a request");
    let target = request.uri.path_and_query().map_or("/", |target| target.as_str());
    let text = format!("Internal Server Error: {}: failed to store audit event\n", quote(target));
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut response = response::text(StatusCode::INTERNAL_SERVER_ERROR, text);
    response.extensions_mut().insert(Unrecorded);
    Some(response)
}

/// An answer's extension: no event tells of it.
#[derive(Clone, Copy)]
struct Unrecorded;

/// What is known of a request when it is answered.
pub(super) struct Answered {
    /// Its events.
    pub(super) audit: Recorder,
    /// It lasts: the beginning of its answer is an event, too.
    pub(super) lasts: bool,
    /// It was refused before anybody was authenticated.
    pub(super) is_early: bool,
    /// Whether the client can be told errors in an encoding that it accepts. Upstream records only those.
    pub(super) is_negotiated: bool,
    /// The request panicked.
    pub(super) panicked: Option<String>,
    /// When there was an answer, or a status to make one of.
    pub(super) made: Instant,
    /// How long backends are waited for.
    pub(super) patience: Instant,
}

impl Answered {
    /// Emits the events of an answer that is about to be sent: at once, or (`ResponseComplete` of a body that is not in
    /// memory) when its body is gone.
    pub(super) async fn record(self, mut response: Response) -> Response {
        if !self.audit.is_on() || response.extensions_mut().remove::<Unrecorded>().is_some() {
            return response;
        }
        let code = response.status().as_u16();
        if let Some(panic) = self.panicked {
            let message = format!("APIServer panic'd: {panic}");
            let status = Status::new(500, reason::INTERNAL_ERROR, message);
            self.audit.answered(500, Some(Arc::new(status)));
            self.audit.emit(Stage::Panic).wait_until(self.patience).await;
            return response;
        }
        let is_shown = self.is_negotiated || response.status().is_success();
        let status = response.extensions_mut().remove::<SentStatus>().filter(|_| is_shown);
        let shown = response.extensions_mut().remove::<Shown>();
        if status.is_some() || shown.is_some() {
            self.audit.took(Layer::Serialize, self.made.elapsed());
        }
        let mut wanted = if self.audit.wants_response() { shown } else { None };
        if let Some(status) = status.as_ref().filter(|_| self.audit.wants_response()) {
            wanted = Some(Shown::json(vec![json::encode_document(&status.0.to_value()).into()]));
        }
        self.audit.answered(code, status.map(|status| status.0));
        let in_memory = response.body().is_in_memory();
        let mut response = match wanted {
            Some(Shown::Json { pieces, is_lean }) => {
                note(&self.audit, pieces, is_lean);
                response
            }
            Some(Shown::Body(accepted)) => capture(&self.audit, response, accepted),
            None => response,
        };
        // What is in memory is on its way; of the rest the connection knows.
        self.audit.took(Layer::Write, self.made.elapsed());
        if self.lasts || self.is_early {
            self.audit.emit(Stage::ResponseStarted).wait_until(self.patience).await;
        }
        if self.is_early {
            return response;
        }
        let switches = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        if switches && let Some(tunnel) = response.extensions_mut().remove::<OfTunnel>() {
            tunnel.0.arm(Completion(self.audit));
            return response;
        }
        if in_memory || switches {
            self.audit.emit(Stage::ResponseComplete).wait_until(self.patience).await;
            return response;
        }
        let completion = Completion(self.audit);
        response.map(|body| body.holding(Box::new(completion)))
    }
}

/// Notes the pieces of an object's JSON.
fn note(audit: &Recorder, pieces: Vec<Bytes>, is_lean: bool) {
    let omits = audit.omits_managed_fields() && !is_lean;
    audit.response(Document::Json(if omits { managed_fields::without(pieces) } else { pieces }));
}

/// Notes a body of this encoding: now, if it is in memory, or as it is sent.
fn capture(audit: &Recorder, response: Response, accepted: Accepted) -> Response {
    let (parts, body) = response.into_parts();
    let (pieces, body) = body.in_memory();
    if let Some(pieces) = pieces {
        noted(audit, pieces, accepted);
        return Response::from_parts(parts, body);
    }
    let audit = audit.clone();
    let body = body.copied_to(Box::new(move |pieces| noted(&audit, pieces, accepted)));
    Response::from_parts(parts, body)
}

fn noted(audit: &Recorder, pieces: Vec<Bytes>, accepted: Accepted) {
    match json_of(pieces, accepted) {
        Ok(pieces) => note(audit, pieces, false),
        Err(why) => tracing::error!(why, "an answer cannot be recorded"),
    }
}

/// A body as compact JSON.
fn json_of(pieces: Vec<Bytes>, accepted: Accepted) -> Result<Vec<Bytes>, String> {
    if accepted.media == Media::Json && !accepted.pretty {
        return Ok(pieces);
    }
    let body = pieces.concat();
    let value = match accepted.media {
        Media::Json => json::decode(&body).map_err(|e| e.to_string())?,
        Media::Yaml => yaml::decode(&body).map_err(|e| e.to_string())?,
        Media::Protobuf => protobuf::decode(&body).map_err(|e| e.to_string())?,
        Media::Cbor => cbor::decode(&body).map_err(|e| e.to_string())?,
    };
    Ok(vec![json::encode_document(&value).into()])
}

/// A user as events show them.
pub(super) fn shown(user: &User) -> audit::User {
    audit::User {
        name: user.name.clone(),
        uid: user.uid.clone(),
        groups: user.groups.clone(),
        extra: user.extra.clone(),
    }
}

/// Path and query as Go's URL has them.
fn uri_of(request: &Request) -> Str {
    let path = GoUrl { path: request.uri.path(), ..GoUrl::default() }.escaped_path();
    match request.uri.query() {
        Some(query) => format!("{path}?{query}").into(),
        None => path.into(),
    }
}
