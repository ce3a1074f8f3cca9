//! Exponential backoff: how often a failed call is retried, and after which delays.

use std::{future::Future, time::Duration};

/// Pauses that grow from one attempt to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The first pause.
    pub initial: Duration,
    /// How much longer each pause is than the one before it.
    pub factor: f64,
    /// By how much a pause may be longer than that, as a part of it: callers that have failed together do not come back together.
    pub jitter: f64,
    /// How many attempts there are in all.
    pub attempts: u32,
}

impl Backoff {
    /// Upstream's for webhooks that are asked while a request waits.
    pub const fn for_webhooks(initial: Duration) -> Self {
        Backoff { initial, factor: 1.5, jitter: 0.2, attempts: 5 }
    }

    /// Attempts until one succeeds or fails for good; the last failure is told.
    ///
    /// # Errors
    /// That of the last attempt.
    pub async fn retry<T, E, F: Future<Output = Result<T, E>>>(
        self,
        mut attempt: impl FnMut() -> F,
        is_transient: impl Fn(&E) -> bool,
    ) -> Result<T, E> {
        let mut pause = self.initial;
        for _ in 1..self.attempts {
            match attempt().await {
                Err(error) if is_transient(&error) => {}
                done => return done,
            }
            tokio::time::sleep(pause.mul_f64(1.0 + self.jitter * fraction())).await;
            pause = pause.mul_f64(self.factor);
        }
        attempt().await
    }
}

/// A random number from 0 to 1.
fn fraction() -> f64 {
    f64::from(uuid::Uuid::new_v4().as_fields().0) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_until_the_attempts_are_used_up() {
        let check = async |failures: u32, expect: Result<u32, u32>, seconds: std::ops::Range<f64>| {
            let (made, begin) = (Cell::new(0), Instant::now());
            let attempt = || async {
                made.set(made.get() + 1);
                if made.get() > failures { Ok(made.get()) } else { Err(made.get()) }
            };
            let backoff = Backoff::for_webhooks(Duration::from_secs(1));
            assert_eq!(backoff.retry(attempt, |failure| *failure != 42).await, expect);
            assert!(seconds.contains(&begin.elapsed().as_secs_f64()), "{:?}", begin.elapsed());
        };
        check(0, Ok(1), 0.0..0.1).await;
        check(2, Ok(3), 2.5..3.1).await;
        check(9, Err(5), 8.1..9.8).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_final_is_not_tried_again() {
        let made = Cell::new(0);
        let attempt = || async {
            made.set(made.get() + 1);
            Err::<(), _>(())
        };
        assert_eq!(Backoff::for_webhooks(Duration::from_secs(1)).retry(attempt, |()| false).await, Err(()));
        assert_eq!(made.get(), 1);
    }
}
