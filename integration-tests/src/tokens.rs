//! Tokens that tests sign, and those whom they are of: identity providers.

use std::sync::{Arc, Mutex, PoisonError};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use rcgen::{KeyPair, PublicKeyData as _, SigningKey as _};
use serde_json::{Value, json};

use crate::{Answer, Webhook};

/// A key of the curve P-256 that signs tokens (ES256).
pub struct TokenKey {
    id: String,
    pair: KeyPair,
}

impl TokenKey {
    /// A new key of this name.
    pub fn new(id: &str) -> Self {
        TokenKey { id: id.to_owned(), pair: KeyPair::generate().expect("a key") }
    }

    /// The key as PEM.
    pub fn pem(&self) -> String {
        self.pair.serialize_pem()
    }

    /// The public half as PEM.
    pub fn public_pem(&self) -> String {
        self.pair.public_key_pem()
    }

    /// The public half as a JSON Web Key.
    pub fn jwk(&self) -> Value {
        let point = self.pair.der_bytes();
        assert_eq!(point.len(), 65, "a point of P-256 that is not compressed");
        let number = |bytes: &[u8]| BASE64.encode(bytes);
        json!({
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.id,
            "x": number(&point[1..33]), "y": number(&point[33..]),
        })
    }

    /// A token with these claims, whose header names the key.
    pub fn sign(&self, claims: &Value) -> String {
        self.sign_with(&json!({"alg": "ES256", "kid": self.id}), claims)
    }

    /// A token with this header, whatever it says.
    pub fn sign_with(&self, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| BASE64.encode(value.to_string());
        let message = format!("{}.{}", part(header), part(claims));
        let signature = fixed(&self.pair.sign(message.as_bytes()).expect("signed"));
        format!("{message}.{}", BASE64.encode(signature))
    }
}

/// The two numbers of a signature, which DER writes as short as they are, in 32 bytes each.
fn fixed(der: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    let mut rest = &der[2..];
    for _ in 0..2 {
        let (number, behind) = rest[2..].split_at(usize::from(rest[1]));
        let number = &number[number.len().saturating_sub(32)..];
        out.resize(out.len() + 32 - number.len(), 0);
        out.extend_from_slice(number);
        rest = behind;
    }
    out
}

/// Claims of a user, of this issuer and for this audience, that are good for an hour.
pub fn claims(issuer: &str, audience: &str, subject: &str) -> Value {
    let now = std::time::UNIX_EPOCH.elapsed().expect("a clock").as_secs();
    json!({"iss": issuer, "aud": audience, "sub": subject, "iat": now, "nbf": now, "exp": now + 3600})
}

/// An identity provider on a port of its own.
pub struct Issuer {
    server: Webhook,
    /// What it answers instead of its documents.
    mood: Arc<Mutex<Mood>>,
    key: TokenKey,
}

/// How an identity provider, or whoever else is asked, behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// As it should.
    Well,
    /// It answers nothing.
    Silent,
    /// It cuts connections.
    Resetting,
    /// It answers what is not so.
    Lying,
    /// It answers without an end.
    Oversized,
    /// It says that it cannot.
    Failing,
}

impl Mood {
    /// All in which something goes wrong.
    pub const BAD: [Mood; 5] = [Mood::Silent, Mood::Resetting, Mood::Lying, Mood::Oversized, Mood::Failing];

    /// What is answered in it; `well` and `lie` are what there is to say.
    pub fn answer(self, well: impl FnOnce() -> Value, lie: impl FnOnce() -> Value) -> Answer {
        match self {
            Mood::Well => Answer::Json(well()),
            Mood::Lying => Answer::Json(lie()),
            Mood::Silent => Answer::Hang,
            Mood::Resetting => Answer::Cut,
            Mood::Oversized => Answer::Raw(200, " ".repeat(16 << 20)),
            Mood::Failing => Answer::Raw(500, "no".to_owned()),
        }
    }
}

/// A mood that a test changes.
pub fn current(mood: &Mutex<Mood>) -> Mood {
    *mood.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Issuer {
    /// A provider that publishes one key.
    pub fn start() -> Self {
        let key = TokenKey::new("k");
        let mood = Arc::new(Mutex::new(Mood::Well));
        let (jwk, moody) = (key.jwk(), mood.clone());
        let address = Arc::new(Mutex::new(String::new()));
        let own = address.clone();
        let server = Webhook::serve(&["localhost"], move |path, _| {
            let url = own.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let document = || match path {
                "/keys" => json!({"keys": [jwk]}),
                _ => json!({"issuer": url, "jwks_uri": format!("{url}/keys")}),
            };
            current(&moody)
                .answer(document, || json!({"issuer": "https://other", "jwks_uri": "https://other", "keys": "none"}))
        });
        *address.lock().unwrap_or_else(PoisonError::into_inner) = format!("https://localhost:{}", server.port());
        Issuer { server, mood, key }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.server.port())
    }

    /// The authority of its certificate.
    pub fn authority(&self) -> String {
        self.server.authority()
    }

    /// The key that signs its tokens.
    pub fn key(&self) -> &TokenKey {
        &self.key
    }

    /// How it behaves from now on.
    pub fn set_mood(&self, mood: Mood) {
        *self.mood.lock().unwrap_or_else(PoisonError::into_inner) = mood;
    }

    /// Its part of an AuthenticationConfiguration, for users whose names begin with `prefix`.
    pub fn configuration(&self, prefix: &str) -> String {
        let authority: String = self.authority().lines().map(|line| format!("      {}\n", line.trim_end())).collect();
        format!(
            "- issuer:\n    url: {}\n    audiences: [cluster]\n    certificateAuthority: |\n{authority}  claimMappings:\n    \
             username: {{claim: sub, prefix: '{prefix}'}}\n",
            self.url()
        )
    }
}
