//! What a client's messages mean: bytes of channels, and channels that are closed.

use bytes::{Bytes, BytesMut};
use machinery::{Value, json};

use super::{CLOSE, RESIZE};
use crate::websocket::Message;

/// A piece of a message, understood.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Bytes of a channel.
    Data(u8, Bytes),
    /// The client will send nothing more on a channel.
    Close(u8),
    /// Nothing that is of interest.
    Nothing,
    /// What a client that keeps to the protocol does not send.
    Violation,
}

/// Reads messages: the first byte says of which channel they are.
#[derive(Default)]
pub(super) struct Channels {
    /// Of the message that is being read; `None` before its first byte.
    channel: Option<u8>,
    /// The channel that it closes.
    closes: Option<u8>,
}

impl Channels {
    /// The next piece of a message.
    pub(super) fn read(&mut self, mut message: Message) -> Input {
        if message.begins {
            *self = Channels::default();
        }
        if self.channel.is_none() {
            self.channel = message.take_first();
        }
        match self.channel {
            None => Input::Nothing,
            Some(CLOSE) => self.close(message),
            Some(_) if message.bytes.is_empty() => Input::Nothing,
            Some(channel) => Input::Data(channel, message.bytes),
        }
    }

    /// One more byte follows, which names a channel that there is.
    fn close(&mut self, mut message: Message) -> Input {
        if self.closes.is_none() {
            self.closes = message.take_first();
        }
        match self.closes {
            _ if !message.bytes.is_empty() => Input::Violation,
            None if !message.ends => Input::Nothing,
            Some(channel) if channel <= RESIZE => {
                if message.ends {
                    Input::Close(channel)
                } else {
                    Input::Nothing
                }
            }
            _ => Input::Violation,
        }
    }
}

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    width: u16,
    height: u16,
}

impl Size {
    /// As kubelets read it.
    pub(super) fn to_json(self) -> String {
        format!("{{\"Width\":{},\"Height\":{}}}\n", self.width, self.height)
    }

    fn read(document: &[u8]) -> Option<Self> {
        let document = json::decode(document).ok()?;
        let members = document.as_object()?;
        let side = |name: &str| {
            // As Go reads members: in whatever case.
            let found = members.iter().rfind(|(own, _)| own.eq_ignore_ascii_case(name));
            match found.map(|(_, value)| value) {
                None | Some(Value::Null) => Some(0),
                Some(value) => u16::try_from(value.as_i64()?).ok(),
            }
        };
        Some(Size { width: side("Width")?, height: side("Height")? })
    }
}

/// How long the text of a size may be.
const MAX_SIZE: usize = 4096;

/// Sizes in a stream of JSON.
#[derive(Default)]
pub(super) struct Sizes {
    text: BytesMut,
    broken: bool,
}

impl Sizes {
    /// The sizes that these bytes complete. After what is none there are no more.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Vec<Size> {
        let mut sizes = Vec::new();
        for byte in bytes {
            if self.broken {
                break;
            }
            if self.text.is_empty() && byte.is_ascii_whitespace() {
                continue;
            }
            self.text.extend_from_slice(&[*byte]);
            // Sizes are flat: the first brace that closes is the end of one.
            if *byte == b'}' {
                let size = Size::read(&self.text);
                self.text.clear();
                sizes.extend(size);
                self.broken = size.is_none();
            }
            self.broken |= self.text.len() > MAX_SIZE || self.text.first().is_some_and(|first| *first != b'{');
        }
        sizes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(begins: bool, ends: bool, bytes: &'static [u8]) -> Message {
        Message { begins, ends, is_text: false, bytes: Bytes::from_static(bytes) }
    }

    #[test]
    fn the_first_byte_is_the_channel() {
        let check = |pieces: Vec<Message>, expect: &[Input]| {
            let mut channels = Channels::default();
            let found: Vec<Input> = pieces.into_iter().map(|piece| channels.read(piece)).collect();
            assert_eq!(found, expect);
        };
        let data = |channel, bytes: &'static [u8]| Input::Data(channel, Bytes::from_static(bytes));
        let whole = |bytes| vec![piece(true, true, bytes)];
        check(whole(b"\x00abc"), &[data(0, b"abc")]);
        check(whole(b"\x00"), &[Input::Nothing]);
        check(whole(b""), &[Input::Nothing]);
        check(whole(b"\x09abc"), &[data(9, b"abc")]);
        check(whole(b"\xff\x00"), &[Input::Close(0)]);
        check(whole(b"\xff\x04"), &[Input::Close(4)]);
        check(whole(b"\xff\x05"), &[Input::Violation]);
        check(whole(b"\xff"), &[Input::Violation]);
        check(whole(b"\xff\x00\x00"), &[Input::Violation]);
        let parts = vec![piece(true, false, b""), piece(false, false, b"\x00a"), piece(false, true, b"\xff\x01")];
        check(parts, &[Input::Nothing, data(0, b"a"), data(0, b"\xff\x01")]);
        let parts = vec![piece(true, false, b"\xff"), piece(false, false, b"\x00"), piece(false, true, b"")];
        check(parts, &[Input::Nothing, Input::Nothing, Input::Close(0)]);
        let next = vec![piece(true, true, b"\xff\x00"), piece(true, true, b"\x00b")];
        check(next, &[Input::Close(0), data(0, b"b")]);
    }

    #[test]
    fn sizes_come_in_whatever_parts() {
        let check = |parts: &[&str], expect: &[(u16, u16)]| {
            let mut sizes = Sizes::default();
            let found: Vec<(u16, u16)> =
                parts.iter().flat_map(|part| sizes.read(part.as_bytes())).map(|s| (s.width, s.height)).collect();
            assert_eq!(found, expect, "{parts:?}");
        };
        check(&[r#"{"Width":80,"Height":24}"#], &[(80, 24)]);
        check(&[r#" {"width":80,"#, "\"HEIGHT\":24}\n{}", r#"{"Width":1}"#], &[(80, 24), (0, 0), (1, 0)]);
        check(&[r#"{"Width":65536,"Height":1}{"Width":1}"#], &[]);
        check(&[r#"{"Width":-1}"#, r#"{"Width":1}"#], &[]);
        check(&["[1]", r#"{"Width":1}"#], &[]);
        check(&[&format!("{{\"x\":\"{}", "x".repeat(MAX_SIZE)), "\"}", "{}"], &[]);
        assert_eq!(Size { width: 80, height: 24 }.to_json(), "{\"Width\":80,\"Height\":24}\n");
    }
}
