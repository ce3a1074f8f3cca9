//! What comparing answers with etcd's does not show: watches that live, leases that expire, what is kept over a start, HTTP, TLS.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::time::Duration;

use etcd_client::{
    AlarmAction, AlarmType, Certificate, Client, Compare, CompareOp, ConnectOptions, EventType, GetOptions, Identity,
    LeaseGrantOptions, PutOptions, TlsOptions, Txn, TxnOp, WatchOptions, WatchStream,
};
use etcd_server::{Config, Listen, TlsFiles, database::Limits};
use support::{Own, config};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

struct Running {
    server: Own,
    client: Client,
    folder: tempfile::TempDir,
}

async fn running(change: impl FnOnce(&mut Config)) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(&folder.path().join("data"));
    change(&mut config);
    let server = Own::start(config).await;
    Running { client: server.client().await, server, folder }
}

impl Running {
    /// Stops the server and starts it again on its data.
    async fn again(self) -> Running {
        let Running { server, folder, .. } = self;
        server.stop().await;
        let server = Own::start(config(&folder.path().join("data"))).await;
        Running { client: server.client().await, server, folder }
    }
}

async fn put(client: &mut Client, key: &str, value: &str) -> i64 {
    client.put(key, value, None).await.unwrap().header().unwrap().revision()
}

async fn keys(client: &mut Client) -> Vec<String> {
    let all = client.get("\0", Some(GetOptions::new().with_from_key())).await.unwrap();
    all.kvs().iter().map(|kv| kv.key_str().unwrap().to_owned()).collect()
}

