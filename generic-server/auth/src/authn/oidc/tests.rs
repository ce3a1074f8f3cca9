//! Identity providers that answer, change their keys, lie and fail.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use aws_lc_rs::{
    encoding::{AsDer, PublicKeyX509Der},
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use machinery::{Value, codec::json, meta::Timestamp, object};
use prometheus::Registry;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{Issuers, IssuersOptions, OidcMetrics};
use crate::{
    TokenAuthenticator,
    authn::config::{AuthenticationConfiguration, validate},
    jwt::{self, Algorithm, VerifyingKey},
};

/// What a path answers: a status, a header, a body.
type Answer = (u16, Option<(header::HeaderName, String)>, Vec<u8>);

/// A provider on a port of its own. It ends with the test's runtime.
struct FakeProvider {
    address: String,
    authority: String,
    answers: Arc<Mutex<HashMap<String, Answer>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

struct SigningKey {
    id: &'static str,
    pair: EcdsaKeyPair,
}

impl SigningKey {
    fn new(id: &'static str) -> Self {
        SigningKey { id, pair: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key") }
    }

    fn jwk(&self) -> Value {
        let der = AsDer::<PublicKeyX509Der<'_>>::as_der(self.pair.public_key()).expect("a key");
        VerifyingKey::of_spki(self.id.into(), der.as_ref()).expect("a key").jwk()
    }

    fn sign(&self, claims: &Value) -> String {
        let header = object! { "alg" => "ES256", "kid" => self.id };
        let sign = |message: &[u8]| self.pair.sign(&SystemRandom::new(), message).map(|s| s.as_ref().to_vec());
        jwt::assemble(&header, claims, sign).expect("signed")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FakeProvider {
    async fn start() -> Self {
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let own = rcgen::KeyPair::generate().expect("a key");
        let authority = rcgen::CertifiedIssuer::self_signed(params, own).expect("an authority");
        let key = rcgen::KeyPair::generate().expect("a key");
        let names = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
        let certificate = names.signed_by(&key, &authority).expect("a certificate");
        let chain = vec![CertificateDer::from_pem_slice(certificate.pem().as_bytes()).expect("PEM")];
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).expect("PEM");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has suites")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("certificate and key fit");
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = format!("localhost:{}", listener.local_addr().expect("bound").port());
        let provider =
            FakeProvider { address, authority: authority.pem(), answers: Arc::default(), asked: Arc::default() };
        let (answers, asked) = (provider.answers.clone(), provider.asked.clone());
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (acceptor, answers, asked) = (acceptor.clone(), answers.clone(), asked.clone());
                tokio::spawn(async move {
                    let Ok(tls) = acceptor.accept(tcp).await else { return };
                    let service = service_fn(move |request: Request<Incoming>| {
                        let path = request.uri().path().to_owned();
                        let answer = lock(&answers).get(&path).cloned().unwrap_or((404, None, Vec::new()));
                        lock(&asked).push(path);
                        let mut response = Response::builder().status(answer.0);
                        if let Some((name, value)) = answer.1 {
                            response = response.header(name, value);
                        }
                        let response = response.body(Full::new(Bytes::from(answer.2))).expect("a response");
                        std::future::ready(Ok::<_, Infallible>(response))
                    });
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(tls), service).await;
                });
            }
        });
        provider
    }

    fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    fn answer(&self, path: &str, document: &Value) {
        lock(&self.answers).insert(path.to_owned(), (200, None, json::encode(document)));
    }

    /// Describes itself as `issuer`, with keys at `/keys`.
    fn describe(&self, issuer: &str) {
        let document = object! { "issuer" => issuer, "jwks_uri" => format!("{}/keys", self.url()) };
        self.answer("/.well-known/openid-configuration", &document);
    }

    fn publish(&self, keys: &[&SigningKey]) {
        self.answer("/keys", &object! { "keys" => keys.iter().map(|key| key.jwk()).collect::<Vec<_>>() });
    }

    /// How often the keys were fetched.
    fn fetches(&self) -> usize {
        lock(&self.asked).iter().filter(|path| *path == "/keys").count()
    }

    fn config(&self, mappings: &str) -> AuthenticationConfiguration {
        let authority = self.authority.replace('\r', "");
        let authority: String = authority.lines().map(|line| format!("      {line}\n")).collect();
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer:\n    url: {}\n    \
             audiences: [cluster]\n    certificateAuthority: |\n{authority}  claimMappings: {mappings}\n",
            self.url()
        );
        AuthenticationConfiguration::read(text.as_bytes()).expect("a configuration")
    }

    fn claims(&self) -> Value {
        let expires = Timestamp::now().seconds() + 3600;
        object! { "iss" => self.url(), "aud" => "cluster", "sub" => "ann", "exp" => expires }
    }
}

const SUB: &str = "{username: {claim: sub, prefix: ''}}";

fn issuers(config: AuthenticationConfiguration) -> (Arc<Issuers>, Registry) {
    let registry = Registry::new();
    let options = IssuersOptions {
        algorithms: Algorithm::ALL.to_vec(),
        audiences: Arc::from(["api".into()]),
        own_issuers: vec!["https://own".into()],
        metrics: OidcMetrics::new(&registry, "server"),
    };
    let compiled = validate(&config, &[]).expect("it is valid");
    (Issuers::new(options, config.jwt, compiled).expect("it can be used"), registry)
}

/// What is said of a token once its provider has been found.
async fn judge(issuers: &Issuers, token: &str) -> Result<Option<String>, String> {
    loop {
        let found = issuers.authenticate(token, None).await.map(|found| found.map(|owner| owner.user.name.to_string()));
        if !matches!(&found, Err(why) if why == "oidc: authenticator not initialized") {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
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
        while issuers.health().is_err_and(|why| why.contains("is not initialized")) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let token = SigningKey::new("k").sign(&provider.claims());
        let found = issuers.authenticate(&token, None).await.map(|_| ());
        assert_eq!(found, Err("oidc: authenticator not initialized".to_owned()), "{what}");
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
    let compiled = validate(&next, &[]).expect("it is valid");
    issuers.replace(next.jwt, compiled).await.expect("it is well");
    assert_eq!(judge(&issuers, &key.sign(&old.claims())).await, Ok(None));
    assert_eq!(judge(&issuers, &key.sign(&new.claims())).await, Ok(Some("new:ann".to_owned())));

    let mut own = new.config(SUB);
    own.jwt[0].issuer.url = "https://own".into();
    let compiled = validate(&own, &[]).expect("it is valid");
    let why = issuers.replace(own.jwt, compiled).await.expect_err("the server's own issuer");
    assert!(why.contains("URL must not overlap with disallowed issuers: [https://own]"), "{why}");
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
            Err(why) if why.contains("verifier not initialized") => tokio::time::sleep(Duration::from_millis(5)).await,
            found => break found.expect("good").expect("somebody"),
        }
    };
    assert_eq!(found.user.groups, ["a", "b", "system:authenticated"]);
}
