//! The way to a KMS plugin: gRPC on a unix socket.
//!
//! All calls are made by a thread with a runtime of its own, so that a sink, which must not wait for the runtime it runs on,
//! can have a data key decrypted.

use std::{
    future::Future,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError, mpsc},
    time::Duration,
};

use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::{net::UnixStream, sync::oneshot};
use tonic::transport::{Channel, Endpoint};

use super::Reached;
use crate::encrypt::error::{EncryptionFault, KmsError};

/// How much longer than for the plugin it is waited for the thread.
const MORE: Duration = Duration::from_secs(1);

/// A plugin's socket, and how long a call may take.
#[derive(Clone)]
pub(super) struct Connection {
    channel: Channel,
    timeout: Duration,
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;
type Job = Box<dyn FnOnce(Connection) -> Work + Send>;

/// The thread that talks to a plugin; it ends when this is dropped.
pub(super) struct Thread {
    name: String,
    endpoint: String,
    timeout: Duration,
    jobs: tokio::sync::mpsc::UnboundedSender<Job>,
}

impl Thread {
    /// Starts to talk to the plugin at a socket (`unix:///path`, or `unix:///@name` for an abstract one). `poll` is done at
    /// once, and again after the time that it gives.
    pub(super) fn start<P>(
        Reached { name, endpoint, timeout }: Reached<'_>,
        poll: impl Fn(Connection) -> P + Send + 'static,
    ) -> Result<Thread, EncryptionFault>
    where
        P: Future<Output = Duration>,
    {
        let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
        let path =
            path.strip_prefix("/@").or(path.strip_prefix('@')).map_or(path.to_owned(), |name| format!("\0{name}"));
        let (jobs, asked) = tokio::sync::mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| EncryptionFault::Client { what: "runtime", error })?;
        let thread = std::thread::Builder::new().name("storage-kms".into());
        let started = thread.spawn(move || runtime.block_on(run(path, timeout, poll, asked)));
        started.map_err(|error| EncryptionFault::Client { what: "thread", error })?;
        Ok(Thread { name: name.into(), endpoint: endpoint.into(), timeout, jobs })
    }

    /// What the plugin is called.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// How it is reached.
    pub(super) fn reached(&self) -> Reached<'_> {
        Reached { name: &self.name, endpoint: &self.endpoint, timeout: self.timeout }
    }

    /// What comes of some work with the plugin.
    pub(super) async fn ask<T, F>(&self, work: impl FnOnce(Connection) -> F + Send + 'static) -> Result<T, KmsError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, KmsError>> + Send + 'static,
    {
        let (tell, told) = oneshot::channel();
        self.send(work, move |result| drop(tell.send(result)))?;
        told.await.unwrap_or(Err(KmsError::ThreadEnded))
    }

    /// The same, for who cannot wait otherwise than by holding up a thread. One call may be made.
    pub(super) fn ask_blocking<T, F>(&self, work: impl FnOnce(Connection) -> F + Send + 'static) -> Result<T, KmsError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, KmsError>> + Send + 'static,
    {
        let (tell, told) = mpsc::sync_channel(1);
        self.send(work, move |result| drop(tell.send(result)))?;
        told.recv_timeout(self.timeout + MORE).map_err(|_| KmsError::NoAnswer)?
    }

    fn send<T, F>(
        &self,
        work: impl FnOnce(Connection) -> F + Send + 'static,
        tell: impl FnOnce(Result<T, KmsError>) + Send + 'static,
    ) -> Result<(), KmsError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, KmsError>> + Send + 'static,
    {
        let job: Job = Box::new(|connection| {
            let work = work(connection);
            Box::pin(async move { tell(work.await) })
        });
        self.jobs.send(job).map_err(|_| KmsError::ThreadEnded)
    }
}

async fn run<P: Future<Output = Duration>>(
    path: String,
    timeout: Duration,
    poll: impl Fn(Connection) -> P,
    mut asked: tokio::sync::mpsc::UnboundedReceiver<Job>,
) {
    // The connector ignores the address; a plugin that is not there yet is tried at each call.
    let channel = Endpoint::from_static("http://localhost").connect_with_connector_lazy(tower::service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    }));
    let connection = Connection { channel, timeout };
    let polling = async {
        loop {
            let pause = poll(connection.clone()).await;
            tokio::time::sleep(pause).await;
        }
    };
    let working = async {
        while let Some(job) = asked.recv().await {
            tokio::spawn(job(connection.clone()));
        }
    };
    tokio::select! {
        () = polling => {}
        () = working => {}
    }
}

impl Connection {
    /// Calls a method of a service (`v2.KeyManagementService`).
    pub(super) async fn call<Q, A>(&self, service: &str, method: &'static str, request: Q) -> Result<A, KmsError>
    where
        Q: Message + Default + Clone + 'static,
        A: Message + Default + 'static,
    {
        let path = PathAndQuery::try_from(format!("/{service}/{method}"));
        let path = path.map_err(|error| KmsError::Call(error.to_string()))?;
        let answer = async {
            let mut client = tonic::client::Grpc::new(self.channel.clone());
            client.ready().await.map_err(|error| KmsError::Call(error.to_string()))?;
            let codec: tonic_prost::ProstCodec<Q, A> = tonic_prost::ProstCodec::default();
            let answer = client.unary(tonic::Request::new(request), path, codec).await;
            answer.map(tonic::Response::into_inner).map_err(|status| match status.code() {
                tonic::Code::Unavailable => KmsError::Away(status.message().to_owned()),
                _ => KmsError::Call(status.message().to_owned()),
            })
        };
        let answer = tokio::time::timeout(self.timeout, answer).await;
        answer.unwrap_or(Err(KmsError::Timeout { method, timeout: self.timeout }))
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
