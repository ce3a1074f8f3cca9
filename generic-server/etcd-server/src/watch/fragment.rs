//! Responses of watches in parts, for clients that take none beyond a size.

use prost::Message as _;

use crate::proto::{Event, WatchResponse};

/// Bytes that are left for what is not events.
const REST: usize = 64;

/// Cuts a response so that no part is larger than `most`, unless one event is. All parts but the last say that more follows.
pub(super) fn fragments(response: WatchResponse, most: usize) -> Vec<WatchResponse> {
    if most == usize::MAX || response.events.len() < 2 || response.encoded_len() + REST < most {
        return vec![response];
    }
    let mut parts: Vec<(Vec<Event>, usize)> = Vec::new();
    for event in response.events {
        let size = event.encoded_len() + 8;
        match parts.last_mut() {
            Some((events, bytes)) if *bytes + size + REST < most => {
                events.push(event);
                *bytes += size;
            }
            _ => parts.push((vec![event], size)),
        }
    }
    let last = parts.len() - 1;
    let watch_id = response.watch_id;
    let part = |(at, (events, _)): (usize, (Vec<Event>, usize))| WatchResponse {
        watch_id,
        events,
        fragment: at < last,
        ..WatchResponse::default()
    };
    parts.into_iter().enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::proto::KeyValue;

    #[test]
    fn a_large_response_is_cut_between_events() {
        let event = |size: usize| {
            let kv = KeyValue { value: Bytes::from(vec![0; size]), ..KeyValue::default() };
            Event { kv: Some(kv), ..Event::default() }
        };
        let check = |sizes: &[usize], most: usize, expect: &[(usize, bool)]| {
            let events = sizes.iter().map(|size| event(*size)).collect();
            let parts = fragments(WatchResponse { watch_id: 7, events, ..WatchResponse::default() }, most);
            assert!(parts.iter().all(|part| part.watch_id == 7));
            let told: Vec<_> = parts.iter().map(|part| (part.events.len(), part.fragment)).collect();
            assert_eq!(told, expect, "{sizes:?}");
            assert!(parts.iter().all(|part| part.events.len() == 1 || part.encoded_len() < most));
        };
        check(&[400, 400, 400], 1000, &[(2, true), (1, false)]);
        check(&[400, 400], 1000, &[(2, false)]);
        check(&[5000], 1000, &[(1, false)]);
        check(&[5000, 10, 10], 1000, &[(1, true), (2, false)]);
        check(&[400, 400, 400], usize::MAX, &[(3, false)]);
    }
}
