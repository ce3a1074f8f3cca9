//! The server: where clients connect, and what they are served.

mod gateway;
mod http;
mod tls;

use std::{convert::Infallible, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use ::http::{Method, Request, Response, header::CONTENT_TYPE};
use anyhow::Context as _;
use http_body_util::{BodyExt as _, Limited};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto,
        graceful::{GracefulShutdown, Watcher},
    },
};
use storage::embedded::EmbeddedOptions;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, body::Body, codegen::Service as _};

pub use tls::TlsFiles;

use crate::{
    compaction::{self, Retention},
    database::{self, Database, Limits},
    metrics::Metrics,
    proto::{
        cluster_server::ClusterServer, kv_server::KvServer, lease_server::LeaseServer,
        maintenance_server::MaintenanceServer, v3electionpb::election_server::ElectionServer,
        v3lockpb::lock_server::LockServer, watch_server::WatchServer,
    },
    services::{Cluster, Context, Election, Identity, Kv, Lease, Lock, Maintenance, Watch},
};

/// What messages may be larger than requests, for what is around them.
const OVERHEAD: usize = 512 << 10;
/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long answers that are on their way may take when the server stops.
const FAREWELL: Duration = Duration::from_secs(2);
/// After an accept that failed for want of descriptors, so that the loop does not spin.
const PAUSE: Duration = Duration::from_millis(50);
/// How often a quiet connection is asked whether somebody is there, and how long the answer may take.
const PING: Duration = Duration::from_secs(60);
const PONG: Duration = Duration::from_secs(20);
/// Calls at once on a connection, and bytes on their way to one.
const MOST_STREAMS: u32 = 10_000;
const WINDOW: u32 = 1 << 20;

/// An address where clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Host and port; port 0 picks a free one.
    pub address: String,
    /// With TLS.
    pub tls: bool,
    /// Serves metrics and health alone.
    pub metrics_only: bool,
}

/// How a server works.
#[derive(Clone, Debug)]
pub struct Config {
    /// The folder with the data.
    pub data_dir: PathBuf,
    /// What the folder holds at first, if it holds nothing yet.
    pub from_snapshot: Option<PathBuf>,
    /// How the store works.
    pub store: EmbeddedOptions,
    /// What the database takes.
    pub limits: Limits,
    /// Where clients connect.
    pub listen: Vec<Listen>,
    /// Certificates, if an address is with TLS.
    pub tls: Option<TlsFiles>,
    /// How the member is called.
    pub name: String,
    /// Where other members would find it.
    pub peer_urls: Vec<String>,
    /// Where clients find it.
    pub client_urls: Vec<String>,
    /// How often a quiet watch that asked for it is told how far it is.
    pub progress_interval: Duration,
    /// What history is kept; `None`: all that clients do not compact.
    pub retention: Option<Retention>,
}

/// A server that listens.
pub struct Server {
    app: Arc<App>,
    listeners: Vec<(TcpListener, Option<TlsAcceptor>, bool)>,
    addresses: Vec<SocketAddr>,
}

/// What connections are served with.
struct App {
    context: Arc<Context>,
    kv: KvServer<Kv>,
    watch: WatchServer<Watch>,
    lease: LeaseServer<Lease>,
    cluster: ClusterServer<Cluster>,
    maintenance: MaintenanceServer<Maintenance>,
    lock: LockServer<Lock>,
    election: ElectionServer<Election>,
}

impl Server {
    /// Opens the database and binds the addresses.
    ///
    /// # Errors
    /// What is wrong with the folder, an address or a certificate.
    pub async fn start(config: Config) -> anyhow::Result<Server> {
        let acceptor = config.tls.as_ref().map(tls::acceptor).transpose()?;
        let mut listeners = Vec::new();
        for listen in &config.listen {
            let bound = TcpListener::bind(&listen.address).await;
            let bound = bound.map_err(|error| anyhow::anyhow!("cannot listen on {}: {error}", listen.address))?;
            let acceptor = acceptor.clone().filter(|_| listen.tls);
            anyhow::ensure!(
                acceptor.is_some() == listen.tls,
                "{}: TLS needs --cert-file and --key-file",
                listen.address
            );
            listeners.push((bound, acceptor, listen.metrics_only));
        }
        let addresses = listeners.iter().map(|(bound, ..)| bound.local_addr()).collect::<Result<Vec<_>, _>>()?;
        let most = config.limits.request_bytes + OVERHEAD;
        if let Some(snapshot) = config.from_snapshot {
            let (dir, told) = (config.data_dir.clone(), snapshot.display().to_string());
            let restored = tokio::task::spawn_blocking(move || database::start_from_saved(&snapshot, &dir)).await?;
            restored.with_context(|| format!("the snapshot {told}"))?;
        }
        let database = Database::open(&config.data_dir, config.store, config.limits).await?;
        let context = Arc::new(Context {
            database,
            identity: Identity { name: config.name, peer_urls: config.peer_urls, client_urls: config.client_urls },
            progress_interval: config.progress_interval,
            metrics: Metrics::new(),
            stopped: CancellationToken::new(),
        });
        let stopped = context.stopped.clone();
        if let Some(retention) = config.retention {
            tokio::spawn(compaction::run(context.database.clone(), retention, stopped));
        }
        let app = App {
            kv: KvServer::new(Kv(context.clone())).max_decoding_message_size(most),
            watch: WatchServer::new(Watch(context.clone())),
            lease: LeaseServer::new(Lease(context.clone())),
            cluster: ClusterServer::new(Cluster(context.clone())),
            maintenance: MaintenanceServer::new(Maintenance(context.clone())),
            lock: LockServer::new(Lock(context.clone())),
            election: ElectionServer::new(Election(context.clone())),
            context,
        };
        Ok(Server { app: Arc::new(app), listeners, addresses })
    }

