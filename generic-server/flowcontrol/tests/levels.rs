//! Levels with real waiters.

use std::{sync::Arc, time::Duration};

use flowcontrol::{
    Arriving, Describe, EXEMPT, FlowMetrics, LevelConfig, Levels, LimitResponse, Metrics, Queuing, Rejected, Rejection,
    Work,
};

struct Somebody;

impl Describe for Somebody {
    fn distinguisher(&self) -> &str {
        "somebody"
    }

    fn details(&self) -> [String; 8] {
        ["somebody", "get", "/api/v1/pods", "", "", "v1", "pods", ""].map(str::to_owned)
    }
}

fn request(metrics: &Arc<FlowMetrics>) -> Arriving {
    Arriving {
        metrics: metrics.clone(),
        hash: 1,
        work: Work::seats(1),
        mutating: false,
        watch: false,
        description: Arc::new(Somebody),
    }
}

fn config(name: &str, response: LimitResponse, shares: u32) -> LevelConfig {
    LevelConfig { name: name.to_owned(), response, shares, lendable_percent: 0, borrowing_percent: Some(0) }
}

fn levels(total: u64, configs: Vec<LevelConfig>) -> (Levels, prometheus::Registry) {
    let registry = prometheus::Registry::new();
    let levels = Levels::new(total, Metrics::new(&registry));
    levels.configure(configs);
    (levels, registry)
}

const QUEUE: LimitResponse = LimitResponse::Queue(Queuing { queues: 1, hand_size: 1, length_limit: 1 });
const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn a_request_waits_until_a_seat_is_free_and_a_full_queue_refuses() {
    let (levels, _) = levels(1, vec![config("a", QUEUE, 1)]);
    let flow = levels.metrics().flow("a", "schema");
    let (level, _) = levels.get("a").expect("configured");
    let seat = level.admit(request(&flow), LONG).await.expect("a seat is free");
    let mut waits = Box::pin(level.admit(request(&flow), LONG));
    assert!(futures_poll(&mut waits).is_none());
    let full = level.admit(request(&flow), LONG).await.err();
    assert_eq!(full, Some(Rejected { reason: Rejection::QueueFull, retry_after: 1, waited: Duration::ZERO }));
    assert!(levels.dump_requests(true, |_| "t".to_owned()).contains("somebody, get,"));
    drop(seat);
    assert!(waits.await.is_ok());
}

#[tokio::test]
async fn whoever_waits_too_long_or_goes_away_leaves_the_queue() {
    let (levels, _) = levels(1, vec![config("a", QUEUE, 1)]);
    let flow = levels.metrics().flow("a", "schema");
    let (level, _) = levels.get("a").expect("configured");
    let seat = level.admit(request(&flow), LONG).await.expect("a seat is free");
    let late = level.admit(request(&flow), Duration::ZERO).await.err();
    assert_eq!(late.map(|rejected| rejected.reason), Some(Rejection::TimeOut));
    let mut gone = Box::pin(level.admit(request(&flow), LONG));
    assert!(futures_poll(&mut gone).is_none());
    drop(gone);
    let mut waits = Box::pin(level.admit(request(&flow), LONG));
    assert!(futures_poll(&mut waits).is_none(), "there is a place in the queue again");
    drop(seat);
    assert!(waits.await.is_ok());
    let levels = levels.dump_levels();
    let line = levels.lines().nth(1).expect("one level");
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    assert_eq!(cells, ["a", "0", "true", "false", "0", "0", "2", "2", "1", "1"]);
}

#[tokio::test]
async fn a_turn_that_nobody_takes_goes_to_the_next() {
    let wide = LimitResponse::Queue(Queuing { queues: 1, hand_size: 1, length_limit: 10 });
    let (levels, _) = levels(1, vec![config("a", wide, 1)]);
    let flow = levels.metrics().flow("a", "schema");
    let (level, _) = levels.get("a").expect("configured");
    let seat = level.admit(request(&flow), LONG).await.expect("a seat is free");
    let mut first = Box::pin(level.admit(request(&flow), LONG));
    let mut second = Box::pin(level.admit(request(&flow), LONG));
    assert!(futures_poll(&mut first).is_none() && futures_poll(&mut second).is_none());
    drop(seat); // the first is woken
    drop(first); // and does not look any more
    assert!(second.await.is_ok());
}

#[tokio::test]
async fn seats_are_divided_by_shares_and_lent_by_demand() {
    let lends = LevelConfig { lendable_percent: 50, borrowing_percent: None, ..config("lends", QUEUE, 3) };
    let wants = LevelConfig { borrowing_percent: Some(100), ..config("wants", QUEUE, 1) };
    let exempt = config(EXEMPT, LimitResponse::Exempt, 0);
    let (levels, registry) = levels(8, vec![lends, wants, exempt]);
    let gauge = |name: &str, level: &str| {
        let families = registry.gather();
        let family = families.iter().find(|family| family.name() == name).expect("the family");
        let of_level = family.get_metric().iter().find(|metric| metric.get_label().iter().any(|l| l.value() == level));
        of_level.expect("the level").get_gauge().get_value()
    };
    assert_eq!(gauge("apiserver_flowcontrol_nominal_limit_seats", "lends"), 6.0);
    assert_eq!(gauge("apiserver_flowcontrol_lower_limit_seats", "lends"), 3.0);
    assert_eq!(gauge("apiserver_flowcontrol_upper_limit_seats", "wants"), 4.0);
    let flow = levels.metrics().flow("wants", "schema");
    let (level, _) = levels.get("wants").expect("configured");
    let mut running = Vec::new();
    while let Some(Ok(seat)) = futures_poll(&mut Box::pin(level.admit(request(&flow), LONG))) {
        running.push(seat);
    }
    let before = running.len();
    levels.rebalance();
    let after = gauge("apiserver_flowcontrol_current_limit_seats", "wants");
    assert!(after > 2.0 && after <= 4.0, "{before} seats became {after}");
}

#[tokio::test]
async fn a_level_that_is_gone_serves_those_that_it_has() {
    let (levels, _) = levels(2, vec![config("a", QUEUE, 1), config("b", QUEUE, 1)]);
    let flow = levels.metrics().flow("a", "schema");
    let (level, _) = levels.get("a").expect("configured");
    let seat = level.admit(request(&flow), LONG).await.expect("a seat is free");
    let mut waits = Box::pin(level.admit(request(&flow), LONG));
    assert!(futures_poll(&mut waits).is_none());
    levels.configure([config("b", QUEUE, 1)]);
    assert!(levels.get("a").is_none());
    assert!(levels.dump_levels().contains("a,"), "it has requests");
    drop(seat);
    drop(waits.await);
    levels.rebalance();
    assert!(!levels.dump_levels().contains("\na,"));
}

#[test]
fn requests_take_a_part_of_their_level_at_most() {
    let queues = |hand_size| LimitResponse::Queue(Queuing { queues: 64, hand_size, length_limit: 50 });
    let check = |total: u64, hand_size, max: u64| {
        let (levels, _) = levels(total, vec![config("a", queues(hand_size), 1)]);
        assert_eq!(levels.get("a").map(|(_, max)| max), Some(max), "{total} seats, hands of {hand_size}");
    };
    check(600, 6, 90);
    check(60, 6, 9);
    check(60, 10, 6);
    check(4, 8, 1);
}

/// The answer, if it is there.
fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(future).poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}
