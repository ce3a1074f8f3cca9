//! Begins the span of a request, makes another one below it, and shows what a call to somebody else would carry.

use std::{pin::pin, time::SystemTime};

use http::HeaderMap;
use traces::{Losses, Parent, Tracer};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    // One million of a million: every trace is kept.
    let (tracer, _exporter) = Tracer::new(1_000_000, Losses::default());
    let request =
        tracer.request(Parent::None, ("GET", "3f0d6ad5"), SystemTime::now(), |a| a.text("url.path", "/api/v1/pods"));
    let work = pin!(async {
        let _list = traces::span("List", |a| a.int("limit", 500)).enter();
        let mut headers = HeaderMap::new();
        traces::inject(&mut headers);
        headers
    });
    let headers = request.within(work).await;
    println!("{:?}", headers.get("traceparent"));
}
