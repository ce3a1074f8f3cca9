//! JSON Web Tokens in their compact form (RFC 7519, RFC 7515): three parts, each in base64.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use machinery::{Value, codec::json, object};

use super::keys::{Keys, Signer};

/// The longest token that is looked at, in bytes.
const MAX_LEN: usize = 32 * 1024;

/// A token, taken apart. Nothing in it is true before [`Token::check_signature`] says so.
pub(super) struct Token<'a> {
    /// The part that is signed.
    message: &'a str,
    signature: Vec<u8>,
    header: Value,
    /// The claims.
    pub(super) claims: Value,
    /// Claims that stand there twice: of those, two readers may take one each.
    pub(super) doubled: Vec<String>,
}

impl<'a> Token<'a> {
    /// Takes a token apart; `None` if the text is no token.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
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

    /// Checks that one of the keys signed the token.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn check_signature(&self, keys: &Keys) -> Result<(), &'static str> {
        let text = |key: &str| self.header.str_at(&[key]).unwrap_or_default();
        let mut candidates = keys.candidates(text("kid")).peekable();
        if candidates.peek().is_none() {
            return Err("invalid signature, no keys found");
        }
        // An extension that must be understood is not (RFC 7515, 4.1.11).
        let extends = self.header.get("crit").is_some_and(|crit| crit.as_array().is_none_or(|names| !names.is_empty()));
        let verifies = candidates.any(|key| key.verifies(text("alg"), self.message.as_bytes(), &self.signature));
        if verifies && !extends { Ok(()) } else { Err("go-jose/go-jose: error in cryptographic primitive") }
    }
}

/// Signs claims.
///
/// # Errors
/// If the key cannot sign.
pub(super) fn sign(signer: &Signer, claims: &Value) -> Result<String, &'static str> {
    let header = object! { "alg" => signer.algorithm, "kid" => &signer.id };
    let mut token = format!("{}.{}", BASE64.encode(json::encode(&header)), BASE64.encode(json::encode(claims)));
    let signature = signer.sign(token.as_bytes())?;
    token.push('.');
    BASE64.encode_string(signature, &mut token);
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service_accounts::keys::tests::made;

    #[test]
    fn a_token_is_good_only_as_it_was_signed() {
        let keys = made(&rcgen::PKCS_ECDSA_P256_SHA256);
        let text = sign(keys.signer().expect("a signer"), &object! { "sub" => "me" }).expect("signed");
        let token = Token::parse(&text).expect("a token");
        assert_eq!(token.claims.str_at(&["sub"]), Some("me"));
        assert_eq!(token.check_signature(&keys), Ok(()));
        assert!(token.check_signature(&made(&rcgen::PKCS_ECDSA_P256_SHA256)).is_err(), "by another key");

        let signer = keys.signer().expect("a signer");
        let other_id = BASE64.encode(format!(r#"{{"alg":"{}","kid":"other"}}"#, signer.algorithm));
        let parts: Vec<&str> = text.split('.').collect();
        let message = format!("{other_id}.{}", parts[1]);
        let signature = BASE64.encode(signer.sign(message.as_bytes()).expect("signed"));
        let other = format!("{message}.{signature}");
        assert!(
            Token::parse(&other).expect("a token").check_signature(&keys).is_err(),
            "names a key that is not there"
        );

        let forged = BASE64.encode(br#"{"sub":"root"}"#);
        let changed = format!("{}.{forged}.{}", parts[0], parts[2]);
        assert!(Token::parse(&changed).expect("a token").check_signature(&keys).is_err());
        let unsigned = format!("{}.{}.", BASE64.encode(br#"{"alg":"none"}"#), parts[1]);
        assert!(Token::parse(&unsigned).expect("a token").check_signature(&keys).is_err());
    }

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
}
