//! When something has last been read or written.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

/// The last time that something has come or gone. Clones are the same.
#[derive(Clone)]
pub struct Idle(Arc<Mutex<Instant>>);

impl Default for Idle {
    fn default() -> Self {
        Idle(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Idle {
    /// Something comes or goes now.
    pub(crate) fn touch(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Returns when nothing has come or gone for so long.
    pub async fn lasted(&self, patience: Duration) {
        loop {
            let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner) + patience;
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}
