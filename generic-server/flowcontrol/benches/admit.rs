//! What flow control costs a request that finds a seat.

use std::{sync::Arc, time::Duration};

use criterion::{Criterion, criterion_group, criterion_main};
use flowcontrol::{Arriving, Describe, LevelConfig, Levels, LimitResponse, Metrics, Queuing, Work, flow_hash};

struct Nobody;

impl Describe for Nobody {
    fn distinguisher(&self) -> &str {
        "nobody"
    }

    fn details(&self) -> [String; 8] {
        Default::default()
    }
}

fn admit(c: &mut Criterion) {
    let metrics = Metrics::new(&prometheus::Registry::new());
    let flow = metrics.flow("global-default", "everyone");
    let levels = Levels::new(600, metrics);
    let response = LimitResponse::Queue(Queuing { queues: 128, hand_size: 6, length_limit: 50 });
    let name = "global-default".to_owned();
    levels.configure([LevelConfig { name, response, shares: 20, lendable_percent: 50, borrowing_percent: None }]);
    let (level, _) = levels.get("global-default").expect("configured");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let request = Arriving {
        metrics: flow,
        hash: flow_hash("everyone", "alice"),
        work: Work::seats(1),
        mutating: false,
        watch: false,
        description: Arc::new(Nobody),
    };
    c.bench_function("admit and finish, no contention", |b| {
        b.iter(|| runtime.block_on(level.admit(request.clone(), Duration::from_secs(1))).is_ok());
    });
}

criterion_group!(benches, admit);
criterion_main!(benches);
