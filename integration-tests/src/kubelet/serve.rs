//! The kubelet's paths.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
    upgrade::OnUpgrade,
};
use hyper_util::rt::TokioIo;
use streaming::websocket::{Handshake, asked_protocols, is_websocket};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};

use super::{command, forward};

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Serves the requests of one connection.
pub(super) async fn connection<T>(io: T, asked: mpsc::UnboundedSender<String>)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let answer = answer(request, &asked);
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    // Clients come and go.
    let _ = http.title_case_headers(true).serve_connection(TokioIo::new(io), service).with_upgrades().await;
}

fn answer(mut request: Request<Incoming>, asked: &mpsc::UnboundedSender<String>) -> Answer {
    let uri = request.uri().clone();
    let protocols = request.headers().get_all("x-stream-protocol-version").iter();
    let protocols: Vec<String> = protocols.map(|value| value.to_str().unwrap_or_default().to_owned()).collect();
    // Nobody may be interested.
    let _ = asked.send(format!("{} {uri} {}", request.method(), protocols.join(",")).trim_end().to_owned());
    let upgrade = hyper::upgrade::on(&mut request);
    let headers = request.headers();
    let query = query(uri.query().unwrap_or_default());
    let all = |name: &str| query.iter().filter(|(own, _)| own == name).map(|(_, value)| value.clone()).collect();
    let has = |name: &str| query.iter().any(|(own, value)| own == name && matches!(value.as_str(), "1" | "true"));
    let streams = command::Wanted { stdin: has("input"), stdout: has("output"), stderr: has("error"), tty: has("tty") };
    match uri.path().split('/').nth(1).unwrap_or_default() {
        "containerLogs" if has("follow") => followed(),
        "containerLogs" => whole(StatusCode::OK, "one line\nanother line\n"),
        "exec" => run(&request, upgrade, all("command"), streams),
        "attach" => run(&request, upgrade, vec!["cat".to_owned()], streams),
        "portForward" => forwarded(headers, &protocols, upgrade),
        _ => whole(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}

fn whole(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(text.into()).boxed());
    *answer.status_mut() = status;
    answer
}

/// A log that is still written while it is read.
fn followed() -> Answer {
    let lines = (1..=5).map(|i| Ok(Frame::data(Bytes::from(format!("line {i}\n")))));
    let body = StreamBody::new(stream::iter(lines).then(|line| async {
        tokio::task::yield_now().await;
        line
    }));
    Response::new(BodyExt::boxed(body))
}

/// The pairs of a query, decoded.
fn query(text: &str) -> Vec<(String, String)> {
    let decode = |text: &str| {
        let mut out = Vec::new();
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            out.push(match byte {
                b'+' => b' ',
                b'%' => {
                    let digits: Vec<u8> = bytes.by_ref().take(2).collect();
                    u8::from_str_radix(&String::from_utf8_lossy(&digits), 16).expect("an escape")
                }
                other => other,
            });
        }
        String::from_utf8_lossy(&out).into_owned()
    };
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(|(k, v)| (decode(k), decode(v))).collect()
}

/// Runs a command for a client that speaks either protocol.
fn run(request: &Request<Incoming>, upgrade: OnUpgrade, command: Vec<String>, wanted: command::Wanted) -> Answer {
    if command.first().is_some_and(|first| first == "refuse") {
        return whole(StatusCode::NOT_FOUND, r#"{"message":"no such container"}"#);
    }
    let headers = request.headers();
    if is_websocket(headers) {
        let Some(protocol) = asked_protocols(headers).find(|protocol| *protocol == "v4.channel.k8s.io") else {
            return whole(StatusCode::FORBIDDEN, "");
        };
        let Ok(handshake) = Handshake::read(request.method(), headers) else {
            return whole(StatusCode::BAD_REQUEST, "");
        };
        tokio::spawn(async move {
            if let Ok(io) = upgrade.await {
                command::over_websocket(TokioIo::new(io), command, wanted).await;
            }
        });
        return switched(handshake.answer(Some(protocol)));
    }
    let asked = headers.get_all("x-stream-protocol-version").iter();
    // Kubelets know no fifth version of SPDY's protocol.
    if !asked.flat_map(|value| value.to_str()).any(|value| value.contains("v4.channel.k8s.io")) {
        return whole(StatusCode::FORBIDDEN, "unable to upgrade: unable to negotiate protocol");
    }
    tokio::spawn(async move {
        if let Ok(io) = upgrade.await {
            command::over_spdy(TokioIo::new(io), command, wanted).await;
        }
    });
    switched(to_spdy("v4.channel.k8s.io"))
}

fn forwarded(headers: &HeaderMap, protocols: &[String], upgrade: OnUpgrade) -> Answer {
    let speaks = headers.get(header::UPGRADE).is_some_and(|value| value == "SPDY/3.1");
    if !speaks || !protocols.iter().any(|protocol| protocol == "portforward.k8s.io") {
        return whole(StatusCode::FORBIDDEN, "unable to upgrade: unable to negotiate protocol");
    }
    tokio::spawn(async move {
        if let Ok(io) = upgrade.await {
            forward::ports(TokioIo::new(io)).await;
        }
    });
    switched(to_spdy("portforward.k8s.io"))
}

fn to_spdy(protocol: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("SPDY/3.1"));
    headers.insert("x-stream-protocol-version", HeaderValue::from_static(protocol));
    headers
}

fn switched(headers: HeaderMap) -> Answer {
    let mut answer = whole(StatusCode::SWITCHING_PROTOCOLS, "");
    *answer.headers_mut() = headers;
    answer
}
