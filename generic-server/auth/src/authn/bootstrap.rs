//! Bootstrap tokens: what nodes authenticate with before they have a certificate. They are kept in secrets of kube-system.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use machinery::{
    Str, Value,
    meta::{Meta, TimeForm, Timestamp},
};

use crate::{TokenAuthenticator, TokenError, TokenOwner, User, token::audiences_of};

const TYPE: &str = "bootstrap.kubernetes.io/token";
const GROUP: &str = "system:bootstrappers";

/// The secret of a name in kube-system, as it is now.
pub type FindSecret = Arc<dyn Fn(&str) -> Option<Value> + Send + Sync>;

/// Knows bootstrap tokens.
pub struct BootstrapTokens {
    audiences: Arc<[Str]>,
    find: FindSecret,
}

impl BootstrapTokens {
    /// Tokens in the secrets that `find` finds, for a server with these audiences.
    pub fn new(audiences: Arc<[Str]>, find: FindSecret) -> Self {
        BootstrapTokens { audiences, find }
    }
}

#[async_trait]
impl TokenAuthenticator for BootstrapTokens {
    async fn authenticate(&self, token: &str, audiences: Option<&[Str]>) -> Result<Option<TokenOwner>, TokenError> {
        let Some((id, secret)) = parse(token) else { return Ok(None) };
        let Some(audiences) = audiences_of(&self.audiences, audiences) else { return Ok(None) };
        let name = format!("bootstrap-token-{id}");
        let Some(held) = (self.find)(&name) else {
            tracing::debug!(name, "no secret matches a bootstrap token");
            return Ok(None);
        };
        match user_of(&held, id, secret, Timestamp::now()) {
            Ok(user) => Ok(Some(TokenOwner::new(Arc::new(user.authenticated()), audiences))),
            Err(why) => {
                tracing::debug!(name, %why, "the secret that matches a bootstrap token cannot be used");
                Ok(None)
            }
        }
    }
}

/// The two parts of a token; `None` if it is none.
fn parse(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let is_part =
        |part: &str, length| part.len() == length && part.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9'));
    (is_part(id, 6) && is_part(secret, 16)).then_some((id, secret))
}

/// Why the secret of a bootstrap token makes it nobody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum SecretError {
    #[error("it is being deleted")]
    Terminating,
    #[error("it is of another type")]
    Type,
    #[error("it holds another token")]
    Secret,
    #[error("it has another token id")]
    Id,
    #[error("it has expired")]
    Expired,
    #[error("it is not for authentication")]
    Usage,
    #[error("it has an invalid group")]
    Group,
}

/// The user of a token, if its secret says so.
fn user_of(held: &Value, id: &str, secret: &str, now: Timestamp) -> Result<User, SecretError> {
    let data = |key: &str| {
        let text = held.str_at(&["data", key]).and_then(|text| BASE64.decode(text).ok()).unwrap_or_default();
        String::from_utf8(text).unwrap_or_default()
    };
    if Meta::of(held).is_terminating() {
        return Err(SecretError::Terminating);
    }
    if held.str_at(&["type"]) != Some(TYPE) || held.get("data").is_none_or(Value::is_null) {
        return Err(SecretError::Type);
    }
    if !same(data("token-secret").as_bytes(), secret.as_bytes()) {
        return Err(SecretError::Secret);
    }
    if data("token-id") != id {
        return Err(SecretError::Id);
    }
    let expiration = data("expiration");
    // A time that cannot be read has passed.
    let until = Timestamp::parse(&expiration, TimeForm::Seconds).ok();
    if !expiration.is_empty() && until.is_none_or(|until| until.seconds() <= now.seconds()) {
        return Err(SecretError::Expired);
    }
    if data("usage-bootstrap-authentication") != "true" {
        return Err(SecretError::Usage);
    }
    let groups = groups(&data("auth-extra-groups")).ok_or(SecretError::Group)?;
    Ok(User { name: format!("system:bootstrap:{id}").into(), groups, ..User::default() })
}

