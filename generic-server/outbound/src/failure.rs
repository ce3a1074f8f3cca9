//! Why a call failed, in the words of Go's HTTP client.

use std::{error::Error, fmt, io, time::Duration};

use http::{Response, header};

use machinery::{codec::json, meta::go_text};

/// Why a call has failed, in upstream's words, and what that means for another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct CallError {
    text: String,
    kind: ErrorKind,
    /// Whether somebody has answered.
    answered: bool,
    /// How long the other side asks to be left alone.
    retry_after: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErrorKind {
    /// Time is over, here or there.
    Timeout,
    /// It may go better the next time.
    Transient,
    /// It will not.
    Final,
}

impl CallError {
    fn new(text: impl Into<String>, kind: ErrorKind) -> Self {
        CallError { text: text.into(), kind, answered: false, retry_after: None }
    }

    /// What was answered is of no use.
    pub fn of_answer(why: impl fmt::Display) -> Self {
        Self::new(why.to_string(), ErrorKind::Final)
    }

    /// There was no answer in time.
    pub(super) fn timeout(text: impl Into<String>) -> Self {
        Self::new(text, ErrorKind::Timeout)
    }

    /// There was no answer.
    pub(super) fn of_transport(text: impl Into<String>, error: &(dyn Error + 'static)) -> Self {
        let kind = match () {
            () if is_io(error, io::ErrorKind::ConnectionReset) => ErrorKind::Transient,
            () if is_io(error, io::ErrorKind::TimedOut) => ErrorKind::Timeout,
            () => ErrorKind::Final,
        };
        Self::new(text, kind)
    }

    /// The answer's code is of no success.
    pub(super) fn of_status(code: u16, content_type: &str, body: &[u8], retry_after: Option<Duration>) -> Self {
        let (text, said) = status(code, content_type, body);
        let reason = said.unwrap_or(match code {
            429 => "TooManyRequests",
            504 => "Timeout",
            503 => "ServiceUnavailable",
            500.. => "InternalError",
            _ => "",
        });
        let kind = match reason {
            "Timeout" => ErrorKind::Timeout,
            "TooManyRequests" | "InternalError" | "ServerTimeout" => ErrorKind::Transient,
            _ => ErrorKind::Final,
        };
        CallError { answered: true, retry_after, ..Self::new(text, kind) }
    }

    /// Whether it may go better soon: a connection that was reset, an answer that speaks of a trouble of its own, of too little
    /// time or too many requests, or one that asks to come again.
    pub fn is_transient(&self) -> bool {
        match self.kind {
            ErrorKind::Transient => true,
            ErrorKind::Timeout => self.answered,
            ErrorKind::Final => self.retry_after.is_some(),
        }
    }

    /// Whether time was over, here or there.
    pub fn is_timeout(&self) -> bool {
        self.kind == ErrorKind::Timeout
    }

    /// How long to wait before the same call is made again, if the other side asks for that.
    pub(super) fn pause(&self) -> Option<Duration> {
        self.retry_after
    }
}

/// Whether an error of the operating system of this kind is in an error.
fn is_io(error: &(dyn Error + 'static), kind: io::ErrorKind) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|io| io.kind() == kind) {
            return true;
        }
        // What an error of this type wraps is not its source.
        cause = match io.and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    false
}

/// How long an answer asks its client to wait, where clients wait for that: too many requests, or a trouble of the server.
pub(super) fn retry_after<B>(answer: &Response<B>) -> Option<Duration> {
    let code = answer.status().as_u16();
    let seconds = answer.headers().get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    (code == 429 || (500..600).contains(&code)).then(|| Duration::from_secs(seconds))
}

/// The innermost error: what the operating system or TLS said.
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

/// A failure to connect that says by itself what was dialed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct EgressError(pub(crate) String);

/// What went wrong on the way to `address`.
pub fn transport(error: &(dyn Error + 'static), host: &str, address: &str) -> String {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return handshake(tls);
        }
        if let Some(EgressError(why)) = error.downcast_ref() {
            return why.clone();
        }
        if let Some(io) = error.downcast_ref::<io::Error>() {
            // TLS says so as well where the other side is gone without a word.
            if io.kind() == io::ErrorKind::UnexpectedEof {
                return "EOF".to_owned();
            }
            // What an error of this type wraps is not its source.
            if let Some(inner) = io.get_ref() {
                cause = Some(inner);
                continue;
            }
            match io.kind() {
                io::ErrorKind::ConnectionRefused => return format!("dial tcp {address}: connect: connection refused"),
                io::ErrorKind::TimedOut => return format!("dial tcp {address}: i/o timeout"),
                io::ErrorKind::ConnectionReset => return "read: connection reset by peer".to_owned(),
                io::ErrorKind::HostUnreachable => return format!("dial tcp {address}: connect: no route to host"),
                io::ErrorKind::NetworkUnreachable => {
                    return format!("dial tcp {address}: connect: network is unreachable");
                }
                _ => {}
            }
        }
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message) {
            return "EOF".to_owned();
        }
        cause = error.source();
    }
    let text = root_cause(error);
    if text.contains("lookup address information") {
        return format!("dial tcp: lookup {host}: no such host");
    }
    text
}

