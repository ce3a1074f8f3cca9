//! Connections to other servers: opened here, or by a proxy.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector},
    rt::TokioIo,
};
use tokio::net::TcpStream;
use tower::Service;
use traces::{Dial, Stream};

use crate::failure::EgressError;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Opens connections.
#[derive(Clone)]
pub struct Connector {
    tcp: HttpConnector,
    dial: Option<Dial>,
    patience: Duration,
}

impl Connector {
    /// Opens them itself within `patience`, unless `dial` does.
    pub(crate) fn new(dial: Option<Dial>, patience: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(patience));
        Connector { tcp, dial, patience }
    }
}

/// A connection.
pub enum Connecting {
    /// To the server itself.
    Direct(TokioIo<TcpStream>),
    /// Through a proxy.
    Proxied(TokioIo<Box<dyn Stream>>),
}

impl Service<Uri> for Connector {
    type Response = Connecting;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Connecting, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match &self.dial {
            Some(_) => Poll::Ready(Ok(())),
            None => self.tcp.poll_ready(cx).map_err(Into::into),
        }
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Some(dial) = &self.dial else {
            let connecting = self.tcp.call(uri);
            return Box::pin(async move { Ok(Connecting::Direct(connecting.await?)) });
        };
        let default = if uri.scheme_str() == Some("http") { 80 } else { 443 };
        let address = format!("{}:{}", uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(default));
        // Twice as long: the proxy is on the way.
        let (dialing, patience) = (dial(address.clone()), self.patience * 2);
        Box::pin(async move {
            let dialed = tokio::time::timeout(patience, dialing).await;
            let late = |_| io::Error::other(EgressError(format!("dial tcp {address}: i/o timeout")));
            Ok(Connecting::Proxied(TokioIo::new(dialed.map_err(late)??)))
        })
    }
}

impl Connection for Connecting {
    fn connected(&self) -> Connected {
        match self {
            Connecting::Direct(stream) => stream.connected(),
            Connecting::Proxied(_) => Connected::new(),
        }
    }
}

impl Read for Connecting {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Connecting::Direct(stream) => Pin::new(stream).poll_read(cx, buffer),
            Connecting::Proxied(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl Write for Connecting {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Connecting::Direct(stream) => Pin::new(stream).poll_write(cx, bytes),
            Connecting::Proxied(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Connecting::Direct(stream) => Pin::new(stream).poll_flush(cx),
            Connecting::Proxied(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Connecting::Direct(stream) => Pin::new(stream).poll_shutdown(cx),
            Connecting::Proxied(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Connecting::Direct(stream) => stream.is_write_vectored(),
            Connecting::Proxied(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Connecting::Direct(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Connecting::Proxied(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
        }
    }
}
