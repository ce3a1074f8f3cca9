//! API priority and fairness (KEP-1040): how many requests run at once, and whose turn is next.
//!
//! Requests are sorted into priority levels. A level has seats; a request takes as many as its work is wide, for as long as
//! it lasts. What does not fit waits in one of the level's queues, which it is dealt by shuffle sharding, and queues take
//! turns by fair queuing in virtual time. What a level does not use it lends to others, within its bounds.
//!
//! [`QueueSet`] is the algorithm of one level: it knows no clock, no lock and no async, so that tests can simulate it.
//! [`Level`] puts a lock and wakers around it, [`Levels`] divides the server's seats among levels. Who belongs to which
//! level is not decided here.
//!
//! ```
//! use flowcontrol::{Arrival, LimitResponse, QueueSet, Work};
//! let mut level = QueueSet::new(LimitResponse::Reject, 1);
//! let Arrival::Execute(first) = level.arrive(0, 1, Work::seats(1), 0, &mut Vec::new()) else { panic!("a seat is free") };
//! assert!(matches!(level.arrive(1, 2, Work::seats(1), 0, &mut Vec::new()), Arrival::Reject(_)));
//! level.finish(2, first, &mut Vec::new());
//! assert!(matches!(level.arrive(3, 3, Work::seats(1), 0, &mut Vec::new()), Arrival::Execute(_)));
//! ```

mod allocation;
mod demand;
mod dump;
mod estimate;
mod level;
mod levels;
mod metrics;
mod queue;
mod queue_set;
mod retry_after;
mod shuffle_shard;
mod timing;

pub use allocation::{Bounds, allocate};
pub use demand::{Demand, Integrator, SeatDemand};
pub use estimate::{ListRequest, Stored, estimate_list, estimate_mutation};
pub use level::{Arriving, Describe, Level, Rejected, Seat};
pub use levels::{EXEMPT, LevelConfig, Levels};
pub use metrics::{FlowMetrics, Metrics};
pub use queue::Ticket;
pub use queue_set::{Arrival, Execution, Grant, QueueSet, Rejection};
pub use shuffle_shard::{Dealer, flow_hash};

use std::time::Duration;

/// Time, in nanoseconds since some moment that is the same for all of one level.
pub type Nanos = u64;

/// What happens to requests that find no seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitResponse {
    /// They run all the same: nothing limits this level.
    Exempt,
    /// They are refused.
    Reject,
    /// They wait.
    Queue(Queuing),
}

/// The queues of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queuing {
    /// How many queues there are.
    pub queues: usize,
    /// Among how many of them a flow may choose.
    pub hand_size: usize,
    /// How many requests wait in one.
    pub length_limit: usize,
}

/// What a request is thought to need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Seats while it runs.
    pub initial_seats: u64,
    /// Seats that what it causes takes after it has been answered.
    pub final_seats: u64,
    /// For how long that lasts.
    pub additional_latency: Duration,
}

impl Work {
    /// Work that is done when the answer is there.
    pub const fn seats(initial_seats: u64) -> Self {
        Work { initial_seats, final_seats: 0, additional_latency: Duration::ZERO }
    }

    /// How many seats are kept for it from its start to its end.
    pub fn max_seats(&self) -> u64 {
        self.initial_seats.max(self.final_seats)
    }
}