fn handshake(error: &rustls::Error) -> String {
    use rustls::CertificateError as Bad;
    match error {
        rustls::Error::InvalidCertificate(Bad::Other(why)) => format!("tls: failed to verify certificate: {why}"),
        rustls::Error::InvalidCertificate(_) => "tls: invalid signature by the server certificate".to_owned(),
        rustls::Error::InvalidMessage(_) => "http: server gave HTTP response to HTTPS client".to_owned(),
        rustls::Error::AlertReceived(alert) => format!("remote error: tls: {}", alert_text(*alert)),
        other => format!("remote error: tls: {other}"),
    }
}

/// What Go says of an alert.
fn alert_text(alert: rustls::AlertDescription) -> String {
    use rustls::AlertDescription as Alert;
    let text = match alert {
        Alert::CloseNotify => "close notify",
        Alert::UnexpectedMessage => "unexpected message",
        Alert::BadRecordMac => "bad record MAC",
        Alert::RecordOverflow => "record overflow",
        Alert::DecompressionFailure => "decompression failure",
        Alert::HandshakeFailure => "handshake failure",
        Alert::BadCertificate => "bad certificate",
        Alert::UnsupportedCertificate => "unsupported certificate",
        Alert::CertificateRevoked => "revoked certificate",
        Alert::CertificateExpired => "expired certificate",
        Alert::CertificateUnknown => "unknown certificate",
        Alert::IllegalParameter => "illegal parameter",
        Alert::UnknownCA => "unknown certificate authority",
        Alert::AccessDenied => "access denied",
        Alert::DecodeError => "error decoding message",
        Alert::DecryptError => "error decrypting message",
        Alert::ExportRestriction => "export restriction",
        Alert::ProtocolVersion => "protocol version not supported",
        Alert::InsufficientSecurity => "insufficient security level",
        Alert::InternalError => "internal error",
        Alert::InappropriateFallback => "inappropriate fallback",
        Alert::UserCanceled => "user canceled",
        Alert::NoRenegotiation => "no renegotiation",
        Alert::MissingExtension => "missing extension",
        Alert::UnsupportedExtension => "unsupported extension",
        Alert::CertificateUnobtainable => "certificate unobtainable",
        Alert::UnrecognisedName => "unrecognized name",
        Alert::BadCertificateStatusResponse => "bad certificate status response",
        Alert::BadCertificateHashValue => "bad certificate hash value",
        Alert::UnknownPSKIdentity => "unknown PSK identity",
        Alert::CertificateRequired => "certificate required",
        Alert::NoApplicationProtocol => "no application protocol",
        other => return format!("alert({})", u8::from(other)),
    };
    text.to_owned()
}

/// So much of a text is told.
const MAX_TEXT: usize = 2048;

/// What a status code that is no success means, as upstream's client says it: a failure that it speaks of itself, or what
/// the code means, and the reason that it states. Only text is repeated.
fn status(code: u16, content_type: &str, body: &[u8]) -> (String, Option<&'static str>) {
    if let Ok(document) = json::decode(body)
        && document.str_at(&["kind"]) == Some("Status")
        && document.str_at(&["status"]) == Some("Failure")
    {
        let message = document.str_at(&["message"]).unwrap_or_default().to_owned();
        let stated = document.str_at(&["reason"]).unwrap_or_default();
        let known = ["Timeout", "TooManyRequests", "InternalError", "ServerTimeout"];
        return (message, Some(known.into_iter().find(|reason| *reason == stated).unwrap_or_default()));
    }
    (meaning(code, content_type, body), None)
}

