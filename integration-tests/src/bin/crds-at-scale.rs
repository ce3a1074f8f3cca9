//! What thousands of CustomResourceDefinitions cost.
//!
//! `crds-at-scale SERVER [NUMBER]` starts the binary SERVER on a fresh folder, makes NUMBER definitions (1,000) of 40 fields
//! one after the other, and prints how long each took to be served, what it added to the server's resident memory, and
//! how long a start with all of them takes. Then it compares creates of a custom resource of 300 fields with creates of
//! config maps of the same size, by the CPU time that the server spent.
//!
//! Build both with `--release`; nothing else should run meanwhile.

use std::{
    error::Error,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use integration_tests::{Server, tls_config};
use serde_json::{Map, Value, json};
use tokio::net::TcpStream;

type Res<T> = Result<T, Box<dyn Error + Send + Sync>>;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Creates that are compared, of each kind.
const CREATES: usize = 4000;
/// Ticks of /proc/PID/stat in a second.
const TICKS: f64 = 100.0;

/// A connection that is kept open.
struct Connection(SendRequest<Full<Bytes>>);

impl Connection {
    async fn open(port: u16) -> Res<Self> {
        let tcp = TcpStream::connect(("127.0.0.1", port)).await?;
        tcp.set_nodelay(true)?;
        let name = rustls::pki_types::ServerName::try_from("localhost")?;
        let tls = tokio_rustls::TlsConnector::from(Arc::new(tls_config())).connect(name, tcp).await?;
        let (sender, connection) = handshake(TokioIo::new(tls)).await?;
        tokio::spawn(connection);
        Ok(Connection(sender))
    }

    async fn send(&mut self, method: &str, path: &str, body: Option<&Value>) -> Res<StatusCode> {
        let body = body.map(|b| Bytes::from(b.to_string())).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost")
            .header(header::AUTHORIZATION, "Bearer admintoken")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))?;
        self.0.ready().await?;
        let response = self.0.send_request(request).await?;
        let status = response.status();
        response.into_body().collect().await?;
        Ok(status)
    }
}

/// A schema of so many fields, of all common shapes.
fn schema(fields: usize) -> Value {
    let field = |i: usize| {
        let description = format!("Field number {i}, which says at some length what it is for and how it is used.");
        let mut field = match i % 5 {
            0 => json!({"type": "string", "maxLength": 200, "pattern": "^[a-z0-9-]+$"}),
            1 => json!({"type": "integer", "minimum": 0, "maximum": 100_000}),
            2 => json!({"type": "array", "items": {"type": "string"}, "maxItems": 16}),
            3 => json!({"type": "string", "enum": ["Always", "Never", "IfNotPresent"]}),
            _ => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        };
        field["description"] = description.into();
        (format!("field{i}"), field)
    };
    let properties: Map<String, Value> = (0..fields).map(field).collect();
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}})
}

fn definition(group: &str, i: usize, fields: usize) -> Value {
    let plural = format!("things{i}");
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": plural, "singular": format!("thing{i}"), "kind": format!("Thing{i}")},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema(fields)},
            }],
        },
    })
}

/// MiB that the process has in memory.
fn resident(pid: u32) -> Res<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    let kib: f64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
    Ok(kib / 1024.0)
}

/// Seconds of CPU that the process has used.
fn cpu(pid: u32) -> Res<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
    Ok((ticks(11) + ticks(12)) / TICKS)
}

