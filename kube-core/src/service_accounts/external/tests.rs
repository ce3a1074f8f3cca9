//! A signer on a socket, what it may say and what it must not.

use std::{
    convert::Infallible,
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use aws_lc_rs::{
    encoding::{AsDer, PublicKeyX509Der},
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use machinery::object;
use tokio::net::UnixListener;
use tonic::{Request, Response, body::Body};

use super::*;

/// What the signer is like, and how often it was asked for its keys.
struct State {
    keys: Vec<(String, EcdsaKeyPair, bool)>,
    header: String,
    max_expiration: i64,
    fetches: usize,
}

type Shared = Arc<Mutex<State>>;

fn lock(state: &Shared) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(id: &str, excluded: bool) -> (String, EcdsaKeyPair, bool) {
    (id.to_owned(), EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key"), excluded)
}

/// Serves a signer with one key, `k`.
fn serve(socket: &Path) -> Shared {
    let listener = UnixListener::bind(socket).expect("a socket");
    let header = r#"{"alg":"ES256","kid":"k","typ":"JWT"}"#.to_owned();
    let state = State { keys: vec![key("k", false)], header, max_expiration: 7200, fetches: 0 };
    let state = Arc::new(Mutex::new(state));
    let shared = state.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let state = shared.clone();
            let service = hyper::service::service_fn(move |request| answer(state.clone(), request));
            tokio::spawn(async move {
                let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), service).await; // clients go away
            });
        }
    });
    state
}

type Answered<T> = Pin<Box<dyn Future<Output = Result<Response<T>, Status>> + Send>>;

fn now_is<T: Send + 'static>(answer: Result<T, Status>) -> Answered<T> {
    Box::pin(std::future::ready(answer.map(Response::new)))
}

async fn answer(
    state: Shared,
    request: http::Request<hyper::body::Incoming>,
) -> Result<http::Response<Body>, Infallible> {
    let request = request.map(Body::new);
    Ok(match request.uri().path() {
        "/v1.ExternalJWTSigner/Metadata" => {
            let service = tower::service_fn(move |_: Request<MetadataRequest>| {
                now_is(Ok(MetadataResponse { max_token_expiration_seconds: lock(&state).max_expiration }))
            });
            tonic::server::Grpc::new(tonic_prost::ProstCodec::default()).unary(service, request).await
        }
        "/v1.ExternalJWTSigner/FetchKeys" => {
            let service = tower::service_fn(move |_: Request<FetchKeysRequest>| now_is(Ok(keys(&state))));
            tonic::server::Grpc::new(tonic_prost::ProstCodec::default()).unary(service, request).await
        }
        _ => {
            let service =
                tower::service_fn(move |asked: Request<SignRequest>| now_is(Ok(sign(&state, &asked.into_inner()))));
            tonic::server::Grpc::new(tonic_prost::ProstCodec::default()).unary(service, request).await
        }
    })
}

fn keys(state: &Shared) -> FetchKeysResponse {
    let mut state = lock(state);
    state.fetches += 1;
    let keys = state.keys.iter().map(|(id, pair, excluded)| {
        let der = AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key()).expect("a key");
        KeyMessage { key_id: id.clone(), key: der.as_ref().to_vec(), exclude_from_oidc_discovery: *excluded }
    });
    let data_timestamp = Some(TimeMessage { seconds: 1_700_000_000, nanos: 0 });
    FetchKeysResponse { keys: keys.collect(), data_timestamp, refresh_hint_seconds: 3600 }
}

fn sign(state: &Shared, asked: &SignRequest) -> SignResponse {
    let state = lock(state);
    let header = BASE64.encode(&state.header);
    let id = read_header(&header).unwrap_or_default();
    let pair = state.keys.iter().find(|(known, ..)| *known == id).map_or(&state.keys[0].1, |(_, pair, _)| pair);
    let message = format!("{header}.{}", asked.claims);
    let signature = pair.sign(&SystemRandom::new(), message.as_bytes()).expect("signed");
    SignResponse { header, signature: BASE64.encode(signature.as_ref()) }
}

fn socket() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("s");
    (dir, path)
}

async fn connect(path: &Path) -> Result<Arc<ExternalSigner>, String> {
    let signer = ExternalSigner::connect(path.to_str().expect("a text"), &prometheus::Registry::new()).await;
    signer.map_err(|why| why.to_string())
}

