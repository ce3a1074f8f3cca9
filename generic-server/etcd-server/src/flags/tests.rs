use super::*;

fn parse(arguments: &[&str], environment: &[(&str, &str)]) -> Result<Flags, String> {
    let arguments = arguments.iter().map(|argument| (*argument).to_owned());
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    match Flags::parse(arguments, environment).map_err(|why| why.to_string())? {
        Asked::Run(flags) => Ok(*flags),
        other => Err(format!("{other:?}")),
    }
}

#[test]
fn what_envtest_and_local_scripts_pass_is_taken() {
    let envtest = [
        "--listen-peer-urls=http://localhost:0",
        "--advertise-client-urls=http://127.0.0.1:4000",
        "--listen-client-urls=http://127.0.0.1:4000",
        "--data-dir=/tmp/k8s_test_framework_1",
        "--unsafe-no-fsync",
    ];
    let config = parse(&envtest, &[]).unwrap().config;
    assert_eq!(config.data_dir, PathBuf::from("/tmp/k8s_test_framework_1"));
    assert!(config.store.relaxed);
    assert_eq!(config.listen, [Listen { address: "127.0.0.1:4000".into(), tls: false, metrics_only: false }]);
    assert_eq!(config.client_urls, ["http://127.0.0.1:4000"]);
    let script = [
        "--advertise-client-urls",
        "http://127.0.0.1:2379",
        "--data-dir",
        "/tmp/tmp.1",
        "--listen-client-urls",
        "http://127.0.0.1:2379",
        "--log-level=warn",
    ];
    let flags = parse(&script, &[]).unwrap();
    assert_eq!((flags.config.store.relaxed, flags.log_level), (false, LevelFilter::WARN));
    let kubeadm = [
        "--advertise-client-urls=https://10.0.0.1:2379",
        "--cert-file=/pki/server.crt",
        "--client-cert-auth=true",
        "--data-dir=/var/lib/etcd",
        "--experimental-initial-corrupt-check=true",
        "--experimental-watch-progress-notify-interval=5s",
        "--initial-advertise-peer-urls=https://10.0.0.1:2380",
        "--initial-cluster=node=https://10.0.0.1:2380",
        "--key-file=/pki/server.key",
        "--listen-client-urls=https://127.0.0.1:2379,https://10.0.0.1:2379",
        "--listen-metrics-urls=http://127.0.0.1:2381",
        "--listen-peer-urls=https://10.0.0.1:2380",
        "--name=node",
        "--peer-cert-file=/pki/peer.crt",
        "--peer-client-cert-auth=true",
        "--peer-key-file=/pki/peer.key",
        "--peer-trusted-ca-file=/pki/ca.crt",
        "--snapshot-count=10000",
        "--trusted-ca-file=/pki/ca.crt",
    ];
    let config = parse(&kubeadm, &[]).unwrap().config;
    let told: Vec<_> = config.listen.iter().map(|l| (&*l.address, l.tls, l.metrics_only)).collect();
    let expect = [("127.0.0.1:2379", true, false), ("10.0.0.1:2379", true, false), ("127.0.0.1:2381", false, true)];
    assert_eq!(told, expect);
    assert_eq!(config.tls.unwrap().client_ca, Some("/pki/ca.crt".into()));
    assert_eq!((config.progress_interval, &*config.name), (Duration::from_secs(5), "node"));
    assert_eq!(config.peer_urls, ["https://10.0.0.1:2380"]);
}

#[test]
fn nothing_given_is_etcds_default() {
    let config = parse(&[], &[]).unwrap().config;
    assert_eq!(config.data_dir, PathBuf::from("default.etcd"));
    assert_eq!(config.listen, [Listen { address: "localhost:2379".into(), tls: false, metrics_only: false }]);
    let limits = (config.limits.txn_ops, config.limits.request_bytes, config.limits.quota);
    assert_eq!(limits, (128, 1_572_864, 2 << 30));
    assert_eq!(config.progress_interval, Duration::from_secs(600));
}

