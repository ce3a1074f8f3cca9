//! Claims of ID tokens (OpenID Connect Core 1.0, 2), and whether it is good now and for this server.

use machinery::{
    Map, Str, Value,
    codec::json,
    meta::{
        TimeForm, Timestamp,
        go_text::{self, json_type_name},
    },
};

/// What clocks may differ by where a token is not good yet, in seconds.
const LEEWAY: i64 = 60;
/// Dates that Go's times can show; the year 9999 ends with the last.
const DATES: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// The claims that every token is judged by.
#[derive(Debug, Default)]
pub(super) struct IdToken {
    issuer: Str,
    audiences: Vec<Str>,
    /// In seconds since 1970.
    expires: Option<i64>,
    not_before: Option<i64>,
}

impl IdToken {
    /// Reads claims.
    ///
    /// # Errors
    /// A claim of a wrong type.
    pub(super) fn of(claims: &Value) -> Result<Self, String> {
        Self::read(claims).map_err(|why| format!("oidc: failed to unmarshal claims: {why}"))
    }

    fn read(claims: &Value) -> Result<Self, String> {
        let text = |name: &str| match claims.get(name) {
            None | Some(Value::Null) => Ok(Str::default()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => {
                let found = json_type_name(other);
                Err(format!("json: cannot unmarshal {found} into Go struct field idToken.{name} of type string"))
            }
        };
        for name in ["sub", "nonce", "at_hash"] {
            text(name)?;
        }
        check_sources(claims)?;
        date(claims.get("iat"))?;
        Ok(IdToken {
            issuer: text("iss")?,
            audiences: claims.get("aud").map(audiences).transpose()?.unwrap_or_default(),
            expires: date(claims.get("exp"))?,
            not_before: date(claims.get("nbf").filter(|value| !value.is_null()))?,
        })
    }

    /// Whether all claims that are elsewhere have a source.
    ///
    /// # Errors
    /// One has none.
    pub(super) fn check_sources(claims: &Value) -> Result<(), String> {
        let names = claims.get("_claim_names").and_then(Value::as_object);
        for source in names.into_iter().flat_map(Map::values) {
            let source = source.as_str().unwrap_or_default();
            if source.is_empty() {
                return Err("oidc: failed to obtain source from claim name".to_owned());
            }
            if claims.get("_claim_sources").and_then(|sources| sources.get(source)).is_none() {
                return Err("oidc: source does not exist".to_owned());
            }
        }
        Ok(())
    }

    /// Whether the token is of `issuer`, for one of `audiences`, and good now.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn check(&self, issuer: &str, audiences: &[Str], now: Timestamp) -> Result<(), String> {
        if !is_issuer(issuer, &self.issuer) {
            let (expected, got) = (go_text::quote(issuer), go_text::quote(&self.issuer));
            return Err(format!("oidc: id token issued by a different provider, expected {expected} got {got}"));
        }
        let is_for = |audience: &Str| self.audiences.contains(audience);
        if let [only] = audiences
            && !is_for(only)
        {
            return Err(format!("oidc: expected audience {} got {}", go_text::quote(only), quoted(&self.audiences)));
        }
        let expired = self.expires.is_none_or(|at| (at, 0) < (now.seconds(), now.nanos()));
        if expired {
            return Err(format!("oidc: token is expired (Token Expiry: {})", go_time(self.expires)));
        }
        if let Some(not_before) = self.not_before.filter(|at| now.seconds().saturating_add(LEEWAY) < *at) {
            let (now, not_before) = (go_time(Some(now.seconds())), go_time(Some(not_before)));
            return Err(format!("oidc: current time {now} before the nbf (not before) time: {not_before}"));
        }
        if audiences.iter().any(is_for) {
            return Ok(());
        }
        let mut wanted = audiences.to_vec();
        wanted.sort_unstable();
        Err(format!("oidc: expected audience in {} got {}", quoted(&wanted), quoted(&self.audiences)))
    }
}

/// Whether a token's issuer is the one that is believed. Google's tokens name it in two ways.
pub(super) fn is_issuer(believed: &str, named: &str) -> bool {
    believed == named || (believed == "https://accounts.google.com" && named == "accounts.google.com")
}

fn audiences(value: &Value) -> Result<Vec<Str>, String> {
    match value {
        Value::Null => Ok(vec![Str::default()]), // as Go reads it: a text that is empty
        Value::String(one) => Ok(vec![one.clone()]),
        value => read_texts(value).map_err(|found| match value {
            Value::Array(_) => format!("json: cannot unmarshal {found} into Go value of type string"),
            _ => format!("json: cannot unmarshal {found} into Go struct field idToken.aud of type []string"),
        }),
    }
}

