//! A priority level that requests wait for: the algorithm behind a lock, with wakers.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use tokio::{sync::oneshot, time::Instant};

use crate::{
    Demand, Integrator, LimitResponse, Nanos, Rejection, Work,
    metrics::{FlowMetrics, LevelMetrics},
    queue::Ticket,
    queue_set::{Arrival, Execution, Grant, QueueSet},
    retry_after::RetryAfter,
    timing,
};

/// What dumps show of a request.
pub trait Describe: Send + Sync {
    /// What tells its flow apart from others of the same schema.
    fn distinguisher(&self) -> &str;

    /// User, verb, path, namespace, name, API version, resource, subresource.
    fn details(&self) -> [String; 8];
}

/// A request as flow control sees it.
#[derive(Clone)]
pub struct Arriving {
    /// The counters of its flow schema on this level.
    pub metrics: Arc<FlowMetrics>,
    /// Of its flow, see [`flow_hash`](crate::flow_hash).
    pub hash: u64,
    /// What it needs.
    pub work: Work,
    /// Whether it writes.
    pub mutating: bool,
    /// Whether it is a watch, of which only the beginning takes seats.
    pub watch: bool,
    /// What dumps show of it.
    pub description: Arc<dyn Describe>,
}

/// A request may not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Why.
    pub reason: Rejection,
    /// When the client should try again, in seconds.
    pub retry_after: u64,
    /// How long it waited in a queue.
    pub waited: Duration,
}

/// One priority level.
pub struct Level {
    name: String,
    inner: Mutex<Inner>,
    tickets: AtomicU64,
}

pub(crate) struct Inner {
    pub(crate) set: QueueSet,
    /// Those that wait; and those that run.
    pub(crate) waiting: HashMap<Ticket, Waiter>,
    pub(crate) running: HashMap<Ticket, Running>,
    demand: Integrator,
    retry_after: RetryAfter,
    metrics: LevelMetrics,
    timer: bool,
    grants: Vec<Grant>,
}

pub(crate) struct Waiter {
    pub(crate) request: Arriving,
    pub(crate) arrived: SystemTime,
    wake: oneshot::Sender<Execution>,
}

pub(crate) struct Running {
    pub(crate) request: Arriving,
    pub(crate) arrived: SystemTime,
    pub(crate) started: SystemTime,
    pub(crate) queue: Option<usize>,
}

/// A request's right to run. Its seats are free again when this is dropped.
pub struct Seat {
    level: Arc<Level>,
    ticket: Ticket,
    execution: Option<Execution>,
    waited: Duration,
}

