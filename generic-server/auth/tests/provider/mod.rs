//! An identity provider on a port of its own, which says what a test tells it to.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
};

use auth::{
    authn::{
        config::{AuthenticationConfiguration, IssuerRules, validate},
        oidc::{Issuers, IssuersOptions, OidcMetrics},
    },
    jwt::{self, Algorithm, VerifyingKey},
};
use aws_lc_rs::{
    encoding::{AsDer, PublicKeyX509Der},
    error::Unspecified,
    rand::SystemRandom,
    rsa::KeySize,
    signature::{self, EcdsaKeyPair, KeyPair as _, RsaKeyPair},
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

/// What a path answers: a status, a header, a body.
pub(crate) type Answer = (u16, Option<(header::HeaderName, String)>, Vec<u8>);

/// A provider on a port of its own. It ends with the test's runtime.
pub(crate) struct FakeProvider {
    address: String,
    authority: String,
    pub(crate) answers: Arc<Mutex<HashMap<String, Answer>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

/// A key that signs tokens.
pub(crate) struct SigningKey {
    id: &'static str,
    pair: Pair,
}

enum Pair {
    Ecdsa(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl SigningKey {
    /// One that signs with ES256.
    pub(crate) fn new(id: &'static str) -> Self {
        let pair = EcdsaKeyPair::generate(&signature::ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
        SigningKey { id, pair: Pair::Ecdsa(pair) }
    }

    /// One that signs with RS256.
    #[allow(dead_code, reason = "who includes this file needs only some of it")]
    pub(crate) fn rsa(id: &'static str) -> Self {
        SigningKey { id, pair: Pair::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).expect("a key")) }
    }

    fn jwk(&self) -> Value {
        let der = match &self.pair {
            Pair::Ecdsa(pair) => AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key()).expect("a key"),
            Pair::Rsa(pair) => AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key()).expect("a key"),
        };
        VerifyingKey::of_spki(self.id.into(), der.as_ref()).expect("a key").jwk()
    }

    fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Ecdsa(_) => "ES256",
            Pair::Rsa(_) => "RS256",
        }
    }

    fn signature(&self, message: &[u8]) -> Result<Vec<u8>, Unspecified> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Ecdsa(pair) => pair.sign(&random, message).map(|signature| signature.as_ref().to_vec()),
            Pair::Rsa(pair) => {
                let mut signed = vec![0; pair.public_modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA256, &random, message, &mut signed).map(|()| signed)
            }
        }
    }

    /// A token with these claims.
    pub(crate) fn sign(&self, claims: &Value) -> String {
        let header = object! { "alg" => self.algorithm(), "kid" => self.id };
        jwt::assemble(&header, claims, |message| self.signature(message)).expect("signed")
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FakeProvider {
    pub(crate) async fn start() -> Self {
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

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    pub(crate) fn answer(&self, path: &str, document: &Value) {
        lock(&self.answers).insert(path.to_owned(), (200, None, json::encode(document)));
    }

    /// Describes itself as `issuer`, with keys at `/keys`.
    pub(crate) fn describe(&self, issuer: &str) {
        let document = object! { "issuer" => issuer, "jwks_uri" => format!("{}/keys", self.url()) };
        self.answer("/.well-known/openid-configuration", &document);
    }

    pub(crate) fn publish(&self, keys: &[&SigningKey]) {
        self.answer("/keys", &object! { "keys" => keys.iter().map(|key| key.jwk()).collect::<Vec<_>>() });
    }

    /// How often the keys were fetched.
    #[allow(dead_code, reason = "who includes this file needs only some of it")]
    pub(crate) fn fetches(&self) -> usize {
        lock(&self.asked).iter().filter(|path| *path == "/keys").count()
    }

    pub(crate) fn config(&self, mappings: &str) -> AuthenticationConfiguration {
        let authority = self.authority.replace('\r', "");
        let authority: String = authority.lines().map(|line| format!("      {line}\n")).collect();
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer:\n    url: {}\n    \
             audiences: [cluster]\n    certificateAuthority: |\n{authority}  claimMappings: {mappings}\n",
            self.url()
        );
        AuthenticationConfiguration::read(text.as_bytes()).expect("a configuration")
    }

    pub(crate) fn claims(&self) -> Value {
        let expires = Timestamp::now().seconds() + 3600;
        object! { "iss" => self.url(), "aud" => "cluster", "sub" => "ann", "exp" => expires }
    }
}

/// Mappings: the user is the subject.
#[allow(dead_code, reason = "who includes this file needs only some of it")]
pub(crate) const SUB: &str = "{username: {claim: sub, prefix: ''}}";

/// The authenticator of a configuration, and what it counts.
pub(crate) fn issuers(config: AuthenticationConfiguration) -> (Arc<Issuers>, Registry) {
    let registry = Registry::new();
    let options = IssuersOptions {
        egress: outbound::egress::Egress::default(),
        algorithms: Algorithm::ALL.to_vec(),
        audiences: Arc::from(["api".into()]),
        own_issuers: vec!["https://own".into()],
        metrics: OidcMetrics::new(&registry, "server"),
    };
    let compiled = validate(&config, &IssuerRules::default()).expect("it is valid");
    (Issuers::new(options, config.jwt, compiled).expect("it can be used"), registry)
}
