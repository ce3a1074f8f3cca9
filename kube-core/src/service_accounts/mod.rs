//! Tokens of service accounts: how they are made, checked, and published for others to check.

mod claims;
mod discovery;
mod external;
mod external_metrics;
mod jwt;
mod key_source;
mod keys;
mod legacy;
mod lookup;
mod notes;
mod request;
mod tracking;
mod verified;
mod verify;

use std::sync::Arc;

use machinery::Str;

pub use external::{ExternalSigner, SignerError};
pub use key_source::KeySource;
pub use keys::{KeyFault, KeyFileError, Keys};
pub use lookup::Lookup;
pub use verify::Verifier;

pub(crate) use discovery::endpoints as discovery_endpoints;
pub(crate) use request::TokenRequests;
pub(crate) use tracking::task as track;

/// How tokens are made and checked.
#[derive(Clone)]
pub struct TokenSettings {
    /// The issuers; the first one signs, tokens of all of them are good. Never empty.
    pub issuers: Vec<Str>,
    /// The audiences that this server's own tokens are for.
    pub audiences: Arc<[Str]>,
    /// Who signs, and by which keys tokens are checked.
    pub keys: KeySource,
    /// Where clients are told to look for the public keys; empty: at this server's own address.
    pub jwks_uri: Str,
    /// The longest validity, in seconds; 0: as long as asked for.
    pub max_expiration_seconds: i64,
    /// For how many seconds tokens are good that pods get, although less is asked for; `None`: for what is asked.
    pub extended_seconds: Option<i64>,
    /// Whether a token that is kept in a secret is compared with the secret.
    pub lookup: bool,
}

/// The name under which a service account acts.
pub(crate) fn username(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}
