//! A client of WebSockets that says what it is told to say, right or wrong.

use std::io::{self, Read as _, Write as _};

use crate::client::{Reader, exchange};

/// A WebSocket. It is closed, without a word, when this is dropped.
pub struct WebSocket {
    reader: Reader,
    /// The subprotocol that was agreed on.
    pub protocol: Option<String>,
}

impl WebSocket {
    /// Opens one with the administrator's token; or the status and the text of the answer that is none.
    ///
    /// # Errors
    /// The answer is another one.
    pub fn open(port: u16, path: &str, protocols: &str) -> Result<Self, (u16, String)> {
        let asks =
            if protocols.is_empty() { String::new() } else { format!("Sec-WebSocket-Protocol: {protocols}\r\n") };
        Self::open_as(port, &format!("GET {path}"), &asks)
    }

    /// The same with any method, and with these lines among the headers.
    ///
    /// # Errors
    /// The answer is another one.
    pub fn open_as(port: u16, request: &str, lines: &str) -> Result<Self, (u16, String)> {
        let request = format!(
            "{request} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admintoken\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{lines}\r\n"
        );
        let (status, headers, mut reader) =
            exchange(&format!("127.0.0.1:{port}"), request.as_bytes()).expect("an answer");
        let header = |name: &str| headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone());
        if status != 101 {
            let mut body = Vec::new();
            let length = header("content-length").and_then(|length| length.parse().ok()).unwrap_or(u64::MAX);
            let _ = reader.by_ref().take(length).read_to_end(&mut body); // as much as there is
            return Err((status, String::from_utf8_lossy(&body).into_owned()));
        }
        assert_eq!(header("sec-websocket-accept").as_deref(), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        Ok(Self { reader, protocol: header("sec-websocket-protocol") })
    }

    /// Sends a binary message.
    pub fn send(&mut self, payload: &[u8]) {
        self.send_frame(0x82, payload).expect("sent");
    }

    /// Sends a frame that begins with this byte.
    ///
    /// # Errors
    /// The server is gone.
    pub fn send_frame(&mut self, first: u8, payload: &[u8]) -> io::Result<()> {
        let mut frame = vec![first];
        match payload.len() {
            short @ 0..126 => frame.push(0x80 | short as u8),
            long => {
                frame.push(0x80 | 127);
                frame.extend((long as u64).to_be_bytes());
            }
        }
        frame.extend([1, 2, 3, 4]);
        frame.extend(payload.iter().zip([1, 2, 3, 4].iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.send_raw(&frame)
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// The server is gone.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        let stream = self.reader.get_mut();
        stream.write_all(bytes)?;
        stream.flush()
    }

    /// The next frame: its kind, and what it carries. `None` at the end of the connection.
    pub fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut header = [0; 2];
        self.reader.read_exact(&mut header).ok()?;
        let length = match header[1] {
            126 => self.number::<2>(),
            127 => self.number::<8>(),
            short => u64::from(short),
        };
        let mut payload = vec![0; usize::try_from(length).expect("it fits into memory")];
        self.reader.read_exact(&mut payload).ok()?;
        Some((header[0] & 0x0f, payload))
    }

    fn number<const N: usize>(&mut self) -> u64 {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes).expect("a length");
        bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// What comes until the server closes the WebSocket, by channel.
    pub fn channels(&mut self) -> Vec<Vec<u8>> {
        let mut channels = vec![Vec::new(); 5];
        while let Some((kind, payload)) = self.frame() {
            match kind {
                8 => break,
                _ => channels[usize::from(payload[0])].extend_from_slice(&payload[1..]),
            }
        }
        channels
    }
}
