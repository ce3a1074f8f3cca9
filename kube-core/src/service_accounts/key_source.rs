//! Keys of service account tokens: in files, or with an external signer.

use std::{sync::Arc, time::Duration};

use auth::{TokenError, jwt::Token};
use machinery::Value;
use tokio::sync::SetOnce;

use super::{
    external::ExternalSigner,
    jwt,
    keys::{self, Keys},
};

/// How long a request waits for keys that are being made.
const KEYS_TIMEOUT: Duration = Duration::from_secs(10);
/// For how many seconds keys of files may be kept by those who read them here.
const MAX_AGE: u64 = 3600;

/// Who signs tokens, and by which keys they are checked.
#[derive(Clone)]
pub enum KeySource {
    /// This server, with keys of files; they may come after it has started.
    Files(Arc<SetOnce<Keys>>),
    /// A process beside it (`--service-account-signing-endpoint`).
    External(Arc<ExternalSigner>),
}

/// What others may know of the keys.
pub(super) struct Published {
    /// As a JSON Web Key Set.
    pub(super) keys: Value,
    pub(super) algorithms: Vec<&'static str>,
    /// For how many seconds that is worth keeping.
    pub(super) max_age: u64,
}

impl KeySource {
    /// Checks that one of the keys signed a token.
    ///
    /// # Errors
    /// Why not.
    pub(super) async fn check_signature(&self, token: &Token<'_>) -> Result<(), TokenError> {
        match self {
            KeySource::Files(keys) => {
                let not_ready =
                    || TokenError::Unavailable("the keys of service account tokens are not ready".to_owned());
                let keys = wait(keys).await.ok_or_else(not_ready)?;
                jwt::check_signature(token, keys).map_err(|why| TokenError::Invalid(why.to_owned()))
            }
            KeySource::External(signer) => {
                signer.check_signature(token).await.map_err(|why| TokenError::Invalid(why.to_owned()))
            }
        }
    }

    /// A token with these claims.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn sign(&self, claims: &Value) -> Result<String, String> {
        match self {
            KeySource::Files(keys) => {
                let keys = wait(keys).await.ok_or("the signing key is not ready")?;
                let signer = keys.signer().ok_or("this server has no signing key")?;
                jwt::sign(signer, claims).map_err(str::to_owned)
            }
            KeySource::External(signer) => signer.sign(claims).await,
        }
    }

    /// What others may know of the keys; `None` if they are not ready.
    pub(super) async fn published(&self) -> Option<Published> {
        match self {
            KeySource::Files(source) => {
                let keys = wait(source).await?;
                Some(Published { keys: keys.jwks(), algorithms: keys.algorithms(), max_age: MAX_AGE })
            }
            KeySource::External(signer) => {
                let current = signer.current();
                let public = || current.keys.iter().filter(|(_, excluded)| !excluded).map(|(key, _)| key);
                let max_age = current.refresh_at.saturating_duration_since(tokio::time::Instant::now()).as_secs();
                Some(Published { keys: keys::jwks(public()), algorithms: keys::algorithms(public()), max_age })
            }
        }
    }
}

/// The keys, as soon as they are there.
async fn wait(keys: &SetOnce<Keys>) -> Option<&Keys> {
    if let Some(keys) = keys.get() {
        return Some(keys);
    }
    tokio::time::timeout(KEYS_TIMEOUT, keys.wait()).await.ok()
}
