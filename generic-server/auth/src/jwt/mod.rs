//! JSON Web Tokens in their compact form (RFC 7519, RFC 7515) and the keys that check them (RFC 7517, RFC 7518).

mod algorithm;
mod key;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use machinery::{Str, Value, codec::json};

pub use algorithm::Algorithm;
pub use key::{KeySetError, KeyType, VerifyingKey, VerifyingKeyError, keys_of_set};

/// The longest token that is looked at, in bytes.
const MAX_LEN: usize = 32 * 1024;

/// A token, taken apart. Nothing in it is true before a key has verified it.
pub struct Token<'a> {
    /// The part that is signed.
    message: &'a str,
    signature: Vec<u8>,
    header: Value,
    /// The claims.
    pub claims: Value,
    /// Claims that stand there twice: of those, two readers may take one each.
    pub doubled: Vec<String>,
}

impl<'a> Token<'a> {
    /// Takes a token apart; `None` if the text is no token.
    pub fn parse(text: &'a str) -> Option<Self> {
        if text.len() > MAX_LEN {
            return None;
        }
        let (message, signature) = text.rsplit_once('.')?;
        let (header, claims) = message.split_once('.')?;
        let object = |part: &str| {
            let bytes = BASE64.decode(part).ok()?;
            json::decode_strict(&bytes).ok().filter(|(value, _)| value.as_object().is_some())
        };
        let (header, repeated) = object(header)?;
        let key_id = header.get("kid").is_none_or(|id| id.is_null() || id.as_str().is_some());
        let signature = BASE64.decode(signature).ok()?;
        let (claims, doubled) = object(claims)?;
        (key_id && repeated.is_empty()).then_some(Token { message, signature, header, claims, doubled })
    }

    /// The key that the token names; empty if it names none.
    pub fn key_id(&self) -> &str {
        self.header.str_at(&["kid"]).unwrap_or_default()
    }

    /// What the token says that it was signed with.
    pub fn algorithm(&self) -> &str {
        self.header.str_at(&["alg"]).unwrap_or_default()
    }

    /// Whether the key that a token carries itself, if any, is a public one. It is never used.
    pub fn has_public_key(&self) -> bool {
        let Some(key) = self.header.get("jwk").filter(|key| !key.is_null()) else { return true };
        matches!(key.str_at(&["kty"]), Some("RSA" | "EC" | "OKP")) && key.get("d").is_none()
    }

    /// Whether a key signed the token, with the algorithm that the token names. A token with an extension that must be
    /// understood (RFC 7515, 4.1.11) is nobody's: none is.
    pub fn is_signed_by(&self, key: &VerifyingKey) -> bool {
        let extends = self.header.get("crit").is_some_and(|crit| crit.as_array().is_none_or(|names| !names.is_empty()));
        let algorithm = Algorithm::of_name(self.algorithm());
        !extends && algorithm.is_some_and(|a| key.verifies(a, self.message.as_bytes(), &self.signature))
    }
}

/// A token of a header, claims and what signs both.
///
/// # Errors
/// Those of `sign`.
pub fn assemble<E>(
    header: &Value,
    claims: &Value,
    sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, E>,
) -> Result<String, E> {
    let mut token = format!("{}.{}", BASE64.encode(json::encode(header)), BASE64.encode(json::encode(claims)));
    let signature = sign(token.as_bytes())?;
    token.push('.');
    BASE64.encode_string(signature, &mut token);
    Ok(token)
}

/// The name of a key in a text's header that is no text.
pub fn wrong_key_id(text: &str) -> Option<Value> {
    let header = BASE64.decode(text.split('.').next()?).ok()?;
    let id = json::decode(&header).ok()?.get("kid")?.clone();
    (!id.is_null() && id.as_str().is_none()).then_some(id)
}

/// The issuer that a text says to be of, if it is a token at all. Nothing has been verified.
pub fn claimed_issuer(text: &str) -> Option<Str> {
    let mut parts = text.split('.');
    let (_, claims, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else { return None };
    if text.len() > MAX_LEN {
        return None;
    }
    let claims = json::decode(&BASE64.decode(claims).ok()?).ok()?;
    match claims.as_object()?.get("iss") {
        None | Some(Value::Null) => Some(Str::default()),
        Some(issuer) => issuer.as_shared_str().cloned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_token_is_none() {
        let encoded = |text: &str| BASE64.encode(text);
        let doubled = format!("{}.e30.", encoded(r#"{"alg":"RS256","alg":"none"}"#));
        let key_id = format!("{}.e30.", encoded(r#"{"kid":["a"]}"#));
        let long = "e30.".repeat(20_000);
        for text in ["", "a.b", "a.b.c", "....", "e30.W10.", "e30.e30", &doubled, &key_id, &long] {
            assert!(Token::parse(text).is_none(), "{text:.20}");
        }
        assert!(Token::parse("e30.e30.").is_some());
        let twice = format!("e30.{}.", encoded(r#"{"exp":1,"exp":9999999999}"#));
        assert_eq!(Token::parse(&twice).expect("a token").doubled, ["duplicate field \"exp\""]);
    }

    #[test]
    fn an_issuer_is_read_without_trust() {
        let token = |claims: &str| format!("x.{}.y", BASE64.encode(claims));
        assert_eq!(claimed_issuer(&token(r#"{"iss":"https://a"}"#)).as_deref(), Some("https://a"));
        assert_eq!(claimed_issuer(&token("{}")).as_deref(), Some(""));
        for text in
            [token(r#"{"iss":1}"#), token("[]"), token("{"), "a.b.c".into(), "a.b".into(), "e30.e30.e30.e30".into()]
        {
            assert_eq!(claimed_issuer(&text), None, "{text}");
        }
    }
}
