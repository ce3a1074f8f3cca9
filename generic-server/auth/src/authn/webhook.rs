//! `--authentication-token-webhook-*`: another server judges tokens, asked with a TokenReview.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use machinery::{
    Str, Value,
    codec::json,
    object,
    schema::{self, builtin},
};
use outbound::{Backoff, CallError, KnownKinds, KubeconfigWebhook, ReviewKind};

use crate::{TokenAuthenticator, TokenError, TokenOwner, User};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenReview";
/// Where upstream's client registers all kinds.
const REGISTRY: &str = "plugin/pkg/authenticator/token/webhook/webhook.go:201";
/// The versions that a webhook can be asked in.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];
/// How long one call may take, and the largest answer that is read, in bytes.
pub const TIMEOUT: Duration = Duration::from_secs(30);
const MAX_ANSWER: usize = 3 << 20;
/// The pause before the second call.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// A version of the API that a webhook cannot be asked in. Shown, it is what upstream says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unsupported authentication webhook version {0:?}, supported versions are {v1:?}, {v1beta1:?}",
    v1 = VERSIONS[0],
    v1beta1 = VERSIONS[1]
)]
pub struct UnsupportedVersion(pub String);

/// Tokens that a webhook knows.
pub struct WebhookTokens {
    webhook: KubeconfigWebhook,
    version: &'static str,
    /// The server's audiences: for those a token is asked for if the client says nothing else.
    audiences: Arc<[Str]>,
    backoff: Backoff,
}

impl WebhookTokens {
    /// The tokens of a webhook that is asked in this version of the API.
    ///
    /// # Errors
    /// Another version.
    pub fn new(webhook: KubeconfigWebhook, version: &str, audiences: Arc<[Str]>) -> Result<Self, UnsupportedVersion> {
        let version = check_version(version)?;
        Ok(WebhookTokens { webhook, version, audiences, backoff: Backoff::for_webhooks(RETRY_AFTER) })
    }

    fn review(&self, token: &str, audiences: &[Str]) -> Value {
        let mut spec = object! { "token" => token };
        if !audiences.is_empty() {
            spec.set(&["audiences"], audiences.to_vec());
        }
        object! {
            "kind" => KIND, "apiVersion" => format!("{GROUP}/{}", self.version), "metadata" => object! {},
            "spec" => spec, "status" => object! { "user" => object! {} },
        }
    }
}

/// The version of that name.
///
/// # Errors
/// There is none.
pub fn check_version(version: &str) -> Result<&'static str, UnsupportedVersion> {
    let known = VERSIONS.into_iter().find(|known| *known == version);
    known.ok_or_else(|| UnsupportedVersion(version.to_owned()))
}

#[async_trait]
impl TokenAuthenticator for WebhookTokens {
    async fn authenticate(&self, token: &str, audiences: Option<&[Str]>) -> Result<Option<TokenOwner>, TokenError> {
        let wanted = audiences.unwrap_or(&self.audiences);
        let document = json::encode(&self.review(token, wanted));
        let call = outbound::Call { timeout: TIMEOUT, limit: MAX_ANSWER };
        let attempt = || self.webhook.call(document.clone(), call);
        let answer = self.backoff.retry(attempt, CallError::is_transient).await;
        let answer = answer.inspect_err(|error| tracing::error!(%error, "the token webhook cannot be asked"));
        let answer = answer.map_err(|error| TokenError::Unavailable(error.to_string()))?;
        let review = read(&answer, self.version).map_err(TokenError::Unavailable)?;
        owner(&review, wanted, &self.audiences)
    }
}

/// Reads a webhook's answer.
fn read(answer: &[u8], version: &str) -> Result<Value, String> {
    let asked = ReviewKind { group: GROUP, version, kind: KIND };
    let review = outbound::read_review_by(answer, asked, KnownKinds::All(REGISTRY)).map_err(|why| why.to_string())?;
    // Both versions have the same members.
    let shape = builtin::schema_of(GROUP, "v1", KIND).ok_or("there is no such kind")?;
    let (review, _) = schema::decode_text(shape, review, Some(answer)).map_err(|e| e.to_string())?;
    Ok(review)
}

