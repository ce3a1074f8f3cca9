//! What is told of a token's use, besides whose it is.

use auth::TokenNotes;
use machinery::Str;

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
    /// What is told at a time, in seconds.
    pub(super) fn at(&self, now: i64) -> TokenNotes {
        let mut notes = TokenNotes::default();
        let subject = &self.subject;
        if self.for_nobody {
            notes.annotations.push(("authentication.k8s.io/legacy-token", subject.clone()));
        }
        if self.stale_after != 0 && now > self.stale_after {
            let seconds = now.saturating_sub(self.stale_after);
            let text = format!("subject: {subject}, seconds after warning threshold: {seconds}");
            notes.annotations.push(("authentication.k8s.io/stale-token", text.into()));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_told_of_that_are_old() {
        let noted = Noted { subject: "s".into(), for_nobody: false, stale_after: 100 };
        assert_eq!(noted.at(100), TokenNotes::default());
        let stale = "subject: s, seconds after warning threshold: 5";
        assert_eq!(noted.at(105).annotations, [("authentication.k8s.io/stale-token", stale.into())]);
        let legacy = Noted { for_nobody: true, stale_after: 0, ..noted };
        assert_eq!(legacy.at(i64::MAX).annotations, [("authentication.k8s.io/legacy-token", "s".into())]);
    }
}
