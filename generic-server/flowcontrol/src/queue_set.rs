//! The algorithm of one priority level: fair queuing of requests that take several seats for unknown times.
//!
//! Virtual time runs as fast as every active queue is served if all get the same. A queue's next request would begin at
//! `next_dispatch` in virtual time, and the queue whose request would end first is served next. A request is charged an
//! assumed duration when it begins and the difference to the real one when it ends.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::{
    LimitResponse, Nanos, Work,
    queue::{ASSUMED_DURATION, Queue, SeatNanos, Ticket, Waiting},
    shuffle_shard::Dealer,
};

/// What becomes of a request that arrives.
#[derive(Debug)]
pub enum Arrival {
    /// It may run.
    Execute(Execution),
    /// It waits in the queue of this index. A [`Grant`] with its ticket will follow, unless it is cancelled.
    Wait(usize),
    /// It may not.
    Reject(Rejection),
}

/// Why a request may not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// No seat, and nothing waits on this level.
    ConcurrencyLimit,
    /// The shortest of its queues is full.
    QueueFull,
    /// It has waited as long as it could.
    TimeOut,
}

impl Rejection {
    /// The reason's name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Rejection::ConcurrencyLimit => "concurrency-limit",
            Rejection::QueueFull => "queue-full",
            Rejection::TimeOut => "time-out",
        }
    }
}

/// A request that runs. Must be given back to [`QueueSet::finish`].
#[derive(Debug)]
pub struct Execution {
    queue: Option<usize>,
    work: Work,
    started: Nanos,
}

impl Execution {
    /// The seats that it has.
    pub fn seats(&self) -> u64 {
        self.work.max_seats()
    }

    /// The queue that it came through.
    pub(crate) fn queue(&self) -> Option<usize> {
        self.queue
    }

    /// When it began.
    pub fn started(&self) -> Nanos {
        self.started
    }
}

/// A request that waited and may run now.
#[derive(Debug)]
pub struct Grant {
    /// Which.
    pub ticket: Ticket,
    /// Its right to run.
    pub execution: Execution,
}

/// What a level has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) dispatched: u64,
    pub(crate) rejected: u64,
    pub(crate) timed_out: u64,
    pub(crate) cancelled: u64,
}

/// One level's seats and queues.
#[derive(Debug)]
pub struct QueueSet {
    response: LimitResponse,
    dealer: Dealer,
    limit: u64,
    /// As many as are configured, and more while those that were taken away are not empty.
    queues: Vec<Queue>,
    virtual_time: SeatNanos,
    synced: Nanos,
    /// The queue that was served last: among equals the next one is first.
    robin: usize,
    arrivals: usize,
    waiting: usize,
    executing: usize,
    active_queues: usize,
    seats_in_use: u64,
    seats_waiting: u64,
    /// Of the seats in use those that came through a queue.
    queued_seats_in_use: u64,
    /// Seats whose request is answered, and until when its consequences keep them.
    lingering: BinaryHeap<Reverse<(Nanos, u64, Option<usize>)>>,
    pub(crate) counts: Counts,
}

impl QueueSet {
    /// A level of `limit` seats.
    pub fn new(response: LimitResponse, limit: u64) -> Self {
        let mut set = QueueSet {
            response: LimitResponse::Reject,
            dealer: Dealer::new(1, 1),
            limit,
            queues: Vec::new(),
            virtual_time: 0,
            synced: 0,
            robin: 0,
            arrivals: 0,
            waiting: 0,
            executing: 0,
            active_queues: 0,
            seats_in_use: 0,
            seats_waiting: 0,
            queued_seats_in_use: 0,
            lingering: BinaryHeap::new(),
            counts: Counts::default(),
        };
        set.configure(0, response, limit, &mut Vec::new());
        set
    }

    /// Changes what was configured. Requests that wait and run stay; who may run by it now is added to `grants`.
    pub fn configure(&mut self, now: Nanos, response: LimitResponse, limit: u64, grants: &mut Vec<Grant>) {
        self.sync(now);
        self.limit = limit;
        self.response = response;
        if let LimitResponse::Queue(queuing) = response {
            self.dealer = Dealer::new(queuing.queues, queuing.hand_size);
            if self.queues.len() < queuing.queues {
                self.queues.resize_with(queuing.queues, Queue::default);
            }
        }
        self.trim();
        self.dispatch(now, grants);
    }

