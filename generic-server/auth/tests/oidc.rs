//! Identity providers that answer, change their keys, lie and fail.

use std::time::Duration;

use auth::{
    TokenAuthenticator as _, TokenError,
    authn::{
        config::{IssuerRules, validate},
        oidc::Issuers,
    },
};
use http::header;
use machinery::{Value, codec::json, object};

mod provider;

use provider::{FakeProvider, SUB, SigningKey, issuers, lock};

/// What is said of a token once its provider has been found.
async fn judge(issuers: &Issuers, token: &str) -> Result<Option<String>, String> {
    loop {
        match issuers.authenticate(token, None).await {
            Err(TokenError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(5)).await,
            Ok(found) => return Ok(found.map(|owner| owner.user.name.to_string())),
            Err(why) => return Err(why.to_string()),
        }
    }
}

const NOT_SIGNED: &str = "oidc: verify token: failed to verify signature: failed to verify id token signature";

#[tokio::test]
async fn keys_are_fetched_ahead_and_again_for_a_token_that_none_of_them_signed() {
    let provider = FakeProvider::start().await;
    let (first, second) = (SigningKey::new("k1"), SigningKey::new("k2"));
    provider.describe(&provider.url());
    provider.publish(&[&first]);
    let (issuers, registry) = issuers(provider.config(SUB));
    assert_eq!(judge(&issuers, &first.sign(&provider.claims())).await, Ok(Some("ann".to_owned())));
    assert_eq!(provider.fetches(), 1);
    for _ in 0..10 {
        assert_eq!(judge(&issuers, &first.sign(&provider.claims())).await, Ok(Some("ann".to_owned())));
    }
    assert_eq!(provider.fetches(), 1, "known keys wait for nobody");

    let new = second.sign(&provider.claims());
    assert_eq!(judge(&issuers, &new).await, Err(NOT_SIGNED.to_owned()));
    provider.publish(&[&first, &second]);
    assert_eq!(judge(&issuers, &new).await, Ok(Some("ann".to_owned())));
    assert_eq!(provider.fetches(), 3);

    // What names a key that there is, and was signed by another, is as good as one that names none.
    let forged = SigningKey::new("k1").sign(&provider.claims());
    let mut often = false;
    for _ in 0..100 {
        let why = judge(&issuers, &forged).await.expect_err("forged");
        often |= why.contains("too often");
    }
    assert!(often && provider.fetches() < 30, "{} fetches", provider.fetches());
    assert_eq!(judge(&issuers, &new).await, Ok(Some("ann".to_owned())), "others do not feel it");
    assert_eq!(judge(&issuers, "a.b.c").await, Ok(None));
    let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).expect("text");
    for name in ["latency_seconds_count", "jwks_fetch_last_timestamp_seconds", "jwks_fetch_last_key_set_info"] {
        assert!(text.contains(&format!("apiserver_authentication_jwt_authenticator_{name}")), "{name}: {text}");
    }
}

#[tokio::test]
async fn tokens_that_are_not_for_this_server_are_nobodys() {
    let provider = FakeProvider::start().await;
    let key = SigningKey::new("k");
    provider.describe(&provider.url());
    provider.publish(&[&key]);
    let (issuers, _) = issuers(provider.config(SUB));
    let token = |change: &dyn Fn(&mut Value)| {
        let mut claims = provider.claims();
        change(&mut claims);
        key.sign(&claims)
    };
    let other = token(&|claims| claims.set(&["iss"], "https://elsewhere"));
    assert_eq!(judge(&issuers, &other).await, Ok(None));
    let other = token(&|claims| claims.set(&["aud"], "other"));
    let why = "oidc: verify token: oidc: expected audience \"cluster\" got [\"other\"]";
    assert_eq!(judge(&issuers, &other).await, Err(why.to_owned()));
    let expired = token(&|claims| claims.set(&["exp"], 1000));
    let why = "oidc: verify token: oidc: token is expired (Token Expiry: 1970-01-01 00:16:40 +0000 UTC)";
    assert_eq!(judge(&issuers, &expired).await, Err(why.to_owned()));
    let good = token(&|_| ());
    let found = issuers.authenticate(&good, Some(&["api".into(), "x".into()])).await.expect("good").expect("somebody");
    assert_eq!(found.audiences.as_ref(), ["api"]);
    assert!(issuers.authenticate(&good, Some(&["x".into()])).await.expect("good").is_none());
}

