//! Work that takes long leaves the reactor: its threads answer everybody, so none of them may be held for more than a few
//! milliseconds by one request.
//!
//! What is about large documents is done a few requests at a time, one for each processor, on threads that the runtime puts
//! in the reactor's place ([`tokio::task::block_in_place`]). Who waits for a turn waits in the queue of the one who asks, and
//! the queues are served in rotation: many large requests of one client do not hold up the one of another. A turn lasts until
//! the request is answered or has to wait for something else (the store, a webhook); then the next one has it.
//!
//! Small documents, which nearly all are, never come here.

use std::{
    cell::Cell,
    collections::VecDeque,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    task::Poll,
};

use machinery::{Str, meta::status::Status};
use tokio::{runtime, sync::oneshot};

/// Documents of up to so many bytes are handled where they are, if they do not hold more than [`VALUES`].
pub const INLINE: usize = 64 << 10;

/// Documents that are sent and hold more values than this are not handled where they are, however short they are. What takes
/// long are tiny items that are wrong in many ways: each costs up to ten microseconds, with the text that says so (64 KiB
/// of empty topology constraints, containers or ports of services take 130 ms). So many take five milliseconds, and the
/// change of threads a hundredth of that.
pub const VALUES: usize = 512;

/// Who asks where a document is shown to somebody who has been let in long ago: lists and watches have one queue.
pub const SHOWN: &str = "";

/// How many requests wait for a turn at most. Each of them holds what it has read.
const MAX_WAITING: usize = 1024;

/// Does work that takes long for one who asks; it may wait for other things as often as it likes.
///
/// # Errors
/// 429 if too much is waiting already.
pub async fn run<T>(who: &str, mut work: Pin<&mut (impl Future<Output = T> + Send)>) -> Result<T, Status> {
    if IS_OFF.get() {
        return Ok(work.await); // whoever calls has a turn at each poll
    }
    loop {
        let turn = turn(who).await?;
        let polled = poll_fn(|context| {
            Poll::Ready(blocking(|| {
                let _off = Off::begin();
                work.as_mut().poll(context)
            }))
        });
        let polled = polled.await;
        drop(turn);
        if let Poll::Ready(done) = polled {
            return Ok(done);
        }
        woken().await;
    }
}

/// Does work on a document of this size, which waits for nothing: at once if it is small.
///
/// # Errors
/// 429 if too much is waiting already.
pub async fn sized<T>(who: &str, size: usize, work: impl FnOnce() -> T + Send) -> Result<T, Status> {
    if size <= INLINE || IS_OFF.get() {
        return Ok(work());
    }
    let turn = turn(who).await?;
    let done = blocking(work);
    drop(turn);
    Ok(done)
}

/// Does work of the server's own on objects of this size, which waits for nothing: what a definition serves, a policy's
/// programs. It takes no turn, for it is done once for all requests, and they wait for it.
pub fn once<T>(size: usize, work: impl FnOnce() -> T) -> T {
    if size <= INLINE || IS_OFF.get() { work() } else { blocking(work) }
}

thread_local! {
    /// Whether this thread polls work that has a turn: what that work offloads in turn is done at once. Two turns for one
    /// request could be one more than there are.
    static IS_OFF: Cell<bool> = const { Cell::new(false) };
}

/// While it lives this thread polls work that has a turn.
struct Off;

impl Off {
    fn begin() -> Self {
        IS_OFF.set(true);
        Off
    }
}

impl Drop for Off {
    fn drop(&mut self) {
        IS_OFF.set(false);
    }
}

async fn turn(who: &str) -> Result<Turn, Status> {
    static TURNS: LazyLock<Turns> =
        LazyLock::new(|| Turns::new(std::thread::available_parallelism().map_or(1, usize::from), MAX_WAITING));
    TURNS.take(who).await.ok_or_else(|| Status::too_many_requests("too many large requests", 1))
}

/// Calls a function that takes long, outside of the reactor's threads. A runtime of one thread (of tests) has no others.
fn blocking<T>(work: impl FnOnce() -> T) -> T {
    let several = |handle: runtime::Handle| handle.runtime_flavor() == runtime::RuntimeFlavor::MultiThread;
    if runtime::Handle::try_current().is_ok_and(several) { tokio::task::block_in_place(work) } else { work() }
}

