//! Tokens of service accounts: how their signatures are made and checked.

use auth::jwt::{Token, assemble};
use machinery::{Value, object};

use super::keys::{Keys, Signer};

/// What upstream says of a token that no key is for.
pub(super) const NO_KEYS: &str = "invalid signature, no keys found";
/// What upstream says of a token that the keys did not sign.
pub(super) const NOT_SIGNED: &str = "go-jose/go-jose: error in cryptographic primitive";

/// Checks that one of the keys signed a token.
///
/// # Errors
/// Why not.
pub(super) fn check_signature(token: &Token<'_>, keys: &Keys) -> Result<(), &'static str> {
    let mut candidates = keys.candidates(token.key_id()).peekable();
    if candidates.peek().is_none() {
        return Err(NO_KEYS);
    }
    if candidates.any(|key| token.is_signed_by(key)) { Ok(()) } else { Err(NOT_SIGNED) }
}

/// Signs claims.
///
/// # Errors
/// If the key cannot sign.
pub(super) fn sign(signer: &Signer, claims: &Value) -> Result<String, &'static str> {
    let header = object! { "alg" => signer.algorithm, "kid" => &signer.id };
    assemble(&header, claims, |message| signer.sign(message))
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};

    use super::*;
    use crate::service_accounts::keys::tests::made;

    #[test]
    fn a_token_is_good_only_as_it_was_signed() {
        let keys = made(&rcgen::PKCS_ECDSA_P256_SHA256);
        let text = sign(keys.signer().expect("a signer"), &object! { "sub" => "me" }).expect("signed");
        let token = Token::parse(&text).expect("a token");
        assert_eq!(token.claims.str_at(&["sub"]), Some("me"));
        assert_eq!(check_signature(&token, &keys), Ok(()));
        assert_eq!(check_signature(&token, &made(&rcgen::PKCS_ECDSA_P256_SHA256)), Err(NO_KEYS), "another key");

        let check = |text: &str, expect: &str| {
            let token = Token::parse(text).expect("a token");
            assert_eq!(check_signature(&token, &keys), Err(expect), "{text}");
        };
        let signer = keys.signer().expect("a signer");
        let header = |text: String| BASE64.encode(text);
        let parts: Vec<&str> = text.split('.').collect();
        let signed = |header: String| {
            let message = format!("{header}.{}", parts[1]);
            let signature = BASE64.encode(signer.sign(message.as_bytes()).expect("signed"));
            format!("{message}.{signature}")
        };
        check(&signed(header(format!(r#"{{"alg":"{}","kid":"other"}}"#, signer.algorithm))), NO_KEYS);
        check(&signed(header(format!(r#"{{"alg":"{}","crit":["x"]}}"#, signer.algorithm))), NOT_SIGNED);
        check(&signed(header(r#"{"alg":"HS256"}"#.to_owned())), NOT_SIGNED);
        let forged = BASE64.encode(br#"{"sub":"root"}"#);
        check(&format!("{}.{forged}.{}", parts[0], parts[2]), NOT_SIGNED);
        check(&format!("{}.{}.", header(r#"{"alg":"none"}"#.to_owned()), parts[1]), NOT_SIGNED);
    }
}
