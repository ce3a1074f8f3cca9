//! What is told of a token's use, besides whose it is.

use auth::TokenNotes;
use machinery::Str;
use prometheus::{IntCounter, Registry};

/// What there is to tell.
#[derive(Default)]
pub(super) struct Noted {
    pub(super) subject: Str,
    /// It names no audiences: it is older than those.
    pub(super) for_nobody: bool,
    /// From when on it should have been exchanged for another, in seconds; 0: never.
    pub(super) stale_after: i64,
}

impl Noted {
    /// What is told of a token whose signature is good, whatever else is wrong with it.
    pub(super) fn signed(&self, notes: &mut TokenNotes, uses: &Uses) {
        if self.for_nobody {
            notes.annotations.push(("authentication.k8s.io/legacy-token", self.subject.clone()));
            uses.legacy.inc();
        }
    }

    /// What is told of a token that is good at a time, in seconds.
    pub(super) fn good(&self, now: i64, notes: &mut TokenNotes, uses: &Uses) {
        if self.stale_after == 0 {
            return;
        }
        if now <= self.stale_after {
            return uses.valid.inc();
        }
        let (subject, seconds) = (&self.subject, now.saturating_sub(self.stale_after));
        let text = format!("subject: {subject}, seconds after warning threshold: {seconds}");
        notes.annotations.push(("authentication.k8s.io/stale-token", text.into()));
        uses.stale.inc();
    }
}

/// What is counted of uses, under upstream's names.
pub(super) struct Uses {
    /// Of tokens that name no audiences.
    pub(super) legacy: IntCounter,
    /// Of tokens that should have been exchanged for others by then.
    pub(super) stale: IntCounter,
    /// Of tokens that should not yet.
    pub(super) valid: IntCounter,
    /// Of tokens of secrets that somebody has made, that were made for an account, and that a cleaner has marked.
    pub(super) manual: IntCounter,
    pub(super) automatic: IntCounter,
    pub(super) invalidated: IntCounter,
}

impl Default for Uses {
    fn default() -> Self {
        let counter = |name: &str, help: &str| {
            IntCounter::new(format!("serviceaccount_{name}_total"), help).expect("a constant name is valid")
        };
        Uses {
            legacy: counter("legacy_tokens", "Uses of tokens of service accounts that name no audiences."),
            stale: counter("stale_tokens", "Uses of tokens that should have been exchanged for newer ones."),
            valid: counter("valid_tokens", "Uses of tokens that are exchanged for newer ones in time."),
            manual: counter("legacy_manual_token_uses", "Uses of tokens of secrets that somebody has made."),
            automatic: counter("legacy_auto_token_uses", "Uses of tokens of secrets that were made for an account."),
            invalidated: counter("invalid_legacy_auto_token_uses", "Uses of tokens whose secrets are marked invalid."),
        }
    }
}

impl Uses {
    /// The counters, shown by a registry.
    pub(super) fn registered(registry: &Registry) -> Self {
        let uses = Uses::default();
        let Uses { legacy, stale, valid, manual, automatic, invalidated } = &uses;
        for counter in [legacy, stale, valid, manual, automatic, invalidated] {
            registry.register(Box::new(counter.clone())).expect("there is one verifier");
        }
        uses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_told_of_that_are_old() {
        let uses = Uses::default();
        let at = |noted: &Noted, now: i64| {
            let mut notes = TokenNotes::default();
            noted.signed(&mut notes, &uses);
            noted.good(now, &mut notes, &uses);
            notes.annotations
        };
        let noted = Noted { subject: "s".into(), for_nobody: false, stale_after: 100 };
        assert_eq!(at(&noted, 100), []);
        let stale = "subject: s, seconds after warning threshold: 5";
        assert_eq!(at(&noted, 105), [("authentication.k8s.io/stale-token", stale.into())]);
        let legacy = Noted { for_nobody: true, stale_after: 0, ..noted };
        assert_eq!(at(&legacy, i64::MAX), [("authentication.k8s.io/legacy-token", "s".into())]);
        assert_eq!((uses.valid.get(), uses.stale.get(), uses.legacy.get()), (1, 1, 1));
    }
}
