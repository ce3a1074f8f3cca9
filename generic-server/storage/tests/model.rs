//! The embedded store against the plain one in memory: the same operations, the same answers.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod scratch;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use proptest::prelude::*;
use storage::{
    Error, Event, Expect, Memory, Range, Revision, Store, Watch,
    conformance::Recorder,
    embedded::{Embedded, EmbeddedOptions},
};

/// One operation; revisions are told as so many before the current one.
#[derive(Clone, Debug)]
enum Op {
    Put { key: u8, size: usize, expect: Guess },
    Delete { key: u8, expect: Guess },
    Get { key: u8 },
    Range { prefix: u8, start: Option<u8>, limit: usize, back: Option<u64> },
    Count { prefix: u8 },
    Watch { prefix: u8, back: u64 },
    Unwatch,
    Compact { back: u64 },
    Reopen,
}

#[derive(Clone, Copy, Debug)]
enum Guess {
    Right,
    Absent,
    Wrong,
}

const PREFIXES: [&str; 4] = ["/", "/a", "/a/", "/b/"];

fn key(n: u8) -> String {
    let parent = ["/a", "/b", "/ab"][usize::from(n % 3)];
    format!("{parent}/{}", n / 3)
}

fn op() -> impl Strategy<Value = Op> {
    let guess = prop_oneof![6 => Just(Guess::Right), 1 => Just(Guess::Absent), 1 => Just(Guess::Wrong)].boxed();
    let size = prop_oneof![4 => 0usize..200, 1 => 3000usize..9000];
    prop_oneof![
        12 => (0u8..12, size, guess.clone()).prop_map(|(key, size, expect)| Op::Put { key, size, expect }),
        4 => (0u8..12, guess).prop_map(|(key, expect)| Op::Delete { key, expect }),
        2 => (0u8..12).prop_map(|key| Op::Get { key }),
        4 => (0u8..4, prop::option::of(0u8..12), 0usize..4, prop::option::of(0u64..20))
            .prop_map(|(prefix, start, limit, back)| Op::Range { prefix, start, limit, back }),
        1 => (0u8..4).prop_map(|prefix| Op::Count { prefix }),
        2 => (0u8..4, 0u64..20).prop_map(|(prefix, back)| Op::Watch { prefix, back }),
        1 => Just(Op::Unwatch),
        1 => (0u64..20).prop_map(|back| Op::Compact { back }),
        1 => Just(Op::Reopen),
    ]
}

/// An answer in a form that can be compared.
fn told<T: std::fmt::Debug>(answer: &Result<T, Error>) -> String {
    format!("{answer:?}")
}

/// Everything about an event but what compaction may have dropped.
fn brief(event: &Event, oldest: Revision) -> (Revision, String, Option<Bytes>, Option<Revision>, Revision) {
    let previous = event.previous.as_ref().map(|previous| previous.mod_revision).filter(|_| event.revision > oldest);
    (event.revision, event.key.to_string(), event.value.clone(), previous, event.create_revision)
}

struct Pair {
    model: Arc<Memory>,
    store: Arc<Embedded>,
    options: EmbeddedOptions,
    folder: tempfile::TempDir,
    watches: Vec<[(Arc<Recorder>, Watch); 2]>,
    oldest: Revision,
}

impl Pair {
    async fn act(&mut self, op: Op) {
        let now = self.model.revision().await.unwrap();
        match op {
            Op::Put { key: n, size, expect } => {
                let (key, value) = (key(n), Bytes::from(vec![n; size]));
                let expect = self.guess(&key, expect).await;
                let model = self.model.put(&key, value.clone(), expect, None).await;
                assert_eq!(told(&self.store.put(&key, value, expect, None).await), told(&model));
            }
            Op::Delete { key: n, expect } => {
                let key = key(n);
                let Expect::Revision(expected) = self.guess(&key, expect).await else { return };
                let model = self.model.delete(&key, expected).await;
                assert_eq!(told(&self.store.delete(&key, expected).await), told(&model));
            }
            Op::Get { key: n } => {
                assert_eq!(told(&self.store.get(&key(n)).await), told(&self.model.get(&key(n)).await));
            }
            Op::Range { prefix, start, limit, back } => {
                let at = back.map(|back| (now + 2).saturating_sub(back));
                let prefix = PREFIXES[usize::from(prefix)].into();
                let range = Range { prefix, start: start.map(key), limit, at };
                assert_eq!(told(&self.store.range(range.clone()).await), told(&self.model.range(range).await));
            }
            Op::Count { prefix } => {
                let prefix = PREFIXES[usize::from(prefix)];
                assert_eq!(told(&self.store.count(prefix).await), told(&self.model.count(prefix).await));
            }
            Op::Watch { prefix, back } => self.watch(PREFIXES[usize::from(prefix)], now.saturating_sub(back)).await,
            Op::Unwatch => drop(self.watches.pop()),
            Op::Compact { back } => {
                let revision = now.saturating_sub(back);
                assert_eq!(told(&self.store.compact(revision).await), told(&self.model.compact(revision).await));
                self.oldest = self.model.compacted_revision().await.unwrap();
                assert_eq!(self.store.compacted_revision().await.unwrap(), self.oldest);
            }
            Op::Reopen => {
                self.compare_watches();
                self.watches.clear();
                self.store.close().await;
                self.store = Embedded::open(self.folder.path(), self.options.clone()).unwrap();
            }
        }
        assert_eq!(self.store.delivered_revision(), self.model.delivered_revision());
    }