/// Whose a token is, for which of the audiences that were asked for.
fn owner(review: &Value, wanted: &[Str], own: &[Str]) -> Result<Option<TokenOwner>, TokenError> {
    let texts = |path: &[&str]| -> Vec<Str> {
        let list = review.at(path).and_then(Value::as_array).unwrap_or_default();
        list.iter().filter_map(Value::as_shared_str).cloned().collect()
    };
    let text = |path: &[&str]| Str::from(review.str_at(path).unwrap_or_default());
    let mut audiences = Vec::new();
    if !wanted.is_empty() {
        // A webhook that does not know of audiences speaks for those of this server.
        let named = texts(&["status", "audiences"]);
        let named = if named.is_empty() { own.to_vec() } else { named };
        audiences = named.into_iter().filter(|audience| wanted.contains(audience)).collect();
        if audiences.is_empty() {
            return Ok(None);
        }
    }
    if review.at(&["status", "authenticated"]).and_then(Value::as_bool) != Some(true) {
        let why = text(&["status", "error"]);
        return if why.is_empty() { Ok(None) } else { Err(TokenError::Invalid(why.to_string())) };
    }
    let extra = review.at(&["status", "user", "extra"]).and_then(Value::as_object);
    let values = |value: &Value| -> Vec<Str> {
        value.as_array().unwrap_or_default().iter().filter_map(Value::as_shared_str).cloned().collect()
    };
    let user = User {
        name: text(&["status", "user", "username"]),
        uid: text(&["status", "user", "uid"]),
        groups: texts(&["status", "user", "groups"]),
        extra: extra.into_iter().flatten().map(|(key, value)| (key.clone(), values(value))).collect(),
    };
    Ok(Some(TokenOwner::new(Arc::new(user.authenticated()), audiences.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(answer: &str, wanted: &[&str]) -> Result<Option<(String, Vec<Str>)>, String> {
        let texts = |list: &[&str]| list.iter().map(|text| Str::from(*text)).collect::<Vec<_>>();
        let review = read(answer.as_bytes(), "v1")?;
        let found = owner(&review, &texts(wanted), &texts(&["api", "other"])).map_err(|why| why.to_string())?;
        Ok(found.map(|owner| (owner.user.name.to_string(), owner.audiences.to_vec())))
    }

    fn answer(status: &str) -> String {
        format!(r#"{{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{status}}}"#)
    }

    #[test]
    fn a_webhook_says_whose_a_token_is_and_for_whom() {
        let check = |status: &str, wanted: &[&str], expect: Option<&[&str]>| {
            let found = judge(&answer(status), wanted).expect("an answer").map(|(_, audiences)| audiences);
            let expect = expect.map(|list| list.iter().map(|text| Str::from(*text)).collect::<Vec<_>>());
            assert_eq!(found, expect, "{status} {wanted:?}");
        };
        let good = r#"{"authenticated":true,"audiences":["api"],"user":{"username":"u"}}"#;
        check(good, &["api", "other"], Some(&["api"]));
        check(good, &["elsewhere"], None);
        check(good, &[], Some(&[]));
        let unaware = r#"{"authenticated":true,"user":{"username":"u"}}"#;
        check(unaware, &["other", "api"], Some(&["api", "other"]));
        check(unaware, &["elsewhere"], None);
        check(r#"{"authenticated":false}"#, &["api"], None);
        let denied = answer(r#"{"authenticated":false,"error":"not today"}"#);
        assert_eq!(judge(&denied, &["api"]), Err("not today".to_owned()));
        let groups =
            answer(r#"{"authenticated":true,"user":{"username":"u","uid":"1","groups":["g"],"extra":{"A":["b"]}}}"#);
        let review = read(groups.as_bytes(), "v1").expect("an answer");
        let user = owner(&review, &[], &[]).expect("good").expect("somebody").user;
        assert_eq!(user.groups, ["g", "system:authenticated"]);
        assert_eq!((user.uid.as_str(), &user.extra), ("1", &vec![("A".into(), vec!["b".into()])]));
    }

    #[test]
    fn answers_of_another_kind_are_none() {
        let check =
            |answer: &str, expect: &str| assert_eq!(judge(answer, &["api"]), Err(expect.to_owned()), "{answer}");
        check(
            r#"{"apiVersion":"authentication.k8s.io/v1beta1","kind":"TokenReview","status":{"authenticated":true}}"#,
            "converting (v1beta1.TokenReview) to (v1.TokenReview): unknown conversion",
        );
        check(r#"{"apiVersion":"v1","kind":"Pod"}"#, "converting (v1.Pod) to (v1.TokenReview): unknown conversion");
        check(r#"{"a":"#, "couldn't get version/kind; json parse error: unexpected end of JSON input");
        check(
            &answer(r#"{"authenticated":"yes"}"#),
            "json: cannot unmarshal string into Go struct field TokenReviewStatus.status.authenticated of type bool",
        );
        assert_eq!(
            check_version("v2").expect_err("another version").to_string(),
            "unsupported authentication webhook version \"v2\", supported versions are \"v1\", \"v1beta1\""
        );
    }
}