/// Waits until the task is woken: by what the work that it holds waits for.
async fn woken() {
    let mut asked = false;
    poll_fn(|_| if std::mem::replace(&mut asked, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// So many turns at once, given in rotation to those who wait.
#[derive(Clone)]
struct Turns(Arc<Mutex<State>>);

struct State {
    free: usize,
    most_waiting: usize,
    waiting: usize,
    /// Who waits, and for each of them the requests in order. Those who have none are not here.
    queues: VecDeque<(Str, VecDeque<oneshot::Sender<Turn>>)>,
}

/// The permission to work; the next one has it when it is dropped. Nothing is in one that was not taken.
struct Turn(Option<Turns>);

impl Turns {
    fn new(count: usize, most_waiting: usize) -> Self {
        Turns(Arc::new(Mutex::new(State { free: count, most_waiting, waiting: 0, queues: VecDeque::new() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn; none if too many wait.
    async fn take(&self, who: &str) -> Option<Turn> {
        let waiting = {
            let mut state = self.state();
            if state.free > 0 {
                state.free -= 1;
                return Some(Turn(Some(self.clone())));
            }
            state.enqueue(who)?
        };
        waiting.await.ok()
    }
}

impl State {
    fn enqueue(&mut self, who: &str) -> Option<oneshot::Receiver<Turn>> {
        if self.waiting >= self.most_waiting {
            self.forget_gone();
            if self.waiting >= self.most_waiting {
                return None;
            }
        }
        let (turn, waiting) = oneshot::channel();
        match self.queues.iter_mut().find(|(known, _)| known == who) {
            Some((_, queue)) => queue.push_back(turn),
            None => self.queues.push_back((who.into(), VecDeque::from([turn]))),
        }
        self.waiting += 1;
        Some(waiting)
    }

    /// Drops those whose clients have gone away.
    fn forget_gone(&mut self) {
        for (_, queue) in &mut self.queues {
            queue.retain(|turn| !turn.is_closed());
        }
        self.queues.retain(|(_, queue)| !queue.is_empty());
        self.waiting = self.queues.iter().map(|(_, queue)| queue.len()).sum();
    }

    /// The next one to have a turn: of the first queue, which goes to the end.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        let (who, mut queue) = self.queues.pop_front()?;
        let next = queue.pop_front();
        if !queue.is_empty() {
            self.queues.push_back((who, queue));
        }
        self.waiting -= usize::from(next.is_some());
        next
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(turns) = self.0.take() else { return };
        loop {
            let next = {
                let mut state = turns.state();
                let Some(next) = state.next() else {
                    state.free += 1;
                    return;
                };
                next
            };
            match next.send(Turn(Some(turns.clone()))) {
                Ok(()) => return,
                // Nobody is there any more.
                Err(mut turn) => turn.0 = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn those_who_ask_have_turns_in_rotation() {
        let turns = Turns::new(1, 8);
        let held = turns.take("a").await.expect("free");
        let order = Mutex::new(Vec::new());
        let ask = |who: &'static str, which: usize| {
            let (turns, order) = (turns.clone(), &order);
            async move {
                let turn = turns.take(who).await.expect("room");
                order.lock().expect("not poisoned").push((who, which));
                drop(turn);
            }
        };
        let all = async { tokio::join!(ask("a", 1), ask("a", 2), ask("a", 3), ask("b", 1), ask("c", 1)) };
        let mut all = pin!(all);
        assert!(all.as_mut().now_or_never().is_none(), "nobody has a turn while it is held");
        drop(held);
        all.await;
        let expect = [("a", 1), ("b", 1), ("c", 1), ("a", 2), ("a", 3)];
        assert_eq!(*order.lock().expect("not poisoned"), expect);
    }

    #[tokio::test]
    async fn who_leaves_the_queue_costs_nobody_a_turn() {
        let turns = Turns::new(1, 2);
        let held = turns.take("a").await.expect("free");
        let mut stays = Box::pin(turns.take("b"));
        assert!(stays.as_mut().now_or_never().is_none());
        let mut leaves = Box::pin(turns.take("a"));
        assert!(leaves.as_mut().now_or_never().is_none());
        assert!(turns.take("c").await.is_none(), "the queue is full");
        drop(leaves);
        let mut comes = Box::pin(turns.take("c"));
        assert!(comes.as_mut().now_or_never().is_none(), "there is room again");
        drop(held);
        drop(stays.await.expect("a turn"));
        // It was handed on to the next one, who gives it back unused.
        drop(comes);
        assert!(turns.take("d").now_or_never().flatten().is_some());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn large_work_of_the_servers_own_lets_others_run() {
        let (done, waits) = std::sync::mpsc::channel();
        let large = tokio::spawn(async move { once(INLINE + 1, || waits.recv().is_ok()) });
        let other = tokio::spawn(async move { done.send(()).is_ok() });
        assert!(large.await.expect("it does not panic") && other.await.expect("it does not panic"));
    }

    #[tokio::test]
    async fn work_that_has_a_turn_needs_no_other() {
        let inner = async {
            let once = sized("a", INLINE + 1, || 1).await.expect("at once");
            let again = run("a", pin!(async { 2 })).await.expect("at once");
            tokio::task::yield_now().await;
            once + again + sized("a", INLINE + 1, || 4).await.expect("at once")
        };
        assert_eq!(run("a", pin!(inner)).await.expect("there is room"), 7);
        assert!(!IS_OFF.get());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn the_reactor_goes_on_while_work_holds_its_thread() {
        // The work waits for a task that can only run beside it: on the runtime's only thread it would never end.
        let beside = Arc::new(AtomicUsize::new(0));
        let work = async {
            let (sender, receiver) = std::sync::mpsc::channel();
            let counter = beside.clone();
            tokio::spawn(async move {
                counter.fetch_add(1, Ordering::SeqCst);
                sender.send(()).expect("it waits");
            });
            receiver.recv().expect("the task runs");
            tokio::task::yield_now().await;
            beside.load(Ordering::SeqCst)
        };
        assert_eq!(run("a", pin!(work)).await.expect("there is room"), 1);
    }
}
