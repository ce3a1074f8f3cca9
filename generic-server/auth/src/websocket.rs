//! Bearer tokens of WebSockets: browsers cannot set their headers, so a token may come as one of the subprotocols.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{
    HeaderMap, HeaderValue,
    header::{CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE},
};

use crate::header_text;

/// What a subprotocol begins with that is a token.
const PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// Why a subprotocol is no token. Shown, it is what upstream's server logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebSocketTokenError {
    /// There are several.
    #[error("multiple base64.bearer.authorization tokens specified")]
    Several,
    /// It is no base64.
    #[error("invalid base64.bearer.authorization token encoding")]
    Encoding,
    /// It is no text.
    #[error("invalid base64.bearer.authorization token")]
    NotUtf8,
    /// It is the only subprotocol, and the server has none to answer with.
    #[error("missing additional subprotocol")]
    Alone,
}

/// Takes the token out of a WebSocket request's subprotocols; `None` if there is none. A token goes no further, whoever
/// the user turns out to be.
///
/// # Errors
/// What says that it is a token is none.
pub fn take_token(headers: &mut HeaderMap) -> Result<Option<String>, WebSocketTokenError> {
    if !headers.contains_key(SEC_WEBSOCKET_PROTOCOL) || !is_websocket(headers) {
        return Ok(None);
    }
    let lines: Vec<String> = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().map(|v| header_text(v).into()).collect();
    let protocols = lines.iter().flat_map(|line| line.split(',')).map(str::trim);
    let (tokens, others): (Vec<&str>, Vec<&str>) = protocols.partition(|protocol| protocol.starts_with(PREFIX));
    let Some(first) = tokens.first() else { return Ok(None) };
    match HeaderValue::from_bytes(others.join(",").as_bytes()) {
        Ok(value) if !others.is_empty() => drop(headers.insert(SEC_WEBSOCKET_PROTOCOL, value)),
        _ => drop(headers.remove(SEC_WEBSOCKET_PROTOCOL)),
    }
    if tokens.len() > 1 {
        return Err(WebSocketTokenError::Several);
    }
    let token = URL_SAFE_NO_PAD.decode(&first[PREFIX.len()..]);
    let token = token.map_err(|_| WebSocketTokenError::Encoding)?;
    let token = String::from_utf8(token).map_err(|_| WebSocketTokenError::NotUtf8)?;
    match (token.is_empty(), others.is_empty()) {
        (true, _) => Ok(None),
        (false, true) => Err(WebSocketTokenError::Alone),
        (false, false) => Ok(Some(token)),
    }
}

/// Whether a request asks for a WebSocket.
fn is_websocket(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(header_text).unwrap_or_default();
    let upgrades = text(CONNECTION).split(',').any(|option| option.trim().eq_ignore_ascii_case("upgrade"));
    upgrades && text(UPGRADE).eq_ignore_ascii_case("websocket")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The token, and what is left of the subprotocols.
    fn check(protocols: &[&str], expect: Result<Option<&str>, &str>, left: Option<&str>) {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("WebSocket"));
        for line in protocols {
            headers.append(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_str(line).expect("a value"));
        }
        let found = take_token(&mut headers);
        let found = found.map_err(|why| why.to_string());
        let expect = expect.map(|token| token.map(str::to_owned)).map_err(str::to_owned);
        assert_eq!(found, expect, "{protocols:?}");
        assert_eq!(headers.get(SEC_WEBSOCKET_PROTOCOL).map(|v| v.to_str().expect("text")), left, "{protocols:?}");
    }

    #[test]
    fn a_token_is_one_of_several_subprotocols() {
        let token = "base64url.bearer.authorization.k8s.io.YWRtaW50b2tlbg";
        check(&[&format!("{token}, v4.channel.k8s.io")], Ok(Some("admintoken")), Some("v4.channel.k8s.io"));
        check(&["a", &format!("b,{token}"), "c"], Ok(Some("admintoken")), Some("a,b,c"));
        check(&["a,b"], Ok(None), Some("a,b"));
        check(&[token], Err("missing additional subprotocol"), None);
        check(
            &[&format!("{token},{token},a")],
            Err("multiple base64.bearer.authorization tokens specified"),
            Some("a"),
        );
        check(
            &["base64url.bearer.authorization.k8s.io.A%,a"],
            Err("invalid base64.bearer.authorization token encoding"),
            Some("a"),
        );
        check(
            &["base64url.bearer.authorization.k8s.io._w,a"],
            Err("invalid base64.bearer.authorization token"),
            Some("a"),
        );
    }

    #[test]
    fn only_websockets_have_it() {
        let mut headers = HeaderMap::new();
        let line = "base64url.bearer.authorization.k8s.io.YWRtaW50b2tlbg,a";
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(line));
        assert_eq!(take_token(&mut headers), Ok(None));
        assert_eq!(headers[SEC_WEBSOCKET_PROTOCOL], line);
    }
}
