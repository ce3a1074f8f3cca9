use super::*;
use futures_util::{FutureExt, StreamExt, stream};
use http_body::Body as _;
use http_body_util::BodyExt;

/// The sizes of the frames that a body makes, without waiting.
fn frames(mut body: Body) -> Vec<usize> {
    let mut sizes = Vec::new();
    while let Some(Some(frame)) = body.frame().now_or_never() {
        sizes.push(frame.expect("no error").into_data().expect("data").len());
    }
    sizes
}

fn pieces(sizes: &[usize]) -> Vec<Bytes> {
    sizes.iter().map(|size| Bytes::from(vec![b'x'; *size])).collect()
}

#[test]
fn small_chunks_are_joined_and_large_ones_go_alone() {
    let check = |sizes: &[usize], expect: &[usize]| {
        let total = sizes.iter().sum::<usize>() as u64;
        let body = Body::chunks(pieces(sizes), Some(total));
        assert_eq!(body.size_hint().exact(), Some(total));
        assert_eq!(frames(body), expect, "{sizes:?}");
    };
    check(&[], &[]);
    check(&[0, 0], &[]);
    check(&[5], &[5]);
    check(&[5, 0, 6], &[11]);
    check(&[100_000, 5, 6], &[100_000, 11]);
    check(&[5, 100_000, 6], &[5, 100_000, 6]);
    check(&[8_000; 5], &[32_000, 8_000]);
}

#[test]
fn a_full_body_knows_its_length_and_an_empty_one_is_at_its_end() {
    assert_eq!(Body::full("abc").size_hint().exact(), Some(3));
    assert!(!Body::full("abc").is_end_stream());
    assert!(Body::full("").is_end_stream());
    assert!(Body::empty().is_end_stream());
    assert_eq!(Body::chunks(pieces(&[1]), None).size_hint().exact(), None);
}

#[test]
fn a_stream_sends_what_is_ready_and_waits_for_the_rest() {
    let ready = stream::iter(pieces(&[3, 4]).into_iter().map(Ok::<_, BodyError>));
    assert_eq!(frames(Body::stream(ready.chain(stream::pending()))), [7]);
}

#[test]
fn an_error_comes_after_the_bytes_before_it() {
    let items = [Ok(Bytes::from_static(b"abc")), Err("broken")];
    let mut body = Body::stream(stream::iter(items));
    let first = body.frame().now_or_never().flatten().expect("a frame").expect("no error");
    assert_eq!(first.into_data().expect("data"), "abc");
    let second = body.frame().now_or_never().flatten().expect("an item").expect_err("the error");
    assert_eq!(second.to_string(), "broken");
    assert!(body.frame().now_or_never().flatten().is_none());
}

#[test]
fn chunks_are_drawn_as_they_are_asked_for() {
    let (sender, drawn) = std::sync::mpsc::channel();
    let chunks = (0..100).map(move |i| {
        sender.send(i).expect("the test listens");
        Bytes::from(vec![b'x'; 20_000])
    });
    let mut body = Body::chunks(chunks, None);
    assert!(body.frame().now_or_never().is_some());
    assert_eq!(drawn.try_iter().count(), 1);
}
