//! etcd as the store: one client for all resources, one connection a server.
//!
//! Keys are what callers give, so that this server and the Go one can share an etcd.

mod channel;
mod compactor;
mod convert;
mod lease;
mod reach;
mod watch;

use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use etcd_client::{
    Certificate, Client, Compare, CompareOp, ConnectOptions, GetOptions, Identity, KvClient, PutOptions, TlsOptions,
    Txn, TxnOp, TxnOpResponse,
};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use traces::Dial;

use self::{
    channel::Channels,
    convert::{Failure, failure, key_value, prefix_end, revision_of},
    lease::Leases,
    reach::Reach,
    watch::{Progress, Prompts},
};
use crate::{Error, Expect, KeyValue, Range, RangeResult, Revision, Sink, Store, Watch, limits};

/// Keys asked for at once; longer ranges are read in parts, at one revision.
const PAGE: usize = 2000;
/// How long to wait before a request is tried on another server.
const PAUSE: Duration = Duration::from_millis(50);
/// Responses may be this large: a page of the largest values.
const MOST_BYTES: usize = 1 << 31;

/// How to reach etcd.
#[derive(Clone)]
pub struct EtcdOptions {
    /// The servers' URLs (`--etcd-servers`).
    pub servers: Vec<String>,
    /// The CA that signed the servers' certificates, as a PEM file; `None`: no TLS, or the URL's `https` with no CA to trust.
    pub ca: Option<PathBuf>,
    /// The client's certificate and key, as PEM files.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// What keys start with (`--etcd-prefix`); health checks read a key under it.
    pub prefix: String,
    /// How long a request may take, over all tries.
    pub timeout: Duration,
    /// How long a health check may take (`--etcd-healthcheck-timeout`).
    pub health_timeout: Duration,
    /// How often history is compacted to where it was an interval ago (`--etcd-compaction-interval`); zero: never. Of
    /// several API servers one does it.
    pub compaction_interval: Duration,
    /// How long a lease takes new keys (`--lease-reuse-duration-seconds`): they expire by so much later than asked.
    pub lease_reuse: Duration,
    /// Opens connections to servers; `None`: they are opened as usual.
    pub dial: Option<Dial>,
    /// Whether requests say of which trace they are part.
    pub traced: bool,
}

impl Default for EtcdOptions {
    fn default() -> Self {
        EtcdOptions {
            servers: vec!["http://127.0.0.1:2379".into()],
            ca: None,
            identity: None,
            prefix: "/registry".into(),
            timeout: Duration::from_secs(10),
            health_timeout: Duration::from_secs(2),
            compaction_interval: Duration::from_secs(300),
            lease_reuse: Duration::from_secs(60),
            dial: None,
            traced: false,
        }
    }
}

/// The store in etcd.
pub struct Etcd {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    kv: KvClient,
    options: EtcdOptions,
    leases: Leases,
    reach: Reach,
    /// Who asks watches for their progress.
    progress: Prompts,
    /// How servers tell progress when asked.
    told: Progress,
    closed: CancellationToken,
    tasks: TaskTracker,
}

impl Etcd {
    /// Connects. Servers that are down are tried whenever there is a request. Fails with [`Error::Unavailable`] for
    /// options that cannot be used.
    pub async fn connect(options: EtcdOptions) -> Result<Arc<Etcd>, Error> {
        let client = connect(&options).await?;
        let told = watch::progress_of(&client, options.health_timeout).await;
        let shared = Arc::new(Shared {
            kv: client.kv_client().max_decoding_message_size(MOST_BYTES),
            client,
            leases: Leases::default(),
            reach: Reach::default(),
            progress: Prompts::default(),
            told,
            closed: CancellationToken::new(),
            tasks: TaskTracker::new(),
            options,
        });
        if !shared.options.compaction_interval.is_zero() {
            shared.tasks.spawn(compactor::run(Arc::downgrade(&shared), shared.options.compaction_interval));
        }
        Ok(Arc::new(Etcd { shared }))
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.shared.closed.cancel();
    }
}

