//! Heads of HTTP/1.1 requests that are none: what hyper cannot parse it answers by itself, with a bare 400. This stands
//! between it and the connection and puts the answers of Go's server in their place, which clients know. What Go's server
//! takes and hyper does not is made what both take ([`FirstLine`]).

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::target::FirstLine;
use crate::usage::Usage;

/// So much of a head is kept to tell what is wrong with it.
const KEPT: usize = 16 * 1024;

/// A connection whose heads are watched.
pub(super) struct Heads<S> {
    stream: S,
    usage: Arc<Usage>,
    /// What was read of the head that is being read.
    head: Vec<u8>,
    line: FirstLine,
    /// What was read and has no room yet where it is to go: a first line may have grown.
    rest: Vec<u8>,
    /// The answer that stands for hyper's, and how much of it was sent.
    refusal: Option<(Vec<u8>, usize)>,
}

impl<S> Heads<S> {
    pub(super) fn new(stream: S, usage: Arc<Usage>) -> Self {
        Heads { stream, usage, head: Vec::new(), line: FirstLine::default(), rest: Vec::new(), refusal: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heads<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        if !self.rest.is_empty() {
            let fits = self.rest.len().min(buf.remaining());
            buf.put_slice(&self.rest[..fits]);
            self.rest.drain(..fits);
            return Poll::Ready(Ok(()));
        }
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let read = &buf.filled()[before..];
        if !read.is_empty() {
            let this = &mut *self;
            if this.usage.read() {
                this.head.clear();
                this.line = FirstLine::default();
            }
            if this.usage.in_head() {
                let room = KEPT.saturating_sub(this.head.len());
                this.head.extend_from_slice(&read[..read.len().min(room)]);
                // The rest of a body must stay as long as it was announced.
                if this.usage.is_certainly_head()
                    && let Some(escaped) = this.line.escaped(read)
                {
                    let (now, later) = escaped.split_at(escaped.len().min(buf.capacity() - before));
                    buf.set_filled(before);
                    buf.put_slice(now);
                    this.rest = later.to_vec();
                }
            } else if this.head.capacity() > 0 {
                this.head = Vec::new();
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> Heads<S> {
    /// Takes hyper's own answer and sends ours.
    fn poll_refusal(&mut self, cx: &mut Context<'_>, bare: &[u8]) -> Poll<io::Result<usize>> {
        let head = &self.head;
        let (text, sent) = self.refusal.get_or_insert_with(|| (refusal(bare, head), 0));
        while *sent < text.len() {
            *sent += ready!(Pin::new(&mut self.stream).poll_write(cx, &text[*sent..]))?;
        }
        Poll::Ready(Ok(bare.len()))
    }

    fn is_bare(&self, buf: &[u8]) -> bool {
        buf.starts_with(b"HTTP/1.1 4") && self.usage.in_head()
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heads<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_bare(buf) {
            return self.poll_refusal(cx, buf);
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(first) = bufs.iter().find(|buf| !buf.is_empty())
            && self.is_bare(first)
        {
            return self.poll_refusal(cx, first);
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Go's answer in place of a bare one.
fn refusal(bare: &[u8], head: &[u8]) -> Vec<u8> {
    let (status, body) = match bare.get(9..12) {
        Some(b"431") => ("431 Request Header Fields Too Large", "431 Request Header Fields Too Large"),
        Some(b"414") => ("414 URI Too Long", "414 URI Too Long"),
        _ if has_strange_coding(head) => ("501 Not Implemented", "Unsupported transfer encoding"),
        _ if is_another_version(head) => {
            let status = "505 HTTP Version Not Supported: unsupported protocol version";
            (status, status)
        }
        _ => ("400 Bad Request", "400 Bad Request"),
    };
    format!("HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n{body}")
        .into_bytes()
}

/// Whether a header says that the body is coded otherwise than in chunks.
fn has_strange_coding(head: &[u8]) -> bool {
    let codings = head.split(|b| *b == b'\n').filter_map(|line| {
        let (name, value) = line.split_at(line.iter().position(|b| *b == b':')?);
        name.eq_ignore_ascii_case(b"transfer-encoding").then(|| value[1..].trim_ascii())
    });
    codings.enumerate().any(|(i, coding)| i > 0 || !coding.eq_ignore_ascii_case(b"chunked"))
}

/// Whether the first line is one of a version of HTTP that is not spoken here.
fn is_another_version(head: &[u8]) -> bool {
    let line = head.split(|b| *b == b'\n').next().unwrap_or_default().trim_ascii_end();
    let version = line.rsplit(|b| *b == b' ').next().unwrap_or_default();
    matches!(version.strip_prefix(b"HTTP/"), Some([major, b'.', minor])
        if major.is_ascii_digit() && minor.is_ascii_digit() && *major != b'1')
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_target_is_escaped_where_it_cannot_be_the_rest_of_a_body() {
        let (mut client, server) = tokio::io::duplex(64);
        let usage = Usage::new(false, Duration::from_secs(1), None);
        let mut heads = Heads::new(server, usage.clone());
        let mut read = [0; 32];
        client.write_all(b"GET /<<\n").await.expect("room");
        // Into less room than it takes.
        let first = heads.read(&mut read[..8]).await.expect("bytes");
        let rest = heads.read(&mut read[first..]).await.expect("bytes");
        assert_eq!(&read[..first + rest], b"GET /%3C%3C\n");
        drop(usage.begin());
        client.write_all(b"GET /<\n").await.expect("room");
        let next = heads.read(&mut read).await.expect("bytes");
        assert_eq!(&read[..next], b"GET /%3C\n");
        usage.brings_body();
        drop(usage.begin());
        client.write_all(b"GET /<\n").await.expect("room");
        let last = heads.read(&mut read).await.expect("bytes");
        assert_eq!(&read[..last], b"GET /<\n");
    }

    #[test]
    fn refusals_are_those_of_gos_server() {
        let bare = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let check = |bare: &[u8], head: &str, first: &str, body: &str| {
            let text = String::from_utf8(refusal(bare, head.as_bytes())).expect("text");
            let wanted = format!(
                "HTTP/1.1 {first}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n{body}"
            );
            assert_eq!(text, wanted, "{head}");
        };
        let unsupported = "Unsupported transfer encoding";
        check(bare, "GET / HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n", "400 Bad Request", "400 Bad Request");
        check(bare, "POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n", "501 Not Implemented", unsupported);
        check(
            bare,
            "POST / HTTP/1.1\r\nTransfer-Encoding:chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            "501 Not Implemented",
            unsupported,
        );
        check(
            bare,
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: x\r\n\r\n",
            "400 Bad Request",
            "400 Bad Request",
        );
        let version = "505 HTTP Version Not Supported: unsupported protocol version";
        check(bare, "GET / HTTP/3.0\r\n\r\n", version, version);
        let large = "431 Request Header Fields Too Large";
        check(b"HTTP/1.1 431 Request Header Fields Too Large\r\n\r\n", "GET", large, large);
    }
}
