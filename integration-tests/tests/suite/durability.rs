//! An acknowledged write survives kill -9.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use integration_tests::{Server, send};
use serde_json::{Value, json};

const PATH: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn every_acknowledged_write_is_there_after_a_kill() {
    let mut server = Server::start();
    let acknowledged: Arc<Mutex<HashMap<String, u64>>> = Arc::default();
    for round in 0..3 {
        let (stop, port) = (Arc::new(AtomicBool::new(false)), server.port());
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (acknowledged, stop) = (acknowledged.clone(), stop.clone());
                std::thread::spawn(move || {
                    for i in 0.. {
                        if stop.load(Ordering::Relaxed) {
                            return;
                        }
                        let name = format!("r{round}-w{writer}-{i}");
                        let body = json!({"metadata": {"name": name}, "data": {"k": "v"}}).to_string();
                        let Ok(reply) = send(port, "POST", PATH, "application/json", body.as_bytes()) else { return };
                        if reply.status == 201 {
                            let version = version_of(&reply.json()["metadata"]);
                            acknowledged.lock().expect("no writer panics").insert(name, version);
                        }
                    }
                })
            })
            .collect();
        let before = acknowledged.lock().expect("no writer panics").len();
        let since = Instant::now();
        // However slow the disk: it is killed when it has answered some.
        while acknowledged.lock().expect("no writer panics").len() < before + 40 {
            assert!(since.elapsed() < Duration::from_secs(120), "{}", server.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        server.kill();
        stop.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.join().expect("a writer ends");
        }
        server.run();
        let list = server.request("GET", PATH, None).json();
        let items = list["items"].as_array().expect("items");
        let found: HashMap<&str, u64> =
            items.iter().map(|i| (i["metadata"]["name"].as_str().unwrap_or(""), version_of(&i["metadata"]))).collect();
        assert_eq!(found.len(), items.len(), "nothing is there twice");
        let acknowledged = acknowledged.lock().expect("no writer panics");
        for (name, version) in acknowledged.iter() {
            assert_eq!(found.get(name.as_str()), Some(version), "{name} was acknowledged");
        }
        let newest = acknowledged.values().max().copied().unwrap_or(0);
        assert!(version_of(&list["metadata"]) >= newest, "revisions only rise");
    }
}

fn version_of(metadata: &Value) -> u64 {
    metadata["resourceVersion"].as_str().and_then(|v| v.parse().ok()).expect("a resourceVersion")
}
