//! What fair queuing promises, shown by simulation with a clock of its own: seats are never exceeded, no seat stays free that
//! somebody could use, nobody starves, and flows get the same whatever others do.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    time::Duration,
};

use flowcontrol::{Arrival, Execution, Grant, LimitResponse, Nanos, QueueSet, Queuing, Rejection, Work};
use proptest::prelude::*;

const MILLISECOND: Nanos = 1_000_000;

/// A request of a simulation.
#[derive(Clone, Copy, Debug)]
struct Request {
    at: Nanos,
    flow: u64,
    work: Work,
    runs: Nanos,
}

/// What became of one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Ran { began: Nanos, ended: Nanos },
    Rejected(Rejection),
}

struct Simulation {
    set: QueueSet,
    limit: u64,
    /// One that is wider than the level runs, and lingers, alone.
    widest: u64,
    running: BinaryHeap<Reverse<(Nanos, u64)>>,
    executions: HashMap<u64, Execution>,
    requests: Vec<Request>,
    outcomes: Vec<Option<Outcome>>,
}

impl Simulation {
    fn run(response: LimitResponse, limit: u64, mut requests: Vec<Request>) -> Vec<Outcome> {
        requests.sort_by_key(|request| request.at);
        let mut simulation = Simulation {
            set: QueueSet::new(response, limit),
            limit,
            widest: requests.iter().map(|request| request.work.max_seats()).max().unwrap_or(0),
            running: BinaryHeap::new(),
            executions: HashMap::new(),
            outcomes: vec![None; requests.len()],
            requests,
        };
        let mut next = 0;
        loop {
            let arrival = simulation.requests.get(next).map(|request| request.at);
            let ended = simulation.running.peek().map(|Reverse((at, _))| *at);
            let released = simulation.set.next_release();
            let Some(now) = [arrival, ended, released].into_iter().flatten().min() else { break };
            if ended == Some(now) {
                simulation.finish(now);
            } else if released == Some(now) {
                let mut grants = Vec::new();
                simulation.set.release_due(now, &mut grants);
                simulation.granted(now, grants);
            } else {
                simulation.arrive(now, next);
                next += 1;
            }
            simulation.check();
        }
        let outcomes = simulation.outcomes.into_iter();
        outcomes.map(|outcome| outcome.expect("every request ends: it runs, or it is refused")).collect()
    }

    fn arrive(&mut self, now: Nanos, index: usize) {
        let request = self.requests[index];
        let mut grants = Vec::new();
        // Spread as a hash spreads; each flow keeps its hand from run to run.
        let hash = request.flow.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        match self.set.arrive(now, index as u64, request.work, hash, &mut grants) {
            Arrival::Execute(execution) => self.begin(now, index, execution),
            Arrival::Wait(_) => {}
            Arrival::Reject(reason) => self.outcomes[index] = Some(Outcome::Rejected(reason)),
        }
        self.granted(now, grants);
    }

    fn granted(&mut self, now: Nanos, grants: Vec<Grant>) {
        for grant in grants {
            self.begin(now, usize::try_from(grant.ticket).expect("an index"), grant.execution);
        }
    }

    fn begin(&mut self, now: Nanos, index: usize, execution: Execution) {
        let ended = now + self.requests[index].runs;
        self.outcomes[index] = Some(Outcome::Ran { began: now, ended });
        self.running.push(Reverse((ended, index as u64)));
        self.executions.insert(index as u64, execution);
    }

    fn finish(&mut self, now: Nanos) {
        let Reverse((_, index)) = self.running.pop().expect("somebody runs");
        let execution = self.executions.remove(&index).expect("each runs once");
        let mut grants = Vec::new();
        self.set.finish(now, execution, &mut grants);
        self.granted(now, grants);
    }

    /// What holds after every step.
    fn check(&self) {
        assert!(
            self.set.seats_in_use() <= self.limit.max(self.widest),
            "{} of {} seats are in use",
            self.set.seats_in_use(),
            self.limit
        );
        assert_eq!(self.set.executing(), self.executions.len());
    }
}

fn queues(queues: usize, hand_size: usize, length_limit: usize) -> LimitResponse {
    LimitResponse::Queue(Queuing { queues, hand_size, length_limit })
}