    /// A request arrives. `hash` is its flow's. Requests that may run by it, which can be others too, are added to `grants`,
    /// but for the one that arrives.
    pub fn arrive(&mut self, now: Nanos, ticket: Ticket, work: Work, hash: u64, grants: &mut Vec<Grant>) -> Arrival {
        self.release_due(now, grants);
        let LimitResponse::Queue(queuing) = self.response else {
            if self.response != LimitResponse::Exempt && !self.accommodates(work.max_seats()) {
                self.counts.rejected += 1;
                return Arrival::Reject(Rejection::ConcurrencyLimit);
            }
            return Arrival::Execute(self.begin(now, work, None));
        };
        let index = self.choose(hash);
        if self.seats_in_use >= self.limit && self.queues[index].len() >= queuing.length_limit {
            self.queues[index].bound();
            self.counts.rejected += 1;
            return Arrival::Reject(Rejection::QueueFull);
        }
        let queue = &mut self.queues[index];
        if !queue.is_active() {
            self.active_queues += 1;
            queue.next_dispatch = self.virtual_time;
        }
        let request = Waiting { ticket, work, arrived: self.virtual_time };
        if self.waiting == 0 && self.seats_in_use < self.limit && self.accommodates(work.max_seats()) {
            // Nobody waits and it fits: the general way would come to the same.
            let queue = &mut self.queues[index];
            queue.next_dispatch = queue.next_dispatch.max(request.arrived) + request.total();
            return Arrival::Execute(self.begin(now, narrowed(work, self.limit), Some(index)));
        }
        let queue = &mut self.queues[index];
        queue.push(request);
        queue.bound();
        self.waiting += 1;
        self.seats_waiting += work.max_seats();
        let before = grants.len();
        self.dispatch(now, grants);
        match grants[before..].iter().position(|grant| grant.ticket == ticket) {
            Some(at) => Arrival::Execute(grants.remove(before + at).execution),
            None => Arrival::Wait(index),
        }
    }

    /// A request has been answered.
    pub fn finish(&mut self, now: Nanos, execution: Execution, grants: &mut Vec<Grant>) {
        self.sync(now);
        self.executing -= 1;
        let Execution { queue, work, started } = execution;
        if let Some(index) = queue {
            let served = &mut self.queues[index];
            let took = SeatNanos::from(now.saturating_sub(started));
            served.executing -= 1;
            served.next_dispatch += SeatNanos::from(work.initial_seats) * (took - SeatNanos::from(ASSUMED_DURATION));
            served.bound();
            if !served.is_active() {
                self.active_queues -= 1;
            }
        }
        let lasts = u64::try_from(work.additional_latency.as_nanos()).unwrap_or(u64::MAX);
        if lasts == 0 || work.final_seats == 0 {
            self.release(work.max_seats(), queue);
        } else {
            self.lingering.push(Reverse((now.saturating_add(lasts), work.max_seats(), queue)));
        }
        self.release_due(now, grants);
        self.dispatch(now, grants);
    }

    /// A request does not want to wait any longer. Returns false if it no longer waits.
    pub fn cancel(
        &mut self,
        now: Nanos,
        ticket: Ticket,
        queue: usize,
        timed_out: bool,
        grants: &mut Vec<Grant>,
    ) -> bool {
        self.sync(now);
        let Some(request) = self.queues.get_mut(queue).and_then(|queue| queue.remove(ticket)) else { return false };
        self.queues[queue].bound();
        if !self.queues[queue].is_active() {
            self.active_queues -= 1;
        }
        self.waiting -= 1;
        self.seats_waiting -= request.work.max_seats();
        self.counts.rejected += 1;
        if timed_out {
            self.counts.timed_out += 1;
        } else {
            self.counts.cancelled += 1;
        }
        self.trim();
        self.dispatch(now, grants); // it may have stood before narrower ones
        true
    }

    /// Gives seats back whose time is over.
    pub fn release_due(&mut self, now: Nanos, grants: &mut Vec<Grant>) {
        self.sync(now);
        let mut released = false;
        while let Some(Reverse((due, seats, queue))) = self.lingering.peek().copied() {
            if due > now {
                break;
            }
            self.lingering.pop();
            self.release(seats, queue);
            released = true;
        }
        if released {
            self.dispatch(now, grants);
        }
    }

    /// When [`release_due`](Self::release_due) has something to do next that somebody waits for.
    pub fn next_release(&self) -> Option<Nanos> {
        let first = self.lingering.peek().map(|Reverse((due, ..))| *due);
        first.filter(|_| self.waiting > 0)
    }

    /// Whether nothing waits or runs.
    pub fn is_idle(&self) -> bool {
        self.waiting == 0 && self.executing == 0 && self.lingering.is_empty()
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many requests run.
    pub fn executing(&self) -> usize {
        self.executing
    }

    /// How many seats are taken, by requests that run and by what others have left behind.
    pub fn seats_in_use(&self) -> u64 {
        self.seats_in_use
    }

    /// How many seats the level could use now.
    pub fn demand(&self) -> u64 {
        self.seats_in_use + self.seats_waiting
    }

    /// How many seats there are.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn queue_length(&self, index: usize) -> usize {
        self.queues.get(index).map_or(0, Queue::len)
    }

