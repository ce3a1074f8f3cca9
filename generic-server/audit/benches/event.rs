//! What an event costs the request that it is about: at Metadata, and with the bodies of its object, both to a log file.

use std::{hint::black_box, sync::Arc, time::Instant};

use audit::{
    Attributes, Auditor, Document, Metrics, Policy, Recorder, Request, Stage, User,
    backend::{Backend, Batching, Format, Log, LogFile, Mode, Output},
};
use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use machinery::Str;

fn auditor(level: &str, folder: &std::path::Path) -> Arc<Auditor> {
    let policy = format!(
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{{level: None, users: [a, b]}}, \
         {{level: None, nonResourceURLs: ['/healthz*']}}, {{level: {level}}}]"
    );
    let policy = Policy::read(policy.as_bytes()).expect("a policy").policy;
    let metrics = Metrics::new(&prometheus::Registry::new());
    let file = LogFile {
        path: folder.join("audit.log"),
        max_bytes: Some(100 << 20),
        max_age_days: 0,
        max_backups: 1,
        compress: false,
    };
    let log = Log::file(file, Format::Json, &metrics).expect("a log");
    let batching = Batching { buffer: 10_000, max_size: 1, max_wait: Default::default(), throttle: None };
    let backend = Backend::new(Output::Log(log), Mode::Batch(batching), None, &metrics);
    Auditor::new(policy, vec![backend], metrics)
}

fn event(auditor: &Arc<Auditor>, groups: &[Str], body: Option<&Bytes>) {
    let id = Str::new_static("3f0d6ad5-9b6a-4d47-9a3a-3a0a0c2d2f5e");
    let recorder = Recorder::new(Some(auditor), &id, Instant::now());
    let attributes = Attributes {
        user: Some(("admin", groups)),
        verb: "get",
        is_resource: true,
        path: "/api/v1/namespaces/default/configmaps/one",
        version: "v1",
        resource: "configmaps",
        namespace: "default",
        name: "one",
        ..Attributes::default()
    };
    recorder.begin(&attributes, || Request {
        uri: "/api/v1/namespaces/default/configmaps/one".into(),
        source_ips: vec![[127, 0, 0, 1].into()],
        user_agent: b"kubectl/v1.36.2 (linux/amd64) kubernetes/0000000".to_vec(),
        user: User { name: "admin".into(), groups: groups.to_vec(), ..User::default() },
        received: Some(std::time::SystemTime::now()),
        is_measured: true,
    });
    recorder.annotate("authorization.k8s.io/decision", "allow");
    recorder.annotate("authorization.k8s.io/reason", "");
    recorder.answered(200, None);
    if let Some(body) = body {
        recorder.response(Document::Json(vec![body.clone()]));
    }
    black_box(recorder.emit(Stage::ResponseComplete));
}

fn events(c: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _entered = runtime.enter();
    let groups = [Str::new_static("system:masters"), Str::new_static("system:authenticated")];
    let body = Bytes::from(format!("{{\"data\":{{\"a\":\"{}\"}}}}", "x".repeat(4000)));
    for (level, body) in [("None", None), ("Metadata", None), ("RequestResponse", Some(&body))] {
        let folder = tempfile::tempdir().expect("a folder");
        let auditor = auditor(level, folder.path());
        c.bench_function(&format!("event {level}"), |b| b.iter(|| event(&auditor, &groups, body)));
    }
    c.bench_function("no policy", |b| {
        b.iter(|| black_box(Recorder::new(None, &Str::default(), Instant::now())).emit(Stage::ResponseComplete));
    });
}

criterion_group!(benches, events);
criterion_main!(benches);
