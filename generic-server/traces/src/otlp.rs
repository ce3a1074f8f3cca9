//! The messages of OTLP that are sent: `opentelemetry.proto.collector.trace.v1`, as far as spans need them.

use prost::Message;

/// The method of a collector that takes spans.
pub const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// What a collector is sent.
#[derive(Clone, PartialEq, Message)]
pub struct ExportRequest {
    /// Spans by whose they are.
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

/// What the collector says. Spans that it does not want are its own affair.
#[derive(Clone, PartialEq, Message)]
pub struct ExportResponse {}

/// The spans of one process.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceSpans {
    /// The process.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// Its spans by what has made them.
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
    /// Which names of attributes are used.
    #[prost(string, tag = "3")]
    pub schema_url: String,
}

/// Who a process is.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    /// Its attributes.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// The spans that one part of the program has made.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeSpans {
    /// The part.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    /// Its spans.
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
}

/// A part of a program.
#[derive(Clone, PartialEq, Message)]
pub struct Scope {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// One span.
#[derive(Clone, PartialEq, Message)]
pub struct Span {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// 8 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    /// What others say of the trace.
    #[prost(string, tag = "3")]
    pub trace_state: String,
    /// 8 bytes, or none.
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    /// What was done.
    #[prost(string, tag = "5")]
    pub name: String,
    /// `SPAN_KIND_…`
    #[prost(int32, tag = "6")]
    pub kind: i32,
    /// Since 1970.
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    /// Since 1970.
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    /// What is said of it.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    /// What happened in it.
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
    /// Spans of other traces that have to do with it.
    #[prost(message, repeated, tag = "13")]
    pub links: Vec<Link>,
    /// What came of it.
    #[prost(message, optional, tag = "15")]
    pub status: Option<Status>,
    /// Of the trace; and whether the parent is of another process.
    #[prost(fixed32, tag = "16")]
    pub flags: u32,
}

/// A moment of a span.
#[derive(Clone, PartialEq, Message)]
pub struct Event {
    /// Since 1970.
    #[prost(fixed64, tag = "1")]
    pub time_unix_nano: u64,
    /// What happened.
    #[prost(string, tag = "2")]
    pub name: String,
    /// What is said of it.
    #[prost(message, repeated, tag = "3")]
    pub attributes: Vec<KeyValue>,
}

/// A span of another trace.
#[derive(Clone, PartialEq, Message)]
pub struct Link {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// 8 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    /// What others say of that trace.
    #[prost(string, tag = "3")]
    pub trace_state: String,
    /// As those of a span.
    #[prost(fixed32, tag = "6")]
    pub flags: u32,
}

/// What came of a span.
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    /// Why it failed.
    #[prost(string, tag = "2")]
    pub message: String,
    /// 0: nothing is said, 2: it failed.
    #[prost(int32, tag = "3")]
    pub code: i32,
}

/// An attribute.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// Its name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Its value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// A value.
#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    /// Of one of these types.
    #[prost(oneof = "Any", tags = "1, 2, 3")]
    pub value: Option<Any>,
}

/// The types of values.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Any {
    /// Text.
    #[prost(string, tag = "1")]
    Text(String),
    /// A truth.
    #[prost(bool, tag = "2")]
    Bool(bool),
    /// A number.
    #[prost(int64, tag = "3")]
    Int(i64),
}

impl KeyValue {
    /// An attribute.
    pub fn new(key: &str, value: Any) -> Self {
        KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
    }
}