async fn connect(options: &EtcdOptions) -> Result<Client, Error> {
    let read = |path: &PathBuf| {
        std::fs::read(path).map_err(|error| Error::Unavailable(format!("cannot read {}: {error}", path.display())))
    };
    let mut connect = ConnectOptions::new()
        .with_connect_timeout(Duration::from_secs(5))
        .with_keep_alive(Duration::from_secs(10), Duration::from_secs(5))
        .with_require_leader(true);
    if options.ca.is_some() || options.identity.is_some() || options.servers.iter().any(|url| url.starts_with("https:"))
    {
        let mut tls = TlsOptions::new();
        if let Some(ca) = &options.ca {
            tls = tls.ca_certificate(Certificate::from_pem(read(ca)?));
        }
        if let Some((certificate, key)) = &options.identity {
            tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
        }
        connect = connect.with_tls(tls);
    }
    let server = match options.servers.as_slice() {
        [server] => server.parse().ok(),
        _ => None,
    };
    let channels = Channels { dial: options.dial.clone(), traced: options.traced, server };
    let connected = Client::connect_with_balanced_channel(&options.servers, Some(connect), channels).await;
    connected.map_err(|error| Error::Unavailable(format!("etcd at {}: {error}", options.servers.join(","))))
}

impl Shared {
    /// Tries a request until it succeeds, fails for good, or its time is over. `act` must be safe to try again after a
    /// failure to connect; `again` says that it is so after any failure.
    async fn call<T, F>(&self, again: bool, mut act: impl FnMut() -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let begun = Instant::now();
        let end = begun + self.options.timeout;
        loop {
            let tried = tokio::select! {
                biased;
                () = self.closed.cancelled() => return Err(Error::Closed.into()),
                tried = tokio::time::timeout_at(end, act()) => tried,
            };
            let failed = match tried {
                Ok(Ok(answer)) => {
                    if let Some(after) = self.reach.answered(Instant::now()) {
                        tracing::info!(endpoints = self.options.servers.join(","), ?after, "etcd answers again");
                    }
                    return Ok(answer);
                }
                Ok(Err(error)) => failure(&error),
                Err(_) => Error::Timeout(format!("etcd did not answer in {:?}", self.options.timeout)).into(),
            };
            if let Some(error) = &failed.error
                && self.reach.failed(error, begun, Instant::now())
            {
                tracing::warn!(endpoints = self.options.servers.join(","), %error, "etcd cannot be reached");
            }
            let retry = failed.unsent || (again && matches!(failed.error, Some(Error::Unavailable(_))));
            if !retry || Instant::now() + PAUSE >= end {
                return Err(failed);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// A transaction on one key that holds if it was last written at `expected` (0: it is not there).
    async fn transact(&self, key: &str, expected: Revision, then: TxnOp) -> Result<Revision, Failure> {
        let holds = Compare::mod_revision(key, CompareOp::Equal, expected as i64);
        let txn = Txn::new().when([holds]).and_then([then]).or_else([TxnOp::get(key, None)]);
        let answer = self.call(false, || {
            let (mut kv, txn) = (self.kv.clone(), txn.clone());
            async move { kv.txn(txn).await }
        });
        let answer = answer.await?;
        if answer.succeeded() {
            return Ok(revision_of(answer.header()));
        }
        let current = answer.op_responses().into_iter().find_map(|response| match response {
            TxnOpResponse::Get(mut get) => get.take_kvs().pop(),
            _ => None,
        });
        Err(Error::Conflict { current: current.map(key_value).transpose()?.map(Box::new) }.into())
    }

    async fn get(&self, key: &str, options: Option<GetOptions>) -> Result<etcd_client::GetResponse, Failure> {
        self.call(true, || {
            let (mut kv, options) = (self.kv.clone(), options.clone());
            async move { kv.get(key, options).await }
        })
        .await
    }

    async fn revision(&self) -> Result<Revision, Failure> {
        let options = GetOptions::new().with_count_only();
        Ok(revision_of(self.get(&self.health_key(), Some(options)).await?.header()))
    }

    fn health_key(&self) -> String {
        format!("/{}/health", self.options.prefix.trim_matches('/'))
    }

    /// Tells a failure that has to do with a revision in its own error.
    async fn explain(&self, failed: Failure, asked: Revision) -> Error {
        if let Some(error) = failed.error {
            return error;
        }
        if failed.compacted {
            return match watch::oldest(self).await {
                Ok(oldest) => Error::Compacted { oldest },
                Err(error) => error,
            };
        }
        match self.revision().await {
            Ok(current) => Error::FutureRevision { asked, current },
            Err(failed) => failed.into(),
        }
    }
}

#[async_trait]
impl Store for Etcd {
    async fn put(&self, key: &str, value: Bytes, expect: Expect, ttl: Option<Duration>) -> Result<Revision, Error> {
        limits::check_key(key)?;
        limits::check_value(&value)?;
        let size = value.len();
        let mut options = PutOptions::new();
        if let Some(ttl) = ttl {
            options = options.with_lease(self.shared.leases.take(&self.shared, ttl).await?);
        }
        let expected = match expect {
            Expect::Absent => 0,
            Expect::Revision(revision) => revision,
        };
        let put = TxnOp::put(key, Vec::from(value), Some(options));
        match self.shared.transact(key, expected, put).await.map_err(Error::from) {
            Err(Error::TooLarge { .. }) => Err(Error::TooLarge { size, limit: limits::MAX_VALUE }),
            result => result,
        }
    }

    async fn delete(&self, key: &str, expected: Revision) -> Result<Revision, Error> {
        limits::check_key(key)?;
        if expected == 0 {
            return Err(Error::Conflict { current: self.get(key).await?.0.map(Box::new) });
        }
        Ok(self.shared.transact(key, expected, TxnOp::delete(key, None)).await?)
    }

    async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision), Error> {
        let mut answer = self.shared.get(key, None).await?;
        let revision = revision_of(answer.header());
        Ok((answer.take_kvs().pop().map(key_value).transpose()?, revision))
    }

    async fn range(&self, range: Range) -> Result<RangeResult, Error> {
        let Range { prefix, start, limit, mut at } = range;
        let end = prefix_end(&prefix);
        let mut from = start.filter(|start| *start > prefix).unwrap_or_else(|| prefix.clone()).into_bytes();
        let mut found = RangeResult::default();
        if from.is_empty() {
            from.push(0);
        }
        if !end.is_empty() && end != [0] && from >= end {
            found.revision = self.revision().await?;
            return Ok(found);
        }
        loop {
            let page = if limit == 0 { PAGE } else { PAGE.min(limit - found.items.len()) };
            let mut options = GetOptions::new().with_range(end.clone()).with_limit(page as i64);
            if let Some(at) = at {
                options = options.with_revision(at as i64);
            }
            let answer = self.shared.call(true, || {
                let (mut kv, from, options) = (self.shared.kv.clone(), from.clone(), options.clone());
                async move { kv.get(from, Some(options)).await }
            });
            let mut answer = match answer.await {
                Ok(answer) => answer,
                Err(failed) => return Err(self.shared.explain(failed, at.unwrap_or(0)).await),
            };
            found.revision = revision_of(answer.header());
            at.get_or_insert(found.revision);
            let (count, kvs) = (answer.count() as usize, answer.take_kvs());
            found.remaining = count.saturating_sub(kvs.len());
            let Some(last) = kvs.last() else { return Ok(found) };
            from = last.key().to_vec();
            from.push(0);
            for kv in kvs {
                found.items.push(key_value(kv)?);
            }
            if found.remaining == 0 || (limit > 0 && found.items.len() >= limit) {
                return Ok(found);
            }
        }
    }

    async fn count(&self, prefix: &str) -> Result<usize, Error> {
        let options = GetOptions::new().with_range(prefix_end(prefix)).with_count_only();
        let key = if prefix.is_empty() { "\0" } else { prefix };
        Ok(self.shared.get(key, Some(options)).await?.count() as usize)
    }

    async fn watch(&self, prefix: &str, after: Revision, sink: Arc<dyn Sink>) -> Result<Watch, Error> {
        watch::open(&self.shared, prefix, after, sink).await
    }

    async fn revision(&self) -> Result<Revision, Error> {
        Ok(self.shared.revision().await?)
    }

    async fn request_progress(&self, prefix: &str) -> Result<(), Error> {
        self.shared.progress.ask(prefix);
        Ok(())
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        let done = self.shared.call(true, || {
            let mut kv = self.shared.kv.clone();
            async move { kv.compact(revision as i64, None).await }
        });
        match done.await {
            Ok(_) => Ok(()),
            // Another server was faster.
            Err(Failure { compacted: true, .. }) => Ok(()),
            Err(failed) => Err(self.shared.explain(failed, revision).await),
        }
    }

    async fn compacted_revision(&self) -> Result<Revision, Error> {
        watch::oldest(&self.shared).await
    }

    async fn health(&self) -> Result<(), Error> {
        let key = self.shared.health_key();
        let read = self.shared.get(&key, None);
        match tokio::time::timeout(self.shared.options.health_timeout, read).await {
            Ok(answer) => Ok(answer.map(drop)?),
            Err(_) => Err(Error::Timeout(format!("etcd did not answer in {:?}", self.shared.options.health_timeout))),
        }
    }

    async fn size(&self) -> Result<u64, Error> {
        let status = self.shared.call(true, || {
            let mut maintenance = self.shared.client.maintenance_client();
            async move { maintenance.status().await }
        });
        Ok(status.await?.db_size() as u64)
    }

    async fn close(&self) {
        self.shared.closed.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}