fn began(outcome: &Outcome) -> Option<Nanos> {
    match outcome {
        Outcome::Ran { began, .. } => Some(*began),
        Outcome::Rejected(_) => None,
    }
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let one = (0_u64..400, 0_u64..6, 1_u64..4, 0_u64..3, 0_u64..8, 1_u64..30);
    proptest::collection::vec(one, 1..200).prop_map(|all| {
        let request = |(at, flow, initial_seats, final_seats, lasts, runs)| Request {
            at: at * MILLISECOND,
            flow,
            work: Work { initial_seats, final_seats, additional_latency: Duration::from_millis(lasts) },
            runs: runs * MILLISECOND,
        };
        all.into_iter().map(request).collect()
    })
}

proptest! {
    #[test]
    fn every_request_that_is_let_in_runs(all in requests(), limit in 1_u64..12, count in 1_usize..16, hand in 1_usize..4) {
        let outcomes = Simulation::run(queues(count, hand.min(count), 10_000), limit, all);
        let refused = outcomes.iter().filter(|outcome| began(outcome).is_none()).count();
        prop_assert_eq!(refused, 0);
    }

    #[test]
    fn work_of_one_seat_never_waits_beside_a_free_one(all in requests(), limit in 1_u64..12) {
        // If all take one seat, the level is never slower than one queue for all: what runs ends as early as work allows.
        let narrow: Vec<Request> = all.into_iter().map(|r| Request { work: Work::seats(1), ..r }).collect();
        let outcomes = Simulation::run(queues(8, 2, 10_000), limit, narrow.clone());
        let mut sorted = narrow;
        sorted.sort_by_key(|request| request.at);
        for (request, outcome) in sorted.iter().zip(&outcomes) {
            let Outcome::Ran { began, .. } = *outcome else { panic!("the queues are long enough") };
            if began > request.at {
                // Whoever waited did so because all seats were taken: at every moment before it began.
                let moment = began - 1;
                let running = outcomes.iter().filter(|other| match other {
                    Outcome::Ran { began, ended } => *began <= moment && *ended > moment,
                    Outcome::Rejected(_) => false,
                });
                prop_assert_eq!(running.count() as u64, limit);
            }
        }
    }

    #[test]
    fn requests_of_one_flow_with_one_queue_run_in_order(all in requests(), limit in 1_u64..12) {
        let one: Vec<Request> = all.into_iter().map(|r| Request { flow: 7, ..r }).collect();
        let outcomes = Simulation::run(queues(16, 1, 10_000), limit, one);
        prop_assert!(outcomes.windows(2).all(|pair| began(&pair[0]) <= began(&pair[1])));
    }
}

/// A flow that asks `times` in intervals; each request runs for 10 ms.
fn steady(flow: u64, from: Nanos, every: Nanos, times: u64) -> impl Iterator<Item = Request> {
    (0..times).map(move |n| Request { at: from + n * every, flow, work: Work::seats(1), runs: 10 * MILLISECOND })
}

#[test]
fn a_flood_does_not_drown_who_asks_now_and_then() {
    // Ten seats of 10 ms serve 1,000 requests a second. One flow sends 50 times as many, another 20 a second.
    let flood = steady(1, 0, MILLISECOND / 50, 50_000);
    let mut quiet: Vec<Request> = steady(2, 0, 50 * MILLISECOND, 20).collect();
    quiet.iter_mut().for_each(|request| request.at += 7); // never first by chance
    let all: Vec<Request> = flood.chain(quiet).collect();
    let outcomes = Simulation::run(queues(64, 6, 50), 10, all.clone());
    let mut sorted = all;
    sorted.sort_by_key(|request| request.at);
    for (request, outcome) in sorted.iter().zip(&outcomes).filter(|(request, _)| request.flow == 2) {
        let began = began(outcome).expect("a flow with room in its queues is not refused");
        let waited = began - request.at;
        assert!(waited <= 20 * MILLISECOND, "waited {} us, twice what a request takes", waited / 1_000);
    }
    let refused = outcomes.iter().filter(|outcome| **outcome == Outcome::Rejected(Rejection::QueueFull)).count();
    assert!(refused > 40_000, "the flood is refused, {refused} times");
}

