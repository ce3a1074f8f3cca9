//! The pipeline: what every request passes before a server of the chain sees it, in this order.
//!
//! panic → resolve → deadline → CORS → authenticate → trace → audit → impersonate → concurrency → authorize → the chain

mod audit;
pub mod authenticate;
mod authentication_metrics;
mod authorize;
mod compress;
mod concurrency;
mod cors;
mod deadline;
mod impersonate;
mod internal;
mod not_ready;
mod panic;
mod trace;

use std::{
    pin::pin,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use ::audit::{Auditor, Layer, Recorder};
use http::{HeaderName, HeaderValue, header::CONNECTION};
use hyper::body::Incoming;
use machinery::{Str, meta::status::Status};
use tokio_util::sync::CancellationToken;
use traces::Tracer;
use tracing::Instrument;

pub use authenticate::{Anonymous, Authentication};
pub use authentication_metrics::AuthenticationMetrics;
pub use concurrency::Concurrency;
pub use cors::{Cors, OriginError};
pub use impersonate::Impersonation;

use crate::response::{self, NO_CACHE, Response};
use crate::{
    body::Body,
    metrics::{Laps, Metrics, Step, Turn, step_took},
    negotiate::{Media, ServesCbor},
    request::{Request, RequestBody, RequestParts, Rest, mend_headers, waits_to_send},
    serve::{Lasting, Lifecycle, Peer},
    server::GenericServer,
};
use auth::{Authorizer, Decision, TokenNotes, User, header_text};
use machinery::request::{Query, strict_percent_decode};

/// The way into the chain.
pub struct Pipeline {
    /// The front server.
    pub front: Arc<GenericServer>,
    /// Who did what.
    pub auditor: Option<Arc<Auditor>>,
    /// Who asks?
    pub authentication: Authentication,
    /// Which requests are traced, and where that goes.
    pub tracer: Option<Tracer>,
    /// Who may act as somebody else?
    pub impersonation: Impersonation,
    /// May they?
    pub authorizer: Arc<dyn Authorizer>,
    /// How many run at once, and whose turn is next.
    pub concurrency: Concurrency,
    /// Cancelled when the server is ready for the first time, if requests are refused until then.
    pub ready: Option<CancellationToken>,
    /// Which origins may call from browsers.
    pub cors: Option<Cors>,
    /// How long a request may take that is no watch and no stream.
    pub request_timeout: Duration,
    /// Whether large answers are compressed for clients that take gzip.
    pub compress: bool,
    /// Whether documents may be CBOR.
    pub serves_cbor: bool,
    /// Whether connections of strangers over HTTP/2 end with each answer (the gate UnauthenticatedHTTP2DOSMitigation).
    pub parts_with_strangers: bool,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// When all of this ends.
    pub lifecycle: Lifecycle,
}

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

impl Pipeline {
    /// Answers one request.
    pub async fn handle(self: Arc<Self>, request: http::Request<Incoming>) -> http::Response<Body> {
        let (parts, body) = request.into_parts();
        let (body, rest) = RequestBody::new(body);
        self.accept(parts, body, rest).await
    }

    /// Answers a request whose body may be anywhere; `rest` is where a client's goes that nobody reads.
    async fn accept(
        self: Arc<Self>,
        mut parts: http::request::Parts,
        body: RequestBody,
        rest: Option<Arc<Rest>>,
    ) -> http::Response<Body> {
        let received = Instant::now();
        mend_headers(&mut parts.headers);
        let Some(path) = strict_percent_decode(parts.uri.path()) else {
            return response::text(http::StatusCode::BAD_REQUEST, "400 Bad Request");
        };
        let path = String::from_utf8_lossy(&path);
        let query = Query::parse(parts.uri.query().unwrap_or(""));
        let info = machinery::request::resolve(parts.method.as_str(), &path, &query);
        let audit_id = audit_id(&parts.headers);
        let rest = rest.filter(|_| !waits_to_send(&parts.headers));
        let mut request = Request::from(RequestParts {
            method: parts.method,
            uri: parts.uri,
            headers: parts.headers,
            query,
            info,
            user: anonymous(),
            authorizer: self.authorizer.clone(),
            audit: audit::recorder(self.auditor.as_ref(), &audit_id, received),
            audit_id,
            deadline: None,
            body: Some(body),
            extensions: parts.extensions,
        });
        request.extensions.insert(self.lifecycle.clone());
        request.extensions.insert(self.metrics.clone());
        if self.serves_cbor {
            request.extensions.insert(ServesCbor);
        }
        let (audit_id, method, path) = (&*request.audit_id, request.method.as_str(), &*request.info.path);
        let span = tracing::info_span!("request", audit_id, method, path);
        self.answer(request, received, rest).instrument(span).await
    }

    async fn answer(
        self: Arc<Self>,
        mut request: Request,
        received: Instant,
        rest: Option<Arc<Rest>>,
    ) -> http::Response<Body> {
        let wanted = response::negotiated(&request);
        let is_cbor = wanted.is_some_and(|wanted| wanted.media == Media::Cbor);
        let wanted_early = if is_cbor { response::negotiated_early(&request) } else { wanted };
        let is_resource = request.info.is_resource;
        let label = self.metrics.start(&request);
        let (audit_id, audit) = (request.audit_id.clone(), request.audit.clone());
        let origin = request.header("origin").map(str::to_owned);
        let compress = self.compress && compress::allowed(&request);
        let extra_space = authenticate::has_extra_space(&request);
        // Pinned here and passed by reference, as below: a future that is passed by value is held twice by its caller, and
        // these hold everything that a request may need.
        let seen = Seen { trace: trace::Trace::begin(self.tracer.as_ref(), &mut request, received), ..Seen::default() };
        let caught = panic::catch(pin!(seen.trace.within(pin!(self.clone().steps(request, received, &seen))))).await;
        let (outcome, panicked) = match caught {
            Ok(outcome) => (outcome, None),
            Err(panic) => (Err(panic::status()), Some(panic)),
        };
        if let Some(rest) = rest {
            rest.drain().await;
        }
        let made = audit.is_on().then(Instant::now);
        let mut response = match outcome {
            Ok(response) => response,
            Err(status) => {
                if seen.deadline.get().copied().flatten().is_some_and(|deadline| deadline <= Instant::now()) {
                    seen.ended.get_or_init(|| ());
                }
                let wanted = if is_resource && seen.turn().served { wanted } else { wanted_early };
                seen.trace.serialized(response::refusal(&status, response::or_indented(wanted)))
            }
        };
        if let Some(lasting) = seen.lasting() {
            response.extensions_mut().insert(lasting);
        }
        if extra_space {
            response = response::add_warnings(response, &[authenticate::EXTRA_SPACE.to_owned()]);
        }
        if let Some(notes) = seen.token_notes.get() {
            response = response::add_warnings(response, &notes.warnings);
        }
        if let Some(made) = made {
            let patience = self.patience();
            response = seen.answered((audit, made), wanted.is_some(), panicked, patience).record(response).await;
        }
        response = label.watch_over(response);
        if compress {
            response = compress::compress(response);
        }
        let headers = response.headers_mut();
        if let Ok(value) = HeaderValue::from_bytes(audit_id.as_bytes()) {
            headers.insert(AUDIT_ID, value);
        }
        if seen.is_stranger.get() == Some(&true) {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        headers.entry(http::header::CACHE_CONTROL).or_insert(NO_CACHE);
        if let Some(admitted) = seen.admitted.get() {
            admitted.mark(headers);
        }
        if let (Some(cors), Some(origin)) = (&self.cors, origin) {
            cors.mark(&origin, headers);
        }
        label.finish(&response, received.elapsed(), &seen.turn());
        tracing::debug!(status = response.status().as_u16(), elapsed = ?received.elapsed(), "answered");
        let response = seen.trace.answered(response);
        match seen.admitted.into_inner().and_then(concurrency::Admitted::lasting) {
            Some(place) => response.map(|body| body.holding(place)),
            None => response,
        }
    }

    /// How long a request that has no deadline waits for audit backends.
    fn patience(&self) -> Instant {
        Instant::now() + self.request_timeout
    }

    /// The steps, in order. Each either passes the request on or ends it.
    async fn steps(self: Arc<Self>, mut request: Request, received: Instant, seen: &Seen) -> Result<Response, Status> {
        if let Err(status) = deadline::set(&mut request, self.request_timeout) {
            seen.is_early.get_or_init(|| true);
            audit::refused_early(&request, received);
            return Err(status);
        }
        seen.lasts.get_or_init(|| request.deadline.is_none());
        seen.deadline.get_or_init(|| request.deadline);
        if let Some(preflight) = self.cors.as_ref().and_then(|cors| cors.preflight(&request)) {
            return Ok(preflight);
        }
        let audit = request.audit.clone();
        seen.trace.authenticating();
        let mut laps = Laps::begin();
        let deadline = request.deadline;
        let authenticated = deadline::within(deadline, self.authentication.authenticate(&mut request)).await;
        let authenticated = authenticated.and_then(|known| known);
        let took = laps.next();
        step_took(Step::Authentication, took);
        audit.took(Layer::Authentication, took);
        if let Some(notes) = request.extensions.remove::<Arc<TokenNotes>>() {
            seen.token_notes.get_or_init(|| notes);
        }
        // Connections of strangers are dear over HTTP/2: theirs end with each answer, as upstream's do (CVE-2023-44487).
        let is_stranger = authenticated.is_err() || request.user.is_anonymous();
        let peer = request.extensions.get::<Peer>().inspect(|peer| peer.note_known(!is_stranger));
        let parts = is_stranger && self.parts_with_strangers && peer.is_some_and(|peer| peer.http2);
        seen.is_stranger.get_or_init(|| parts);
        if let Err(status) = authenticated {
            seen.is_early.get_or_init(|| true);
            audit::refused_early(&request, received);
            return Err(status);
        }
        seen.trace.authenticated(&request);
        seen.trace.step("audit");
        if let Some(refused) = audit::received(&request, received, self.patience()).await {
            return Ok(refused);
        }
        step_took(Step::Audit, laps.next());
        seen.trace.step(self.impersonation.name());
        let impersonated = self.impersonation.impersonate(&*self.authorizer, &mut request);
        deadline::within(deadline, impersonated).await??;
        step_took(self.impersonation.step(), laps.next());
        if let Some(refused) = not_ready::refused(self.ready.as_ref(), &request) {
            return Ok(refused);
        }
        if let Concurrency::Fair { .. } = &self.concurrency {
            seen.trace.step("priorityandfairness");
        }
        let (found, refused) = self.concurrency.admit(&request, received, &self.metrics).await;
        let waited = laps.next();
        seen.waited.get_or_init(|| waited);
        if let Some(found) = found {
            seen.admitted.get_or_init(|| found);
        }
        if let Some(refused) = refused {
            seen.ended.get_or_init(|| ());
            return Ok(refused);
        }
        if let Concurrency::Fair { .. } = &self.concurrency {
            step_took(Step::PriorityAndFairness, waited);
        }
        seen.trace.step("authorization");
        let decision = authorize::decide(&*self.authorizer, &request).await?;
        let took = laps.next();
        self.metrics.access.authorized(&decision, took);
        let decision = seen.decision.get_or_init(|| decision);
        audit.took(Layer::Authorization, took);
        authorize::record(decision, &audit);
        if !decision.is_allowed() {
            return authorize::refuse(decision, &request);
        }
        step_took(Step::Authorization, took);
        let deadline = request.deadline;
        deadline::enforce(deadline, pin!(self.front.serve(request))).await
    }
}

/// What the steps have found out for the answer, whatever came of the request.
#[derive(Default)]
struct Seen {
    /// The spans of the request.
    trace: trace::Trace,
    /// The flow of the request, and its place.
    admitted: OnceLock<concurrency::Admitted>,
    /// Nobody is known to ask, over HTTP/2.
    is_stranger: OnceLock<bool>,
    /// The request has no deadline.
    lasts: OnceLock<bool>,
    /// How long it had to wait for its turn.
    waited: OnceLock<Duration>,
    /// It got no turn, or its time was over before it was done.
    ended: OnceLock<()>,
    /// What the authorizers have said of the request, and why.
    decision: OnceLock<Decision>,
    /// When it must be answered.
    deadline: OnceLock<Option<Instant>>,
    /// The request was refused before anybody was authenticated.
    is_early: OnceLock<bool>,
    /// What is told of the token that came with the request.
    token_notes: OnceLock<Arc<TokenNotes>>,
}

impl Seen {
    fn turn(&self) -> Turn {
        Turn {
            waited: self.waited.get().copied().unwrap_or_default(),
            ended: self.ended.get().is_some(),
            served: self.decision.get().is_some_and(Decision::is_allowed),
        }
    }

    fn lasting(&self) -> Option<Lasting> {
        self.lasts.get().filter(|lasts| **lasts).map(|_| Lasting)
    }

    fn answered(
        &self,
        (audit, made): (Recorder, Instant),
        is_negotiated: bool,
        panicked: Option<String>,
        patience: Instant,
    ) -> audit::Answered {
        let is = |flag: &OnceLock<bool>| flag.get() == Some(&true);
        let (lasts, is_early) = (is(&self.lasts), is(&self.is_early));
        let patience = self.deadline.get().copied().flatten().unwrap_or(patience);
        audit::Answered { audit, lasts, is_early, is_negotiated, panicked, made, patience }
    }
}

/// The client's audit id, or a new one.
fn audit_id(headers: &http::HeaderMap) -> Str {
    let own = headers.get(AUDIT_ID).map(header_text).filter(|id| !id.is_empty());
    let new = || Str::from(&*uuid::Uuid::new_v4().as_hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer()));
    own.map_or_else(new, Str::from)
}

fn anonymous() -> Arc<User> {
    static ANONYMOUS: std::sync::LazyLock<Arc<User>> = std::sync::LazyLock::new(|| Arc::new(User::anonymous()));
    ANONYMOUS.clone()
}
