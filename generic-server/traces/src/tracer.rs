//! Which traces are kept, and where what is kept of them goes.

use std::{borrow::Cow, sync::Arc, time::SystemTime};

use crate::{
    context::{Carried, Context, Remote},
    export::Exporter,
    queue::{HTTP, Instrument, Losses, Queue},
    span::{Attributes, Beginning, Span, SpanKind},
};

/// Makes the first spans of requests.
#[derive(Clone)]
pub struct Tracer(Arc<Shared>);

struct Shared {
    /// Of traces that nobody else has decided about so many of a million are kept.
    per_million: u32,
    queue: Queue,
}

/// Where a request comes from, as far as traces know.
#[derive(Debug)]
pub enum Parent<'a> {
    /// Nowhere.
    None,
    /// A span of this process.
    Here(&'a Context),
    /// A span elsewhere that may decide whether the trace is kept.
    Trusted(Remote),
    /// One that may not: a new trace is begun, and says where it came from.
    Linked(Remote),
}

impl Tracer {
    /// A tracer, and what sends its spans away.
    pub fn new(per_million: u32, losses: Losses) -> (Self, Exporter) {
        let (queue, waiting) = Queue::new(losses.clone());
        (Tracer(Arc::new(Shared { per_million, queue })), Exporter::new(waiting, losses))
    }

    /// Begins a trace that nobody has asked for.
    pub fn root(
        &self,
        instrument: &'static Instrument,
        name: &'static str,
        started: SystemTime,
        describe: impl FnOnce(&mut Attributes),
    ) -> Span {
        self.begin(Parent::None, None, (instrument, name.into(), SpanKind::Internal, started), describe)
    }

