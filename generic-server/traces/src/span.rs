//! Spans under way, and the one that is current.

use std::{
    borrow::Cow,
    cell::RefCell,
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use http::HeaderMap;

use crate::{
    context::{Carried, Context, Remote},
    otlp::{self, Any, KeyValue},
    queue::{COMPONENT, Ended, HTTP, Instrument, Queue},
};

/// So many attributes, and so many events, a span has (OpenTelemetry's limits).
const MAX_COUNT: usize = 128;
/// So long are the values of attributes, in bytes: what a client sends has no room in the queue beyond that. Differs:
/// upstream keeps any length.
const MAX_TEXT: usize = 1024;

/// Which end of a call a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Neither.
    Internal = 1,
    /// The one that answers.
    Server = 2,
    /// The one that asks.
    Client = 3,
}

thread_local! {
    /// The span that whatever runs now belongs to.
    static CURRENT: RefCell<Option<Arc<Active>>> = const { RefCell::new(None) };
}

/// A span that has begun; it ends when this is dropped. One of a trace that is not kept has nothing in it.
#[derive(Default)]
#[must_use]
pub struct Span(Option<Arc<Active>>);

/// A span as those know it who are in it.
pub(crate) struct Active {
    pub(crate) context: Context,
    pub(crate) carried: Carried,
    /// What is said of it; `None`: nothing is kept.
    recording: Option<Recording>,
}

struct Recording {
    queue: Queue,
    instrument: &'static Instrument,
    /// `None`: the span has ended.
    span: Mutex<Option<otlp::Span>>,
}

/// What is said of a span or an event.
#[derive(Default)]
pub struct Attributes(Vec<KeyValue>);

impl Attributes {
    /// Adds text.
    pub fn text(&mut self, key: &str, value: impl AsRef<str>) {
        let value = value.as_ref();
        let mut end = value.len().min(MAX_TEXT);
        while !value.is_char_boundary(end) {
            end -= 1;
        }
        self.add(key, Any::Text(value[..end].to_owned()));
    }

    /// Adds text, if there is some.
    pub fn text_if(&mut self, key: &str, value: impl AsRef<str>) {
        if !value.as_ref().is_empty() {
            self.text(key, value);
        }
    }

    /// Adds a number.
    pub fn int(&mut self, key: &str, value: impl TryInto<i64>) {
        self.add(key, Any::Int(value.try_into().unwrap_or(i64::MAX)));
    }

    /// Adds a truth.
    pub fn bool(&mut self, key: &str, value: bool) {
        self.add(key, Any::Bool(value));
    }

    fn add(&mut self, key: &str, value: Any) {
        if self.0.len() < MAX_COUNT {
            self.0.push(KeyValue::new(key, value));
        }
    }
}

fn attributes(describe: impl FnOnce(&mut Attributes)) -> Vec<KeyValue> {
    let mut all = Attributes::default();
    describe(&mut all);
    all.0
}

/// How a span begins.
pub(crate) struct Beginning {
    pub(crate) instrument: &'static Instrument,
    pub(crate) name: Cow<'static, str>,
    pub(crate) kind: SpanKind,
    pub(crate) started: SystemTime,
    pub(crate) parent: Option<Context>,
    /// Whether the parent is of another process.
    pub(crate) is_remote: bool,
    pub(crate) link: Option<Remote>,
}

/// The bits of flags: which trace, whether it is known where the parent is, and whether that is elsewhere.
fn flags(context: &Context, is_remote: bool) -> u32 {
    u32::from(context.sampled) | 0x100 | if is_remote { 0x200 } else { 0 }
}

fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

impl Span {
    /// No span: whatever is in it belongs to the one around it.
    pub const NONE: Span = Span(None);

