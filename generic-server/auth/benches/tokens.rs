//! What a token of an identity provider costs a request: checked anew, and known by the cache in front of its provider.

use std::{hint::black_box, sync::Arc, time::Duration};

use auth::{
    TokenAuthenticator as _, TokenError,
    authn::{CacheMetrics, CachedTokens},
};
use criterion::{Criterion, criterion_group, criterion_main};
use machinery::{Value, object};

#[path = "../tests/provider/mod.rs"]
mod provider;

use provider::{FakeProvider, SigningKey, issuers};

const FIXED: &str = "{username: {claim: sub, prefix: 'oidc:'}, groups: {claim: groups, prefix: 'oidc:'}}";
const EXPRESSIONS: &str =
    "{username: {expression: \"'oidc:' + claims.sub\"}, groups: {expression: \"claims.groups.map(g, 'oidc:' + g)\"}}";

/// What providers usually say of a user.
fn claims(provider: &FakeProvider) -> Value {
    let mut claims = provider.claims();
    claims.set(&["groups"], vec!["dev", "qa", "ops", "everyone"]);
    claims.set(&["email"], "ann@example.com");
    claims.set(&["email_verified"], true);
    claims.set(&["iat"], 1_700_000_000);
    claims.set(&["realm_access"], object! { "roles" => vec!["offline_access", "uma_authorization"] });
    claims
}

fn tokens(c: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _entered = runtime.enter();
    for (algorithm, key) in [("ES256", SigningKey::new("k")), ("RS256", SigningKey::rsa("k"))] {
        for (mapped, mappings) in [("claims", FIXED), ("expressions", EXPRESSIONS)] {
            let provider = runtime.block_on(FakeProvider::start());
            provider.describe(&provider.url());
            provider.publish(&[&key]);
            let (issuers, registry) = issuers(provider.config(mappings));
            let token = key.sign(&claims(&provider));
            let owner = || runtime.block_on(issuers.authenticate(&token, None));
            while owner().is_err_and(|why| matches!(why, TokenError::Unavailable(_))) {
                std::thread::yield_now();
            }
            let user = owner().expect("a good token").expect("a token of the provider").user;
            assert_eq!((user.name.as_str(), user.groups.len()), ("oidc:ann", 5));
            c.bench_function(&format!("oidc {algorithm}, {mapped}, cold"), |b| b.iter(|| black_box(owner())));
            let ttl = Duration::from_secs(3600);
            let cached = CachedTokens::new(vec![issuers.clone()], ttl, ttl, CacheMetrics::new(&registry));
            let cached = Arc::new(cached.expect("random numbers"));
            c.bench_function(&format!("oidc {algorithm}, {mapped}, cached"), |b| {
                b.iter(|| black_box(runtime.block_on(cached.authenticate(&token, None))));
            });
        }
    }
}

criterion_group!(benches, tokens);
criterion_main!(benches);
