//! Claims of service account tokens: for whom it is, for how long, and by what it is bound.

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

/// What a token says, each claim of the type that it must have. A claim of another type makes the whole token void: read
/// as if it were not there, an `exp` in quotes would be a token that never expires.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Claims {
    pub(super) issuer: Str,
    pub(super) subject: Str,
    /// A list, or one alone.
    pub(super) audiences: Vec<Str>,
    pub(super) id: Str,
    pub(super) validity: Validity,
    /// What this server says of its own: `kubernetes.io`.
    pub(super) own: OwnClaims,
}

/// The object that a token is about, and those that it is bound to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OwnClaims {
    pub(super) namespace: Str,
    pub(super) account: Reference,
    pub(super) pod: Option<Reference>,
    pub(super) node: Option<Reference>,
    pub(super) secret: Option<Reference>,
    /// From when on its use is noted as stale, in seconds; 0: never.
    pub(super) warn_after: i64,
}

/// An object by name and uid.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reference {
    pub(super) name: Str,
    pub(super) uid: Str,
}

impl Claims {
    /// Reads claims.
    ///
    /// # Errors
    /// A claim of the wrong type.
    pub(super) fn of(claims: &Value) -> Result<Self, String> {
        let own = member(claims, "kubernetes.io", "serviceaccount.kubernetes")?;
        Ok(Claims {
            issuer: text(claims, "iss")?,
            subject: text(claims, "sub")?,
            audiences: audiences(claims)?,
            id: text(claims, "jti")?,
            validity: Validity::of(claims)?,
            own: own.map(OwnClaims::of).transpose()?.unwrap_or_default(),
        })
    }
}

impl OwnClaims {
    fn of(claims: &Value) -> Result<Self, String> {
        let reference = |name| member(claims, name, "serviceaccount.ref")?.map(Reference::of).transpose();
        Ok(OwnClaims {
            warn_after: date(claims, "warnafter")?.unwrap_or_default(),
            namespace: text(claims, "namespace")?,
            account: reference("serviceaccount")?.unwrap_or_default(),
            pod: reference("pod")?,
            node: reference("node")?,
            secret: reference("secret")?,
        })
    }
}

impl Reference {
    fn of(reference: &Value) -> Result<Self, String> {
        Ok(Reference { name: text(reference, "name")?, uid: text(reference, "uid")? })
    }
}

/// A claim that is a text, or nothing.
pub(super) fn text(claims: &Value, name: &str) -> Result<Str, String> {
    match claims.get(name) {
        None | Some(Value::Null) => Ok(Str::default()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(mismatch(other, "string")),
    }
}

/// A claim that is an object, of what upstream calls a type, or nothing.
fn member<'a>(claims: &'a Value, name: &str, kind: &str) -> Result<Option<&'a Value>, String> {
    match claims.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) if value.as_object().is_some() => Ok(Some(value)),
        Some(other) => Err(mismatch(other, kind)),
    }
}

fn mismatch(value: &Value, wanted: &str) -> String {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        _ => "number",
    };
    format!("json: cannot unmarshal {found} into Go value of type {wanted}")
}

/// A claim that is a date in seconds since the epoch, or nothing. A date beyond all dates has passed.
fn date(claims: &Value, name: &str) -> Result<Option<i64>, String> {
    match claims.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let wrong = "go-jose/go-jose/jwt: expected number value to unmarshal NumericDate";
            let seconds = value.as_f64().ok_or(wrong)?;
            let fits = (-(2f64.powi(63))..2f64.powi(63)).contains(&seconds);
            Ok(Some(if fits { seconds as i64 } else { i64::MIN }))
        }
    }
}

/// The audiences that a token names.
fn audiences(claims: &Value) -> Result<Vec<Str>, String> {
    let wrong = || "go-jose/go-jose/jwt: expected string or array value to unmarshal to Audience".to_owned();
    match claims.get("aud") {
        None => Ok(Vec::new()),
        Some(Value::String(one)) => Ok(vec![one.clone()]),
        Some(Value::Array(list)) => {
            list.iter().map(|audience| audience.as_shared_str().cloned().ok_or_else(wrong)).collect()
        }
        Some(_) => Err(wrong()),
    }
}

/// When a token is good.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Validity {
    pub(super) not_before: i64,
    pub(super) expires: i64,
    pub(super) issued: i64,
}

impl Default for Validity {
    fn default() -> Self {
        Validity { not_before: i64::MIN, expires: i64::MAX, issued: i64::MIN }
    }
}

impl Validity {
    /// From claims; a claim that is not there limits nothing.
    pub(super) fn of(claims: &Value) -> Result<Self, String> {
        let forever = Validity::default();
        Ok(Validity {
            not_before: date(claims, "nbf")?.unwrap_or(forever.not_before),
            expires: date(claims, "exp")?.unwrap_or(forever.expires),
            issued: date(claims, "iat")?.unwrap_or(forever.issued),
        })
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

#[cfg(test)]
mod tests {
    use machinery::codec::json;

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
        assert_eq!(Validity::default().check(i64::MAX), Ok(()));
        let future = Validity { not_before: 0, expires: 9000, issued: 5000 };
        assert_eq!(future.check(1000), Err("service account token is issued in the future"));
    }

    #[test]
    fn one_audience_may_stand_alone() {
        let check = |claims: Value, expect: &[&str]| assert_eq!(Claims::of(&claims).expect("typed").audiences, expect);
        check(object! { "aud" => "a" }, &["a"]);
        check(object! { "aud" => vec![Str::from("a"), Str::from("b")] }, &["a", "b"]);
        check(object! {}, &[]);
    }

    #[test]
    fn claims_of_another_type_void_the_token() {
        let check = |text: &str| {
            let claims = json::decode(text.as_bytes()).expect("JSON");
            assert!(Claims::of(&claims).is_err(), "{text}");
        };
        for date in ["exp", "nbf", "iat"] {
            for value in [r#""1999999999""#, "true", "{}", "[]"] {
                check(&format!(r#"{{"{date}":{value}}}"#));
            }
        }
        for name in ["iss", "sub", "jti"] {
            for value in ["1", "true", "{}", r#"["a"]"#] {
                check(&format!(r#"{{"{name}":{value}}}"#));
            }
        }
        check(r#"{"aud":1}"#);
        check(r#"{"aud":null}"#);
        check(r#"{"aud":["a",1]}"#);
        check(r#"{"kubernetes.io":"x"}"#);
        for own in ["namespace", "serviceaccount", "pod", "node", "secret"] {
            check(&format!(r#"{{"kubernetes.io":{{"{own}":["p"]}}}}"#));
            check(&format!(r#"{{"kubernetes.io":{{"{own}":{{"uid":7}}}}}}"#));
        }
        check(r#"{"kubernetes.io":{"warnafter":"1"}}"#);
    }

    #[test]
    fn what_is_null_is_not_there_and_dates_beyond_all_dates_have_passed() {
        let read = |text: &str| Claims::of(&json::decode(text.as_bytes()).expect("JSON")).expect("typed");
        assert_eq!(read(r#"{"exp":null,"sub":null,"kubernetes.io":{"pod":null}}"#), Claims::default());
        assert_eq!(read(r#"{"exp":1.9}"#).validity.expires, 1);
        assert_eq!(read(r#"{"exp":1e300}"#).validity.check(0), Err("service account token has expired"));
        let pod = read(r#"{"kubernetes.io":{"pod":{"name":"p"}}}"#).own.pod.expect("a pod");
        assert_eq!((pod.name.as_str(), pod.uid.as_str()), ("p", ""));
    }
}
