//! Tokens whose signature has been checked: a client sends the same one with each request.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use auth::User;
use aws_lc_rs::digest;
use machinery::Str;

use super::{claims::Validity, legacy::Legacy, lookup::Bound, notes::Noted};

/// What is known of a token once its signature is known to be good. Whether it is still good is to be asked each time.
pub(super) struct Verified {
    pub(super) user: Arc<User>,
    /// For whom the token is.
    pub(super) audiences: Vec<Str>,
    /// Those of them that are this server's.
    pub(super) own_audiences: Arc<[Str]>,
    pub(super) validity: Validity,
    /// What must be there.
    pub(super) bound: Vec<Bound>,
    /// The secret that must hold the token.
    pub(super) legacy: Option<Legacy>,
    /// What there is to tell of its use.
    pub(super) noted: Noted,
}

const SHARDS: usize = 16;
/// How many tokens a shard remembers.
const PER_SHARD: usize = 256;

/// The hash of a token: the token itself is not kept.
pub(super) type Fingerprint = [u8; 32];

/// The hash of a token.
pub(super) fn fingerprint(token: &str) -> Fingerprint {
    let hash = digest::digest(&digest::SHA256, token.as_bytes());
    hash.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// The tokens that were checked lately, up to a number.
#[derive(Default)]
pub(super) struct VerifiedTokens([RwLock<HashMap<Fingerprint, Arc<Verified>>>; SHARDS]);

impl VerifiedTokens {
    fn shard(&self, fingerprint: &Fingerprint) -> &RwLock<HashMap<Fingerprint, Arc<Verified>>> {
        &self.0[usize::from(fingerprint[0]) % SHARDS]
    }

    /// What is known of a token.
    pub(super) fn get(&self, fingerprint: &Fingerprint) -> Option<Arc<Verified>> {
        let shard = self.shard(fingerprint).read().unwrap_or_else(PoisonError::into_inner);
        shard.get(fingerprint).cloned()
    }

    /// Remembers a token. `now` is in seconds: where there is no more room, what has expired goes first.
    pub(super) fn put(&self, fingerprint: Fingerprint, verified: Arc<Verified>, now: i64) {
        let mut shard = self.shard(&fingerprint).write().unwrap_or_else(PoisonError::into_inner);
        if shard.len() >= PER_SHARD {
            shard.retain(|_, held| held.validity.check(now).is_ok());
        }
        if shard.len() >= PER_SHARD {
            // Any of them: who is still there is asked for again.
            let some: Vec<Fingerprint> = shard.keys().take(PER_SHARD / 4).copied().collect();
            some.iter().for_each(|held| drop(shard.remove(held)));
        }
        shard.insert(fingerprint, verified);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_so_many_are_kept() {
        let tokens = VerifiedTokens::default();
        let verified = |expires: i64| {
            Arc::new(Verified {
                user: Arc::default(),
                audiences: Vec::new(),
                own_audiences: Arc::new([]),
                validity: Validity { expires, ..Validity::default() },
                bound: Vec::new(),
                legacy: None,
                noted: Noted::default(),
            })
        };
        let expired = fingerprint("expired");
        tokens.put(expired, verified(0), 1000);
        for i in 0..10_000 {
            tokens.put(fingerprint(&i.to_string()), verified(5000), 1000);
        }
        let kept: usize = tokens.0.iter().map(|shard| shard.read().expect("healthy").len()).sum();
        assert!(kept <= SHARDS * PER_SHARD && kept > SHARDS, "{kept}");
        assert!(tokens.get(&expired).is_none());
        assert!(tokens.get(&fingerprint("9999")).is_some());
    }
}
