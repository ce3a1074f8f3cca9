//! Traces of requests: spans, made by whoever does something, sent to an OpenTelemetry collector (OTLP over gRPC).
//!
//! A [`Tracer`] makes the span of a request and decides whether its trace is kept: by the parent that a client names, if the
//! client may do that, else by chance. While [`Span::within`] polls a future that span is the current one of the thread,
//! and whatever happens in it makes spans below it ([`span`]), notes events, and tells others about it ([`inject`]). Where
//! no span is current, and for traces that are not kept, all of that is one look at a variable of the thread.
//!
//! Spans that have ended wait for the [`Exporter`] in a queue of a fixed length. What finds no room, and what the collector
//! does not take, is lost and counted: nobody waits for a collector.
//!
//! ```
//! use std::time::SystemTime;
//!
//! use traces::{Losses, Parent, Tracer};
//!
//! let (tracer, _exporter) = Tracer::new(1_000_000, Losses::default()); // of a million traces, all are kept
//! let request = tracer.request(Parent::None, ("GET", "an audit ID"), SystemTime::now(), |a| a.bool("watch", false));
//! assert!(request.is_kept());
//! assert!(!traces::span("no span is current here", |_| {}).is_kept());
//! ```
//!
//! The messages of OTLP are written down here ([`otlp`]), and sent by the gRPC client that etcd is reached with. The crates
//! of the OpenTelemetry project bring a second pipeline of attributes, processors and resources, and eight further crates,
//! for what are two hundred lines.

mod context;
mod export;
pub mod otlp;
mod queue;
mod span;
mod tracer;

pub use context::{Carried, Context, Remote};
pub use export::{Destination, Dial, Exporter, Stream};
pub use queue::{Instrument, Losses};
pub use span::{Attributes, Nested, Span, SpanKind, audit_id, client_span, event, inject, is_recording, span};
pub use tracer::{Parent, Tracer};