impl Seat {
    /// How long its request waited in a queue.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

impl Level {
    pub(crate) fn new(name: &str, response: LimitResponse, limit: u64, metrics: LevelMetrics) -> Self {
        let inner = Inner {
            set: QueueSet::new(response, limit),
            waiting: HashMap::new(),
            running: HashMap::new(),
            demand: Integrator::default(),
            retry_after: RetryAfter::new(),
            metrics,
            timer: false,
            grants: Vec::new(),
        };
        Level { name: name.to_owned(), inner: Mutex::new(inner), tickets: AtomicU64::new(0) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for seats, `patience` at most. Whoever drops the future has given up.
    ///
    /// # Errors
    /// There are none, and no place to wait, or not in time.
    pub async fn admit(self: &Arc<Self>, request: Arriving, patience: Duration) -> Result<Seat, Rejected> {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        request.metrics.estimated(&request.work);
        let (queue, woken) = match self.arrive(ticket, &request) {
            Ok(seat) => return Ok(seat),
            Err(Refusal::Wait(queue, woken)) => (queue, woken),
            Err(Refusal::Rejected(rejected)) => return Err(rejected),
        };
        let since = Instant::now();
        let mut turn = Turn { level: self, ticket, queue, metrics: &request.metrics, woken, over: false };
        let execution = match tokio::time::timeout(patience, &mut turn.woken).await {
            Ok(granted) => granted.ok(),
            Err(_) => turn.give_up(true),
        };
        turn.over = true;
        let waited = since.elapsed();
        request.metrics.waited(waited, execution.is_some());
        match execution {
            Some(execution) => Ok(Seat { level: self.clone(), ticket, execution: Some(execution), waited }),
            None => Err(Rejected { waited, ..self.reject(&request.metrics, Rejection::TimeOut) }),
        }
    }

    fn arrive(self: &Arc<Self>, ticket: Ticket, request: &Arriving) -> Result<Seat, Refusal> {
        let now = timing::now();
        let mut inner = self.lock();
        let Inner { set, grants, .. } = &mut *inner;
        let arrival = set.arrive(now, ticket, request.work, request.hash, grants);
        let answer = match arrival {
            Arrival::Execute(execution) => {
                inner.begin(ticket, request.clone(), SystemTime::now(), execution.queue());
                Ok(Seat { level: self.clone(), ticket, execution: Some(execution), waited: Duration::ZERO })
            }
            Arrival::Wait(queue) => {
                let (wake, woken) = oneshot::channel();
                request.metrics.queued(1, &request.work, inner.set.queue_length(queue));
                inner.metrics.waiting(request.mutating, 1);
                let waiter = Waiter { request: request.clone(), arrived: SystemTime::now(), wake };
                inner.waiting.insert(ticket, waiter);
                Err(Refusal::Wait(queue, woken))
            }
            Arrival::Reject(reason) => {
                let retry_after = inner.retry_after.refuse(unix_seconds());
                request.metrics.rejected(reason);
                Err(Refusal::Rejected(Rejected { reason, retry_after, waited: Duration::ZERO }))
            }
        };
        self.settle(inner, now);
        answer
    }

    /// The answer to one that has waited too long.
    fn reject(&self, metrics: &FlowMetrics, reason: Rejection) -> Rejected {
        metrics.rejected(reason);
        let retry_after = self.lock().retry_after.refuse(unix_seconds());
        Rejected { reason, retry_after, waited: Duration::ZERO }
    }

    fn finish(self: &Arc<Self>, ticket: Ticket, execution: Execution) {
        let now = timing::now();
        let mut inner = self.lock();
        inner.end(ticket, now.saturating_sub(execution.started()));
        let Inner { set, grants, .. } = &mut *inner;
        set.finish(now, execution, grants);
        self.settle(inner, now);
    }

    /// Wakes those whose turn it is, and notes what is used now.
    fn settle(self: &Arc<Self>, mut inner: MutexGuard<'_, Inner>, now: Nanos) {
        while let Some(Grant { ticket, execution }) = inner.grants.pop() {
            let queue = execution.queue();
            let gone = match inner.waiting.remove(&ticket) {
                Some(waiter) => {
                    waiter.request.metrics.queued(-1, &waiter.request.work, 0);
                    inner.metrics.waiting(waiter.request.mutating, -1);
                    inner.begin(ticket, waiter.request, waiter.arrived, queue);
                    waiter.wake.send(execution).err()
                }
                None => Some(execution),
            };
            // Whoever has given up meanwhile has its seats free for others.
            if let Some(execution) = gone {
                inner.end(ticket, 0);
                let Inner { set, grants, .. } = &mut *inner;
                set.finish(now, execution, grants);
            }
        }
        let demand = inner.set.demand() as f64;
        inner.demand.set(now, demand);
        let Inner { set, metrics, .. } = &mut *inner;
        metrics.observe(now, set);
        self.arm(&mut inner, now);
    }

    /// Seats that events keep are given back in time, if anybody waits for them: one timer a level.
    fn arm(self: &Arc<Self>, inner: &mut Inner, now: Nanos) {
        let Some(due) = inner.set.next_release().filter(|_| !inner.timer) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        inner.timer = true;
        let level = Arc::downgrade(self);
        let after = Duration::from_nanos(due.saturating_sub(now));
        runtime.spawn(async move {
            tokio::time::sleep(after).await;
            let Some(level) = level.upgrade() else { return };
            let now = timing::now();
            let mut inner = level.lock();
            inner.timer = false;
            let Inner { set, grants, .. } = &mut *inner;
            set.release_due(now, grants);
            level.settle(inner, now);
        });
    }

    /// Changes what was configured.
    pub(crate) fn configure(self: &Arc<Self>, response: LimitResponse, limit: u64) {
        let now = timing::now();
        let mut inner = self.lock();
        let Inner { set, grants, .. } = &mut *inner;
        set.configure(now, response, limit, grants);
        self.settle(inner, now);
    }

    /// Ends a period of measuring: what was used in it.
    pub(crate) fn demand(&self) -> Demand {
        let now = timing::now();
        self.lock().demand.reset(now)
    }

    /// What it is compared with in metrics: its nominal seats, and its places in queues.
    pub(crate) fn note_limits(&self, seats: u64, places: u64) {
        self.lock().metrics.set_limits(timing::now(), seats, places.max(1));
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.lock().set.is_idle()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here panics; if it did, the numbers are no worse than a moment before.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Refusal {
    Wait(usize, oneshot::Receiver<Execution>),
    Rejected(Rejected),
}

impl Inner {
    fn begin(&mut self, ticket: Ticket, request: Arriving, arrived: SystemTime, queue: Option<usize>) {
        request.metrics.began(&request.work);
        self.metrics.executing(request.mutating, 1);
        self.running.insert(ticket, Running { request, arrived, started: SystemTime::now(), queue });
    }

    fn end(&mut self, ticket: Ticket, took: Nanos) {
        if let Some(running) = self.running.remove(&ticket) {
            let Arriving { metrics, work, mutating, watch, .. } = &running.request;
            metrics.ended(work, *watch, Duration::from_nanos(took));
            self.metrics.executing(*mutating, -1);
        }
    }
}

/// A place in a queue. Leaves it when it is dropped.
struct Turn<'a> {
    level: &'a Arc<Level>,
    ticket: Ticket,
    queue: usize,
    metrics: &'a FlowMetrics,
    woken: oneshot::Receiver<Execution>,
    over: bool,
}

impl Turn<'_> {
    /// Leaves the queue; the turn that came in the same moment, if one did.
    fn give_up(&mut self, timed_out: bool) -> Option<Execution> {
        let now = timing::now();
        let mut inner = self.level.lock();
        if let Some(waiter) = inner.waiting.remove(&self.ticket) {
            waiter.request.metrics.queued(-1, &waiter.request.work, 0);
            inner.metrics.waiting(waiter.request.mutating, -1);
            let Inner { set, grants, .. } = &mut *inner;
            set.cancel(now, self.ticket, self.queue, timed_out, grants);
        }
        self.level.settle(inner, now);
        self.woken.try_recv().ok()
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        if let Some(execution) = self.give_up(false) {
            self.level.finish(self.ticket, execution);
        } else {
            self.metrics.rejected(Rejection::TimeOut); // upstream counts those that went away so
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(execution) = self.execution.take() {
            self.level.finish(self.ticket, execution);
        }
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
