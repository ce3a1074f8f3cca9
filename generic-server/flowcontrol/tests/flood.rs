//! One flow floods all levels of a server at fifty times what it can do, and what that costs others: simulated with a clock that
//! only moves when nobody has anything to do.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use flowcontrol::{Arriving, Describe, EXEMPT, LevelConfig, Levels, LimitResponse, Metrics, Queuing, Work};
use tokio::time::Instant;

/// What every request takes once it runs.
const RUNS: Duration = Duration::from_secs(1);
/// Seats of the server: it can do as many requests a second. With fewer, a level has one or two, and who comes waits for whole requests.
const SEATS: u64 = 100;
/// How many times that the flood is.
const TIMES: u32 = 50;
/// How long it lasts: seats are lent anew some times in it.
const LASTS: Duration = Duration::from_secs(40);

struct Somebody;

impl Describe for Somebody {
    fn distinguisher(&self) -> &str {
        "somebody"
    }

    fn details(&self) -> [String; 8] {
        Default::default()
    }
}

/// The levels that a server has at the beginning: name, shares, and how much of it is lent.
const LEVELS: [(&str, u32, u32); 7] = [
    ("system", 30, 33),
    ("node-high", 40, 25),
    ("leader-election", 10, 0),
    ("workload-high", 40, 50),
    ("workload-low", 100, 90),
    ("global-default", 20, 50),
    ("catch-all", 5, 0),
];

fn levels() -> Levels {
    let levels = Levels::new(SEATS, Metrics::new(&prometheus::Registry::new()));
    let queuing = Queuing { queues: 64, hand_size: 6, length_limit: 50 };
    let level = |name: &str, response, shares, lendable_percent| LevelConfig {
        name: name.to_owned(),
        response,
        shares,
        lendable_percent,
        borrowing_percent: None,
    };
    let limited = LEVELS.map(|(name, shares, lent)| level(name, LimitResponse::Queue(queuing), shares, lent));
    levels.configure(limited.into_iter().chain([level(EXEMPT, LimitResponse::Exempt, 0, 0)]));
    levels
}

/// What became of the requests of one flow: how long each took that was served, and how many were refused.
#[derive(Default)]
struct Outcome {
    took: Vec<Duration>,
    refused: usize,
}

impl Outcome {
    fn worst_of_hundred(&self) -> Duration {
        let mut took = self.took.clone();
        took.sort_unstable();
        took[(took.len() * 99).div_ceil(100) - 1]
    }
}

/// Requests of a flow, one in each interval, on a level.
async fn flow(levels: Arc<Levels>, level: &'static str, hash: u64, every: Duration) -> Outcome {
    let metrics = levels.metrics().flow(level, "schema");
    let outcome = Arc::new(Mutex::new(Outcome::default()));
    let mut all = tokio::task::JoinSet::new();
    let begun = Instant::now();
    let mut at = begun + every.mul_f64(hash as f64 * 0.618_033_988_749_895 % 1.0);
    while at - begun < LASTS {
        tokio::time::sleep_until(at).await;
        at += every;
        let (levels, outcome) = (levels.clone(), outcome.clone());
        let request = Arriving {
            metrics: metrics.clone(),
            hash: hash.wrapping_mul(0x9e37_79b9_7f4a_7c15), // hands of near numbers would be alike
            work: Work::seats(1),
            mutating: false,
            watch: false,
            description: Arc::new(Somebody),
        };
        all.spawn(async move {
            let (level, _) = levels.get(level).expect("configured");
            let since = Instant::now();
            let seat = level.admit(request, Duration::from_secs(15)).await;
            if seat.is_ok() {
                tokio::time::sleep(RUNS).await;
            }
            let mut outcome = outcome.lock().expect("healthy");
            match seat {
                Ok(_) => outcome.took.push(since.elapsed()),
                Err(_) => outcome.refused += 1,
            }
        });
        while all.try_join_next().is_some() {}
    }
    while all.join_next().await.is_some() {}
    std::mem::take(&mut *outcome.lock().expect("healthy"))
}

#[tokio::test(start_paused = true)]
async fn a_flood_costs_others_little_and_the_exempt_nothing() {
    let levels = Arc::new(levels());
    let lending = tokio::spawn({
        let levels = levels.clone();
        async move {
            loop {
                tokio::time::sleep(Levels::PERIOD).await;
                levels.rebalance();
            }
        }
    });
    let flood = RUNS / (u32::try_from(SEATS).expect("few") * TIMES);
    let go = |level, hash, every| tokio::spawn(flow(levels.clone(), level, hash, every));
    let flood = go("global-default", 1, flood);
    let tenant = go("global-default", 2, Duration::from_secs(1));
    let manager = go("leader-election", 3, Duration::from_secs(1));
    let nodes: Vec<_> = (10..20).map(|node| go("node-high", node, Duration::from_secs(5))).collect();
    let exempt = go(EXEMPT, 4, Duration::from_millis(50));
    let (flood, tenant) = (flood.await.expect("no panic"), tenant.await.expect("no panic"));
    assert!(flood.refused > 100 * flood.took.len() / TIMES as usize, "{} {}", flood.refused, flood.took.len());
    assert!(flood.took.len() > 100, "the flood itself gets what is left: {}", flood.took.len());
    let within = |name: &str, outcome: &Outcome, times: u32| {
        assert_eq!(outcome.refused, 0, "{name}");
        let worst = outcome.worst_of_hundred();
        assert!(worst <= RUNS * times, "{name}: {worst:?}");
    };
    within("another tenant", &tenant, 3);
    within("leader election", &manager.await.expect("no panic"), 2);
    for node in nodes {
        within("a node's heartbeat", &node.await.expect("no panic"), 2);
    }
    let exempt = exempt.await.expect("no panic");
    let tick = Duration::from_millis(1); // of the clock's timers
    assert!(exempt.refused == 0 && exempt.took.iter().all(|took| *took <= RUNS + tick), "nothing exempt waits");
    lending.abort();
}
