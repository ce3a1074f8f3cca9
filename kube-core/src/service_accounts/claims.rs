//! What a token says: for whom it is, for how long, and by what it is bound.

use machinery::{
    Str, Value,
    meta::{Meta, Timestamp},
    object,
};

/// What clocks of two servers may differ by, in seconds.
pub(super) const LEEWAY: i64 = 60;

/// What a new token is to say.
pub(super) struct NewToken<'a> {
    pub(super) issuer: &'a str,
    pub(super) audiences: &'a [Str],
    /// The service account.
    pub(super) account: &'a Value,
    /// Objects whose end is the token's end: member of the claims (`pod`, `node`, `secret`) and object.
    pub(super) bound: &'a [(&'static str, Value)],
    /// How long it is good, in seconds.
    pub(super) lifetime: i64,
    /// After how many seconds its use is noted as stale; 0: never.
    pub(super) warn_after: i64,
    pub(super) id: &'a str,
}

impl NewToken<'_> {
    /// The claims of a token that is made now.
    pub(super) fn claims(&self, now: Timestamp) -> Value {
        let account = Meta::of(self.account);
        let now = now.seconds();
        let mut own = object! { "namespace" => account.namespace(), "serviceaccount" => reference(self.account) };
        for (member, bound) in self.bound {
            own.set(&[member], reference(bound));
        }
        if self.warn_after != 0 {
            own.set(&["warnafter"], now + self.warn_after);
        }
        object! {
            "aud" => self.audiences.to_vec(), "exp" => now + self.lifetime, "iat" => now, "nbf" => now,
            "iss" => self.issuer, "jti" => self.id,
            "sub" => super::username(account.namespace(), account.name()),
            "kubernetes.io" => own,
        }
    }
}

/// Name and uid; what is not known is left out.
fn reference(object: &Value) -> Value {
    let meta = Meta::of(object);
    let mut reference = object! {};
    for (key, text) in [("name", meta.name()), ("uid", meta.uid())] {
        if !text.is_empty() {
            reference.set(&[key], text);
        }
    }
    reference
}

/// When a token is good.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Validity {
    pub(super) not_before: i64,
    pub(super) expires: i64,
    issued: i64,
}

impl Validity {
    /// From claims; a claim that is not there limits nothing.
    pub(super) fn of(claims: &Value) -> Self {
        let date = |key: &str| claims.get(key).and_then(Value::as_f64).map(|date| date as i64);
        Validity {
            not_before: date("nbf").unwrap_or(i64::MIN),
            expires: date("exp").unwrap_or(i64::MAX),
            issued: date("iat").unwrap_or(i64::MIN),
        }
    }

    /// Whether the token is good now, in seconds since the epoch.
    pub(super) fn check(&self, now: i64) -> Result<(), &'static str> {
        if now.saturating_add(LEEWAY) < self.not_before {
            return Err("service account token is not valid yet");
        }
        if now.saturating_sub(LEEWAY) > self.expires {
            return Err("service account token has expired");
        }
        if now.saturating_add(LEEWAY) < self.issued {
            return Err("service account token is issued in the future");
        }
        Ok(())
    }
}

/// The audiences that a token names: a list, or one alone.
pub(super) fn audiences(claims: &Value) -> Vec<Str> {
    match claims.get("aud") {
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_shared_str).cloned().collect(),
        Some(Value::String(one)) if !one.is_empty() => vec![one.clone()],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_claims_name_account_audiences_and_what_binds_them() {
        let meta = |name: &str, uid: &str| object! { "metadata" => object! { "name" => name, "uid" => uid, "namespace" => "n" } };
        let token = NewToken {
            issuer: "https://i",
            audiences: &["a".into()],
            account: &meta("robot", "u1"),
            bound: &[("pod", meta("p", "u2")), ("node", meta("m", ""))],
            lifetime: 600,
            warn_after: 60,
            id: "id",
        };
        let claims = token.claims(Timestamp::new(1000, 0));
        let own = object! {
            "namespace" => "n", "serviceaccount" => object! { "name" => "robot", "uid" => "u1" },
            "pod" => object! { "name" => "p", "uid" => "u2" }, "node" => object! { "name" => "m" }, "warnafter" => 1060,
        };
        let expect = object! {
            "aud" => vec![Str::from("a")], "exp" => 1600, "iat" => 1000, "nbf" => 1000, "iss" => "https://i", "jti" => "id",
            "sub" => "system:serviceaccount:n:robot", "kubernetes.io" => own,
        };
        assert_eq!(claims, expect);
    }

    #[test]
    fn times_are_checked_with_some_leeway() {
        let validity = Validity { not_before: 1000, expires: 2000, issued: 1000 };
        assert!(validity.check(939).is_err());
        assert_eq!(validity.check(940), Ok(()));
        assert_eq!(validity.check(2060), Ok(()));
        assert_eq!(validity.check(2061), Err("service account token has expired"));
        assert_eq!(Validity::of(&object! {}).check(i64::MAX), Ok(()));
        let future = Validity { not_before: 0, expires: 9000, issued: 5000 };
        assert_eq!(future.check(1000), Err("service account token is issued in the future"));
    }

    #[test]
    fn one_audience_may_stand_alone() {
        assert_eq!(audiences(&object! { "aud" => "a" }), ["a"]);
        assert_eq!(audiences(&object! { "aud" => vec![Str::from("a"), Str::from("b")] }), ["a", "b"]);
        assert!(audiences(&object! {}).is_empty());
    }
}