/// Claims that are elsewhere are where a source says, and their names and sources are texts.
fn check_sources(claims: &Value) -> Result<(), String> {
    let member = |name: &str, of: &str| match claims.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(members)) => Ok(Some(members)),
        Some(other) => {
            let found = json_type_name(other);
            Err(format!("json: cannot unmarshal {found} into Go struct field idToken.{name} of type {of}"))
        }
    };
    let wrong = |found: &Value, path: &str, of: &str| {
        Err(format!("json: cannot unmarshal {} into Go struct field {path} of type {of}", json_type_name(found)))
    };
    for source in member("_claim_sources", "map[string]oidc.claimSource")?.into_iter().flat_map(Map::values) {
        if source.as_object().is_none() && !source.is_null() {
            return wrong(source, "idToken._claim_sources", "oidc.claimSource");
        }
        for name in ["endpoint", "access_token"] {
            if let Some(value) = source.get(name).filter(|value| !value.is_null() && value.as_str().is_none()) {
                return wrong(value, &format!("claimSource._claim_sources.{name}"), "string");
            }
        }
    }
    for name in member("_claim_names", "map[string]string")?.into_iter().flat_map(Map::values) {
        if name.as_str().is_none() && !name.is_null() {
            return wrong(name, "idToken._claim_names", "string");
        }
    }
    Ok(())
}

/// The texts of a list, or the type of what is in the way. What is null is empty.
fn read_texts(value: &Value) -> Result<Vec<Str>, &'static str> {
    let text = |item: &Value| match item {
        Value::Null => Ok(Str::default()),
        Value::String(text) => Ok(text.clone()),
        other => Err(json_type_name(other)),
    };
    match value {
        Value::Array(items) => items.iter().map(text).collect(),
        other => Err(json_type_name(other)),
    }
}

/// A date in seconds since 1970.
fn date(value: Option<&Value>) -> Result<Option<i64>, String> {
    match value {
        None => Ok(None),
        Some(Value::Int(seconds)) => Ok(Some(*seconds)),
        Some(Value::Float(seconds)) => {
            let fits = (-(2f64.powi(63))..2f64.powi(63)).contains(seconds);
            Ok(Some(if fits { *seconds as i64 } else { i64::MIN }))
        }
        Some(Value::Null) => Err("strconv.ParseFloat: parsing \"\": invalid syntax".to_owned()),
        // A number may stand in quotes.
        Some(Value::String(text)) => match json::decode(text.as_bytes()) {
            Ok(number @ (Value::Int(_) | Value::Float(_))) => date(Some(&number)),
            _ => {
                let quoted = go_text::quote(&go_text::quote(text));
                Err(format!("json: invalid number literal, trying to unmarshal {quoted} into Number"))
            }
        },
        Some(other) => {
            Err(format!("json: cannot unmarshal {} into Go value of type json.Number", json_type_name(other)))
        }
    }
}

/// A time as Go prints it; none is its zero time.
fn go_time(seconds: Option<i64>) -> String {
    let seconds = seconds.unwrap_or(*DATES.start()).clamp(*DATES.start(), *DATES.end());
    let text = Timestamp::new(seconds, 0).text(TimeForm::Seconds);
    format!("{} +0000 UTC", text.replace('T', " ").trim_end_matches('Z'))
}

/// A list of texts as Go's `%q` prints it.
pub(super) fn quoted(texts: &[Str]) -> String {
    format!("[{}]", texts.iter().map(|text| go_text::quote(text)).collect::<Vec<_>>().join(" "))
}

/// A claim that must be a text. What is null is an empty one, as Go reads it.
///
/// # Errors
/// It is not there, or of another type.
pub(super) fn text(claims: &Map, name: &str) -> Result<Str, String> {
    match claims.get(name).ok_or("claim not present")? {
        Value::Null => Ok(Str::default()),
        Value::String(text) => Ok(text.clone()),
        other => Err(format!("json: cannot unmarshal {} into Go value of type string", json_type_name(other))),
    }
}

/// A claim that must be a bool.
///
/// # Errors
/// It is of another type.
pub(super) fn flag(value: &Value) -> Result<bool, String> {
    match value {
        Value::Null => Ok(false),
        Value::Bool(flag) => Ok(*flag),
        other => Err(format!("json: cannot unmarshal {} into Go value of type bool", json_type_name(other))),
    }
}

