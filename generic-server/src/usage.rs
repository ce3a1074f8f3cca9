//! What a connection is doing, and when it has done nothing for so long that it is closed. The times are upstream's: those
//! of Go's server for heads and idle connections, and the request timeout for answers that nobody takes.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::strangers::Guest;

/// From its first byte on, or from the handshake on for the first, a request's head may take so long.
const HEAD_TIMEOUT: Duration = Duration::from_secs(32);
/// A connection without a request is closed after so long. Go's clients keep theirs no longer.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// A client that was told to go and has nothing open is let go after so long.
const LINGER: Duration = Duration::from_secs(1);
/// Beyond the request timeout, so that requests end by themselves first.
const GRACE: Duration = Duration::from_secs(30);

/// The state of one connection.
pub(crate) struct Usage {
    state: Mutex<State>,
    /// The last answer that may last has ended: there is a deadline again.
    changed: Notify,
    request_timeout: Duration,
    guest: Option<Guest>,
}

struct State {
    /// Answers that were not taken whole yet, or are still to come.
    open: usize,
    /// Those of them that last as long as they last: watches, streams.
    lasting: usize,
    /// What is awaited while none is open.
    waits: Waits,
    /// The last time that a request began or an answer ended, or the first byte of a head came.
    since: Instant,
    /// No request was seen since a head began.
    unseen: bool,
    /// A request had a body: what comes when it is answered may still be of that, whatever it looks like.
    had_body: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// The rest of a head.
    Head,
    /// A request, if one comes.
    Request,
    /// Nothing: another protocol has the connection.
    Nothing,
}

/// A request whose answer was not taken whole yet. It ends when this is dropped: an answer's body carries it.
pub(crate) struct InUse {
    usage: Arc<Usage>,
    lasts: bool,
}

impl Usage {
    /// Of a connection whose handshake is done; `guest` is told when it waits and when it is served.
    pub(crate) fn new(http2: bool, request_timeout: Duration, guest: Option<Guest>) -> Arc<Self> {
        // A client of HTTP/2 may connect before it has anything to ask.
        let waits = if http2 { Waits::Request } else { Waits::Head };
        let state = State { open: 0, lasting: 0, waits, since: Instant::now(), unseen: true, had_body: false };
        Arc::new(Usage { state: Mutex::new(state), changed: Notify::new(), request_timeout, guest })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request has begun: its head is here.
    pub(crate) fn begin(self: &Arc<Self>) -> InUse {
        let mut state = self.state();
        state.open += 1;
        state.since = Instant::now();
        state.unseen = false;
        drop(state);
        self.guest.iter().for_each(Guest::is_served);
        InUse { usage: self.clone(), lasts: false }
    }

    /// Bytes came. True if they begin a head.
    pub(crate) fn read(&self) -> bool {
        let mut state = self.state();
        let begins = state.open == 0 && state.waits == Waits::Request;
        if begins {
            (state.waits, state.since, state.unseen) = (Waits::Head, Instant::now(), true);
        }
        begins
    }

    /// Whether what is read now is a head of which no request was made yet.
    pub(crate) fn in_head(&self) -> bool {
        let state = self.state();
        state.open == 0 && state.unseen && state.waits == Waits::Head
    }

    /// The request that begins has a body.
    pub(crate) fn brings_body(&self) {
        self.state().had_body = true;
    }

    /// Whether what is read as a head is certainly one.
    pub(crate) fn is_certainly_head(&self) -> bool {
        self.in_head() && !self.state().had_body
    }

    /// Another protocol takes the connection over.
    pub(crate) fn hand_over(&self) {
        self.state().waits = Waits::Nothing;
    }

    /// When the connection is to be closed, as things are. `told`: when the client was told to go.
    fn deadline(&self, told: Option<Instant>) -> Option<Instant> {
        let state = self.state();
        match (state.open, state.waits, told) {
            (_, Waits::Nothing, _) => None,
            (0, _, Some(told)) => Some(told.max(state.since) + LINGER),
            (0, Waits::Head, None) => Some(state.since + HEAD_TIMEOUT),
            (0, Waits::Request, None) => Some(state.since + IDLE_TIMEOUT),
            (_, _, _) if state.lasting > 0 => None,
            // Nothing moves: the time of the youngest request is over, and the client has not taken its answer.
            (_, _, _) => Some(state.since + self.request_timeout + GRACE),
        }
    }

    /// Returns when the connection is to be closed; false if answers are left that nobody takes.
    pub(crate) async fn overdue(&self, told: Option<Instant>) -> bool {
        loop {
            match self.deadline(told) {
                Some(at) if at <= Instant::now() => return self.state().open == 0,
                Some(at) => sleep_until(at).await,
                None => self.changed.notified().await,
            }
        }
    }
}

impl InUse {
    /// The answer lasts: as long as it does the connection is in use.
    pub(crate) fn lasts(&mut self) {
        if !self.lasts {
            self.lasts = true;
            self.usage.state().lasting += 1;
        }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut state = self.usage.state();
        state.open -= 1;
        state.lasting -= usize::from(self.lasts);
        state.since = Instant::now();
        if state.waits == Waits::Head {
            state.waits = Waits::Request;
        }
        if self.lasts && state.lasting == 0 {
            self.usage.changed.notify_one();
        }
        let is_idle = state.open == 0;
        drop(state);
        self.usage.guest.iter().filter(|_| is_idle).for_each(Guest::is_answered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(60);

    /// How long it takes until the connection is to be closed.
    async fn lasts(usage: &Usage, told: Option<Instant>) -> (u64, bool) {
        let begun = Instant::now();
        let closed = usage.overdue(told).await;
        ((Instant::now() - begun).as_secs(), closed)
    }

    #[tokio::test(start_paused = true)]
    async fn heads_idle_connections_and_answers_have_upstreams_times() {
        assert_eq!(lasts(&Usage::new(false, TIMEOUT, None), None).await, (32, true), "the first head");
        assert_eq!(lasts(&Usage::new(true, TIMEOUT, None), None).await, (90, true), "HTTP/2 without a request");
        let usage = Usage::new(false, TIMEOUT, None);
        drop(usage.begin());
        assert_eq!(lasts(&usage, None).await, (90, true), "idle");
        assert!(usage.read());
        assert!(!usage.read() && usage.in_head());
        assert_eq!(lasts(&usage, None).await, (32, true), "the next head");
        let open = usage.begin();
        assert!(!usage.in_head());
        assert_eq!(lasts(&usage, None).await, (90, false), "an answer that nobody takes");
        drop(open);
        assert_eq!(lasts(&usage, Some(Instant::now())).await, (1, true), "told to go");
    }

    #[tokio::test(start_paused = true)]
    async fn what_lasts_keeps_its_connection() {
        let usage = Usage::new(true, TIMEOUT, None);
        let mut watch = usage.begin();
        watch.lasts();
        let (waiting, other) = (usage.clone(), usage.clone());
        let closed = tokio::spawn(async move { lasts(&waiting, None).await });
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(!closed.is_finished());
        drop(watch);
        assert_eq!(closed.await.expect("no panic"), (3600 + 90, true));
        other.hand_over();
        let forever = tokio::time::timeout(Duration::from_secs(3600), other.overdue(None));
        assert!(forever.await.is_err(), "another protocol has times of its own");
    }
}
