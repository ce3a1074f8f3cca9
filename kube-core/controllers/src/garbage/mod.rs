//! Deletes what nobody owns any more.
//!
//! ```text
//! watch caches ──▶ monitors ──▶ graph (who depends on whom) ──▶ queues ──▶ collector ──▶ deletes, patches
//! ```
//!
//! A monitor follows one kind; monitors come and go with custom resources. Resources of other servers are listed and watched through the
//! aggregator (`remotes`). What the graph finds worth a look is decided on
//! the live state of the object and of its owners, never on the graph's. Before an owner lets go of its dependents all monitors
//! are brought up to date, so that a dependent that was written before is not missed.

mod collector;
mod facts;
mod graph;
mod live;
mod monitors;
mod owners;
mod remotes;
mod source;
mod told;

use std::sync::Arc;

use machinery::Str;

use crate::{
    ready::Ready,
    shared::Shared,
    workqueue::{Backoff, Queue},
};
use collector::Collector;
use graph::Work;
use monitors::Monitors;
use remotes::Remotes;

/// Objects that are looked at at once (`--concurrent-gc-syncs`).
const WORKERS: usize = 20;

/// What is to be looked at.
#[derive(Clone)]
struct Queues {
    delete: Queue<Str>,
    orphan: Queue<Str>,
}

impl Queues {
    fn add(&self, work: Vec<Work>) {
        for work in work {
            match work {
                Work::Delete(uid) => self.delete.add(uid),
                Work::Orphan(uid) => self.orphan.add(uid),
            }
        }
    }
}

/// Collects garbage.
pub(crate) async fn run(shared: Arc<Shared>, ready: Ready) {
    let queue = |name| Queue::new(name, Backoff::default(), &shared.metrics);
    let queues = Queues {
        delete: queue("garbage_collector_attempt_to_delete"),
        orphan: queue("garbage_collector_attempt_to_orphan"),
    };
    let monitors = Arc::new(Monitors::new(shared.kinds.clone(), queues.clone()));
    let remotes = Arc::new(Remotes::new(shared.client(), shared.kinds.clone(), monitors.clone()));
    let collector = Arc::new(Collector::new(&shared, monitors.clone(), remotes.clone(), queues.clone()));
    let deletes = {
        let collector = collector.clone();
        move |uid: Str| {
            let collector = collector.clone();
            async move { collector.attempt_to_delete(&uid).await }
        }
    };
    let orphans = move |uid: Str| {
        let collector = collector.clone();
        async move { collector.attempt_to_orphan(&uid).await }
    };
    tokio::select! {
        () = monitors.run(&shared.definitions, || ready.synced()) => {}
        () = remotes.run() => {}
        () = queues.delete.work(WORKERS, deletes) => {}
        () = queues.orphan.work(WORKERS, orphans) => {}
    }
}
