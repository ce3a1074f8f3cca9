//! Keyed work: each key waits at most once and is worked on by one worker at a time; what fails comes back later and later.

mod metrics;
mod state;

use std::{
    fmt::Debug,
    future::Future,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use machinery::meta::status::Status;
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep_until},
};

pub(crate) use metrics::Metrics;
use metrics::{OfQueue, Unfinished};
pub(crate) use state::Backoff;
use state::State;

/// What becomes of a key after the work on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is well, until something changes.
    Done,
    /// It is to be looked at again after a while.
    After(Duration),
    /// It is to be tried again, though nothing went wrong that is worth a line in the log.
    Retry,
}

/// A key that can be in a queue.
pub(crate) trait Key: Clone + Eq + Hash + Debug + Send + Sync + 'static {}
impl<K: Clone + Eq + Hash + Debug + Send + Sync + 'static> Key for K {}

/// A queue. Clones are handles to the same one.
pub(crate) struct Queue<K>(Arc<Inner<K>>);

struct Inner<K> {
    name: &'static str,
    state: Mutex<State<K>>,
    changed: Notify,
    metrics: OfQueue,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Queue(self.0.clone())
    }
}

impl<K: Key> Unfinished for Inner<K> {
    fn unfinished(&self) -> (Duration, Duration) {
        self.lock().unfinished(Instant::now())
    }
}

impl<K: Key> Inner<K> {
    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Key> Queue<K> {
    /// An empty queue, known to metrics by its name.
    pub(crate) fn new(name: &'static str, backoff: Backoff, metrics: &Metrics) -> Self {
        Queue(Arc::new_cyclic(|own: &Weak<Inner<K>>| Inner {
            name,
            state: Mutex::new(State::new(backoff)),
            changed: Notify::new(),
            metrics: metrics.queue(name, own.clone()),
        }))
    }

    /// Adds a key.
    pub(crate) fn add(&self, key: K) {
        let mut state = self.0.lock();
        if state.add(key, Instant::now()) {
            self.added(&state, 1);
        }
    }

    /// Adds a key after a while.
    pub(crate) fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        self.0.lock().add_at(key, Instant::now() + delay);
        self.0.changed.notify_one();
    }

    fn added(&self, state: &State<K>, keys: usize) {
        self.0.metrics.adds.inc_by(keys as u64);
        self.0.metrics.depth.set(state.depth() as i64);
        self.0.changed.notify_one();
    }

    fn try_take(&self) -> Result<K, Option<Instant>> {
        let now = Instant::now();
        let mut state = self.0.lock();
        let due = state.add_due(now);
        if due > 0 {
            self.added(&state, due);
        }
        let Some((key, waited)) = state.take(now) else { return Err(state.next_due()) };
        self.0.metrics.depth.set(state.depth() as i64);
        self.0.metrics.queued.observe(waited.as_secs_f64());
        if state.depth() > 0 || state.next_due().is_some() {
            self.0.changed.notify_one(); // for another worker, or to wait for what is due
        }
        Ok(key)
    }

    /// Waits for a key.
    async fn take(&self) -> K {
        loop {
            let changed = self.0.changed.notified();
            match self.try_take() {
                Ok(key) => return key,
                Err(None) => changed.await,
                Err(Some(due)) => tokio::select! {
                    () = changed => {}
                    () = sleep_until(due) => {}
                },
            }
        }
    }

    fn finish(&self, key: K, result: Result<Outcome, Status>) {
        let now = Instant::now();
        let mut state = self.0.lock();
        let worked = state.done(&key, now);
        self.0.metrics.worked.observe(worked.as_secs_f64());
        match result {
            Ok(Outcome::Done) => state.forget(&key),
            Ok(Outcome::After(delay)) => {
                state.forget(&key);
                state.add_at(key, now + delay);
            }
            Ok(Outcome::Retry) => {
                self.0.metrics.retries.inc();
                state.add_failed(key, now);
            }
            Err(status) => {
                tracing::warn!(queue = self.0.name, ?key, error = status.message, "work has failed, it is tried again");
                self.0.metrics.retries.inc();
                state.add_failed(key, now);
            }
        }
        self.0.metrics.depth.set(state.depth() as i64);
        self.0.changed.notify_one();
    }

