//! The identity of a span, and how it is told to others: W3C Trace Context, and the baggage that goes along.

use std::{fmt, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue};

/// The headers that say of which trace a request is part.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
const BAGGAGE: HeaderName = HeaderName::from_static("baggage");

/// Longer ones are not carried on (W3C: what must be carried at least).
const MAX_TRACESTATE: usize = 512;
const MAX_BAGGAGE: usize = 8192;

/// Which span of which trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// The trace.
    pub trace: [u8; 16],
    /// The span in it.
    pub span: [u8; 8],
    /// Whether the trace is kept.
    pub sampled: bool,
}

/// What others have added to a trace, which is handed on as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Carried {
    tracestate: Option<HeaderValue>,
    baggage: Option<HeaderValue>,
    /// By what the audit log calls the request. It stays in this process.
    pub(crate) audit_id: Option<Arc<str>>,
}

/// A span elsewhere, as a request names it.
#[derive(Clone, Debug, PartialEq)]
pub struct Remote {
    /// The span.
    pub context: Context,
    /// What goes along.
    pub carried: Carried,
}

impl Remote {
    /// Reads the headers of a request.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let context = Context::parse(headers.get(TRACEPARENT)?.to_str().ok()?)?;
        let short = |name, most| headers.get(name).filter(|value: &&HeaderValue| value.len() <= most).cloned();
        let carried = Carried {
            tracestate: short(TRACESTATE, MAX_TRACESTATE),
            baggage: short(BAGGAGE, MAX_BAGGAGE),
            audit_id: None,
        };
        Some(Remote { context, carried })
    }
}

impl Carried {
    /// The same in a request that has this audit id.
    pub(crate) fn of_request(self, audit_id: Option<&str>) -> Self {
        Carried { audit_id: audit_id.map(Into::into), ..self }
    }

    /// The baggage alone: it belongs to a request, whatever its trace.
    pub(crate) fn without_state(&self) -> Self {
        Carried { tracestate: None, ..self.clone() }
    }

    /// The tracestate as text.
    pub(crate) fn state(&self) -> String {
        let text = self.tracestate.as_ref().and_then(|state| state.to_str().ok());
        text.unwrap_or_default().to_owned()
    }

    /// Writes the headers of a request that is part of `context`.
    pub(crate) fn write(&self, context: &Context, headers: &mut HeaderMap) {
        let parent = HeaderValue::from_str(&context.to_string());
        headers.insert(TRACEPARENT, parent.expect("digits and dashes make a header"));
        for (name, value) in [(TRACESTATE, &self.tracestate), (BAGGAGE, &self.baggage)] {
            if let Some(value) = value {
                headers.insert(name, value.clone());
            }
        }
    }
}

impl Context {
    /// Reads a `traceparent`: `00-TRACE-SPAN-FLAGS`. A newer version may have more behind it.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let [version] = digits::<1>(version)?;
        let [flags] = digits::<1>(flags)?;
        if version == 0xff || (version == 0 && (parts.next().is_some() || flags > 2)) {
            return None;
        }
        let (trace, span) = (digits::<16>(trace)?, digits::<8>(span)?);
        let is_one = trace.iter().any(|byte| *byte != 0) && span.iter().any(|byte| *byte != 0);
        is_one.then_some(Context { trace, span, sampled: flags & 1 == 1 })
    }

    /// A new trace, which is not kept yet.
    pub(crate) fn root() -> Self {
        Context { trace: uuid::Uuid::new_v4().into_bytes(), span: new_span(), sampled: false }
    }

    /// Another span of the same trace.
    pub(crate) fn child(&self) -> Self {
        Context { span: new_span(), ..*self }
    }
}

fn new_span() -> [u8; 8] {
    let bytes = uuid::Uuid::new_v4().into_bytes();
    // The fixed bits of one half meet random ones of the other.
    std::array::from_fn(|i| bytes[i] ^ bytes[15 - i])
}

fn digits<const N: usize>(text: &str) -> Option<[u8; N]> {
    let bytes = text.as_bytes();
    if bytes.len() != 2 * N {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut found = [0; N];
    for (i, byte) in found.iter_mut().enumerate() {
        *byte = digit(bytes[2 * i])? << 4 | digit(bytes[2 * i + 1])?;
    }
    Some(found)
}

impl fmt::Display for Context {
    /// As a `traceparent`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("00-")?;
        self.trace.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("-")?;
        self.span.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, "-{:02x}", u8::from(self.sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_and_written() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = Context::parse(text).expect("a traceparent");
        assert!(context.sampled);
        assert_eq!(context.to_string(), text);
        assert!(!Context::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00").expect("one").sampled);
        assert!(Context::parse("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-09-more").is_some());
        for text in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-09",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7-b7ad6b7169203331-01",
        ] {
            assert_eq!(Context::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_child_is_of_the_same_trace() {
        let root = Context::root();
        let child = root.child();
        assert!(child.trace == root.trace && child.span != root.span);
    }

    #[test]
    fn what_goes_along_is_handed_on_unless_it_is_too_long() {
        let mut headers = HeaderMap::new();
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let long = "b=".to_owned() + &"x".repeat(MAX_BAGGAGE);
        for (name, value) in [("traceparent", parent), ("tracestate", "a=1"), ("baggage", long.as_str())] {
            headers.insert(name, HeaderValue::from_str(value).expect("a header"));
        }
        let remote = Remote::of(&headers).expect("a span");
        let mut sent = HeaderMap::new();
        remote.carried.write(&remote.context, &mut sent);
        headers.remove("baggage");
        assert_eq!(sent, headers);
        assert_eq!(Remote::of(&HeaderMap::new()), None);
    }
}
