//! One queue of a level.

use std::collections::VecDeque;

use crate::{Nanos, Work};

/// Names a request to its level.
pub type Ticket = u64;

/// Work, in seats times nanoseconds. Wide enough never to run over.
pub(crate) type SeatNanos = i128;

/// How long a request is assumed to run until it is known, in nanoseconds.
pub(crate) const ASSUMED_DURATION: Nanos = 3_000_000;

/// A request that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) ticket: Ticket,
    pub(crate) work: Work,
    /// The virtual time of its arrival: it cannot have begun before.
    pub(crate) arrived: SeatNanos,
}

impl Waiting {
    /// What it is assumed to take in all.
    pub(crate) fn total(&self) -> SeatNanos {
        total(&self.work)
    }
}

pub(crate) fn seats_for(seats: u64, nanos: Nanos) -> SeatNanos {
    SeatNanos::from(seats) * SeatNanos::from(nanos)
}

fn total(work: &Work) -> SeatNanos {
    let after = u64::try_from(work.additional_latency.as_nanos()).unwrap_or(u64::MAX);
    seats_for(work.initial_seats, ASSUMED_DURATION) + seats_for(work.final_seats, after)
}

/// Requests in the order of their arrival, and where the queue stands in virtual time.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: VecDeque<Waiting>,
    /// The work of those that wait.
    pub(crate) work: SeatNanos,
    /// The seats of those that wait.
    pub(crate) seats_waiting: u64,
    /// Requests of this queue that run.
    pub(crate) executing: usize,
    /// The seats of those, and of what they have left behind.
    pub(crate) seats_in_use: u64,
    /// When, in virtual time, its next request would begin if it had its fair share alone.
    pub(crate) next_dispatch: SeatNanos,
}

impl Queue {
    /// Whether anything waits or runs.
    pub(crate) fn is_active(&self) -> bool {
        !self.waiting.is_empty() || self.executing > 0
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn oldest(&self) -> Option<&Waiting> {
        self.waiting.front()
    }

    pub(crate) fn push(&mut self, request: Waiting) {
        self.work += request.total();
        self.seats_waiting += request.work.max_seats();
        self.waiting.push_back(request);
    }

    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        let request = self.waiting.pop_front()?;
        self.took(&request);
        Some(request)
    }

    /// Takes a request out that does not want to wait any longer. Looks through one queue, whose length is limited.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Waiting> {
        let at = self.waiting.iter().position(|request| request.ticket == ticket)?;
        let request = self.waiting.remove(at)?;
        self.took(&request);
        Some(request)
    }

    fn took(&mut self, request: &Waiting) {
        self.work -= request.total();
        self.seats_waiting -= request.work.max_seats();
    }

    /// A queue does not save up what it did not use: its next request begins no earlier than it arrived.
    pub(crate) fn bound(&mut self) {
        if let Some(oldest) = self.waiting.front() {
            self.next_dispatch = self.next_dispatch.max(oldest.arrived);
        }
    }

    pub(crate) fn requests(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.iter()
    }
}