    async fn guess(&self, key: &str, guess: Guess) -> Expect {
        let current = self.model.get(key).await.unwrap().0.map(|current| current.mod_revision);
        match (guess, current) {
            (Guess::Right, Some(revision)) => Expect::Revision(revision),
            (Guess::Right, None) | (Guess::Absent, _) => Expect::Absent,
            (Guess::Wrong, current) => Expect::Revision(current.map_or(1, |revision| revision - 1)),
        }
    }

    async fn watch(&mut self, prefix: &str, after: Revision) {
        let recorders = [Recorder::new(), Recorder::new()];
        let model = self.model.watch(prefix, after, recorders[0].clone()).await;
        let store = self.store.watch(prefix, after, recorders[1].clone()).await;
        let [one, two] = recorders;
        match (model, store) {
            (Ok(model), Ok(store)) => self.watches.push([(one, model), (two, store)]),
            (model, store) => assert_eq!(told(&store.map(drop)), told(&model.map(drop))),
        }
    }

    fn compare_watches(&self) {
        for [(model, _), (store, _)] in &self.watches {
            let briefly = |recorder: &Recorder| -> Vec<_> {
                recorder.seen().events.iter().map(|event| brief(event, self.oldest)).collect()
            };
            assert_eq!(briefly(store), briefly(model));
        }
    }
}

/// How many random cases: more with `SOAK` in the environment (`make soak`).
fn cases() -> u32 {
    if std::env::var_os("SOAK").is_some() { 1280 } else { 64 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn the_embedded_store_answers_as_the_model_does(
        ops in prop::collection::vec(op(), 1..80),
        checkpoint_after in prop::sample::select(vec![0, 1, 5000]).prop_map(Duration::from_millis),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let folder = scratch::folder();
            let options = EmbeddedOptions { checkpoint_after, ..EmbeddedOptions::default() };
            let store = Embedded::open(folder.path(), options.clone()).unwrap();
            let mut pair = Pair { model: Memory::new(), store, options, folder, watches: Vec::new(), oldest: 1 };
            for op in ops {
                pair.act(op).await;
            }
            pair.compare_watches();
            pair.store.close().await;
        });
    }

    /// Callers at the same time: what they were answered must be what some order of their writes gives, and the watch
    /// tells that order.
    #[test]
    fn concurrent_writes_are_as_if_done_in_the_order_that_a_watch_tells(
        callers in prop::collection::vec(prop::collection::vec((0u8..4, 0usize..3), 1..20), 2..8),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let folder = scratch::folder();
            let store = Embedded::open(folder.path(), EmbeddedOptions::default()).unwrap();
            let recorder = Recorder::new();
            let _watch = store.watch("/", 1, recorder.clone()).await.unwrap();
            let callers: Vec<_> = callers.into_iter().map(|ops| tokio::spawn(call(store.clone(), ops))).collect();
            let mut answered = Vec::new();
            for caller in callers {
                answered.extend(caller.await.unwrap());
            }
            answered.sort_by_key(|(revision, ..)| *revision);
            // All answered writes have been delivered; each by its own revision, with what it wrote.
            let events = recorder.seen().events;
            let told: Vec<_> = events.iter().map(|event| (event.revision, event.key.to_string(), event.value.clone())).collect();
            let expect: Vec<_> =
                answered.iter().map(|(revision, key, _, value)| (*revision, key.clone(), value.clone())).collect();
            assert_eq!(told, expect);
            let model = Memory::new();
            for (revision, key, expect, value) in answered {
                let result = match (value, expect) {
                    (Some(value), expect) => model.put(&key, value, expect, None).await,
                    (None, Expect::Revision(expected)) => model.delete(&key, expected).await,
                    (None, Expect::Absent) => unreachable!("a delete expects a revision"),
                };
                assert_eq!(result.unwrap(), revision);
            }
            store.close().await;
        });
    }
}

/// Writes by what it reads; returns the writes that were done.
async fn call(store: Arc<Embedded>, ops: Vec<(u8, usize)>) -> Vec<(Revision, String, Expect, Option<Bytes>)> {
    let mut done = Vec::new();
    for (n, kind) in ops {
        let key = key(n);
        let current = store.get(&key).await.unwrap().0.map(|current| current.mod_revision);
        let expect = current.map_or(Expect::Absent, Expect::Revision);
        let value = Bytes::from(format!("{n}{kind}"));
        let (result, value) = match (kind, current) {
            (0, Some(expected)) => (store.delete(&key, expected).await, None),
            _ => (store.put(&key, value.clone(), expect, None).await, Some(value)),
        };
        match result {
            Ok(revision) => done.push((revision, key, expect, value)),
            Err(Error::Conflict { current: now }) => assert_ne!(now.map(|now| now.mod_revision), current),
            Err(error) => panic!("{error}"),
        }
    }
    done
}
