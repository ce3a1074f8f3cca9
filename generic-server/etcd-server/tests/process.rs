//! The binary: how it refuses to start, and how it ends.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::process::{Command, Output};

use etcd_client::{Client, WatchOptions};
use support::Process;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_etcd")).args(arguments).output().unwrap()
}

#[test]
fn what_it_does_not_know_stops_the_start_with_one_line() {
    for (arguments, expect) in [
        (&["--no-such-flag"][..], "etcd: flag provided but not defined: -no-such-flag\n"),
        (
            &["--config-file=/etc/etcd.conf"],
            "etcd: --config-file=/etc/etcd.conf cannot be served: Flags alone are read.\n",
        ),
    ] {
        let output = run(arguments);
        assert_eq!((output.status.code(), &*String::from_utf8_lossy(&output.stderr)), (Some(2), expect));
    }
    let version = run(&["--version"]);
    assert!(version.status.success() && String::from_utf8_lossy(&version.stdout).starts_with("etcd Version: 3.6"));
    let help = run(&["--help"]);
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("\n  --unsafe-no-fsync\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_well_when_told_although_clients_watch() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Process::own(folder.path()).await;
    let mut client = Client::connect([server.url()], None).await.unwrap();
    client.put("a", "v", None).await.unwrap();
    let mut watches = Vec::new();
    for _ in 0..20 {
        let mut stream = client.watch("a", Some(WatchOptions::new().with_start_revision(2))).await.unwrap();
        assert!(stream.message().await.unwrap().unwrap().created());
        watches.push(stream);
    }
    assert!(Command::new("kill").args(["-TERM", &server.pid().to_string()]).status().unwrap().success());
    assert!(server.wait().success());
    for mut stream in watches {
        while let Ok(Some(_)) = stream.message().await {}
    }
    server.restart().await;
    let mut client = Client::connect([server.url()], None).await.unwrap();
    assert_eq!(client.get("a", None).await.unwrap().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_has_one_server() {
    let folder = tempfile::tempdir().unwrap();
    let _first = Process::own(folder.path()).await;
    let data = format!("--data-dir={}", folder.path().join("data").display());
    let url = |flag: &str| format!("--{flag}=http://127.0.0.1:0");
    let second = run(&[&data, &url("listen-client-urls"), &url("advertise-client-urls")]);
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("in use by another process"), "{second:?}");
}