    /// A span that is kept.
    pub(crate) fn kept(
        queue: &Queue,
        (context, carried): (Context, Carried),
        beginning: Beginning,
        describe: impl FnOnce(&mut Attributes),
    ) -> Self {
        let Beginning { instrument, name, kind, started, parent, is_remote, link } = beginning;
        let link = link.map(|link| otlp::Link {
            trace_id: link.context.trace.to_vec(),
            span_id: link.context.span.to_vec(),
            trace_state: link.carried.state(),
            flags: flags(&link.context, true),
        });
        let span = otlp::Span {
            trace_id: context.trace.to_vec(),
            span_id: context.span.to_vec(),
            trace_state: carried.state(),
            parent_span_id: parent.map(|parent| parent.span.to_vec()).unwrap_or_default(),
            name: name.into_owned(),
            kind: kind as i32,
            start_time_unix_nano: nanos(started),
            attributes: attributes(describe),
            links: link.into_iter().collect(),
            flags: flags(&context, is_remote),
            ..otlp::Span::default()
        };
        let recording = Recording { queue: queue.clone(), instrument, span: Mutex::new(Some(span)) };
        Span(Some(Arc::new(Active { context, carried, recording: Some(recording) })))
    }

    /// A span of which nothing is kept, but which others hear of.
    pub fn unkept(context: Context, carried: Carried) -> Self {
        Span(Some(Arc::new(Active { context, carried, recording: None })))
    }

    /// Its identity.
    pub fn context(&self) -> Option<Context> {
        self.0.as_ref().map(|active| active.context)
    }

    /// Begins a span in this one, by another part of the server.
    pub fn child(
        &self,
        instrument: &'static Instrument,
        name: impl Into<Cow<'static, str>>,
        describe: impl FnOnce(&mut Attributes),
    ) -> Self {
        let parent = self.0.as_ref();
        parent.map_or(Span::NONE, |parent| parent.child(instrument, name.into(), SpanKind::Internal, describe))
    }

    fn recording(&self) -> Option<&Recording> {
        self.0.as_ref()?.recording.as_ref()
    }

    /// Whether anything is kept of it.
    pub fn is_kept(&self) -> bool {
        self.recording().is_some()
    }

    /// Says more of it.
    pub fn describe(&self, describe: impl FnOnce(&mut Attributes)) {
        let Some(recording) = self.recording() else { return };
        let more = attributes(describe);
        if let Some(span) = &mut *recording.lock() {
            let room = MAX_COUNT.saturating_sub(span.attributes.len());
            span.attributes.extend(more.into_iter().take(room));
        }
    }

    /// Notes that it failed, and why.
    pub fn failed(&self, why: &str) {
        let Some(recording) = self.recording() else { return };
        if let Some(span) = &mut *recording.lock() {
            span.status = Some(otlp::Status { message: why.to_owned(), code: 2 });
        }
    }

    /// Notes something that happens in it.
    pub fn event(&self, name: &'static str, describe: impl FnOnce(&mut Attributes)) {
        if let Some(active) = &self.0 {
            active.event(name, describe);
        }
    }

    /// Polls a future in this span. Without one it belongs to the span around it.
    pub async fn within<F: Future>(&self, mut future: Pin<&mut F>) -> F::Output {
        if self.0.is_none() {
            return future.await;
        }
        poll_fn(|cx| {
            let _entered = self.enter();
            future.as_mut().poll(cx)
        })
        .await
    }

    /// Has it be the current one of this thread until the guard is dropped. Never held across an await.
    pub fn enter(&self) -> Entered {
        Entered(self.0.as_ref().map(|active| CURRENT.replace(Some(active.clone()))))
    }
}

/// Spans that begin one in the other while a request goes its way, and end together when it is answered.
#[derive(Default)]
pub struct Nested(Mutex<Vec<Span>>);

impl Nested {
    fn spans(&self) -> MutexGuard<'_, Vec<Span>> {
        // A list of spans is whole at all times.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the next one. It is the current span from now on, if this is called by what is polled [`Nested::within`].
    pub fn push(&self, span: Span) {
        if let Some(active) = &span.0 {
            CURRENT.set(Some(active.clone()));
            self.spans().push(span);
        }
    }

    /// Does something with the last one, if there is one.
    pub fn last<T>(&self, with: impl FnOnce(&Span) -> T) -> Option<T> {
        self.spans().last().map(with)
    }

    /// Does something with the one that `which` is looking for.
    pub fn find(&self, which: Context, with: impl FnOnce(&Span)) {
        if let Some(span) = self.spans().iter().find(|span| span.context() == Some(which)) {
            with(span);
        }
    }