    /// Where it listens, in the order of the configuration.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Serves until it is told to stop, and closes the database. If the database ends by itself, that is the error.
    ///
    /// # Errors
    /// Why the database has ended.
    pub async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        let graceful = Arc::new(GracefulShutdown::new());
        let mut accepting = JoinSet::new();
        for (listener, acceptor, metrics_only) in self.listeners {
            accepting.spawn(accept(self.app.clone(), listener, acceptor, metrics_only, graceful.clone(), stop.clone()));
        }
        let context = self.app.context.clone();
        let failed = tokio::select! {
            () = stop.cancelled() => None,
            reason = context.database.failed() => Some(reason),
        };
        stop.cancel();
        while accepting.join_next().await.is_some() {}
        // Watches have no end of their own.
        context.stopped.cancel();
        if let Some(graceful) = Arc::into_inner(graceful) {
            // Whoever does not take an answer by then has none.
            let _ = tokio::time::timeout(FAREWELL, graceful.shutdown()).await;
        }
        context.database.close().await;
        match failed {
            None => Ok(()),
            Some(reason) => Err(anyhow::anyhow!("the database has ended: {reason}")),
        }
    }
}

async fn accept(
    app: Arc<App>,
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    metrics_only: bool,
    graceful: Arc<GracefulShutdown>,
    stop: CancellationToken,
) {
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, _)) => {
                // It ends with the graceful shutdown, at the latest.
                tokio::spawn(connection(app.clone(), stream, acceptor.clone(), metrics_only, graceful.watcher()));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn connection(
    app: Arc<App>,
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    metrics_only: bool,
    watcher: Watcher,
) {
    // It only makes answers faster.
    let _ = stream.set_nodelay(true);
    let Some(acceptor) = acceptor else { return serve(app, stream, metrics_only, watcher).await };
    match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => serve(app, stream, metrics_only, watcher).await,
        Ok(Err(error)) => tracing::info!(%error, "a handshake has failed"),
        Err(_) => tracing::info!("a handshake took too long"),
    }
}

async fn serve<S>(app: Arc<App>, stream: S, metrics_only: bool, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let app = app.clone();
        async move { Ok::<_, Infallible>(app.answer(request, metrics_only).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE);
    let mut http2 = builder.http2();
    http2.timer(TokioTimer::new()).keep_alive_interval(PING).keep_alive_timeout(PONG);
    http2
        .max_concurrent_streams(MOST_STREAMS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(4 * WINDOW);
    let served = watcher.watch(builder.serve_connection(TokioIo::new(stream), service).into_owned()).await;
    if let Err(error) = served {
        tracing::debug!(error, "a connection has ended");
    }
}

impl App {
    /// Hands a call to its service; what is no call of gRPC is answered as plain HTTP.
    async fn answer(&self, request: Request<Incoming>, metrics_only: bool) -> Response<Body> {
        let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if metrics_only || !content_type.is_some_and(|value| value.starts_with("application/grpc")) {
            return self.answer_http(request, metrics_only).await;
        }
        let path = request.uri().path().to_owned();
        let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
        let Ok(response) = match service {
            "etcdserverpb.KV" => self.kv.clone().call(request).await,
            "etcdserverpb.Watch" => self.watch.clone().call(request).await,
            "etcdserverpb.Lease" => self.lease.clone().call(request).await,
            "etcdserverpb.Cluster" => self.cluster.clone().call(request).await,
            "etcdserverpb.Maintenance" => self.maintenance.clone().call(request).await,
            "v3lockpb.Lock" => self.lock.clone().call(request).await,
            "v3electionpb.Election" => self.election.clone().call(request).await,
            _ => return Status::unimplemented(format!("unknown service {service}")).into_http(),
        };
        // A status that comes before everything else is a refusal; one that comes later cannot be seen yet.
        let code = Status::from_header_map(response.headers()).map_or(Code::Ok, |status| status.code());
        if code != Code::Unimplemented {
            self.context.metrics.handled.with_label_values(&[service, method, &format!("{code:?}")]).inc();
        }
        response
    }

    async fn answer_http(&self, request: Request<Incoming>, metrics_only: bool) -> Response<Body> {
        let called = (request.method() == Method::POST && !metrics_only)
            .then(|| request.uri().path().strip_prefix("/v3/kv/").map(str::to_owned))
            .flatten();
        let Some(method) = called else { return http::answer(&self.context, request.method(), request.uri()).await };
        // In base64 a request is a third longer.
        let most = (self.context.database.limits().request_bytes + OVERHEAD) * 4 / 3;
        match Limited::new(request.into_body(), most).collect().await {
            Ok(body) => http::json(gateway::answer(&Kv(self.context.clone()), &method, &body.to_bytes()).await),
            Err(error) => http::bad_request(&error.to_string()),
        }
    }
}
