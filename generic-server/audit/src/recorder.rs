//! What a request gathers for its events on its way through the server.

use std::{
    borrow::Cow,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use bytes::Bytes;
use machinery::{
    Str, Value,
    codec::json,
    meta::{Meta, status::Status},
};

use crate::{
    ack::Ack,
    auditor::Auditor,
    event::{Document, Event, ObjectReference, Stage, User},
    latency::{Latencies, Layer, THRESHOLD},
    level::Level,
    policy::{Attributes, Verdict},
};

/// Longer bodies are not encoded on the reactor.
const INLINE: usize = 64 << 10;
/// User agents are cut to so many bytes, and marked.
const MAX_USER_AGENT: usize = 1024;

/// Gathers the events of one request. One that is off (no policy, no backend) costs nothing; clones share one request.
#[derive(Clone, Default)]
pub struct Recorder(Option<Arc<Record>>);

/// Records nothing: of what the server does for itself.
pub static OFF: &Recorder = &Recorder(None);

struct Record {
    auditor: Arc<Auditor>,
    started: Instant,
    verdict: OnceLock<Verdict>,
    event: Mutex<Event>,
    /// Annotations that only the last stage shows.
    late: Mutex<Vec<(&'static str, Str)>>,
    latencies: Latencies,
    /// Whether the layers of this request are measured; those of a watch are not.
    is_measured: OnceLock<bool>,
}

/// What the first event says of a request.
#[derive(Debug, Default)]
pub struct Request {
    /// Path and query, as Go's URL has them.
    pub uri: Str,
    /// Who it came from and through.
    pub source_ips: Vec<IpAddr>,
    /// The User-Agent header.
    pub user_agent: Vec<u8>,
    /// Who asks; nobody if that could not be found out.
    pub user: User,
    /// When it came in.
    pub received: Option<SystemTime>,
    /// Whether its layers are measured.
    pub is_measured: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is whole at all times.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    /// Of a request that came in at `started`; off without an auditor.
    pub fn new(auditor: Option<&Arc<Auditor>>, id: &Str, started: Instant) -> Self {
        Recorder(auditor.map(|auditor| {
            Arc::new(Record {
                auditor: auditor.clone(),
                started,
                verdict: OnceLock::new(),
                event: Mutex::new(Event { id: id.clone(), ..Event::default() }),
                late: Mutex::default(),
                latencies: Latencies::default(),
                is_measured: OnceLock::new(),
            })
        }))
    }

    /// The record, if the request is audited or nobody has decided about that yet.
    fn record(&self) -> Option<&Record> {
        let record = self.0.as_deref()?;
        record.verdict.get().is_none_or(|verdict| verdict.level > Level::None).then_some(record)
    }

    /// Whether anything is recorded, as far as that is known yet.
    pub fn is_on(&self) -> bool {
        self.record().is_some()
    }

    /// The level at which the request is recorded; `None` before that is decided.
    pub fn level(&self) -> Level {
        self.0.as_ref().and_then(|record| record.verdict.get()).map_or(Level::None, |verdict| verdict.level)
    }

    /// Decides by the policy how much is recorded, and notes what is known already.
    pub fn begin(&self, attributes: &Attributes<'_>, request: impl FnOnce() -> Request) {
        let Some(record) = self.0.as_deref() else { return };
        let verdict = *record.verdict.get_or_init(|| record.auditor.evaluate(attributes));
        if verdict.level == Level::None {
            return;
        }
        let request = request();
        record.is_measured.get_or_init(|| request.is_measured);
        let mut event = lock(&record.event);
        event.level = verdict.level;
        event.verb = attributes.verb.into();
        event.uri = request.uri;
        event.source_ips = request.source_ips;
        event.user_agent = user_agent(&request.user_agent);
        event.user = request.user;
        event.received = request.received.map(Into::into);
        event.object = attributes.is_resource.then(|| ObjectReference {
            resource: attributes.resource.into(),
            namespace: attributes.namespace.into(),
            name: attributes.name.into(),
            group: attributes.group.into(),
            version: attributes.version.into(),
            subresource: attributes.subresource.into(),
            ..ObjectReference::default()
        });
    }

    /// Notes an annotation. The first value of a key stays.
    pub fn annotate(&self, key: impl Into<Cow<'static, str>>, value: impl Into<Str>) {
        if let Some(record) = self.record() {
            lock(&record.event).annotate(key.into(), value.into());
        }
    }

    /// Notes an annotation that only the last stage shows.
    pub fn annotate_at_end(&self, key: &'static str, value: impl Into<Str>) {
        if let Some(record) = self.record() {
            lock(&record.late).push((key, value.into()));
        }
    }

    /// Notes as whom the user acts, and by which constrained mode (empty: by the verb that allows everything).
    pub fn impersonated(&self, user: impl FnOnce() -> User, constraint: &'static str) {
        if let Some(record) = self.record() {
            lock(&record.event).impersonated = Some((user(), constraint));
        }
    }

    /// Notes the object that was sent, decoded and with its defaults.
    pub fn object(&self, object: &Value) {
        let Some(record) = self.record() else { return };
        let Some(verdict) = record.verdict.get() else { return };
        let document = (verdict.level >= Level::Request).then(|| {
            let lean = verdict.omit_managed_fields.then(|| without_managed_fields(object));
            Document::Json(vec![json::encode_document(lean.as_ref().unwrap_or(object)).into()])
        });
        let meta = Meta::of(object);
        let mut event = lock(&record.event);
        let reference = event.object.get_or_insert_default();
        let fill = |own: &mut Str, sent: &str| {
            if own.is_empty() {
                *own = sent.into();
            }
        };
        fill(&mut reference.namespace, meta.namespace());
        fill(&mut reference.name, meta.name());
        fill(&mut reference.uid, meta.uid());
        fill(&mut reference.resource_version, object.str_at(&["metadata", "resourceVersion"]).unwrap_or_default());
        event.request = document;
    }

    /// Notes what was sent with it, which is no object.
    pub fn options(&self, document: impl FnOnce() -> Value) {
        if self.level() >= Level::Request
            && let Some(record) = self.record()
        {
            let document = json::encode_document(&document());
            lock(&record.event).request = Some(Document::Json(vec![document.into()]));
        }
    }

    /// Notes the patch that was sent, as it is.
    pub fn patch(&self, patch: &Bytes) {
        if self.level() >= Level::Request
            && let Some(record) = self.record()
        {
            lock(&record.event).request = Some(Document::Foreign(patch.clone()));
        }
    }

    /// Notes the code of the answer, and the Status that it is, if it is one.
    pub fn answered(&self, code: u16, status: Option<Arc<Status>>) {
        if let Some(record) = self.record() {
            let mut event = lock(&record.event);
            event.code = code;
            event.status = status;
        }
    }

    /// Whether the object that is answered is to be noted.
    pub fn wants_response(&self) -> bool {
        self.level() == Level::RequestResponse
    }

    /// Whether managed fields are left out of objects.
    pub fn omits_managed_fields(&self) -> bool {
        let verdict = self.0.as_ref().and_then(|record| record.verdict.get());
        verdict.is_some_and(|verdict| verdict.omit_managed_fields)
    }

    /// Notes the object that is answered.
    pub fn response(&self, document: Document) {
        if self.wants_response()
            && let Some(record) = self.record()
        {
            lock(&record.event).response = Some(document);
        }
    }

    /// Adds to what a layer took.
    pub fn took(&self, layer: Layer, time: Duration) {
        if let Some(record) = self.record() {
            record.latencies.add(layer, time);
        }
    }

    /// When a layer begins, if anybody wants to know what it takes.
    pub fn clock(&self) -> Option<Instant> {
        self.is_on().then(Instant::now)
    }

    /// Adds to what a layer took, which began at that time.
    pub fn took_since(&self, layer: Layer, begun: Option<Instant>) {
        if let Some(begun) = begun {
            self.took(layer, begun.elapsed());
        }
    }

    /// Adds what some work takes to what a layer took.
    pub async fn timed<T>(&self, layer: Layer, work: impl Future<Output = T>) -> T {
        let begun = self.clock();
        let done = work.await;
        self.took_since(layer, begun);
        done
    }

    /// Notes what a layer took of which several run at once: the longest counts.
    pub fn took_at_once(&self, layer: Layer, time: Duration) {
        if let Some(record) = self.record() {
            record.latencies.longest(layer, time);
        }
    }

    /// Hands the event of a stage to the backends.
    pub fn emit(&self, stage: Stage) -> Ack {
        let Some(record) = self.record() else { return Ack::taken(true) };
        let Some(verdict) = record.verdict.get() else { return Ack::taken(true) };
        if verdict.omit.contains(stage) {
            return Ack::taken(true);
        }
        let mut event = lock(&record.event);
        event.stage = stage;
        event.staged = match stage {
            Stage::RequestReceived => event.received,
            _ => Some(SystemTime::now().into()),
        };
        if stage == Stage::ResponseComplete {
            record.conclude(&mut event);
        }
        if event.size_of_bodies() <= INLINE {
            return record.auditor.hand_out(&event);
        }
        // Nothing is copied by this but references.
        let (event, auditor) = (event.clone(), record.auditor.clone());
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => Ack::encoding(runtime.spawn_blocking(move || auditor.hand_out(&event))),
            Err(_) => auditor.hand_out(&event),
        }
    }

    /// Counts the request among those that are refused for their event.
    pub fn refused(&self) {
        if let Some(record) = self.record() {
            record.auditor.metrics().rejected();
        }
    }
}

impl Record {
    /// Adds what only the last event says.
    fn conclude(&self, event: &mut Event) {
        for (key, value) in lock(&self.late).drain(..) {
            event.annotate(key.into(), value);
        }
        let total = self.started.elapsed();
        if total > THRESHOLD && self.is_measured.get() == Some(&true) {
            for (key, value) in self.latencies.annotations(total) {
                event.annotate(key.into(), value);
            }
        }
    }
}

fn without_managed_fields(object: &Value) -> Value {
    let mut object = object.clone();
    if object.at(&["metadata", "managedFields"]).is_some() {
        object.remove_at(&["metadata", "managedFields"]);
    }
    object
}

fn user_agent(text: &[u8]) -> Str {
    let cut = &text[..text.len().min(MAX_USER_AGENT)];
    let mark = if cut.len() < text.len() { "...TRUNCATED" } else { "" };
    Str::from(String::from_utf8_lossy(cut).into_owned() + mark)
}