/// The next response with events, briefly: revision and key of each, and a sign for deletes.
async fn events(stream: &mut WatchStream) -> Vec<(i64, String)> {
    loop {
        let message = stream.message().await.unwrap().unwrap();
        assert!(!message.canceled(), "{message:?}");
        if message.events().is_empty() {
            continue;
        }
        let told = |event: &etcd_client::Event| {
            let kv = event.kv().unwrap();
            let sign = if event.event_type() == EventType::Delete { "-" } else { "" };
            (kv.mod_revision(), format!("{sign}{}", kv.key_str().unwrap()))
        };
        return message.events().iter().map(told).collect();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_stream_has_many_watches_which_come_and_go() {
    let Running { server, mut client, folder: _folder } = running(|_| {}).await;
    let all = WatchOptions::new().with_prefix();
    let mut stream = client.watch("a", Some(all.clone().with_watch_id(7))).await.unwrap();
    assert_eq!(stream.message().await.unwrap().unwrap().watch_id(), 7);
    stream.watch("b", Some(all.clone())).await.unwrap();
    let created = stream.message().await.unwrap().unwrap();
    assert!(created.created() && created.watch_id() == 0, "{created:?}");
    // A number that is taken, and a range that nothing is in.
    stream.watch("c", Some(all.clone().with_watch_id(7))).await.unwrap();
    let refused = stream.message().await.unwrap().unwrap();
    assert_eq!((refused.created(), refused.canceled(), refused.watch_id()), (true, true, -1));
    assert_eq!(refused.cancel_reason(), "mvcc: duplicate watch ID provided on the WatchStream");
    stream.watch("c", Some(WatchOptions::new().with_range("b"))).await.unwrap();
    let refused = stream.message().await.unwrap().unwrap();
    assert_eq!((refused.canceled(), refused.cancel_reason()), (true, "mvcc: watcher range is empty"));
    // One transaction is told to each in one response.
    let ops = ["a1", "b1", "a2"].map(|key| TxnOp::put(key, "v", None));
    client.txn(Txn::new().and_then(ops)).await.unwrap();
    let mut told = Vec::new();
    for _ in 0..2 {
        let message = stream.message().await.unwrap().unwrap();
        let keys = message.events().iter().map(|event| event.kv().unwrap().key_str().unwrap()).collect::<Vec<_>>();
        told.push((message.watch_id(), keys.join(" "), message.header().unwrap().revision()));
    }
    told.sort();
    assert_eq!(told, [(0, "b1".to_owned(), 2), (7, "a1 a2".to_owned(), 2)]);
    stream.cancel(7).await.unwrap();
    let canceled = stream.message().await.unwrap().unwrap();
    assert_eq!((canceled.canceled(), canceled.watch_id()), (true, 7));
    put(&mut client, "a3", "v").await;
    put(&mut client, "b3", "v").await;
    assert_eq!(events(&mut stream).await, [(4, "b3".to_owned())], "the one that is gone is told nothing");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_told_after_everything_before_it() {
    let interval = |config: &mut Config| config.progress_interval = Duration::from_millis(20);
    let Running { server, mut client, folder: _folder } = running(interval).await;
    let mut stream = client.watch("quiet", Some(WatchOptions::new().with_progress_notify())).await.unwrap();
    let last = put(&mut client, "a", "1").await;
    loop {
        let message = stream.message().await.unwrap().unwrap();
        if !message.created() {
            assert!(message.events().is_empty());
            assert_eq!(message.watch_id(), 0);
            if message.header().unwrap().revision() == last {
                break;
            }
        }
    }
    // Asked for, on a stream with a watch that begins in the past: it comes when that has been told everything.
    let mut stream = client.watch("a", Some(WatchOptions::new().with_start_revision(2))).await.unwrap();
    let mut seen = 0;
    for n in 0..50 {
        let last = put(&mut client, "a", &n.to_string()).await;
        loop {
            stream.request_progress().await.unwrap();
            let message = stream.message().await.unwrap().unwrap();
            seen = message.events().last().map_or(seen, |event| event.kv().unwrap().mod_revision());
            if message.watch_id() == -1 {
                // Every revision is a change of this key.
                let told = message.header().unwrap().revision();
                assert_eq!(told, seen);
                if told >= last {
                    break;
                }
            }
        }
        assert_eq!(seen, last);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_whose_past_is_gone_is_told_where_to_begin() {
    let Running { server, mut client, folder: _folder } = running(|_| {}).await;
    for n in 0..10 {
        put(&mut client, "a", &n.to_string()).await;
    }
    client.compact(7, None).await.unwrap();
    let mut stream = client.watch("a", Some(WatchOptions::new().with_start_revision(6))).await.unwrap();
    let created = stream.message().await.unwrap().unwrap();
    assert!(created.created() && !created.canceled());
    let ended = stream.message().await.unwrap().unwrap();
    assert_eq!((ended.canceled(), ended.compact_revision()), (true, 7));
    let mut stream = client.watch("a", Some(WatchOptions::new().with_start_revision(7))).await.unwrap();
    let revisions: Vec<i64> = events(&mut stream).await.into_iter().map(|(revision, _)| revision).collect();
    assert_eq!(revisions, [7, 8, 9, 10, 11]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_slow_is_told_everything_in_the_end() {
    let Running { server, mut client, folder: _folder } = running(|_| {}).await;
    let mut slow = client.watch("k", Some(WatchOptions::new().with_prefix().with_prev_key())).await.unwrap();
    // More than is kept in memory, in values and their predecessors.
    let value = vec![b'x'; 1 << 20];
    for n in 0..30 {
        client.put(format!("k{}", n % 3), value.clone(), None).await.unwrap();
    }
    client.delete("k", Some(etcd_client::DeleteOptions::new().with_prefix())).await.unwrap();
    let mut told = Vec::new();
    while told.len() < 33 {
        told.extend(events(&mut slow).await);
    }
    let mut expect: Vec<(i64, String)> = (0..30).map(|n| (n + 2, format!("k{}", n % 3))).collect();
    expect.extend((0..3).map(|n| (32, format!("-k{n}"))));
    assert_eq!(told, expect);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_go_with_their_lease_at_one_revision() {
    let Running { server, mut client, folder: _folder } = running(|_| {}).await;
    assert_eq!(client.lease_grant(1, None).await.unwrap().ttl(), 2, "there is a shortest");
    let lease = client.lease_grant(4, None).await.unwrap();
    for key in ["a", "b"] {
        client.put(key, "v", Some(PutOptions::new().with_lease(lease.id()))).await.unwrap();
    }
    put(&mut client, "c", "v").await;
    client.put("b", "stays", None).await.unwrap();
    let gone = WatchOptions::new().with_from_key().with_start_revision(6);
    let mut stream = client.watch("\0", Some(gone)).await.unwrap();
    assert_eq!(events(&mut stream).await, [(6, "-a".to_owned())]);
    assert_eq!(keys(&mut client).await, ["b", "c"]);
    assert!(client.lease_keep_alive(lease.id()).await.is_err(), "it is gone");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_there_after_a_start() {
    let mut running = running(|_| {}).await;
    let client = &mut running.client;
    let lease = client.lease_grant(1000, Some(LeaseGrantOptions::new().with_id(5))).await.unwrap().id();
    client.put("leased", "v", Some(PutOptions::new().with_lease(lease))).await.unwrap();
    for n in 0..5 {
        put(client, "a", &n.to_string()).await;
    }
    client.delete("a", None).await.unwrap();
    client.compact(8, None).await.unwrap();
    client.alarm(AlarmAction::Activate, AlarmType::Corrupt, None).await.unwrap();
    let before = client.get("leased", None).await.unwrap();
    let mut running = running.again().await;
    let client = &mut running.client;
    let after = client.get("leased", None).await.unwrap();
    assert_eq!(format!("{:?}", after.header()), format!("{:?}", before.header()), "the same cluster, member, revision");
    assert_eq!(format!("{:?}", after.kvs()), format!("{:?}", before.kvs()));
    let left = client.lease_time_to_live(lease, Some(etcd_client::LeaseTimeToLiveOptions::new().with_keys())).await;
    let left = left.unwrap();
    assert_eq!((left.granted_ttl(), left.keys()), (1000, &[b"leased".to_vec()][..]));
    assert_eq!(client.alarm(AlarmAction::Get, AlarmType::None, None).await.unwrap().alarms().len(), 1);
    // The delete is at the revision that was compacted to, and can still be watched.
    let mut stream = client.watch("a", Some(WatchOptions::new().with_start_revision(8))).await.unwrap();
    assert_eq!(events(&mut stream).await, [(8, "-a".to_owned())]);
    assert!(client.get("a", Some(GetOptions::new().with_revision(7))).await.is_err());
    assert_eq!(put(client, "a", "new").await, 9);
    running.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_of_more_than_a_frame_holds_is_one_revision() {
    let Running { server, mut client, folder: _folder } = running(|_| {}).await;
    for part in 0..200 {
        let puts = (0..100).map(|n| TxnOp::put(format!("/a/long/name/of/a/key/{part:04}/{n:04}"), "v", None));
        client.txn(Txn::new().and_then(puts.collect::<Vec<_>>())).await.unwrap();
    }
    let deleted = client.delete("/a", Some(etcd_client::DeleteOptions::new().with_prefix())).await.unwrap();
    assert_eq!((deleted.deleted(), deleted.header().unwrap().revision()), (20_000, 202));
    let mut stream =
        client.watch("/a", Some(WatchOptions::new().with_prefix().with_start_revision(202))).await.unwrap();
    assert_eq!(events(&mut stream).await.len(), 20_000);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_database_takes_deletes_alone_until_the_alarm_is_taken_back() {
    let quota = |config: &mut Config| config.limits = Limits { quota: 24 << 20, ..config.limits.clone() };
    let Running { server, mut client, folder: _folder } = running(quota).await;
    let value = vec![0; 1 << 20];
    let mut refused = None;
    for n in 0..200 {
        if let Err(error) = client.put(format!("k{n}"), value.clone(), None).await {
            refused = Some(error.to_string());
            break;
        }
    }
    let refused = refused.unwrap();
    assert!(refused.contains("etcdserver: mvcc: database space exceeded"), "{refused}");
    let alarms = client.alarm(AlarmAction::Get, AlarmType::None, None).await.unwrap();
    assert_eq!(alarms.alarms().len(), 1);
    assert!(client.status().await.unwrap().errors()[0].contains("NOSPACE"));
    assert!(http(&server, "/health").await.contains(r#"{"health":"false","reason":"ALARM NOSPACE"}"#));
    assert!(http(&server, "/health?exclude=NOSPACE").await.contains(r#"{"health":"true""#));
    let last = client.delete("k", Some(etcd_client::DeleteOptions::new().with_prefix())).await.unwrap();
    client.compact(last.header().unwrap().revision(), None).await.unwrap();
    assert!(client.put("a", "v", None).await.is_err(), "the alarm stays");
    // Checkpoints drop what was compacted; then the file is copied.
    while client.status().await.unwrap().db_size() > 12 << 20 {
        client.defragment().await.unwrap();
    }
    client.alarm(AlarmAction::Deactivate, AlarmType::Nospace, None).await.unwrap();
    put(&mut client, "a", "v").await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_what_another_server_starts_on() {
    let Running { server, mut client, folder } = running(|_| {}).await;
    for n in 0..100 {
        put(&mut client, &format!("k{n:03}"), "v").await;
    }
    let (file, mut bytes, mut left) = (folder.path().join("saved"), Vec::new(), 0);
    let mut stream = client.snapshot().await.unwrap();
    while let Some(piece) = stream.message().await.unwrap() {
        bytes.extend_from_slice(piece.blob());
        left = piece.remaining_bytes();
    }
    assert_eq!((left, bytes.len() % 512), (0, 32), "a checksum is at its end, as clients expect");
    std::fs::write(&file, &bytes).unwrap();
    put(&mut client, "later", "v").await;
    server.stop().await;
    let on = |dir: &str, file: &std::path::Path| {
        let data_dir = folder.path().join(dir);
        Config { from_snapshot: Some(file.to_owned()), ..config(&data_dir) }
    };
    let restored = Own::start(on("restored", &file)).await;
    let mut client = restored.client().await;
    assert_eq!(keys(&mut client).await.len(), 100);
    assert_eq!(put(&mut client, "new", "v").await, 102);
    restored.stop().await;
    let restored = Own::start(on("restored", &file)).await;
    assert_eq!(keys(&mut restored.client().await).await.len(), 101, "a folder that holds something stays as it is");
    restored.stop().await;
    bytes[5000] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    let refused = etcd_server::Server::start(on("damaged", &file)).await.map(drop).unwrap_err();
    assert!(format!("{refused:#}").contains("its checksum is another"), "{refused:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_or_unknown_is_refused_and_harms_nobody() {
    let Running { server, mut client, folder: _folder } = running(|_| {}).await;
    let told = |error: etcd_client::Error| match error {
        etcd_client::Error::GRpcStatus(status) => format!("{:?}: {}", status.code(), status.message()),
        error => error.to_string(),
    };
    let large = client.put("a", vec![0; 1536 << 10], None).await.map_err(told).unwrap_err();
    assert_eq!(large, "InvalidArgument: etcdserver: request is too large");
    let larger = client.put("a", vec![0; 4 << 20], None).await.map_err(told).unwrap_err();
    assert!(larger.starts_with("OutOfRange") || larger.starts_with("ResourceExhausted"), "{larger}");
    // Transactions in transactions: as deep as a message can be.
    let mut txn = Txn::new().and_then([TxnOp::put("deep", "v", None)]);
    for _ in 0..20 {
        txn = Txn::new().when([Compare::version("none", CompareOp::Equal, 0)]).and_then([TxnOp::txn(txn)]);
    }
    assert!(client.txn(txn).await.unwrap().succeeded());
    let users = client.user_list().await.map_err(told).unwrap_err();
    assert!(users.starts_with("Unimplemented"), "{users}");
    let member = client.member_list().await.unwrap().members()[0].id();
    assert!(client.member_remove(member).await.map_err(told).unwrap_err().starts_with("Unimplemented"));
    assert!(client.member_remove(1).await.map_err(told).unwrap_err().contains("member not found"));
    assert_eq!(keys(&mut client).await, ["deep"]);
    server.stop().await;
}

/// A whole answer over HTTP/1.1.
async fn http(server: &Own, path: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn health_version_and_metrics_are_served_where_clients_connect() {
    let Running { server, mut client, folder: _folder } = running(|_| {}).await;
    put(&mut client, "a", "v").await;
    let check = async |path: &str, status: &str, body: &str| {
        let answer = http(&server, path).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(body), "{path}: {answer}");
    };
    check("/health", "200", r#"{"health":"true","reason":""}"#).await;
    check("/readyz", "200", "ok").await;
    check("/livez", "200", "ok").await;
    check("/version", "200", r#""etcdcluster":"3.6.0""#).await;
    check("/metrics", "200", "etcd_server_has_leader 1").await;
    check("/metrics", "200", "etcd_debugging_mvcc_current_revision 2").await;
    check("/metrics", "200", r#"grpc_method="Put",grpc_service="etcdserverpb.KV"} 1"#).await;
    check("/nothing", "404", "not found").await;
    server.stop().await;
}

async fn post(server: &Own, path: &str, body: &str) -> (String, serde_json::Value) {
    let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all((head + body).as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let mut body: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    for name in ["cluster_id", "member_id", "raft_term"] {
        if let Some(header) = body.get_mut("header").and_then(serde_json::Value::as_object_mut) {
            header.remove(name);
        }
    }
    (head[9..12].to_owned(), body)
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_served_as_json_too() {
    let Running { server, client: _client, folder: _folder } = running(|_| {}).await;
    let check = async |path: &str, body: &str, status: &str, expect: serde_json::Value| {
        assert_eq!(post(&server, path, body).await, (status.to_owned(), expect), "{path} {body}");
    };
    // "YQ==" is "a", "Yg==" is "b", "dg==" is "v".
    check("/v3/kv/put", r#"{"key":"YQ==","value":"dg=="}"#, "200", serde_json::json!({"header": {"revision": "2"}}))
        .await;
    let kv = serde_json::json!(
        {"key": "YQ==", "create_revision": "2", "mod_revision": "2", "version": "1", "value": "dg=="}
    );
    let found = serde_json::json!({"header": {"revision": "2"}, "kvs": [kv], "count": "1"});
    check("/v3/kv/range", r#"{"key":"YQ==","range_end":"AA==","sort_order":"DESCEND","limit":"5"}"#, "200", found)
        .await;
    check("/v3/kv/range", r#"{"key":"Yg=="}"#, "200", serde_json::json!({"header": {"revision": "2"}})).await;
    let deleted = serde_json::json!({"header": {"revision": "3"}, "deleted": "1", "prev_kvs": [kv]});
    check("/v3/kv/deleterange", r#"{"key":"YQ==","prev_kv":true}"#, "200", deleted).await;
    check("/v3/kv/compaction", r#"{"revision":3}"#, "200", serde_json::json!({"header": {"revision": "3"}})).await;
    let refused = |code: i32, why: &str| serde_json::json!({"error": why, "code": code, "message": why});
    let why = "etcdserver: mvcc: required revision has been compacted";
    check("/v3/kv/range", r#"{"key":"YQ==","revision":"2"}"#, "400", refused(11, why)).await;
    check("/v3/kv/range", "{}", "400", refused(3, "etcdserver: key is not provided")).await;
    check("/v3/kv/range", r#"{"key":"YQ==","limit":"many"}"#, "400", refused(3, "limit: no number")).await;
    check("/v3/kv/nothing", "{}", "404", serde_json::Value::Null).await;
    assert_eq!(post(&server, "/v3/kv/range", "{").await.0, "400");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_transaction_puts_is_looked_at_before_what_it_reads() {
    let Running { server, mut client, folder: _folder } = running(|_| {}).await;
    put(&mut client, "a", "1").await;
    let revision = put(&mut client, "a", "2").await;
    client.compact(revision, None).await.unwrap();
    let gone = || TxnOp::get("a", Some(GetOptions::new().with_revision(revision - 1)));
    let unknown = TxnOp::put("a", "3", Some(PutOptions::new().with_lease(7)));
    let mut check = async |ops: Vec<TxnOp>, expect: &str| {
        let why = client.txn(Txn::new().and_then(ops)).await.unwrap_err().to_string();
        assert!(why.contains(expect), "{why}");
    };
    check(vec![gone()], "required revision has been compacted").await;
    check(vec![gone(), unknown.clone()], "requested lease not found").await;
    check(vec![gone(), TxnOp::txn(Txn::new().and_then([unknown]))], "requested lease not found").await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_without_a_good_certificate_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [own, other] = ["own", "other"].map(|name| certificates(&folder.path().join(name)));
    let files = TlsFiles { certificate: own[1].clone(), key: own[2].clone(), client_ca: Some(own[0].clone()) };
    let listen = vec![
        Listen { address: "127.0.0.1:0".into(), tls: true, metrics_only: false },
        Listen { address: "127.0.0.1:0".into(), tls: false, metrics_only: true },
    ];
    let config = Config { listen, tls: Some(files), ..config(&folder.path().join("data")) };
    let server = Own::start(config).await;
    let connect = async |identity: Option<&[std::path::PathBuf; 3]>| {
        let read = |path: &std::path::Path| std::fs::read(path).unwrap();
        let mut tls = TlsOptions::new().ca_certificate(Certificate::from_pem(read(&own[0]))).domain_name("localhost");
        if let Some([_, certificate, key]) = identity {
            tls = tls.identity(Identity::from_pem(read(certificate), read(key)));
        }
        let options = ConnectOptions::new().with_tls(tls);
        let url = format!("https://127.0.0.1:{}", server.address.port());
        Client::connect([url], Some(options)).await.unwrap().put("a", "v", None).await.is_ok()
    };
    assert!(connect(Some(&own)).await);
    assert!(!connect(Some(&other)).await);
    assert!(!connect(None).await);
    server.stop().await;
}

/// Files of an authority, of a certificate that it signed for both sides, and of its key.
fn certificates(folder: &std::path::Path) -> [std::path::PathBuf; 3] {
    std::fs::create_dir_all(folder).unwrap();
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let mut both = rcgen::CertificateParams::new(vec!["127.0.0.1".into(), "localhost".into()]).unwrap();
    both.extended_key_usages =
        vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth, rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = both.signed_by(&key, &issuer).unwrap().pem();
    let files = [("ca", authority_pem), ("certificate", certificate), ("key", key.serialize_pem())];
    files.map(|(name, text)| {
        std::fs::write(folder.join(name), text).unwrap();
        folder.join(name)
    })
}