    pub(crate) fn queues(&self) -> &[Queue] {
        &self.queues
    }

    pub(crate) fn virtual_time(&self) -> SeatNanos {
        self.virtual_time
    }

    /// Moves virtual time up to `now`.
    fn sync(&mut self, now: Nanos) {
        let passed = SeatNanos::from(now.saturating_sub(self.synced));
        self.synced = self.synced.max(now);
        if self.active_queues > 0 {
            let wanted = self.queued_seats_in_use + self.seats_waiting;
            let served = SeatNanos::from(wanted.min(self.limit));
            let active = SeatNanos::try_from(self.active_queues).expect("few queues");
            self.virtual_time += served * passed / active;
        }
    }

    /// The queue for a flow: of its hand the one with the least work, and among equals not always the first.
    fn choose(&mut self, hash: u64) -> usize {
        let hand = self.dealer.deal(hash);
        let size = self.dealer.hand_size();
        let offset = self.arrivals % size;
        self.arrivals = self.arrivals.wrapping_add(1);
        let turned = hand.clone().skip(offset).chain(hand.take(offset));
        turned.min_by_key(|index| self.queues[*index].work).expect("a hand is never empty")
    }

    /// Whether so many seats are free. What is wider than the whole level may run alone. (Differs: upstream lets it run
    /// beside what others have left behind.)
    fn accommodates(&self, seats: u64) -> bool {
        if seats > self.limit { self.seats_in_use == 0 } else { self.seats_in_use + seats <= self.limit }
    }

    /// Lets as many run as there are seats for.
    fn dispatch(&mut self, now: Nanos, grants: &mut Vec<Grant>) {
        while self.waiting > 0 && self.seats_in_use < self.limit {
            let Some(index) = self.next_queue() else { return };
            let queue = &mut self.queues[index];
            let Some(oldest) = queue.oldest() else { return };
            let seats = oldest.work.max_seats();
            if !self.accommodates(seats) {
                return; // it is next, and waits until there is room: narrower ones must not starve it
            }
            let queue = &mut self.queues[index];
            let Some(request) = queue.pop() else { return };
            self.robin = index;
            queue.next_dispatch += request.total();
            queue.bound();
            self.waiting -= 1;
            self.seats_waiting -= seats;
            let work = narrowed(request.work, self.limit);
            let execution = self.begin(now, work, Some(index));
            grants.push(Grant { ticket: request.ticket, execution });
        }
    }

    /// The queue whose oldest request would end first in virtual time.
    fn next_queue(&self) -> Option<usize> {
        let count = self.queues.len();
        let turn = (1..=count).map(|step| (self.robin + step) % count);
        let candidates = turn.filter_map(|index| {
            let queue = &self.queues[index];
            Some((index, queue.next_dispatch + queue.oldest()?.total()))
        });
        candidates.min_by_key(|(_, end)| *end).map(|(index, _)| index)
    }

    fn begin(&mut self, now: Nanos, work: Work, queue: Option<usize>) -> Execution {
        let seats = work.max_seats();
        self.executing += 1;
        self.seats_in_use += seats;
        self.counts.dispatched += 1;
        if let Some(index) = queue {
            self.queues[index].executing += 1;
            self.queues[index].seats_in_use += seats;
            self.queued_seats_in_use += seats;
        }
        Execution { queue, work, started: now }
    }

    fn release(&mut self, seats: u64, queue: Option<usize>) {
        self.seats_in_use -= seats;
        if let Some(index) = queue {
            self.queues[index].seats_in_use -= seats;
            self.queued_seats_in_use -= seats;
            self.trim();
        }
    }

    /// Drops queues at the end that are no longer configured, once nothing is left of them.
    fn trim(&mut self) {
        let LimitResponse::Queue(queuing) = self.response else { return };
        let unused = |queue: &Queue| !queue.is_active() && queue.seats_in_use == 0;
        while self.queues.len() > queuing.queues && self.queues.last().is_some_and(unused) {
            self.queues.pop();
        }
        if self.robin >= self.queues.len() {
            self.robin = 0;
        }
    }
}

/// Work whose consequences are wider than the level is made narrower and longer.
fn narrowed(work: Work, limit: u64) -> Work {
    let limit = limit.max(1);
    if work.final_seats <= limit {
        return work;
    }
    let longer = work.additional_latency.as_secs_f64() * work.final_seats as f64 / limit as f64;
    Work { final_seats: limit, additional_latency: std::time::Duration::from_secs_f64(longer), ..work }
}
