//! What backends do with events: when requests wait, what is cut, what is lost, and that it is counted.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use audit::{
    Ack, Attributes, Auditor, Document, Layer, Metrics, Policy, Recorder, Request, Stage,
    backend::{Backend, Batching, Deliver, DeliveryError, Format, Limits, Log, LogFile, Mode, Output, Webhook},
};
use bytes::Bytes;
use prometheus::Registry;
use serde_json::Value as Json;
use tokio::sync::Semaphore;

const POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]";

struct Fixture {
    registry: Registry,
    metrics: Metrics,
}

impl Fixture {
    fn new() -> Self {
        let registry = Registry::new();
        Fixture { metrics: Metrics::new(&registry), registry }
    }

    fn auditor(&self, backend: Backend) -> Arc<Auditor> {
        let policy = Policy::read(POLICY.as_bytes()).expect("a policy").policy;
        Auditor::new(policy, vec![backend], self.metrics.clone())
    }

    fn log(&self, folder: &Path, format: Format, mode: Mode, limits: Option<Limits>) -> Arc<Auditor> {
        let file = LogFile {
            path: folder.join("audit.log"),
            max_bytes: Some(1 << 20),
            max_age_days: 0,
            max_backups: 0,
            compress: false,
        };
        let log = Log::file(file, format, &self.metrics).expect("a log");
        self.auditor(Backend::new(Output::Log(log), mode, limits, &self.metrics))
    }

    fn webhook(&self, client: &Arc<Client>, mode: Mode) -> Arc<Auditor> {
        let webhook = Webhook::new(client.clone(), Duration::from_secs(10), &self.metrics);
        self.auditor(Backend::new(Output::Webhook(webhook), mode, None, &self.metrics))
    }

    fn lost(&self, plugin: &str) -> f64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == "apiserver_audit_error_total");
        let of_plugin = |metric: &&prometheus::proto::Metric| metric.get_label()[0].value() == plugin;
        family
            .and_then(|family| family.get_metric().iter().find(of_plugin))
            .map_or(0.0, |m| m.get_counter().get_value())
    }
}

fn begun(auditor: &Arc<Auditor>, id: &str) -> Recorder {
    let recorder = Recorder::new(Some(auditor), &id.into(), Instant::now());
    recorder.begin(&Attributes { verb: "get", path: "/x", ..Attributes::default() }, Request::default);
    recorder
}

fn complete(auditor: &Arc<Auditor>, id: &str) -> Ack {
    let recorder = begun(auditor, id);
    recorder.answered(200, None);
    recorder.emit(Stage::ResponseComplete)
}

async fn wait(ack: Ack) -> bool {
    ack.wait_until(Instant::now() + Duration::from_secs(3600)).await
}