async fn make_definitions(server: &Server, number: usize) -> Res<()> {
    let pid = server.pid().ok_or("not running")?;
    let mut connection = Connection::open(server.port()).await?;
    let before = resident(pid)?;
    println!("empty: {before:.1} MiB");
    let (mut times, cpu_before, begun) = (Vec::with_capacity(number), cpu(pid)?, Instant::now());
    for i in 0..number {
        let group = format!("group{}.scale.test", i / 10);
        let definition = definition(&group, i, 40);
        let since = Instant::now();
        let made = connection.send("POST", DEFINITIONS, Some(&definition)).await?;
        if made != StatusCode::CREATED {
            return Err(format!("definition {i}: {made}").into());
        }
        let path = format!("/apis/{group}/v1/things{i}");
        while connection.send("GET", &path, None).await? != StatusCode::OK {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        times.push(since.elapsed().as_secs_f64() * 1000.0);
    }
    let (elapsed, spent) = (begun.elapsed().as_secs_f64(), cpu(pid)? - cpu_before);
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let count = number as f64;
    println!(
        "create to served: p50 {:.2} ms, p99 {:.2} ms, most {:.2} ms; {:.0} a second, {:.2} ms of CPU each",
        at(0.5),
        at(0.99),
        at(1.0),
        count / elapsed,
        spent * 1000.0 / count
    );
    tokio::time::sleep(Duration::from_secs(3)).await;
    let after = resident(pid)?;
    println!("{number} definitions: {after:.1} MiB, {:.3} MiB each", (after - before) / count);
    Ok(())
}

/// Starts the server again on what it has.
async fn restart(server: &mut Server, number: usize) -> Res<()> {
    server.kill();
    let since = Instant::now();
    server.run();
    let ready = since.elapsed();
    let pid = server.pid().ok_or("not running")?;
    println!("start with {number}: ready after {} ms, {:.1} MiB", ready.as_millis(), resident(pid)?);
    let mut connection = Connection::open(server.port()).await?;
    let since = Instant::now();
    connection.send("GET", "/apis/group0.scale.test/v1/things0", None).await?;
    println!("first list of one resource: {:.2} ms", since.elapsed().as_secs_f64() * 1000.0);
    let since = Instant::now();
    connection.send("GET", "/apis/group0.scale.test/v1", None).await?;
    println!("first discovery of one group version: {:.2} ms", since.elapsed().as_secs_f64() * 1000.0);
    let since = Instant::now();
    connection.send("GET", "/apis", None).await?;
    println!("discovery of all groups: {:.2} ms", since.elapsed().as_secs_f64() * 1000.0);
    Ok(())
}

async fn creates(server: &Server, what: &str, path: &str, object: impl Fn(usize) -> Value) -> Res<f64> {
    let pid = server.pid().ok_or("not running")?;
    let mut connection = Connection::open(server.port()).await?;
    let objects: Vec<Value> = (0..CREATES).map(object).collect();
    let size = objects[0].to_string().len();
    let before = cpu(pid)?;
    for object in &objects {
        let status = connection.send("POST", path, Some(object)).await?;
        if status != StatusCode::CREATED {
            return Err(format!("{what}: {status}").into());
        }
    }
    let each = (cpu(pid)? - before) * 1e6 / CREATES as f64;
    println!("create of a {what} of {size} bytes: {each:.0} µs of CPU");
    Ok(each)
}

async fn compare_creates(server: &Server) -> Res<()> {
    let mut connection = Connection::open(server.port()).await?;
    connection.send("POST", DEFINITIONS, Some(&definition("wide.scale.test", 0, 300))).await?;
    let value = |i: usize| match i % 5 {
        0 => json!(format!("value-{i}")),
        1 => json!(i),
        2 => json!(["a", "b"]),
        3 => json!("Always"),
        _ => json!({"key": "value"}),
    };
    let spec: Map<String, Value> = (0..300).map(|i| (format!("field{i}"), value(i))).collect();
    let data: Map<String, Value> = (0..300).map(|i| (format!("field{i}"), json!(value(i).to_string()))).collect();
    let named = |name: String| json!({"name": name, "namespace": "default"});
    let map = |i: usize| json!({"metadata": named(format!("map{i}")), "data": data});
    let thing = |i: usize| json!({"apiVersion": "wide.scale.test/v1", "kind": "Thing0", "metadata": named(format!("t{i}")), "spec": spec});
    let maps = creates(server, "config map", "/api/v1/namespaces/default/configmaps", map).await?;
    let things =
        creates(server, "custom resource", "/apis/wide.scale.test/v1/namespaces/default/things0", thing).await?;
    println!("difference: {:.0} µs", things - maps);
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Res<()> {
    let mut arguments = std::env::args().skip(1);
    let binary = PathBuf::from(arguments.next().ok_or("usage: crds-at-scale SERVER [NUMBER]")?);
    let number = arguments.next().map_or(Ok(1000), |n| n.parse())?;
    let mut server = Server::prepare();
    server.set_binary(binary);
    server.run();
    make_definitions(&server, number).await?;
    restart(&mut server, number).await?;
    compare_creates(&server).await
}