#[tokio::test]
async fn a_provider_that_lies_fails_or_says_too_much_is_not_believed() {
    for (what, answer) in [
        ("another issuer", (200, None, json::encode(&object! { "issuer" => "https://a", "jwks_uri" => "https://a" }))),
        ("an error", (500, None, b"oops".to_vec())),
        ("no document", (200, None, b"<html>".to_vec())),
        ("too much", (200, None, vec![b' '; 2 << 20])),
        ("a place without TLS", (302, Some((header::LOCATION, "http://localhost/".to_owned())), Vec::new())),
        ("itself again", (302, Some((header::LOCATION, "/.well-known/openid-configuration".to_owned())), Vec::new())),
    ] {
        let provider = FakeProvider::start().await;
        lock(&provider.answers).insert("/.well-known/openid-configuration".to_owned(), answer);
        let config = provider.config(SUB);
        let (issuers, _) = issuers(config.clone());
        while issuers.health().is_err_and(|why| why.to_string().contains("is not initialized")) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let token = SigningKey::new("k").sign(&provider.claims());
        let found = issuers.authenticate(&token, None).await.map(|_| ());
        let why = TokenError::Unavailable("oidc: authenticator not initialized".to_owned());
        assert_eq!(found, Err(why), "{what}");
    }
}

#[tokio::test]
async fn another_configuration_is_used_when_its_providers_are_well() {
    let (old, new) = (FakeProvider::start().await, FakeProvider::start().await);
    let key = SigningKey::new("k");
    for provider in [&old, &new] {
        provider.describe(&provider.url());
        provider.publish(&[&key]);
    }
    let (issuers, _) = issuers(old.config(SUB));
    assert_eq!(judge(&issuers, &key.sign(&old.claims())).await, Ok(Some("ann".to_owned())));
    let next = new.config("{username: {claim: sub, prefix: 'new:'}}");
    let compiled = validate(&next, &IssuerRules::default()).expect("it is valid");
    issuers.replace(next.jwt, compiled).await.expect("it is well");
    assert_eq!(judge(&issuers, &key.sign(&old.claims())).await, Ok(None));
    assert_eq!(judge(&issuers, &key.sign(&new.claims())).await, Ok(Some("new:ann".to_owned())));

    let mut own = new.config(SUB);
    own.jwt[0].issuer.url = "https://own".into();
    let compiled = validate(&own, &IssuerRules::default()).expect("it is valid");
    let why = issuers.replace(own.jwt, compiled).await.expect_err("the server's own issuer");
    assert!(why.to_string().contains("URL must not overlap with disallowed issuers: [https://own]"), "{why}");
    assert_eq!(judge(&issuers, &key.sign(&new.claims())).await, Ok(Some("new:ann".to_owned())));
}

#[tokio::test]
async fn groups_may_be_elsewhere() {
    let provider = FakeProvider::start().await;
    let key = SigningKey::new("k");
    provider.describe(&provider.url());
    provider.publish(&[&key]);
    let (issuers, _) =
        issuers(provider.config("{username: {claim: sub, prefix: ''}, groups: {claim: groups, prefix: ''}}"));
    let mut claims = provider.claims();
    claims.set(&["_claim_names"], object! { "groups" => "s" });
    claims.set(&["_claim_sources"], object! { "s" => object! { "endpoint" => format!("{}/groups", provider.url()) } });
    let token = key.sign(&claims);
    let why = judge(&issuers, &token).await.expect_err("nothing there");
    let expect = "oidc: could not expand distributed claims: while getting distributed claim \"groups\": error while getting \
                  distributed claim JWT: 404 Not Found";
    assert_eq!(why, expect);
    let mut groups = provider.claims();
    groups.set(&["groups"], vec!["a", "b"]);
    let groups = key.sign(&groups).into_bytes();
    lock(&provider.answers).insert("/groups".to_owned(), (200, None, groups));
    let found = loop {
        match issuers.authenticate(&token, None).await {
            Err(why) if why.to_string().contains("verifier not initialized") => {
                tokio::time::sleep(Duration::from_millis(5)).await
            }
            found => break found.expect("good").expect("somebody"),
        }
    };
    assert_eq!(found.user.groups, ["a", "b", "system:authenticated"]);
}