    /// Begins the span of a request that came in.
    pub fn request(
        &self,
        parent: Parent<'_>,
        (name, audit_id): (impl Into<Cow<'static, str>>, &str),
        started: SystemTime,
        describe: impl FnOnce(&mut Attributes),
    ) -> Span {
        self.begin(parent, Some(audit_id), (&HTTP, name.into(), SpanKind::Server, started), describe)
    }

    fn begin(
        &self,
        parent: Parent<'_>,
        audit_id: Option<&str>,
        (instrument, name, kind, started): (&'static Instrument, Cow<'static, str>, SpanKind, SystemTime),
        describe: impl FnOnce(&mut Attributes),
    ) -> Span {
        let is_remote = matches!(parent, Parent::Trusted(_));
        let (parent, carried, link) = match parent {
            Parent::None => (None, Carried::default(), None),
            Parent::Here(context) => (Some(*context), Carried::default(), None),
            Parent::Trusted(remote) => (Some(remote.context), remote.carried, None),
            Parent::Linked(remote) => (None, remote.carried.without_state(), Some(remote)),
        };
        let carried = carried.of_request(audit_id);
        let context = match &parent {
            Some(parent) => parent.child(),
            None => {
                let root = Context::root();
                Context { sampled: keeps(self.0.per_million, &root.trace), ..root }
            }
        };
        if !context.sampled {
            return Span::unkept(context, carried);
        }
        let beginning = Beginning { instrument, name, kind, started, parent, is_remote, link };
        Span::kept(&self.0.queue, (context, carried), beginning, describe)
    }
}

/// Decides by the trace's number alone, so that all who see the trace decide alike.
fn keeps(per_million: u32, trace: &[u8; 16]) -> bool {
    let mut half = [0; 8];
    half.copy_from_slice(&trace[8..]);
    let bound = (u128::from(per_million) << 63) / 1_000_000;
    u128::from(u64::from_be_bytes(half) >> 1) < bound
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use http::HeaderMap;

    use super::*;
    use crate::{
        otlp::{self, Any, KeyValue},
        queue,
        span::{self, event, inject, is_recording},
    };

    const KEPT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const DROPPED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

    fn remote(parent: &str) -> Remote {
        Remote { context: Context::parse(parent).expect("a span"), carried: Carried::default() }
    }

    /// The spans that end while `work` runs, the first one first.
    fn spans(per_million: u32, work: impl FnOnce(&Tracer)) -> Vec<otlp::Span> {
        let (tracer, mut exporter) = Tracer::new(per_million, Losses::default());
        work(&tracer);
        std::iter::from_fn(|| exporter.next()).map(|ended| ended.span).collect()
    }

    fn request(tracer: &Tracer, parent: Parent<'_>) -> Span {
        tracer.request(parent, ("GET /api", "an-id"), SystemTime::now(), |_| {})
    }

    #[tokio::test]
    async fn spans_are_of_the_trace_that_they_are_in() {
        let (tracer, mut exporter) = Tracer::new(1_000_000, Losses::default());
        let outer = request(&tracer, Parent::None);
        let work = async {
            let inner = span::span("List", |a| a.int("items", 3));
            tokio::task::yield_now().await;
            inner.within(pin!(async { event("read", |a| a.text("from", "cache")) })).await;
            drop(inner);
            event("answered", |_| {});
        };
        outer.within(pin!(work)).await;
        assert!(!is_recording(), "it is current only while it is polled");
        outer.within(pin!(async { assert_eq!(crate::audit_id().as_deref(), Some("an-id")) })).await;
        outer.describe(|a| a.int("http.response.status_code", 200));
        drop(outer);
        let spans: Vec<_> = std::iter::from_fn(|| exporter.next()).map(|ended| ended.span).collect();
        let [list, outer] = spans.as_slice() else { panic!("two spans: {spans:?}") };
        assert_eq!((list.name.as_str(), outer.name.as_str()), ("List", "GET /api"));
        assert_eq!((&list.trace_id, &list.parent_span_id), (&outer.trace_id, &outer.span_id));
        assert!(outer.parent_span_id.is_empty() && outer.kind == 2 && list.kind == 1);
        assert_eq!(list.attributes, [KeyValue::new("items", Any::Int(3))]);
        assert_eq!(outer.attributes, [KeyValue::new("http.response.status_code", Any::Int(200))]);
        let names = |span: &otlp::Span| span.events.iter().map(|event| event.name.clone()).collect::<Vec<_>>();
        assert_eq!((names(list), names(outer)), (vec!["read".to_owned()], vec!["answered".to_owned()]));
    }

    #[test]
    fn a_parent_elsewhere_decides_and_a_link_does_not() {
        let found = spans(0, |tracer| drop(request(tracer, Parent::Trusted(remote(KEPT)))));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].parent_span_id, remote(KEPT).context.span);
        assert_eq!(found[0].flags, 0x301);
        assert_eq!(spans(1_000_000, |tracer| drop(request(tracer, Parent::Trusted(remote(DROPPED))))), []);
        assert_eq!(spans(0, |tracer| drop(request(tracer, Parent::Linked(remote(KEPT))))), []);
        let found = spans(1_000_000, |tracer| drop(request(tracer, Parent::Linked(remote(DROPPED)))));
        assert_eq!(found[0].links.len(), 1);
        assert_ne!(found[0].trace_id, found[0].links[0].trace_id);
        assert_eq!(found[0].flags, 0x101);
    }

    #[test]
    fn others_hear_of_the_span_whether_it_is_kept_or_not() {
        let told = || {
            let mut headers = HeaderMap::new();
            inject(&mut headers);
            headers.get("traceparent").map(|parent| parent.to_str().expect("text").to_owned())
        };
        assert_eq!(told(), None);
        let found = spans(0, |tracer| {
            let span = request(tracer, Parent::None);
            let _entered = span.enter();
            let _inner = span::span("inner", |_| {}).enter();
            assert_eq!(told(), span.context().map(|context| context.to_string()));
            assert!(told().is_some_and(|parent| parent.ends_with("-00")));
        });
        assert_eq!(found, []);
        spans(1_000_000, |tracer| {
            let outer = request(tracer, Parent::None);
            let _entered = outer.enter();
            let inner = span::client_span("HTTP POST", |_| {});
            let _entered = inner.enter();
            assert_eq!(told(), inner.context().map(|context| context.to_string()));
            assert_ne!(inner.context(), outer.context());
        });
        assert_eq!(told(), None);
    }

    #[test]
    fn chance_follows_the_number_of_the_trace() {
        let (low, high) = ([0; 16], [0xff; 16]);
        assert!(!keeps(0, &low) && keeps(1, &low));
        assert!(!keeps(999_999, &high) && keeps(1_000_000, &high));
    }

    #[tokio::test]
    async fn nested_spans_begin_on_the_way_and_end_the_last_one_first() {
        let (tracer, mut exporter) = Tracer::new(1_000_000, Losses::default());
        let nested = crate::Nested::default();
        let way = async {
            nested.push(request(&tracer, Parent::None));
            for name in ["audit", "authorization"] {
                tokio::task::yield_now().await;
                nested.push(span::span(name, |_| {}));
            }
            drop(span::span("Get", |_| {}));
        };
        nested.within(pin!(way)).await;
        assert!(!is_recording());
        drop(nested);
        let spans: Vec<_> = std::iter::from_fn(|| exporter.next()).map(|ended| ended.span).collect();
        let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
        assert_eq!(names, ["Get", "authorization", "audit", "GET /api"]);
        assert!(spans.windows(2).all(|pair| pair[0].parent_span_id == pair[1].span_id));
    }

    #[test]
    fn what_clients_send_takes_little_room() {
        let found = spans(1_000_000, |tracer| {
            let span = request(tracer, Parent::None);
            let long = "é".repeat(10_000);
            span.describe(|a| (0..200).for_each(|_| a.text("user_agent.original", &long)));
            (0..200).for_each(|_| span.event("again", |_| {}));
        });
        assert_eq!((found[0].attributes.len(), found[0].events.len()), (128, 128));
        let first = found[0].attributes[0].value.as_ref().and_then(|value| value.value.clone());
        assert!(matches!(first, Some(Any::Text(text)) if text.len() == 1024));
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let losses = Losses::default();
        let (tracer, _exporter) = Tracer::new(1_000_000, losses.clone());
        (0..queue::LENGTH + 3).for_each(|_| drop(request(&tracer, Parent::None)));
        assert_eq!(losses.total(), 3);
    }
}
