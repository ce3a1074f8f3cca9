//! Sends spans to a collector, some at a time. One that is not there loses them, and harms nobody.

use std::{collections::BTreeMap, future::Future, io, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    sync::mpsc,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint, Uri};

use crate::{
    otlp::{self, Any, ExportRequest, ExportResponse, KeyValue, Resource, ResourceSpans, Scope, ScopeSpans},
    queue::{Ended, Losses},
};

/// So many spans are sent at once, or as many as there are after so long (the same).
const BATCH: usize = 512;
const LINGER: Duration = Duration::from_secs(5);
/// How long the collector may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A collector that fails is told of so often.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);
/// Which names of attributes the resource uses.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.12.0";

/// Where spans go. There is no encryption, as upstream has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// `host:port`
    Tcp(String),
    /// A socket of the host; one that begins with a zero byte has no file.
    Unix(PathBuf),
}

/// A connection.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

type Dialed = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// Opens a connection to `host:port`, in place of the usual way.
pub type Dial = Arc<dyn Fn(String) -> Dialed + Send + Sync>;

/// Sends what a tracer has gathered.
pub struct Exporter {
    waiting: mpsc::Receiver<Ended>,
    losses: Losses,
}

impl Exporter {
    pub(crate) fn new(waiting: mpsc::Receiver<Ended>, losses: Losses) -> Self {
        Exporter { waiting, losses }
    }

    /// Takes the next span, if one waits.
    #[cfg(test)]
    pub(crate) fn next(&mut self) -> Option<Ended> {
        self.waiting.try_recv().ok()
    }

    /// Sends until it is to end, and then what is left. The names say whose spans they are.
    pub async fn run(
        mut self,
        destination: Destination,
        dial: Option<Dial>,
        (service, instance): (&str, &str),
        ended: CancellationToken,
    ) {
        let attributes = [("service.name", service), ("service.instance.id", instance)];
        let attributes = attributes.map(|(key, value)| KeyValue::new(key, Any::Text(value.to_owned())));
        let resource = Resource { attributes: attributes.to_vec() };
        let channel = destination.channel(dial);
        let mut complained: Option<Instant> = None;
        loop {
            let mut spans = Vec::new();
            let is_over = ended.run_until_cancelled(self.gather(&mut spans)).await.is_none_or(|goes_on| !goes_on);
            if is_over {
                while let Ok(span) = self.waiting.try_recv() {
                    spans.push(span);
                }
            }
            while !spans.is_empty() {
                let batch: Vec<Ended> = spans.drain(..spans.len().min(BATCH)).collect();
                let count = batch.len();
                if let Err(error) = send(&channel, &resource, batch).await {
                    self.losses.not_taken(count);
                    if complained.is_none_or(|at| at.elapsed() > COMPLAIN_EVERY) {
                        complained = Some(Instant::now());
                        tracing::warn!(error, lost = self.losses.total(), "the collector takes no traces");
                    }
                    if is_over {
                        return self.losses.not_taken(spans.len());
                    }
                }
            }
            if is_over {
                return;
            }
        }
    }

    /// Waits for a batch. False: nobody makes spans any more.
    async fn gather(&mut self, spans: &mut Vec<Ended>) -> bool {
        let Some(first) = self.waiting.recv().await else { return false };
        spans.push(first);
        let fill =
            async { while spans.len() < BATCH && self.waiting.recv_many(spans, BATCH - spans.len()).await > 0 {} };
        let _ = timeout(LINGER, fill).await;
        true
    }
}

impl Destination {
    fn channel(self, dial: Option<Dial>) -> Channel {
        let endpoint = Endpoint::from_static("http://collector").connect_timeout(TIMEOUT);
        // The connector knows where to, whatever address it is given.
        let connector = tower::service_fn(move |_: Uri| {
            let (destination, dial) = (self.clone(), dial.clone());
            async move { destination.connect(dial).await.map(TokioIo::new) }
        });
        endpoint.connect_with_connector_lazy(connector)
    }

    async fn connect(self, dial: Option<Dial>) -> io::Result<Box<dyn Stream>> {
        Ok(match (self, dial) {
            (Destination::Tcp(address), Some(dial)) => return dial(address).await,
            (Destination::Tcp(address), None) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            (Destination::Unix(path), _) => Box::new(UnixStream::connect(path).await?),
        })
    }
}

/// The spans by who made them.
fn by_scope(spans: Vec<Ended>) -> Vec<ScopeSpans> {
    let mut scopes: BTreeMap<(&str, &str), Vec<otlp::Span>> = BTreeMap::new();
    for Ended { instrument, span } in spans {
        scopes.entry((instrument.name, instrument.version)).or_default().push(span);
    }
    let scopes = scopes.into_iter().map(|((name, version), spans)| ScopeSpans {
        scope: Some(Scope { name: name.to_owned(), version: version.to_owned() }),
        spans,
    });
    scopes.collect()
}

async fn send(channel: &Channel, resource: &Resource, spans: Vec<Ended>) -> Result<(), String> {
    let spans =
        ResourceSpans { resource: Some(resource.clone()), scope_spans: by_scope(spans), schema_url: SCHEMA.to_owned() };
    let request = tonic::Request::new(ExportRequest { resource_spans: vec![spans] });
    let sending = async {
        let mut client = tonic::client::Grpc::new(channel.clone());
        client.ready().await.map_err(|error| error.to_string())?;
        let codec: tonic_prost::ProstCodec<ExportRequest, ExportResponse> = tonic_prost::ProstCodec::default();
        let answer = client.unary(request, PathAndQuery::from_static(otlp::EXPORT), codec).await;
        answer.map(|_| ()).map_err(|status| status.message().to_owned())
    };
    timeout(TIMEOUT, sending).await.unwrap_or_else(|_| Err(format!("no answer within {TIMEOUT:?}")))
}