    /// Polls a future in the last span of the time.
    pub async fn within<F: Future>(&self, mut future: Pin<&mut F>) -> F::Output {
        poll_fn(|cx| {
            let last = self.last(|span| span.0.clone()).flatten();
            let _entered = Entered(Some(CURRENT.replace(last)));
            future.as_mut().poll(cx)
        })
        .await
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        let mut spans = std::mem::take(&mut *self.spans());
        while spans.pop().is_some() {}
    }
}

/// Puts back the span that was current before.
#[must_use]
pub struct Entered(Option<Option<Arc<Active>>>);

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(before) = self.0.take() {
            CURRENT.set(before);
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let Some(recording) = self.recording() else { return };
        if let Some(mut span) = recording.lock().take() {
            span.end_time_unix_nano = nanos(SystemTime::now());
            recording.queue.put(Ended { instrument: recording.instrument, span });
        }
    }
}

impl Recording {
    fn lock(&self) -> MutexGuard<'_, Option<otlp::Span>> {
        // What is behind it is whole at all times.
        self.span.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Active {
    fn child(
        self: &Arc<Self>,
        instrument: &'static Instrument,
        name: Cow<'static, str>,
        kind: SpanKind,
        describe: impl FnOnce(&mut Attributes),
    ) -> Span {
        let Some(recording) = &self.recording else {
            // Of a trace that is not kept the parent stands for all below it.
            return Span(None);
        };
        let beginning = Beginning {
            instrument,
            name,
            kind,
            started: SystemTime::now(),
            parent: Some(self.context),
            is_remote: false,
            link: None,
        };
        let identity = (self.context.child(), self.carried.clone());
        Span::kept(&recording.queue, identity, beginning, describe)
    }

    fn event(&self, name: &'static str, describe: impl FnOnce(&mut Attributes)) {
        let Some(recording) = &self.recording else { return };
        let attributes = attributes(describe);
        let event = otlp::Event { time_unix_nano: nanos(SystemTime::now()), name: name.to_owned(), attributes };
        if let Some(span) = recording.lock().as_mut().filter(|span| span.events.len() < MAX_COUNT) {
            span.events.push(event);
        }
    }
}

fn current() -> Option<Arc<Active>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Begins a span in the current one.
pub fn span(name: impl Into<Cow<'static, str>>, describe: impl FnOnce(&mut Attributes)) -> Span {
    begin(&COMPONENT, name, SpanKind::Internal, describe)
}

/// Begins a span in the current one, of a request that goes out by HTTP.
pub fn client_span(name: impl Into<Cow<'static, str>>, describe: impl FnOnce(&mut Attributes)) -> Span {
    begin(&HTTP, name, SpanKind::Client, describe)
}

/// Begins a span in the current one, by another part of the server.
pub(crate) fn begin(
    instrument: &'static Instrument,
    name: impl Into<Cow<'static, str>>,
    kind: SpanKind,
    describe: impl FnOnce(&mut Attributes),
) -> Span {
    current().map_or(Span::NONE, |current| current.child(instrument, name.into(), kind, describe))
}

impl Instrument {
    /// Begins a span of a call to another process, in the current one.
    pub fn call(&'static self, name: impl Into<Cow<'static, str>>, describe: impl FnOnce(&mut Attributes)) -> Span {
        begin(self, name, SpanKind::Client, describe)
    }
}

/// Whether something is kept of the current span.
pub fn is_recording() -> bool {
    CURRENT.with_borrow(|current| current.as_ref().is_some_and(|active| active.recording.is_some()))
}

/// Notes something that happens in the current span.
pub fn event(name: &'static str, describe: impl FnOnce(&mut Attributes)) {
    if let Some(current) = current() {
        current.event(name, describe);
    }
}

/// By what the audit log calls the request that the current span belongs to.
pub fn audit_id() -> Option<Arc<str>> {
    current()?.carried.audit_id.clone()
}

/// Tells whoever gets these headers of which trace they are part.
pub fn inject(headers: &mut HeaderMap) {
    if let Some(current) = current() {
        current.carried.write(&current.context, headers);
    }
}
