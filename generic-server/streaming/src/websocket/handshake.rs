//! How a request becomes a WebSocket.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{
        CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
    },
};

/// What keys are hashed with (RFC 6455, 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Why a request becomes no WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The answer's status.
    pub status: StatusCode,
    /// And its text.
    pub text: &'static str,
}

/// A request that may become a WebSocket.
#[derive(Debug)]
pub struct Handshake {
    accept: HeaderValue,
}

/// Whether a request asks for a WebSocket.
pub fn is_websocket(headers: &HeaderMap) -> bool {
    let upgrades = headers.get_all(CONNECTION).iter().any(|value| contains_upgrade(value.as_bytes()));
    upgrades && headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

fn contains_upgrade(value: &[u8]) -> bool {
    value.to_ascii_lowercase().windows(7).any(|part| part == b"upgrade")
}

/// The subprotocols that a client asks for, as upstream reads them: in the first header alone.
pub fn asked_protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let text = headers.get(SEC_WEBSOCKET_PROTOCOL).and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
    text.unwrap_or_default().split(',').map(str::trim).filter(|protocol| !protocol.is_empty())
}

impl Handshake {
    /// Reads a request that asks for a WebSocket.
    ///
    /// # Errors
    /// It does not keep to the protocol.
    pub fn read(method: &Method, headers: &HeaderMap) -> Result<Self, Refusal> {
        let refuse = |status, text| Err(Refusal { status, text });
        if method != Method::GET {
            return refuse(StatusCode::METHOD_NOT_ALLOWED, "bad method");
        }
        if !is_websocket(headers) {
            return refuse(StatusCode::BAD_REQUEST, "not websocket protocol");
        }
        let Some(key) = headers.get(SEC_WEBSOCKET_KEY).filter(|key| !key.is_empty()) else {
            return refuse(StatusCode::BAD_REQUEST, "mismatch challenge/response");
        };
        if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
            return refuse(StatusCode::BAD_REQUEST, "missing or bad WebSocket Version");
        }
        let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key.as_bytes(), GUID.as_bytes()].concat());
        let accept = HeaderValue::try_from(STANDARD.encode(hash)).expect("Base64 may stand in headers");
        Ok(Handshake { accept })
    }

    /// The headers of the answer that makes it one, which speaks a subprotocol.
    pub fn answer(&self, protocol: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut add = |name: HeaderName, value: HeaderValue| headers.insert(name, value);
        add(UPGRADE, HeaderValue::from_static("websocket"));
        add(CONNECTION, HeaderValue::from_static("Upgrade"));
        add(SEC_WEBSOCKET_ACCEPT, self.accept.clone());
        if let Some(protocol) = protocol.and_then(|protocol| HeaderValue::from_str(protocol).ok()) {
            add(SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    const WHOLE: [(&str, &str); 4] = [
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "WebSocket"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-version", "13"),
    ];

    #[test]
    fn a_key_is_answered() {
        let handshake = Handshake::read(&Method::GET, &headers(&WHOLE)).expect("a handshake");
        let answer = handshake.answer(Some("v5.channel.k8s.io"));
        let expect = headers(&[
            ("upgrade", "websocket"),
            ("connection", "Upgrade"),
            ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
            ("sec-websocket-protocol", "v5.channel.k8s.io"),
        ]);
        assert_eq!(answer, expect);
        assert!(!handshake.answer(None).contains_key("sec-websocket-protocol"));
    }

    #[test]
    fn what_is_no_handshake_is_told_as_upstream_does() {
        let check = |method: Method, without: &str, more: &[(&'static str, &'static str)], code: u16, text: &str| {
            let left: Vec<_> =
                WHOLE.iter().copied().filter(|(name, _)| *name != without).chain(more.to_vec()).collect();
            let refusal = Handshake::read(&method, &headers(&left)).expect_err("a refusal");
            assert_eq!((refusal.status.as_u16(), refusal.text), (code, text));
        };
        check(Method::POST, "", &[], 405, "bad method");
        check(Method::GET, "upgrade", &[], 400, "not websocket protocol");
        check(Method::GET, "connection", &[("connection", "close")], 400, "not websocket protocol");
        check(Method::GET, "sec-websocket-key", &[], 400, "mismatch challenge/response");
        check(Method::GET, "sec-websocket-key", &[("sec-websocket-key", "")], 400, "mismatch challenge/response");
        let version = "missing or bad WebSocket Version";
        check(Method::GET, "sec-websocket-version", &[], 400, version);
        check(Method::GET, "sec-websocket-version", &[("sec-websocket-version", "8")], 400, version);
    }

    #[test]
    fn protocols_are_a_list() {
        let asked = headers(&[("sec-websocket-protocol", " a , b,"), ("sec-websocket-protocol", "c")]);
        assert_eq!(asked_protocols(&asked).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(asked_protocols(&HeaderMap::new()).count(), 0);
    }
}