#[test]
fn the_environment_counts_less_than_arguments() {
    let environment =
        [("ETCD_NAME", "one"), ("ETCD_DATA_DIR", "/env"), ("ETCD_UNSAFE_NO_FSYNC", "true"), ("HOME", "/")];
    let config = parse(&["-data-dir", "/argument"], &environment).unwrap().config;
    assert_eq!((&*config.name, config.data_dir, config.store.relaxed), ("one", "/argument".into(), true));
}

#[test]
fn what_cannot_be_served_stops_the_start() {
    let check = |arguments: &[&str], expect: &str| {
        let refused = parse(arguments, &[]).map(drop).unwrap_err();
        assert!(refused.contains(expect), "{arguments:?}: {refused}");
    };
    check(&["--no-such-flag"], "flag provided but not defined: -no-such-flag");
    check(&["member"], "not a valid flag");
    check(&["--data-dir"], "flag needs an argument: -data-dir");
    check(&["--unsafe-no-fsync=perhaps"], "invalid boolean value");
    check(&["--config-file=/etc/etcd.conf"], "--config-file=/etc/etcd.conf cannot be served");
    check(&["--auto-compaction-retention=long"], "error parsing CompactionRetention");
    check(&["--auto-compaction-mode=often"], "unknown auto-compaction-mode \"often\"");
    check(&["--force-new-cluster"], "cannot be served");
    check(&["--initial-cluster=default=http://a:1,b=http://b:1"], "this etcd is one member");
    check(&["--initial-cluster=b=http://b:1"], "couldn't find local name");
    check(&["--initial-cluster-state=old"], "initial-cluster-state");
    check(&["--listen-client-urls=http://a:1"], "--advertise-client-urls is required");
    check(&["--listen-peer-urls=a:1"], "must contain a scheme");
    check(&["--listen-peer-urls=unix://a:1"], "must be http or https");
    check(&["--listen-peer-urls=http://a:1/b"], "must not contain a path");
    check(&["--listen-peer-urls=http://a"], "host:port");
    check(&["--cert-file=/a"], "go together");
    check(&["--cert-file=/a", "--key-file=/b", "--client-cert-auth"], "needs --trusted-ca-file");
    check(&["--max-txn-ops=many"], "max-txn-ops");
    check(&["--log-level=loud"], "unrecognized level");
    check(&["--watch-progress-notify-interval=0s"], "watch-progress-notify-interval");
    assert!(parse(&["--auto-compaction-retention=0", "--auto-tls=false"], &[]).is_ok(), "that is so anyway");
}

#[test]
fn history_is_kept_as_etcds_flags_say() {
    let retention = |arguments: &[&str]| parse(arguments, &[]).expect("good flags").config.retention;
    assert_eq!(retention(&[]), None);
    assert_eq!(retention(&["--auto-compaction-retention=90m"]), Some(Retention::Time(Duration::from_secs(5400))));
    assert_eq!(retention(&["--auto-compaction-retention=1"]), Some(Retention::Time(Duration::from_secs(3600))));
    let revisions = ["--auto-compaction-mode=revision", "--auto-compaction-retention=500"];
    assert_eq!(retention(&revisions), Some(Retention::Revisions(500)));
}

#[test]
fn durations_are_gos() {
    let check =
        |text: &str, expect: Option<u64>| assert_eq!(parse_duration(text), expect.map(Duration::from_millis), "{text}");
    check("5s", Some(5000));
    check("1m30s", Some(90_000));
    check("1.5h", Some(5_400_000));
    check("100ms", Some(100));
    check("", None);
    check("5", None);
    check("s", None);
    check("5d", None);
}

#[test]
fn the_help_tells_every_flag() {
    assert!(FLAGS.iter().all(|row| help().contains(&format!("--{}", row.name))));
}
