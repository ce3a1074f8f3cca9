//! A token bucket: so many at once, and so many per second.

use std::time::Duration;

use tokio::time::Instant;

/// Limits a rate.
#[derive(Debug)]
pub(crate) struct Throttle {
    per_second: f64,
    burst: f64,
    tokens: f64,
    counted: Instant,
}

impl Throttle {
    /// A full bucket.
    pub(crate) fn new(per_second: f64, burst: u64) -> Self {
        let burst = burst as f64;
        Throttle { per_second, burst, tokens: burst, counted: Instant::now() }
    }

    /// Waits for a token, and takes it.
    pub(crate) async fn accept(&mut self) {
        loop {
            let now = Instant::now();
            let gained = (now - self.counted).as_secs_f64() * self.per_second;
            self.tokens = (self.tokens + gained).min(self.burst);
            self.counted = now;
            if self.tokens >= 1.0 {
                self.tokens -= 1.0;
                return;
            }
            let missing = (1.0 - self.tokens) / self.per_second;
            tokio::time::sleep(Duration::try_from_secs_f64(missing).unwrap_or(Duration::MAX)).await;
        }
    }
}
