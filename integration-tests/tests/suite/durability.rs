//! Acknowledged writes survive kill -9, and no revision is given twice.
//!
//! With `SOAK` in the environment (`make soak`) the server is killed 200 times, not 3.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use integration_tests::{Reply, Server, send};
use serde_json::{Value, json};

const PATH: &str = "/api/v1/namespaces/default/configmaps";
const WRITERS: usize = 4;
/// Objects of each writer.
const OBJECTS: usize = 12;
/// How many writes must have been acknowledged before the kill, however slow the machine is.
const AT_LEAST: usize = 20;

/// An object's resourceVersion and text.
type State = (u64, String);

/// Who creates, updates, patches and deletes objects of its own.
#[derive(Default)]
struct Writer {
    name: String,
    turn: usize,
    /// As last acknowledged.
    held: BTreeMap<String, State>,
    /// The write whose answer never came: of which object, and the text that it was to have.
    doubt: Option<(String, Option<String>)>,
    /// The versions that were acknowledged since the last check.
    versions: Vec<u64>,
}

impl Writer {
    /// Writes until told to stop or until the server is gone.
    fn work(&mut self, port: u16, stop: &AtomicBool, acknowledged: &AtomicUsize) {
        while !stop.load(Ordering::Relaxed) {
            self.turn += 1;
            let name = format!("{}-{}", self.name, self.turn * 7 % OBJECTS);
            let text = format!("{}-{}", self.turn, "x".repeat(self.turn * 131 % 3000));
            let (reply, wanted) = self.write(port, &name, text);
            match reply {
                Ok(reply) if reply.status == 200 || reply.status == 201 => {
                    match wanted {
                        Some(text) => {
                            let version = version_of(&reply.json()["metadata"]);
                            self.versions.push(version);
                            self.held.insert(name, (version, text));
                        }
                        None => drop(self.held.remove(&name)),
                    }
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                }
                Ok(reply) if reply.status > 0 && reply.status < 500 => panic!("{name}: {}", reply.text()),
                // It may have been done or not.
                _ => return self.doubt = Some((name, wanted)),
            }
        }
    }

    /// One write, and what the object's text is after it.
    fn write(&self, port: u16, name: &str, text: String) -> (std::io::Result<Reply>, Option<String>) {
        let path = format!("{PATH}/{name}");
        let send = |method: &str, path: &str, content_type: &str, body: Value| {
            send(port, method, path, content_type, body.to_string().as_bytes())
        };
        let map = |metadata: Value| json!({"metadata": metadata, "data": {"k": text}});
        let reply = match (self.held.get(name), self.turn % 4) {
            (None, _) => send("POST", PATH, "application/json", map(json!({"name": name}))),
            (Some(_), 0) => return (send("DELETE", &path, "application/json", json!({})), None),
            (Some(_), 1) => send("PATCH", &path, "application/merge-patch+json", json!({"data": {"k": text}})),
            (Some((version, _)), _) => {
                let metadata = json!({"name": name, "resourceVersion": version.to_string()});
                send("PUT", &path, "application/json", map(metadata))
            }
        };
        (reply, Some(text))
    }

    /// Compares what was acknowledged with what is there; `used` are all versions that were ever seen.
    fn check(&mut self, found: &BTreeMap<String, State>, used: &mut BTreeSet<u64>) {
        for version in self.versions.drain(..) {
            assert!(used.insert(version), "{version} was given twice");
        }
        if let Some((name, wanted)) = self.doubt.take() {
            let now = found.get(&name);
            if now != self.held.get(&name) {
                assert_eq!(now.map(|(_, text)| text), wanted.as_ref(), "{name} is as before, or as it was to be");
                match now {
                    Some((version, _)) => assert!(used.insert(*version), "{version} was given twice"),
                    None => drop(self.held.remove(&name)),
                }
                self.held.extend(now.map(|state| (name, state.clone())));
            }
        }
        let mine = format!("{}-", self.name);
        let found: BTreeMap<_, _> = found.iter().filter(|(name, _)| name.starts_with(&mine)).collect();
        assert_eq!(found, self.held.iter().collect(), "what was acknowledged is there, and nothing else");
    }
}

#[test]
fn every_acknowledged_write_is_there_after_a_kill_and_no_revision_comes_twice() {
    let rounds = if std::env::var_os("SOAK").is_some() { 200 } else { 3 };
    let mut server = Server::start();
    let mut writers: Vec<Writer> =
        (0..WRITERS).map(|n| Writer { name: format!("w{n}"), ..Writer::default() }).collect();
    let (mut used, mut total, mut in_doubt, mut newest) = (BTreeSet::new(), 0, 0, 0);
    for round in 0..rounds {
        let (stop, acknowledged) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for writer in &mut writers {
                let (port, stop, acknowledged) = (server.port(), &stop, &acknowledged);
                scope.spawn(move || writer.work(port, stop, acknowledged));
            }
            let since = Instant::now();
            while acknowledged.load(Ordering::Relaxed) < AT_LEAST && since.elapsed() < Duration::from_secs(120) {
                std::thread::sleep(Duration::from_millis(5));
            }
            // At another moment each time.
            std::thread::sleep(Duration::from_millis(round * 37 % 200));
            server.kill();
            stop.store(true, Ordering::Relaxed);
        });
        let acknowledged = acknowledged.into_inner();
        assert!(acknowledged >= AT_LEAST, "it was under load: {acknowledged}\n{}", server.log());
        (total, in_doubt) = (total + acknowledged, in_doubt + writers.iter().filter(|w| w.doubt.is_some()).count());
        server.run();
        let list = server.request("GET", PATH, None).json();
        let items = list["items"].as_array().expect("items");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let found: BTreeMap<String, State> = items
            .iter()
            .map(|i| (text(&i["metadata"]["name"]), (version_of(&i["metadata"]), text(&i["data"]["k"]))))
            .collect();
        assert_eq!(found.len(), items.len(), "nothing is there twice");
        for writer in &mut writers {
            assert!(writer.versions.iter().all(|version| *version > newest), "round {round}: revisions only rise");
            writer.check(&found, &mut used);
        }
        newest = version_of(&list["metadata"]);
        assert!(used.last().is_none_or(|last| newest >= *last), "round {round}: revisions only rise");
    }
    println!("{rounds} kills: {total} acknowledged writes, all there; {in_doubt} without an answer; none twice");
}

fn version_of(metadata: &Value) -> u64 {
    metadata["resourceVersion"].as_str().and_then(|v| v.parse().ok()).expect("a resourceVersion")
}