#[test]
fn flows_that_want_more_than_there_is_get_the_same() {
    // Three flows want 2, 4 and 20 times what all could have; each gets a third.
    let second = 1_000 * MILLISECOND;
    let flows = [(1, 2), (2, 4), (3, 20)];
    let all: Vec<Request> =
        flows.iter().flat_map(|(flow, times)| steady(*flow, *flow, MILLISECOND / times, times * 1_000)).collect();
    let outcomes = Simulation::run(queues(64, 1, 100_000), 10, all.clone());
    let mut sorted = all;
    sorted.sort_by_key(|request| request.at);
    let mut served: HashMap<u64, u64> = HashMap::new();
    for (request, outcome) in sorted.iter().zip(&outcomes) {
        if began(outcome).is_some_and(|began| began < second) {
            *served.entry(request.flow).or_default() += 1;
        }
    }
    for (flow, _) in flows {
        let part = served[&flow];
        assert!((325..=345).contains(&part), "flow {flow} got {part} of 1,000");
    }
}

#[test]
fn a_wide_request_is_not_passed_by_narrow_ones_for_ever() {
    let narrow = steady(1, 0, MILLISECOND, 1_000);
    let wide = Request { at: 5 * MILLISECOND, flow: 2, work: Work::seats(8), runs: 10 * MILLISECOND };
    let outcomes = Simulation::run(queues(2, 1, 10_000), 8, narrow.chain([wide]).collect());
    let seats = |n: u64| began(&outcomes[usize::try_from(n).expect("small")]);
    // It is the sixth or seventh to arrive.
    assert!(seats(5).min(seats(6)) < Some(60 * MILLISECOND));
    let last = outcomes.iter().filter_map(began).max();
    assert!(last > Some(900 * MILLISECOND));
}

#[test]
fn what_a_request_leaves_behind_keeps_its_seats() {
    let lasting = Work { initial_seats: 1, final_seats: 1, additional_latency: Duration::from_millis(5) };
    let one = |at, work| Request { at, flow: 1, work, runs: 10 * MILLISECOND };
    let all = vec![one(0, lasting), one(1, Work::seats(1))];
    let outcomes = Simulation::run(queues(1, 1, 10), 1, all);
    assert_eq!(began(&outcomes[1]), Some(15 * MILLISECOND));
}

#[test]
fn a_level_without_queues_refuses_and_an_exempt_one_never_does() {
    let all: Vec<Request> = steady(1, 0, 0, 3).collect();
    let rejected = Outcome::Rejected(Rejection::ConcurrencyLimit);
    let outcomes = Simulation::run(LimitResponse::Reject, 2, all.clone());
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == rejected).count(), 1);
    let mut set = QueueSet::new(LimitResponse::Exempt, 0);
    for request in 0..3 {
        assert!(matches!(set.arrive(0, request, Work::seats(9), 0, &mut Vec::new()), Arrival::Execute(_)));
    }
}

#[test]
fn queues_that_are_taken_away_are_emptied_first() {
    let mut set = QueueSet::new(queues(8, 1, 10), 1);
    let mut grants = Vec::new();
    let Arrival::Execute(first) = set.arrive(0, 100, Work::seats(1), 0, &mut grants) else { panic!("a seat is free") };
    for request in 0..8 {
        assert!(matches!(set.arrive(1, request, Work::seats(1), request, &mut grants), Arrival::Wait(_)));
    }
    set.configure(2, queues(1, 1, 10), 1, &mut grants);
    let mut served = Vec::new();
    let mut running = first;
    for now in 3..11 {
        set.finish(now, running, &mut grants);
        let grant = grants.pop().expect("somebody waits");
        served.push(grant.ticket);
        running = grant.execution;
    }
    set.finish(11, running, &mut grants);
    served.sort_unstable();
    assert_eq!(served, (0..8).collect::<Vec<_>>());
    assert!(set.is_idle());
}

#[test]
fn whoever_leaves_a_queue_makes_room_for_those_behind() {
    let mut set = QueueSet::new(queues(1, 1, 10), 2);
    let mut grants = Vec::new();
    let Arrival::Execute(_running) = set.arrive(0, 1, Work::seats(1), 0, &mut grants) else { panic!("a seat is free") };
    let Arrival::Wait(queue) = set.arrive(1, 2, Work::seats(2), 0, &mut grants) else { panic!("too wide for now") };
    assert!(matches!(set.arrive(2, 3, Work::seats(1), 0, &mut grants), Arrival::Wait(_)));
    assert!(set.cancel(3, 2, queue, true, &mut grants));
    assert_eq!(grants.pop().map(|grant| grant.ticket), Some(3));
    assert!(!set.cancel(4, 2, queue, true, &mut grants), "it no longer waits");
}
