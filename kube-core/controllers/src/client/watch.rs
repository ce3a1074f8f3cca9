//! A watch as its events come: a line each.

use bytes::{Buf, BytesMut};
use generic_server::Body;
use http_body_util::BodyExt;
use machinery::{Value, codec::json, meta::status::Status};

/// No event is longer; one that is would be kept in memory.
const LONGEST: usize = 16 << 20;

/// The body of a watch.
pub(crate) struct Watch {
    body: Body,
    /// What has come and is no whole line yet.
    begun: BytesMut,
}

impl Watch {
    pub(super) fn new(body: Body) -> Self {
        Watch { body, begun: BytesMut::new() }
    }

    /// The next event; none when the watch has ended as it should.
    pub(crate) async fn next(&mut self) -> Option<Result<Value, Status>> {
        let mut looked = 0;
        loop {
            if let Some(end) = self.begun[looked..].iter().position(|byte| *byte == b'\n') {
                let line = self.begun.split_to(looked + end);
                self.begun.advance(1);
                looked = 0;
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Some(json::decode(&line).map_err(Status::internal_error));
            }
            looked = self.begun.len();
            if looked > LONGEST {
                return Some(Err(Status::internal_error(format!("an event of more than {LONGEST} bytes"))));
            }
            match self.body.frame().await? {
                Ok(frame) => {
                    if let Ok(data) = frame.into_data() {
                        self.begun.extend_from_slice(&data);
                    }
                }
                Err(error) => return Some(Err(Status::internal_error(error.to_string()))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use futures_util::{StreamExt, stream};

    use super::*;

    #[tokio::test]
    async fn events_come_in_whatever_pieces() {
        let pieces = ["{\"type\":\"ADD", "ED\"}\n\n{\"type\":", "\"DELETED\"}\n", "{\"type\":\"cut"];
        let pieces = stream::iter(pieces).map(|piece| Ok::<_, Infallible>(Bytes::from_static(piece.as_bytes())));
        let mut watch = Watch::new(Body::stream(pieces));
        let mut types = Vec::new();
        while let Some(event) = watch.next().await {
            types.push(event.expect("JSON").str_at(&["type"]).expect("a type").to_owned());
        }
        assert_eq!(types, ["ADDED", "DELETED"]);
    }
}
