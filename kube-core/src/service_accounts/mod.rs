//! Tokens of service accounts: how they are made, checked, and published for others to check.

mod claims;
mod discovery;
mod jwt;
mod keys;
mod legacy;
mod lookup;
mod request;
mod tracking;
mod verified;
mod verify;

use std::{sync::Arc, time::Duration};

use machinery::Str;
use tokio::sync::SetOnce;

pub use keys::{KeyError, Keys};

pub(crate) use discovery::endpoints as discovery_endpoints;
pub(crate) use lookup::Lookup;
pub(crate) use request::TokenRequests;
pub(crate) use tracking::task as track;
pub(crate) use verify::Verifier;

/// How tokens are made and checked.
#[derive(Clone)]
pub struct Settings {
    /// The issuers; the first one signs, tokens of all of them are good. Never empty.
    pub issuers: Vec<Str>,
    /// The audiences that this server's own tokens are for.
    pub audiences: Arc<[Str]>,
    /// The keys; they may come after the server has started.
    pub keys: Arc<SetOnce<Keys>>,
    /// Where clients are told to look for the public keys; empty: at this server's own address.
    pub jwks_uri: Str,
    /// The longest validity, in seconds; 0: as long as asked for.
    pub max_expiration_seconds: i64,
    /// Tokens that pods get are good for a year, although they are asked for less.
    pub extend_expiration: bool,
    /// Whether a token that is kept in a secret is compared with the secret.
    pub lookup: bool,
}

/// How long a request waits for keys that are being made.
const KEYS_PATIENCE: Duration = Duration::from_secs(10);

impl Settings {
    /// The keys, as soon as they are there.
    async fn keys(&self) -> Option<&Keys> {
        if let Some(keys) = self.keys.get() {
            return Some(keys);
        }
        tokio::time::timeout(KEYS_PATIENCE, self.keys.wait()).await.ok()
    }
}

/// The name under which a service account acts.
pub(crate) fn username(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}