    /// Works on keys as they come, with so many workers, until it is dropped. A panic harms its key alone.
    pub(crate) async fn work<F, Fut>(&self, workers: usize, work: F)
    where
        F: Fn(K) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome, Status>> + Send + 'static,
    {
        let mut running = JoinSet::new();
        for _ in 0..workers.max(1) {
            let (queue, work) = (self.clone(), work.clone());
            running.spawn(async move { queue.worker(work).await });
        }
        while running.join_next().await.is_some() {}
    }

    async fn worker<F, Fut>(self, work: F)
    where
        F: Fn(K) -> Fut,
        Fut: Future<Output = Result<Outcome, Status>> + Send + 'static,
    {
        loop {
            let key = self.take().await;
            let mut guard = Working { queue: &self, key: Some(key.clone()) };
            let result = match OneTask::spawn(work(key)).await {
                Ok(result) => result,
                Err(error) => Err(Status::internal_error(error)),
            };
            if let Some(key) = guard.key.take() {
                self.finish(key, result);
            }
        }
    }
}

/// Gives a key back whose worker has ended on the way.
struct Working<'a, K: Key> {
    queue: &'a Queue<K>,
    key: Option<K>,
}

impl<K: Key> Drop for Working<'_, K> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.queue.finish(key, Ok(Outcome::Retry));
        }
    }
}

/// A task that ends when this is dropped.
struct OneTask<T>(tokio::task::JoinHandle<T>);

impl<T: Send + 'static> OneTask<T> {
    fn spawn(work: impl Future<Output = T> + Send + 'static) -> Self {
        OneTask(tokio::spawn(work))
    }
}

impl<T> Future for OneTask<T> {
    type Output = Result<T, tokio::task::JoinError>;

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<Self::Output> {
        std::pin::Pin::new(&mut self.0).poll(cx)
    }
}

impl<T> Drop for OneTask<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    fn queue() -> (Queue<&'static str>, prometheus::Registry) {
        let registry = prometheus::Registry::new();
        (Queue::new("test", Backoff::default(), &Metrics::new(&registry)), registry)
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_or_panics_is_tried_again_and_the_rest_goes_on() {
        let (queue, registry) = queue();
        let tries = Arc::new(AtomicUsize::new(0));
        let (counted, (done, mut all_done)) = (tries.clone(), tokio::sync::mpsc::unbounded_channel());
        ["good", "bad", "worse"].into_iter().for_each(|key| queue.add(key));
        let work = queue.work(2, move |key| {
            let (tries, done) = (counted.clone(), done.clone());
            async move {
                let tried = tries.fetch_add(1, SeqCst);
                match key {
                    "bad" if tried < 6 => return Err(Status::internal_error("no luck")),
                    "worse" => assert!(tried >= 6, "a panic that is expected"),
                    _ => {}
                }
                let _ = done.send(key);
                Ok(Outcome::Done)
            }
        });
        let seen = async {
            let mut seen = Vec::new();
            while seen.len() < 3 {
                seen.extend(all_done.recv().await);
            }
            seen
        };
        let mut seen = tokio::select! {
            seen = seen => seen,
            () = work => unreachable!("it goes on until it is dropped"),
        };
        seen.sort_unstable();
        assert_eq!(seen, ["bad", "good", "worse"]);
        let families = registry.gather();
        let value = |name: &str| {
            let family = families.iter().find(|f| f.name() == name).expect("it is there");
            let metric = &family.get_metric()[0];
            metric.get_counter().get_value()
                + metric.get_gauge().get_value()
                + metric.get_histogram().get_sample_count() as f64
        };
        assert!(value("workqueue_retries_total") >= 2.0);
        assert_eq!(value("workqueue_adds_total"), 3.0 + value("workqueue_retries_total"));
        assert_eq!(value("workqueue_depth"), 0.0);
        assert!(value("workqueue_queue_duration_seconds") >= 5.0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_comes_again_after_the_time_that_its_work_asks_for() {
        let (queue, _) = queue();
        let began = Instant::now();
        queue.add("a");
        let (times, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let work = queue.work(3, move |_| {
            let times = times.clone();
            async move {
                let _ = times.send(began.elapsed().as_secs());
                Ok(Outcome::After(Duration::from_secs(7)))
            }
        });
        let three = async { [seen.recv().await, seen.recv().await, seen.recv().await] };
        let three = tokio::select! {
            three = three => three,
            () = work => unreachable!("it goes on until it is dropped"),
        };
        assert_eq!(three, [Some(0), Some(7), Some(14)]);
    }
}
