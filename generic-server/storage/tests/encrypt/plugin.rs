//! A KMS plugin on a unix socket, which speaks both protocols.

use std::{
    collections::HashMap,
    convert::Infallible,
    future::Future,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex},
};

use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::UnixListener;
use tonic::{Code, Request, Response, Status, body::Body};

/// What the plugin is like, and what it was asked.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) key_id: String,
    pub(crate) healthz: String,
    pub(crate) mood: Mood,
    pub(crate) encrypted: usize,
    pub(crate) decrypted: usize,
    /// Everything that it was asked to encrypt.
    pub(crate) seen: Vec<Vec<u8>>,
}

/// What may be wrong with a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Nothing.
    Well,
    /// It says that it cannot.
    Refusing,
    /// It answers nothing.
    #[allow(dead_code, reason = "the tests of the server have it as well")]
    Silent,
    /// It answers what is not so.
    Lying,
}

/// The plugin, until it is dropped.
pub(crate) struct Plugin {
    pub(crate) state: Arc<Mutex<State>>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Clone, PartialEq, Message)]
struct Empty {}

/// StatusResponse.
#[derive(Clone, PartialEq, Message)]
struct Told {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(string, tag = "2")]
    healthz: String,
    #[prost(string, tag = "3")]
    key_id: String,
}

/// EncryptRequest, and what DecryptRequest adds.
#[derive(Clone, PartialEq, Message)]
struct Asked {
    #[prost(bytes = "vec", tag = "1")]
    text: Vec<u8>,
    #[prost(string, tag = "2")]
    uid: String,
    #[prost(string, tag = "3")]
    key_id: String,
    #[prost(map = "string, bytes", tag = "4")]
    annotations: HashMap<String, Vec<u8>>,
}

/// EncryptRequest and DecryptRequest of the first protocol; VersionRequest is the first field.
#[derive(Clone, PartialEq, Message)]
struct FirstAsked {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(bytes = "vec", tag = "2")]
    text: Vec<u8>,
}

/// VersionResponse.
#[derive(Clone, PartialEq, Message)]
struct Version {
    #[prost(string, tag = "1")]
    version: String,
}

/// EncryptResponse and DecryptResponse of the first protocol.
#[derive(Clone, PartialEq, Message)]
struct FirstAnswer {
    #[prost(bytes = "vec", tag = "1")]
    text: Vec<u8>,
}

/// EncryptResponse; DecryptResponse is its first field.
#[derive(Clone, PartialEq, Message)]
struct Answer {
    #[prost(bytes = "vec", tag = "1")]
    text: Vec<u8>,
    #[prost(string, tag = "2")]
    key_id: String,
    #[prost(map = "string, bytes", tag = "3")]
    annotations: HashMap<String, Vec<u8>>,
}