fn lines(folder: &Path) -> Vec<Json> {
    let text = fs::read_to_string(folder.join("audit.log")).expect("a log");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn batching(buffer: usize, max_size: usize) -> Batching {
    Batching { buffer, max_size, max_wait: Duration::from_secs(30), throttle: None }
}

/// A webhook that takes what it is given permits for, notes it, and fails as often as it is told.
struct Client {
    permits: Semaphore,
    failures: Mutex<u32>,
    tried: Mutex<u32>,
    lists: Mutex<Vec<Vec<String>>>,
}

impl Client {
    fn new(permits: usize, failures: u32) -> Arc<Self> {
        let permits = Semaphore::new(permits);
        Arc::new(Client { permits, failures: failures.into(), tried: Mutex::default(), lists: Mutex::default() })
    }

    fn lists(&self) -> Vec<Vec<String>> {
        self.lists.lock().expect("not poisoned").clone()
    }

    fn tried(&self) -> u32 {
        *self.tried.lock().expect("not poisoned")
    }
}

#[async_trait]
impl Deliver for Client {
    async fn deliver(&self, list: Bytes) -> Result<(), DeliveryError> {
        self.permits.acquire().await.map_err(|e| DeliveryError(e.into()))?.forget();
        *self.tried.lock().expect("not poisoned") += 1;
        {
            let mut failures = self.failures.lock().expect("not poisoned");
            if *failures > 0 {
                *failures -= 1;
                return Err(DeliveryError("down".into()));
            }
        }
        let list: Json = serde_json::from_slice(&list).expect("JSON");
        assert_eq!((&list["kind"], &list["apiVersion"]), (&"EventList".into(), &"audit.k8s.io/v1".into()));
        let items = list["items"].as_array().expect("items");
        assert!(items.iter().all(|item| item.get("kind").is_none()), "items do not say what they are");
        let ids = items.iter().map(|item| item["auditID"].as_str().expect("an id").to_owned()).collect();
        self.lists.lock().expect("not poisoned").push(ids);
        Ok(())
    }
}

#[tokio::test]
async fn in_blocking_mode_an_event_is_written_before_its_request_goes_on() {
    let (folder, fixture) = (tempfile::tempdir().expect("a folder"), Fixture::new());
    let auditor = fixture.log(folder.path(), Format::Json, Mode::Blocking, None);
    let recorder = begun(&auditor, "a");
    assert!(recorder.emit(Stage::RequestReceived).is_ready(), "only the last event is waited for");
    recorder.answered(200, None);
    assert!(wait(recorder.emit(Stage::ResponseComplete)).await);
    let stages: Vec<Json> = lines(folder.path()).iter().map(|line| line["stage"].clone()).collect();
    assert_eq!(stages, ["RequestReceived", "ResponseComplete"]);
}

#[tokio::test]
async fn the_log_can_be_text() {
    let (folder, fixture) = (tempfile::tempdir().expect("a folder"), Fixture::new());
    let auditor = fixture.log(folder.path(), Format::Legacy, Mode::Blocking, None);
    assert!(wait(complete(&auditor, "a")).await);
    let text = fs::read_to_string(folder.path().join("audit.log")).expect("a log");
    assert!(
        text.contains(" AUDIT: id=\"a\" stage=\"ResponseComplete\"") && text.ends_with("response=\"200\"\n"),
        "{text}"
    );
}

#[tokio::test]
async fn bodies_that_make_an_event_too_long_are_left_out_and_counted_where_that_is_not_enough() {
    let (folder, fixture) = (tempfile::tempdir().expect("a folder"), Fixture::new());
    let limits = Limits { event: 600, batch: 1000 };
    let auditor = fixture.log(folder.path(), Format::Json, Mode::BlockingStrict, Some(limits));
    for (id, size) in [("short", 10), ("long", 1000), ("odd", 5)] {
        let recorder = begun(&auditor, id);
        recorder.answered(200, None);
        recorder.response(Document::Json(vec![format!("\"{}\"", "x".repeat(size)).into()]));
        if id == "odd" {
            recorder.patch(&"no JSON".into());
        }
        assert!(wait(recorder.emit(Stage::ResponseComplete)).await, "{id}: what is cut is no failure");
    }
    assert!(wait(complete(&auditor, &"x".repeat(700))).await);
    let lines = lines(folder.path());
    let shown: Vec<_> =
        lines.iter().map(|line| (line["auditID"].as_str(), line.get("responseObject").is_some())).collect();
    assert_eq!(shown, [(Some("short"), true), (Some("long"), false)]);
    assert_eq!(lines[1]["annotations"]["audit.k8s.io/truncated"], "true");
    assert_eq!(fixture.lost("truncate"), 2.0, "one is no JSON, one is too long without bodies");
}

#[tokio::test]
async fn what_finds_no_room_in_batch_mode_is_counted_and_nobody_waits() {
    let (client, fixture) = (Client::new(0, 0), Fixture::new());
    let auditor = fixture.webhook(&client, Mode::Batch(batching(3, 2)));
    // Nothing was taken out of the queue yet: no task has run.
    for i in 0..5 {
        assert!(complete(&auditor, &i.to_string()).is_ready(), "nobody waits");
    }
    assert_eq!(fixture.lost("buffered"), 2.0);
    client.permits.add_permits(10);
    auditor.close().await;
    assert_eq!(client.lists(), [vec!["0", "1"], vec!["2"]]);
    assert!(complete(&auditor, "late").is_ready());
    assert_eq!(fixture.lost("buffered"), 3.0, "nothing is taken after the end");
}

#[tokio::test(start_paused = true)]
async fn a_batch_goes_when_it_is_full_or_has_waited_long_enough() {
    let (client, fixture) = (Client::new(10, 0), Fixture::new());
    let auditor = fixture.webhook(&client, Mode::Batch(batching(10, 2)));
    for id in ["a", "b", "c"] {
        complete(&auditor, id);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(client.lists(), [vec!["a", "b"]]);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(client.lists(), [vec!["a", "b"], vec!["c"]]);
}

#[tokio::test(start_paused = true)]
async fn batches_are_throttled() {
    let (client, fixture) = (Client::new(10, 0), Fixture::new());
    let throttle = Some((0.1, 2));
    let auditor = fixture.webhook(&client, Mode::Batch(Batching { throttle, ..batching(10, 1) }));
    for id in ["a", "b", "c"] {
        complete(&auditor, id);
    }
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(client.lists().len(), 2, "two at once");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(client.lists().len(), 3, "and one in ten seconds");
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_fails_is_tried_five_times_with_growing_pauses() {
    let (client, fixture) = (Client::new(100, 4), Fixture::new());
    let auditor = fixture.webhook(&client, Mode::BlockingStrict);
    let begun = tokio::time::Instant::now();
    assert!(wait(complete(&auditor, "a")).await);
    let took = begun.elapsed().as_secs_f64();
    let pauses = 10.0 * (1.0 + 1.5 + 2.25 + 3.375);
    assert!((pauses..=pauses * 1.2 + 0.1).contains(&took), "{took}");
    *client.failures.lock().expect("not poisoned") = 5;
    assert!(!wait(complete(&auditor, "b")).await);
    assert_eq!((client.tried(), fixture.lost("webhook")), (10, 1.0));
}

#[tokio::test(start_paused = true)]
async fn a_dead_webhook_holds_a_request_no_longer_than_it_may_take() {
    let fixture = Fixture::new();
    for (mode, expect) in [(Mode::Blocking, true), (Mode::BlockingStrict, false)] {
        let auditor = fixture.webhook(&Client::new(0, 0), mode.clone());
        let ack = begun(&auditor, "a").emit(Stage::RequestReceived);
        let soon = (tokio::time::Instant::now() + Duration::from_secs(60)).into_std();
        assert_eq!(ack.wait_until(soon).await, expect, "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_server_does_not_wait_for_pauses() {
    let (client, fixture) = (Client::new(100, 100), Fixture::new());
    let auditor = fixture.webhook(&client, Mode::Batch(batching(10, 1)));
    complete(&auditor, "a");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begun = tokio::time::Instant::now();
    auditor.close().await;
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!((client.tried(), fixture.lost("webhook")), (2, 1.0), "it is tried once more");
}

#[tokio::test]
async fn a_log_that_cannot_be_written_fails_strict_requests_alone() {
    for (mode, expect) in [(Mode::Blocking, true), (Mode::BlockingStrict, false)] {
        let (folder, fixture) = (tempfile::tempdir().expect("a folder"), Fixture::new());
        let auditor = fixture.log(folder.path(), Format::Json, mode.clone(), None);
        let path = folder.path().join("audit.log");
        fs::remove_file(&path).expect("removed");
        fs::create_dir(&path).expect("a folder in its place");
        fs::create_dir(path.join("x")).expect("which is not empty");
        let recorder = begun(&auditor, "a");
        recorder.answered(200, None);
        assert_eq!(wait(recorder.emit(Stage::ResponseComplete)).await, expect, "{mode:?}");
        assert_eq!(fixture.lost("log"), 1.0);
    }
}

#[tokio::test]
async fn large_events_are_written_whole() {
    let (folder, fixture) = (tempfile::tempdir().expect("a folder"), Fixture::new());
    let auditor = fixture.log(folder.path(), Format::Json, Mode::Blocking, None);
    let recorder = begun(&auditor, "a");
    recorder.response(Document::Json(vec!["\"".into(), "x".repeat(200 << 10).into(), "\"".into()]));
    recorder.answered(200, None);
    assert!(wait(recorder.emit(Stage::ResponseComplete)).await);
    assert_eq!(lines(folder.path())[0]["responseObject"].as_str().map(str::len), Some(200 << 10));
}

#[tokio::test]
async fn where_the_time_went_is_noted_of_what_takes_more_than_half_a_second() {
    let folder = tempfile::tempdir().expect("a folder");
    let auditor = Fixture::new().log(folder.path(), Format::Json, Mode::Blocking, None);
    let annotations = async |took: Duration, is_measured: bool| {
        let started = Instant::now().checked_sub(took).expect("the machine has run for a while");
        let recorder = Recorder::new(Some(&auditor), &"id".into(), started);
        let request = || Request { is_measured, ..Request::default() };
        recorder.begin(&Attributes { verb: "get", path: "/x", ..Attributes::default() }, request);
        recorder.took(Layer::Storage, Duration::from_millis(200));
        recorder.took(Layer::Storage, Duration::from_millis(100));
        recorder.took(Layer::QueueWait, Duration::ZERO);
        recorder.took_at_once(Layer::ValidatingWebhook, Duration::from_millis(20));
        recorder.took_at_once(Layer::ValidatingWebhook, Duration::from_millis(10));
        recorder.took_since(Layer::Decode, recorder.clock());
        assert!(wait(recorder.emit(Stage::ResponseComplete)).await);
        let log = fs::read_to_string(folder.path().join("audit.log")).expect("a log");
        let event: Json = serde_json::from_str(log.lines().last().expect("an event")).expect("JSON");
        event["annotations"].clone()
    };
    let key = |layer: &str| format!("apiserver.latency.k8s.io/{layer}");
    let noted = annotations(Duration::from_secs(2), true).await;
    assert_eq!((&noted[key("etcd")], &noted[key("validating-webhook")]), (&"300ms".into(), &"20ms".into()), "{noted}");
    assert!(noted[key("total")].as_str().is_some_and(|total| total.starts_with("2.")), "{noted}");
    assert!(noted[key("decode-response-object")].is_string() && noted[key("apf-queue-wait")].is_null(), "{noted}");
    assert_eq!(annotations(Duration::ZERO, true).await, Json::Null, "it took no time");
    assert_eq!(annotations(Duration::from_secs(2), false).await, Json::Null, "a watch lasts as long as it lasts");
}