/// The groups, sorted: the one of all such tokens, and those below it that are named.
fn groups(extra: &str) -> Option<Vec<Str>> {
    let mut groups = BTreeSet::from([GROUP]);
    for group in extra.split(',').filter(|_| !extra.is_empty()) {
        let name = group.strip_prefix(GROUP)?.strip_prefix(':')?;
        let is_name = name.len() <= 256 && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b':' | b'-'));
        let ends_well = name.bytes().last().is_some_and(|b| !matches!(b, b':' | b'-'));
        if !is_name || !ends_well {
            return None;
        }
        groups.insert(group);
    }
    Some(groups.into_iter().map(Str::from).collect())
}

/// Compares secrets without telling by its time how much of them agrees.
fn same(a: &[u8], b: &[u8]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(a, b).is_ok()
}

#[cfg(test)]
mod tests {
    use machinery::object;

    use super::*;

    fn secret(data: &[(&str, &str)]) -> Value {
        let mut all = object! {};
        let usual =
            [("token-id", "abcdef"), ("token-secret", "0123456789abcdef"), ("usage-bootstrap-authentication", "true")];
        for (key, value) in usual.iter().chain(data) {
            all.set(&[key], BASE64.encode(value));
        }
        object! { "metadata" => object! { "name" => "bootstrap-token-abcdef" }, "type" => TYPE, "data" => all }
    }

    #[test]
    fn a_secret_says_whether_its_token_is_good() {
        let now = Timestamp::new(1_000_000_000, 0); // in 2001
        let check = |held: &Value, expect: Result<&[&str], &str>| {
            let found = user_of(held, "abcdef", "0123456789abcdef", now);
            let groups: Result<Vec<Str>, _> = found.map(|user| user.groups);
            let expect = expect.map(|list| list.iter().map(|g| Str::from(*g)).collect()).map_err(str::to_owned);
            assert_eq!(groups.map_err(|why| why.to_string()), expect, "{held:?}");
        };
        check(&secret(&[]), Ok(&[GROUP]));
        check(
            &secret(&[("auth-extra-groups", "system:bootstrappers:two,system:bootstrappers:a:b-1")]),
            Ok(&[GROUP, "system:bootstrappers:a:b-1", "system:bootstrappers:two"]),
        );
        for group in
            ["system:masters", "system:bootstrappers:", "system:bootstrappers:a-", "system:bootstrappers:A", ","]
        {
            check(&secret(&[("auth-extra-groups", group)]), Err("it has an invalid group"));
        }
        check(&secret(&[("token-secret", "0123456789abcdee")]), Err("it holds another token"));
        check(&secret(&[("token-id", "other1")]), Err("it has another token id"));
        check(&secret(&[("usage-bootstrap-authentication", "yes")]), Err("it is not for authentication"));
        check(&secret(&[("expiration", "2001-01-01T00:00:00Z")]), Err("it has expired"));
        check(&secret(&[("expiration", "soon")]), Err("it has expired"));
        check(&secret(&[("expiration", "2031-01-01T00:00:00+02:00")]), Ok(&[GROUP]));
        let mut other = secret(&[]);
        other.set(&["type"], "Opaque");
        check(&other, Err("it is of another type"));
        let mut ending = secret(&[]);
        ending.set(&["metadata", "deletionTimestamp"], "2001-01-01T00:00:00Z");
        check(&ending, Err("it is being deleted"));
    }

    #[test]
    fn tokens_have_two_parts() {
        assert_eq!(parse("abcdef.0123456789abcdef"), Some(("abcdef", "0123456789abcdef")));
        for token in
            ["", "abcdef", "abcde.0123456789abcdef", "abcdef.0123456789abcde", "abcdeF.0123456789abcdef", "a.b.c"]
        {
            assert_eq!(parse(token), None, "{token}");
        }
    }
}