#[tokio::test]
async fn a_token_is_signed_by_the_signer_and_checked_by_its_keys() {
    let (_dir, path) = socket();
    // It may come later than this server.
    let connecting = tokio::spawn({
        let path = path.clone();
        async move { connect(&path).await }
    });
    tokio::task::yield_now().await;
    let state = serve(&path);
    let signer = connecting.await.expect("it ends").expect("it is there");
    assert_eq!(signer.max_expiration(), 7200);

    let text = signer.sign(&object! { "sub" => "me" }).await.expect("signed");
    let token = Token::parse(&text).expect("a token");
    assert_eq!((token.key_id(), token.claims.str_at(&["sub"])), ("k", Some("me")));
    assert_eq!(signer.check_signature(&token).await, Ok(()));
    assert_eq!(lock(&state).fetches, 1);

    // A key that is not known yet is asked for.
    lock(&state).keys.push(key("new", false));
    lock(&state).header = r#"{"alg":"ES256","kid":"new","typ":"JWT"}"#.to_owned();
    let text = signer.sign(&object! {}).await.expect("signed");
    assert_eq!(signer.check_signature(&Token::parse(&text).expect("a token")).await, Ok(()));
    assert_eq!(lock(&state).fetches, 2);

    lock(&state).keys.retain(|(id, ..)| id == "k");
    let unknown = format!("{}.e30.AAAA", BASE64.encode(r#"{"alg":"ES256","kid":"other"}"#));
    let unknown = Token::parse(&unknown).expect("a token");
    for _ in 0..100 {
        assert_eq!(signer.check_signature(&unknown).await, Err(NO_KEYS));
    }
    let fetches = lock(&state).fetches;
    assert!(fetches < 40, "{fetches}: strangers do not keep the signer busy");
    let gone = Token::parse(&text).expect("a token");
    assert_eq!(signer.check_signature(&gone).await, Err(NO_KEYS), "a key that is gone");
}

#[tokio::test]
async fn what_the_signer_must_not_say_makes_no_token() {
    let (_dir, path) = socket();
    let state = serve(&path);
    lock(&state).keys.push(key("old", true));
    let signer = connect(&path).await.expect("it is there");
    let published: Vec<_> =
        signer.current().keys.iter().map(|(key, excluded)| (key.id.to_string(), *excluded)).collect();
    assert_eq!(published, [("k".to_owned(), false), ("old".to_owned(), true)]);
    for (header, expect) in [
        (
            r#"{"alg":"ES256","kid":"old","typ":"JWT"}"#,
            "while validating header: key used for signing JWT (kid: old) is excluded from OIDC discovery docs",
        ),
        (r#"{"alg":"HS256","kid":"k","typ":"JWT"}"#, "while validating header: bad signing algorithm \"HS256\""),
        (r#"{"alg":"ES256","typ":"JWT"}"#, "while validating header: key id missing"),
    ] {
        lock(&state).header = header.to_owned();
        assert_eq!(signer.sign(&object! {}).await, Err(expect.to_owned()));
    }
}

#[tokio::test]
async fn a_signer_whose_tokens_are_too_short_lived_is_refused() {
    let (_dir, path) = socket();
    let state = serve(&path);
    lock(&state).max_expiration = 599;
    let why = connect(&path).await.map(|_| ()).expect_err("too short");
    assert_eq!(why, "max token life supported by external-jwt-signer (599s) is less than acceptable (min 600s)");
}

#[test]
fn a_header_says_what_signed_and_nothing_else() {
    let check = |header: &str, expect: Result<&str, &str>| {
        let found = read_header(&BASE64.encode(header));
        assert_eq!(found, expect.map(str::to_owned).map_err(str::to_owned), "{header:.60}");
    };
    check(r#"{"alg":"ES256","kid":"k","typ":"JWT"}"#, Ok("k"));
    check(r#"{"alg":"ES256","kid":"k"}"#, Err("bad type"));
    check(r#"{"alg":"ES256","typ":"JWT"}"#, Err("key id missing"));
    check(r#"{"alg":"none","kid":"k","typ":"JWT"}"#, Err(r#"bad signing algorithm "none""#));
    check(r#"{"alg":"PS256","kid":"k","typ":"JWT"}"#, Err(r#"bad signing algorithm "PS256""#));
    check(
        r#"{"alg":"ES256","kid":"k","typ":"JWT","jku":"x"}"#,
        Err(r#"while parsing header JSON: json: unknown field "jku""#),
    );
    let long = format!(r#"{{"alg":"ES256","kid":"{}","typ":"JWT"}}"#, "k".repeat(1025));
    check(&long, Err("key id longer than 1 kb"));
}

#[tokio::test]
async fn keys_are_read_only_as_they_must_be() {
    let pair = rcgen::KeyPair::generate().expect("a key");
    let key = KeyMessage {
        key_id: "k".into(),
        key: rcgen::PublicKeyData::subject_public_key_info(&pair),
        exclude_from_oidc_discovery: true,
    };
    let good = FetchKeysResponse {
        keys: vec![key.clone()],
        data_timestamp: Some(TimeMessage { seconds: 1, nanos: 0 }),
        refresh_hint_seconds: 5,
    };
    let keys = read_keys(good.clone()).expect("keys").keys;
    assert_eq!((keys.len(), keys[0].0.id.as_str(), keys[0].1), (1, "k", true));
    let check = |change: &dyn Fn(&mut FetchKeysResponse), expect: &str| {
        let mut answer = good.clone();
        change(&mut answer);
        let why = read_keys(answer).map(|_| ()).expect_err(expect);
        assert!(why.starts_with(expect), "{why}");
    };
    check(&|answer| answer.refresh_hint_seconds = 0, "found invalid refresh hint (0s)");
    check(&|answer| answer.refresh_hint_seconds = -1, "found invalid refresh hint (-1s)");
    check(&|answer| answer.keys.clear(), "found no keys");
    check(&|answer| answer.data_timestamp = None, "invalid data timestamp");
    check(&|answer| answer.keys[0].key_id.clear(), "found invalid public key id \"\"");
    check(&|answer| answer.keys[0].key.clear(), "found empty public key");
    check(&|answer| answer.keys[0].key.truncate(9), "while parsing external public keys: ");
}