/// A claim that is a list of texts, or one alone.
///
/// # Errors
/// It is neither.
pub(super) fn texts(value: &Value) -> Result<Vec<Str>, String> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(one) => Ok(vec![one.clone()]),
        value => read_texts(value)
            .map_err(|_| format!("json: cannot unmarshal {} into Go value of type string", json_type_name(value))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_at(claims: &str, audiences: &[&str], now: i64) -> Result<(), String> {
        let claims = json::decode(claims.as_bytes()).expect("JSON");
        let audiences: Vec<Str> = audiences.iter().map(|audience| Str::from(*audience)).collect();
        IdToken::of(&claims)?.check("https://a", &audiences, Timestamp::new(now, 1))
    }

    #[test]
    fn a_token_is_good_for_its_issuer_its_audience_and_its_time() {
        let check = |claims: &str, audiences: &[&str], expect: Result<(), &str>| {
            assert_eq!(check_at(claims, audiences, 1_000), expect.map_err(str::to_owned), "{claims}");
        };
        let good = r#"{"iss":"https://a","aud":"x","exp":1001}"#;
        check(good, &["x"], Ok(()));
        check(r#"{"iss":"https://a","aud":["y","x"],"exp":1001.5,"nbf":1060}"#, &["x"], Ok(()));
        check(r#"{"iss":"https://a","aud":"x","exp":"1001"}"#, &["x"], Ok(()));
        check(good, &["y", "x"], Ok(()));
        check(good, &["y"], Err(r#"oidc: expected audience "y" got ["x"]"#));
        check(good, &["z", "y"], Err(r#"oidc: expected audience in ["y" "z"] got ["x"]"#));
        check(
            r#"{"iss":"https://b","aud":"x","exp":1001}"#,
            &["x"],
            Err(r#"oidc: id token issued by a different provider, expected "https://a" got "https://b""#),
        );
        check(
            r#"{"iss":"https://a","aud":"x","exp":1000}"#,
            &["x"],
            Err("oidc: token is expired (Token Expiry: 1970-01-01 00:16:40 +0000 UTC)"),
        );
        check(
            r#"{"iss":"https://a","aud":"x"}"#,
            &["x"],
            Err("oidc: token is expired (Token Expiry: 0001-01-01 00:00:00 +0000 UTC)"),
        );
        check(
            r#"{"iss":"https://a","aud":"x","exp":5000,"nbf":1061}"#,
            &["x"],
            Err(
                "oidc: current time 1970-01-01 00:16:40 +0000 UTC before the nbf (not before) time: 1970-01-01 00:17:41 \
                 +0000 UTC",
            ),
        );
        assert!(is_issuer("https://accounts.google.com", "accounts.google.com"));
        assert!(!is_issuer("https://accounts.google.co", "accounts.google.co"));
    }

    #[test]
    fn claims_of_a_wrong_type_void_the_token() {
        let check = |claims: &str, expect: &str| {
            let why = check_at(claims, &["x"], 1_000).expect_err(claims);
            assert_eq!(why, format!("oidc: failed to unmarshal claims: {expect}"), "{claims}");
        };
        check(r#"{"sub":1}"#, "json: cannot unmarshal number into Go struct field idToken.sub of type string");
        check(r#"{"aud":1}"#, "json: cannot unmarshal number into Go struct field idToken.aud of type []string");
        check(r#"{"aud":["x",1]}"#, "json: cannot unmarshal number into Go value of type string");
        check(r#"{"exp":"soon"}"#, r#"json: invalid number literal, trying to unmarshal "\"soon\"" into Number"#);
        check(r#"{"exp":[]}"#, "json: cannot unmarshal array into Go value of type json.Number");
        check(
            r#"{"_claim_names":["a"]}"#,
            "json: cannot unmarshal array into Go struct field idToken._claim_names of type map[string]string",
        );
        check(
            r#"{"_claim_sources":{"a":{"endpoint":1}}}"#,
            "json: cannot unmarshal number into Go struct field claimSource._claim_sources.endpoint of type string",
        );
        for date in ["exp", "iat", "nbf"] {
            assert!(check_at(&format!(r#"{{"{date}":true}}"#), &["x"], 0).is_err(), "{date}");
        }
        for far in ["1e300", "-1e300", "9223372036854775807", "-9223372036854775808"] {
            let claims = format!(r#"{{"iss":"https://a","aud":"x","exp":{far},"nbf":{far}}}"#);
            assert!(check_at(&claims, &["x"], 1_000).is_err(), "{far}");
        }
    }
}
