//! What a service account's token costs a request: one that was never seen, and one that a client sends with each request.
//! It is bound to a pod, as those that pods get.

use std::{hint::black_box, sync::Arc};

use auth::{TokenAuthenticator as _, jwt};
use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RsaKeyPair},
};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use generic_server::{
    registry::{Backing, Listers, RegistrySettings as Stored, StoredForm},
    resource::Resource,
};
use kube_core::service_accounts::{KeySource, Keys, Lookup, TokenSettings, Verifier};
use machinery::{Str, Value, meta::Timestamp, object};
use storage::{Expect, Memory, Store as _};
use tokio::sync::SetOnce;

const ISSUER: &str = "https://kubernetes.default.svc";
/// Pods that run under the account.
const PODS: usize = 1000;

fn named(kind: &str, namespace: &str, name: &str) -> Value {
    let metadata = object! { "name" => name, "namespace" => namespace, "uid" => format!("{kind}-{name}") };
    object! { "apiVersion" => "v1", "kind" => kind, "metadata" => metadata }
}

/// What tokens are looked for in, with an account and its pods.
async fn listers() -> Listers {
    let is_needed = |row: &Resource| {
        row.group.is_empty() && ["serviceaccounts", "pods", "secrets", "nodes"].contains(&row.plural.as_str())
    };
    let rows: Vec<Resource> = kube_core::resources().into_iter().filter(is_needed).collect();
    let store = Memory::new();
    let pods = (0..PODS).map(|number| named("Pod", "n", &format!("p{number}")));
    for object in pods.chain([named("ServiceAccount", "n", "robot")]) {
        let row = rows.iter().find(|row| object.str_at(&["kind"]) == Some(&*row.kind)).expect("one of those");
        let name = object.str_at(&["metadata", "name"]).expect("it has a name");
        let key = format!("/registry/{}/n/{name}", row.storage_path);
        let bytes = StoredForm::new(row, &[]).encode(&object);
        store.put(&key, bytes, Expect::Absent, None).await.expect("the write succeeds");
    }
    let backing = Backing { store, encryption: None, root: "/registry".into(), settings: Stored::default() };
    let listers = Listers::start(&rows, &backing);
    for lister in listers.values() {
        lister.ready().await.expect("the cache is filled");
    }
    listers
}

fn claims() -> Value {
    let now = Timestamp::now().seconds();
    let reference = |kind: &str, name: &str| object! { "name" => name, "uid" => format!("{kind}-{name}") };
    let own = object! {
        "namespace" => "n", "serviceaccount" => reference("ServiceAccount", "robot"),
        "pod" => reference("Pod", "p7"), "node" => reference("Node", "node-1"), "warnafter" => now + 3607,
    };
    object! {
        "aud" => vec![ISSUER], "exp" => now + 31_536_000, "iat" => now, "nbf" => now, "iss" => ISSUER,
        "jti" => "01b54ff4-4c4d-4bf6-9b4b-02a2bb5f5b21", "sub" => "system:serviceaccount:n:robot", "kubernetes.io" => own,
    }
}

/// A key and what it signs, by the name of its algorithm.
fn signed(algorithm: &str) -> (Keys, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("sa.key");
    let kind = if algorithm == "RS256" { &rcgen::PKCS_RSA_SHA256 } else { &rcgen::PKCS_ECDSA_P256_SHA256 };
    let pair = rcgen::KeyPair::generate_for(kind).expect("a key");
    std::fs::write(&file, pair.serialize_pem()).expect("written");
    let header = object! { "alg" => algorithm };
    let random = SystemRandom::new();
    let token = jwt::assemble(&header, &claims(), |message| match algorithm {
        "RS256" => {
            let key = RsaKeyPair::from_pkcs8(&pair.serialize_der()).expect("the key");
            let mut signature = vec![0; key.public_modulus_len()];
            key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).map(|()| signature)
        }
        _ => {
            let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &pair.serialize_der());
            key.expect("the key").sign(&random, message).map(|signature| signature.as_ref().to_vec())
        }
    });
    (Keys::read(Some(&file), &[&file]).expect("a key"), token.expect("signed"))
}

fn tokens(c: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _entered = runtime.enter();
    let listers = runtime.block_on(listers());
    for algorithm in ["ES256", "RS256"] {
        let (keys, token) = signed(algorithm);
        let settings = TokenSettings {
            issuers: vec![ISSUER.into()],
            audiences: Arc::from([ISSUER.into()]),
            keys: KeySource::Files(Arc::new(SetOnce::new_with(Some(keys)))),
            jwks_uri: Str::default(),
            max_expiration_seconds: 0,
            extended_seconds: None,
            lookup: true,
        };
        let fresh = || Verifier::new(settings.clone(), Lookup::new(&listers));
        let owner = |verifier: &Verifier| {
            let found = runtime.block_on(verifier.authenticate(&token, None)).expect("a good token");
            found.expect("a token of this server")
        };
        let known = fresh();
        assert_eq!(owner(&known).user.name, "system:serviceaccount:n:robot");
        c.bench_function(&format!("service account {algorithm}, cold"), |b| {
            b.iter_batched(fresh, |verifier| (black_box(owner(&verifier)), verifier), BatchSize::SmallInput);
        });
        c.bench_function(&format!("service account {algorithm}, cached"), |b| b.iter(|| black_box(owner(&known))));
    }
}

criterion_group!(benches, tokens);
criterion_main!(benches);