impl Plugin {
    /// Serves on a socket; what was there before is replaced.
    pub(crate) fn start(socket: &Path) -> Plugin {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket).unwrap();
        let state = Arc::new(Mutex::new(State {
            key_id: "one".into(),
            healthz: "ok".into(),
            mood: Mood::Well,
            encrypted: 0,
            decrypted: 0,
            seen: Vec::new(),
        }));
        let shared = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = shared.clone();
                let service = hyper::service::service_fn(move |request| answer(state.clone(), request));
                tokio::spawn(async move {
                    let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    // The client goes away in the end.
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Plugin { state, task }
    }

    pub(crate) fn set(&self, mood: Mood) {
        self.state.lock().unwrap().mood = mood;
    }

    pub(crate) fn state(&self) -> State {
        self.state.lock().unwrap().clone()
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Answered<T> = Pin<Box<dyn Future<Output = Result<Response<T>, Status>> + Send>>;

async fn answer(
    state: Arc<Mutex<State>>,
    request: http::Request<hyper::body::Incoming>,
) -> Result<http::Response<Body>, Infallible> {
    let request = request.map(Body::new);
    let method = request.uri().path().rsplit('/').next().unwrap().to_owned();
    if request.uri().path().starts_with("/v1beta1.") {
        return Ok(answer_first(state, &method, request).await);
    }
    Ok(match &*method {
        "Status" => {
            let service = tower::service_fn(move |_: Request<Empty>| -> Answered<Told> {
                let state = state.lock().unwrap().clone();
                let version = if state.mood == Mood::Lying { "v9" } else { "v2" };
                let told = Told { version: version.into(), healthz: state.healthz, key_id: state.key_id };
                said(state.mood, Ok(told))
            });
            tonic::server::Grpc::new(tonic_prost::ProstCodec::default()).unary(service, request).await
        }
        method => {
            let encrypt = method == "Encrypt";
            let service = tower::service_fn(move |asked: Request<Asked>| -> Answered<Answer> {
                let mut state = state.lock().unwrap();
                let result = crypt(&mut state, encrypt, asked.into_inner());
                said(state.mood, result)
            });
            tonic::server::Grpc::new(tonic_prost::ProstCodec::default()).unary(service, request).await
        }
    })
}

/// The same in the first protocol.
async fn answer_first(state: Arc<Mutex<State>>, method: &str, request: http::Request<Body>) -> http::Response<Body> {
    if method == "Version" {
        let service = tower::service_fn(move |asked: Request<FirstAsked>| -> Answered<Version> {
            assert_eq!(asked.into_inner().version, "v1beta1");
            said(state.lock().unwrap().mood, Ok(Version { version: "v1beta1".into() }))
        });
        return tonic::server::Grpc::new(tonic_prost::ProstCodec::default()).unary(service, request).await;
    }
    let encrypt = method == "Encrypt";
    let service = tower::service_fn(move |asked: Request<FirstAsked>| -> Answered<FirstAnswer> {
        let mut state = state.lock().unwrap();
        let FirstAsked { version, text } = asked.into_inner();
        assert_eq!(version, "v1beta1");
        let turned = FirstAnswer { text: turn(&state, &text) };
        if encrypt {
            state.encrypted += 1;
            state.seen.push(text);
        } else {
            state.decrypted += 1;
        }
        said(state.mood, Ok(turned))
    });
    tonic::server::Grpc::new(tonic_prost::ProstCodec::default()).unary(service, request).await
}

fn said<T: Send + 'static>(mood: Mood, answer: Result<T, Status>) -> Answered<T> {
    match mood {
        Mood::Well | Mood::Lying => Box::pin(std::future::ready(answer.map(Response::new))),
        Mood::Refusing => Box::pin(std::future::ready(Err(Status::new(Code::Unavailable, "the vault is sealed")))),
        Mood::Silent => Box::pin(std::future::pending()),
    }
}

fn turn(state: &State, text: &[u8]) -> Vec<u8> {
    let turn = if state.mood == Mood::Lying { 0x5a } else { 0xa5 };
    text.iter().map(|byte| byte ^ turn).collect()
}

/// "Encrypts" by turning bits; a text is only read with the key that it was written with.
fn crypt(state: &mut State, encrypt: bool, asked: Asked) -> Result<Answer, Status> {
    assert!(!asked.uid.is_empty());
    let turned = turn(state, &asked.text);
    if encrypt {
        state.encrypted += 1;
        state.seen.push(asked.text);
        let annotations = HashMap::from([("kek.example.com".to_owned(), state.key_id.clone().into_bytes())]);
        return Ok(Answer { text: turned, key_id: state.key_id.clone(), annotations });
    }
    state.decrypted += 1;
    if asked.annotations.get("kek.example.com").map(Vec::as_slice) != Some(asked.key_id.as_bytes()) {
        return Err(Status::new(Code::InvalidArgument, "the annotations are not those of the encryption"));
    }
    Ok(Answer { text: turned, ..Answer::default() })
}