fn meaning(code: u16, content_type: &str, body: &[u8]) -> String {
    let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_text = media.is_empty() || media.starts_with("text/");
    let said = String::from_utf8_lossy(&body[..body.len().min(MAX_TEXT)]);
    let said = if is_text { said.trim() } else { "unknown" };
    match code {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 | 415 => said.to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        406 if matches!(said, "" | "unknown") => {
            "the server was unable to respond with a content type that the client supports".to_owned()
        }
        406 => said.to_owned(),
        409 => "the server reported a conflict".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
                .to_owned()
        }
        500.. => format!("an error on the server ({}) has prevented the request from succeeding", go_text::quote(said)),
        _ => format!("the server responded with the status code {code} but did not return more information"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_answer_speaks_as_upstreams_client() {
        let check = |code: u16, content_type: &str, body: &str, expect: &str| {
            assert_eq!(status(code, content_type, body.as_bytes()).0, expect, "{code} {content_type}");
        };
        let json = "application/json";
        check(404, "text/plain", "404 page not found\n", "the server could not find the requested resource");
        check(
            500,
            "text/plain",
            " boom\n",
            "an error on the server (\"boom\") has prevented the request from succeeding",
        );
        check(500, "", "boom", "an error on the server (\"boom\") has prevented the request from succeeding");
        check(500, json, "boom", "an error on the server (\"unknown\") has prevented the request from succeeding");
        check(403, "text/plain; charset=utf-8", "no", "no");
        check(403, json, "no", "unknown");
        check(406, json, "x", "the server was unable to respond with a content type that the client supports");
        check(503, "", "", "the server is currently unable to handle the request");
        check(400, json, r#"{"kind":"Status","status":"Failure","message":"no such version"}"#, "no such version");
        let unknown = "an error on the server (\"unknown\") has prevented the request from succeeding";
        check(500, json, r#"{"kind":"Status","status":"Success","message":"fine"}"#, unknown);
        check(302, "", "", "the server responded with the status code 302 but did not return more information");
    }

    #[test]
    fn a_failed_call_is_made_again_where_that_may_help() {
        let check = |error: &CallError, transient: bool, timeout: bool| {
            assert_eq!((error.is_transient(), error.is_timeout()), (transient, timeout), "{error:?}");
        };
        let of_status = |code: u16, body: &str, pause| CallError::of_status(code, "", body.as_bytes(), pause);
        for (code, transient) in [(400, false), (403, false), (429, true), (500, true), (502, true), (503, false)] {
            check(&of_status(code, "", None), transient, false);
        }
        check(&of_status(504, "", None), true, true);
        check(&of_status(503, "", Some(Duration::from_secs(1))), true, false);
        check(&of_status(500, r#"{"kind":"Status","status":"Failure","reason":"Forbidden"}"#, None), false, false);
        check(&of_status(403, r#"{"kind":"Status","status":"Failure","reason":"InternalError"}"#, None), true, false);
        check(&CallError::timeout("t"), false, true);
        check(&CallError::of_answer("a"), false, false);
        let io = |kind: io::ErrorKind| CallError::of_transport("t", &io::Error::other(io::Error::from(kind)));
        check(&io(io::ErrorKind::ConnectionReset), true, false);
        check(&io(io::ErrorKind::ConnectionRefused), false, false);
        check(&io(io::ErrorKind::TimedOut), false, true);
    }

    #[test]
    fn the_operating_systems_errors_read_like_gos() {
        let error = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(transport(&error, "h", "127.0.0.1:1"), "dial tcp 127.0.0.1:1: connect: connection refused");
        let eof = io::Error::new(io::ErrorKind::UnexpectedEof, "tls handshake eof");
        assert_eq!(transport(&eof, "h", "127.0.0.1:1"), "EOF");
        let alert = rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRequired);
        let error = io::Error::new(io::ErrorKind::InvalidData, alert);
        assert_eq!(transport(&error, "h", "127.0.0.1:1"), "remote error: tls: certificate required");
        let why = x509::Certificate::parse(b"").expect_err("is none");
        let other = rustls::OtherError(std::sync::Arc::new(why));
        let tls = rustls::Error::InvalidCertificate(rustls::CertificateError::Other(other));
        let error = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, tls));
        let expect = "tls: failed to verify certificate: x509: malformed certificate";
        assert_eq!(transport(&error, "h", "127.0.0.1:1"), expect);
    }
}
