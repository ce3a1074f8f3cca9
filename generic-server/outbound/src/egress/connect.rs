//! A proxy that is asked for a connection by `CONNECT` (RFC 9110).

use std::io;

use machinery::meta::go_text::quote;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use super::{Stream, failed};

/// How long the proxy may take.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);
/// The longest head of an answer, in bytes (Go's: the same).
const MAX_HEAD: usize = 1 << 20;
/// So much of what is no answer is repeated, in bytes.
const MAX_SHOWN: usize = 256;

/// Asks the proxy `name` for a connection to `address`.
pub(super) async fn ask(mut stream: Box<dyn Stream>, name: &str, address: &str) -> io::Result<Box<dyn Stream>> {
    let unread =
        |why: &str| failed(format!("reading HTTP response from CONNECT to {address} via proxy {name} failed: {why}"));
    let asking = async {
        let head = format!("CONNECT {address} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        stream.flush().await?;
        read_head(&mut stream).await
    };
    let (head, rest) = match timeout(TIMEOUT, asking).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(unread("unexpected EOF")),
        Ok(Err(error)) => return Err(unread(&error.to_string())),
        Err(_) => return Err(unread("i/o timeout")),
    };
    let (code, status) = status_of(&head).map_err(|why| unread(&why))?;
    if code != 200 {
        return Err(failed(format!("proxy error from {name} while dialing {address}, code {code}: {status}")));
    }
    // Who is called through the proxy waits to be spoken to: that would be something else's bytes.
    if rest > 0 {
        return Err(failed(format!("unexpected {rest} bytes of buffered data from CONNECT proxy \"{name}\"")));
    }
    Ok(stream)
}

/// Reads the head of an answer; and how many bytes have come behind it.
async fn read_head(stream: &mut Box<dyn Stream>) -> io::Result<(Vec<u8>, usize)> {
    let mut read = Vec::with_capacity(512);
    loop {
        let looked_at = read.len().saturating_sub(3);
        if stream.read_buf(&mut read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(end) = read[looked_at..].windows(4).position(|four| four == b"\r\n\r\n") {
            let end = looked_at + end + 4;
            let rest = read.len() - end;
            read.truncate(end);
            return Ok((read, rest));
        }
        if read.len() > MAX_HEAD {
            return Err(io::Error::other("the header is too long"));
        }
    }
}

/// The code of an answer, and its status as Go shows it.
fn status_of(head: &[u8]) -> Result<(u16, String), String> {
    let line = head.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let line = String::from_utf8_lossy(&line[..line.len().min(MAX_SHOWN)]);
    let malformed = || format!("malformed HTTP response {}", quote(&line));
    let (_, status) =
        line.split_once(' ').filter(|(protocol, _)| protocol.starts_with("HTTP/")).ok_or_else(malformed)?;
    let code = status.split(' ').next().unwrap_or_default();
    let number = code.parse().ok().filter(|_| code.len() == 3);
    let number = number.ok_or_else(|| format!("malformed HTTP status code {}", quote(code)))?;
    Ok((number, status.trim().to_owned()))
}
