//! A small aggregated API server: one group with one resource, over HTTPS.
//!
//! `sample-apiserver CERT KEY [PORT]` listens on that port or a free one, prints it, and answers `/apis/sample.test/v1`: discovery, a list,
//! `echo` (who the front proxy says is asking), `stream` (a body in two parts, the second one a second later) and
//! `upgrade` (a line, sent back over a switched protocol).

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

type Body = BoxBody<Bytes, Infallible>;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let (certificate, key) = (arguments.next().expect("CERT"), arguments.next().expect("KEY"));
    let chain = vec![CertificateDer::from_pem_file(certificate).expect("a certificate")];
    let key = PrivateKeyDer::from_pem_file(key).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has suites")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("certificate and key fit");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let port = arguments.next().map_or(0, |port| port.parse().expect("a port"));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.expect("a port");
    println!("{}", listener.local_addr().expect("bound").port());
    loop {
        let (tcp, _) = listener.accept().await.expect("accepts");
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let Ok(tls) = acceptor.accept(tcp).await else { return };
            let connection = http1::Builder::new().serve_connection(TokioIo::new(tls), service_fn(answer));
            let _ = connection.with_upgrades().await; // a client that goes away is no failure
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().trim_end_matches('/').to_owned();
    Ok(match path.as_str() {
        "/apis/sample.test/v1" => document(
            StatusCode::OK,
            &json!({
                "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "sample.test/v1",
                "resources": [{
                    "name": "widgets", "singularName": "widget", "namespaced": false, "kind": "Widget", "verbs": ["get", "list"],
                }],
            }),
        ),
        "/apis/sample.test/v1/widgets" => document(
            StatusCode::OK,
            &json!({
                "kind": "WidgetList", "apiVersion": "sample.test/v1", "metadata": {"resourceVersion": "1"},
                "items": [{"metadata": {"name": "one"}}],
            }),
        ),
        "/apis/sample.test/v1/echo" => {
            let headers = names(request.headers());
            let body = request.into_body().collect().await.map(|b| b.to_bytes()).unwrap_or_default();
            document(StatusCode::OK, &json!({"headers": headers, "body": String::from_utf8_lossy(&body)}))
        }
        "/apis/sample.test/v1/stream" => {
            let parts = stream::unfold(0, |part| async move {
                match part {
                    0 => Some((Ok(Frame::data(Bytes::from_static(b"first\n"))), 1)),
                    1 => {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        Some((Ok(Frame::data(Bytes::from_static(b"second\n"))), 2))
                    }
                    _ => None,
                }
            });
            Response::new(BodyExt::boxed(StreamBody::new(
                Box::pin(parts) as std::pin::Pin<Box<dyn futures_util::Stream<Item = _> + Send + Sync>>
            )))
        }
        "/apis/sample.test/v1/upgrade" => upgrade(request),
        _ => document(StatusCode::NOT_FOUND, &json!({"kind": "Status", "code": 404})),
    })
}

fn names(headers: &HeaderMap) -> Vec<String> {
    headers.iter().map(|(k, v)| format!("{k}: {}", String::from_utf8_lossy(v.as_bytes()))).collect()
}

fn document(status: StatusCode, value: &serde_json::Value) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(value.to_string())).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

/// Switches protocols, and then sends back the line that it receives.
fn upgrade(request: Request<Incoming>) -> Response<Body> {
    tokio::spawn(async move {
        let Ok(upgraded) = hyper::upgrade::on(request).await else { return };
        let mut io = TokioIo::new(upgraded);
        let mut buffer = [0; 1024];
        while let Ok(n @ 1..) = io.read(&mut buffer).await {
            if io.write_all(&buffer[..n]).await.is_err() || buffer[..n].contains(&b'\n') {
                break;
            }
        }
        let _ = io.shutdown().await;
    });
    let mut response = Response::new(Full::new(Bytes::new()).boxed());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, header::HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, header::HeaderValue::from_static("echo"));
    response
}
