//! An HTTP/1.1 client of a few lines, so that nothing stands between a test and the wire.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use rustls::{
    ClientConfig, ClientConnection, ConfigBuilder, StreamOwned,
    client::{
        WantsClientCert,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use serde_json::Value;

use crate::Issued;

/// An answer.
#[derive(Debug)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Reply {
    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Sends a request with the administrator's token and reads the answer.
pub fn send(port: u16, method: &str, path: &str, content_type: &str, body: &[u8]) -> std::io::Result<Reply> {
    raw(port, &written(method, path, content_type, body))
}

/// The administrator's request as it stands on the wire.
fn written(method: &str, path: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    let mut request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admintoken\r\nConnection: close\r\n"
    );
    if !content_type.is_empty() {
        request.push_str(&format!("Content-Type: {content_type}\r\n"));
    }
    request.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    let mut bytes = request.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// An answer whose body is still to come: the status, the headers and where to read it.
type Begun = (u16, Vec<(String, String)>, Reader);
/// Reads an answer's body, or the protocol that it switches to.
pub(crate) type Reader = BufReader<StreamOwned<ClientConnection, TcpStream>>;

/// A watch that is read as its events come, or not at all. It ends for the server when this is dropped.
pub struct Watch {
    reader: Reader,
    /// What has come and is not a whole event yet.
    partial: Vec<u8>,
}

impl Watch {
    /// Opens it and reads the head of the answer, which must be 200.
    pub fn open(port: u16, path: &str) -> std::io::Result<Watch> {
        let (status, _, mut reader) = exchange(&format!("127.0.0.1:{port}"), &written("GET", path, "", b""))?;
        if status == 200 {
            return Ok(Watch { reader, partial: Vec::new() });
        }
        let mut body = Vec::new();
        let _ = reader.read_to_end(&mut body); // to tell what can be told
        Err(std::io::Error::other(format!("{status}: {}", String::from_utf8_lossy(&body))))
    }

    /// The next event, once it is there; none when the watch has ended, in whatever way.
    pub fn next_event(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.partial.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("an event"));
            }
            if !read_chunk(&mut self.reader, &mut self.partial).unwrap_or(false) {
                return None;
            }
        }
    }
}

/// Sends bytes over TLS as they are and reads the answer.
pub fn raw(port: u16, request: &[u8]) -> std::io::Result<Reply> {
    raw_to(&format!("127.0.0.1:{port}"), request)
}

/// The certificate that a server shows, as DER.
pub fn shown_certificate(port: u16) -> std::io::Result<Vec<u8>> {
    let mut tcp = TcpStream::connect(("127.0.0.1", port))?;
    let name = ServerName::try_from("localhost").expect("a name");
    let mut session = ClientConnection::new(Arc::new(tls_config()), name).map_err(std::io::Error::other)?;
    while session.is_handshaking() {
        session.complete_io(&mut tcp)?;
    }
    let chain = session.peer_certificates().unwrap_or_default();
    chain.first().map(|own| own.to_vec()).ok_or_else(|| std::io::Error::other("it shows none"))
}

/// The same with a client certificate.
pub fn raw_with(port: u16, identity: &Issued, request: &[u8]) -> std::io::Result<Reply> {
    let (chain, key) = identity.parsed();
    let config = with_verifier().with_client_auth_cert(chain, key).map_err(std::io::Error::other)?;
    read_all(exchange_over(config, &format!("127.0.0.1:{port}"), request)?)
}

/// The same to a server elsewhere: host and port.
pub(crate) fn raw_to(address: &str, request: &[u8]) -> std::io::Result<Reply> {
    read_all(exchange(address, request)?)
}

fn read_all((status, headers, mut reader): Begun) -> std::io::Result<Reply> {
    let header = |name: &str| headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
    let mut body = Vec::new();
    if header("transfer-encoding").is_some_and(|v| v.contains("chunked")) {
        while read_chunk(&mut reader, &mut body)? {}
    } else if let Some(length) = header("content-length").and_then(|v| v.parse::<u64>().ok()) {
        reader.by_ref().take(length).read_to_end(&mut body)?;
    } else if status == 101 {
        let _ = reader.read_to_end(&mut body); // the other protocol, to its end, however abrupt
    }
    Ok(Reply { status, headers, body })
}

/// Sends a request that asks for another protocol, then `sent` in that protocol if the answer is 101: the body is what
/// comes back in it, until the other side ends it.
pub fn switched(port: u16, request: &[u8], sent: &[u8]) -> std::io::Result<Reply> {
    let (status, headers, mut reader) = exchange(&format!("127.0.0.1:{port}"), request)?;
    let mut body = Vec::new();
    if status == 101 {
        reader.get_mut().write_all(sent)?;
        reader.get_mut().flush()?;
        let _ = reader.read_to_end(&mut body); // however abrupt the end is
    }
    Ok(Reply { status, headers, body })
}

/// Sends a request and reads the head of the answer: its status and its headers.
pub(crate) fn exchange(address: &str, request: &[u8]) -> std::io::Result<Begun> {
    exchange_over(tls_config(), address, request)
}

fn exchange_over(config: ClientConfig, address: &str, request: &[u8]) -> std::io::Result<Begun> {
    let tcp = TcpStream::connect(address)?;
    tcp.set_read_timeout(Some(Duration::from_secs(120)))?;
    let name = ServerName::try_from("localhost").expect("a name");
    let session = ClientConnection::new(Arc::new(config), name).map_err(std::io::Error::other)?;
    let mut stream = StreamOwned::new(session, tcp);
    stream.write_all(request)?;
    stream.flush()?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|s| s.trim().parse().ok()).unwrap_or(0);
    let mut headers = Vec::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        if let Some((name, value)) = line.trim().split_once(':') {
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    Ok((status, headers, reader))
}

/// Appends the next chunk; false at the last.
fn read_chunk(reader: &mut impl BufRead, body: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let size = u64::from_str_radix(line.trim(), 16).map_err(std::io::Error::other)?;
    reader.by_ref().take(size).read_to_end(body)?;
    reader.read_line(&mut line)?;
    Ok(size > 0)
}

/// A client that takes any certificate: the tests are about what is said, the PKI's own tests about to whom.
pub fn tls_config() -> ClientConfig {
    with_verifier().with_no_client_auth()
}

fn with_verifier() -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has suites")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
}

#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
