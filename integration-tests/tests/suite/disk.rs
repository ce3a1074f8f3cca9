//! The embedded store's disk: full, in use by another process, written by a newer version, damaged.

use std::{fs, path::PathBuf, process::Command};

use integration_tests::Server;
use serde_json::{Value, json};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A small file system of its own; only root can mount one.
struct Small(tempfile::TempDir);

impl Small {
    fn mount(size: &str) -> Option<Small> {
        let folder = tempfile::tempdir().expect("a folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(folder.path())
            .status()
            .is_ok_and(|status| status.success());
        if !mounted {
            eprintln!("skipped: only root can mount a small file system");
            return None;
        }
        Some(Small(folder))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

fn configmap(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "x".repeat(100_000)}})
}

#[test]
fn a_full_disk_refuses_writes_with_a_clear_status_and_goes_on_when_there_is_room() {
    let Some(disk) = Small::mount("32m") else { return };
    let mut server = Server::prepare();
    server.set_data(disk.path("data"));
    server.run();
    fs::write(disk.path("filler"), vec![1; 16 << 20]).expect("room for it");
    let mut written = 0;
    let refused = loop {
        let reply = server.request("POST", CONFIGMAPS, Some(&configmap(&format!("c{written}"))));
        if reply.status != 201 {
            break reply;
        }
        written += 1;
        assert!(written < 1000, "the disk fills up");
    };
    let status = refused.json();
    assert!(refused.status >= 500 && status["kind"] == "Status", "{}", refused.text());
    assert!(status["message"].as_str().is_some_and(|why| why.contains("out of space")), "{status}");
    // Reads go on, and readyz says what is wrong.
    let list = server.request("GET", CONFIGMAPS, None).json();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(written));
    let readyz = server.request("GET", "/readyz", None);
    assert!(readyz.status == 500 && readyz.text().contains("[-]etcd failed"), "{}", readyz.text());
    fs::remove_file(disk.path("filler")).expect("removed");
    assert_eq!(server.request("POST", CONFIGMAPS, Some(&configmap("again"))).status, 201);
    assert_eq!(server.request("GET", "/readyz", None).text(), "ok");
    // All that was acknowledged is there after a restart.
    server.kill();
    server.run();
    let list = server.request("GET", CONFIGMAPS, None).json();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(written + 1));
    server.kill();
}

#[test]
fn a_data_folder_in_use_is_refused() {
    let first = Server::start();
    let mut second = Server::prepare();
    second.set_data(first.data());
    let said = second.run_in_vain();
    assert!(said.contains("is in use by another process"), "{said}");
    assert_eq!(first.request("GET", "/readyz", None).text(), "ok");
}

#[test]
fn a_newer_format_and_a_damaged_store_are_refused_and_left_alone() {
    let mut server = Server::start();
    server.request("POST", CONFIGMAPS, Some(&configmap("kept")));
    server.kill();
    let format = server.data().join("store/FORMAT");
    let known = fs::read_to_string(&format).expect("the format");
    let (head, version) = known.trim_end().rsplit_once(' ').expect("a version");
    fs::write(&format, format!("{head} 99\n")).expect("written");
    let said = server.run_in_vain();
    assert!(said.contains(&format!("format 99, this version reads up to {version}")), "{said}");
    fs::write(&format, &known).expect("written");
    // Noise in the database: told, and nothing is started in its place.
    let database = server.data().join("store/store.redb");
    let good = fs::read(&database).expect("the database");
    let mut bad = good.clone();
    bad[..4096].fill(0xa5);
    fs::write(&database, &bad).expect("written");
    let said = server.run_in_vain();
    assert!(said.contains("the store is damaged"), "{said}");
    assert!(fs::read(&database).expect("the database") == bad, "left as it was");
    fs::write(&database, &good).expect("written");
    server.run();
    assert_eq!(server.request("GET", &format!("{CONFIGMAPS}/kept"), None).status, 200);
}
