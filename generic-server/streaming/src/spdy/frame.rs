//! Frames: their types and flags, and their form as bytes.

use bytes::{BufMut as _, BytesMut};

/// The version in control frames; 3.1 says 3.
const VERSION: u16 = 3;

pub(super) const SYN_STREAM: u16 = 1;
pub(super) const SYN_REPLY: u16 = 2;
pub(super) const RST_STREAM: u16 = 3;
pub(super) const SETTINGS: u16 = 4;
pub(super) const PING: u16 = 6;
pub(super) const GOAWAY: u16 = 7;
pub(super) const HEADERS: u16 = 8;
pub(super) const WINDOW_UPDATE: u16 = 9;

/// The sender of a frame with this flag sends no more on the stream.
pub(super) const FIN: u8 = 1;
/// The receiver of a SYN_STREAM with this flag may send nothing on the stream.
pub(super) const UNIDIRECTIONAL: u8 = 2;

/// Reasons of RST_STREAM.
pub(super) const PROTOCOL_ERROR: u32 = 1;
pub(super) const REFUSED_STREAM: u32 = 3;
pub(super) const CANCEL: u32 = 5;

/// Appends a control frame.
pub(super) fn control(out: &mut BytesMut, kind: u16, flags: u8, payload: &[&[u8]]) {
    let length: usize = payload.iter().map(|part| part.len()).sum();
    out.reserve(8 + length);
    out.put_u16(0x8000 | VERSION);
    out.put_u16(kind);
    out.put_u32(u32::from(flags) << 24 | u32::try_from(length).unwrap_or(u32::MAX) & 0x00ff_ffff);
    for part in payload {
        out.put_slice(part);
    }
}

/// The eight bytes before a data frame's payload.
pub(super) fn data_header(stream: u32, flags: u8, length: usize) -> [u8; 8] {
    let mut header = [0; 8];
    header[..4].copy_from_slice(&stream.to_be_bytes());
    let length = u32::try_from(length).expect("pieces are small") | u32::from(flags) << 24;
    header[4..].copy_from_slice(&length.to_be_bytes());
    header
}

/// RST_STREAM.
pub(super) fn reset(out: &mut BytesMut, stream: u32, reason: u32) {
    control(out, RST_STREAM, 0, &[&stream.to_be_bytes(), &reason.to_be_bytes()]);
}

/// PING.
pub(super) fn ping(out: &mut BytesMut, id: u32) {
    control(out, PING, 0, &[&id.to_be_bytes()]);
}

/// GOAWAY, with the status that nothing is wrong.
pub(super) fn go_away(out: &mut BytesMut, last: u32) {
    control(out, GOAWAY, 0, &[&last.to_be_bytes(), &0_u32.to_be_bytes()]);
}
