//! Single flight: a remote call is made once for all who wait for it, and with a minimum interval.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

type Landing<T> = watch::Receiver<Option<T>>;

/// A question that is asked once at a time. Who asks while it is under way gets that answer.
pub struct Flight<T>(Arc<Mutex<Option<Landing<T>>>>);

impl<T> Default for Flight<T> {
    fn default() -> Self {
        Flight(Arc::default())
    }
}

impl<T: Clone + Send + Sync + 'static> Flight<T> {
    /// The answer. `begin` asks; it goes on when the one who asked is gone.
    ///
    /// # Errors
    /// What `begin` says if it does not ask. `None`: it asked, and panicked.
    pub async fn join<F, E>(&self, begin: impl FnOnce() -> Result<F, E>) -> Result<Option<T>, E>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut landing = self.landing(begin)?;
        let landed = landing.wait_for(Option::is_some).await.map(|answer| answer.clone());
        Ok(landed.ok().flatten())
    }

    fn landing<F, E>(&self, begin: impl FnOnce() -> Result<F, E>) -> Result<Landing<T>, E>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One whose sender is gone without an answer has panicked.
        if let Some(landing) = current.as_ref().filter(|landing| landing.has_changed().is_ok()) {
            return Ok(landing.clone());
        }
        let asking = begin()?;
        let (sender, landing) = watch::channel(None);
        *current = Some(landing.clone());
        let slot = self.0.clone();
        tokio::spawn(async move {
            let answer = asking.await;
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = None;
            sender.send_replace(Some(answer));
        });
        Ok(landing)
    }
}

/// So many questions may follow each other at once; then one each [`INTERVAL`].
const BURST: u32 = 10;
const INTERVAL: Duration = Duration::from_secs(1);

/// How often something may be asked.
pub struct Budget(Mutex<(u32, Instant)>);

impl Default for Budget {
    fn default() -> Self {
        Budget(Mutex::new((BURST, Instant::now())))
    }
}

impl Budget {
    /// Whether it may be asked now; if so, that counts.
    pub fn take(&self) -> bool {
        let now = Instant::now();
        let mut budget = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, since) = &mut *budget;
        let passed = now.duration_since(*since).as_secs() / INTERVAL.as_secs();
        if let Ok(passed @ 1..) = u32::try_from(passed.min(u64::from(BURST))) {
            *left = left.saturating_add(passed).min(BURST);
            *since = now;
        }
        let may = *left > 0;
        *left = left.saturating_sub(1);
        may
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_more_is_asked_than_the_budget_allows() {
        let budget = Budget::default();
        let taken = || (0..1000).filter(|_| budget.take()).count();
        assert_eq!(taken(), BURST as usize);
        tokio::time::advance(INTERVAL * 3).await;
        assert_eq!(taken(), 3);
        tokio::time::advance(INTERVAL * 1000).await;
        assert_eq!(taken(), BURST as usize);
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_wait_get_one_answer_and_nobody_takes_it_away() {
        let (flight, asked) = (Arc::new(Flight::default()), Arc::new(AtomicUsize::new(0)));
        let ask = || {
            let (flight, asked) = (flight.clone(), asked.clone());
            tokio::spawn(async move {
                let begin = || {
                    Ok::<_, Infallible>(async move {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        asked.fetch_add(1, Ordering::SeqCst)
                    })
                };
                flight.join(begin).await
            })
        };
        let (first, second, third) = (ask(), ask(), ask());
        tokio::time::sleep(Duration::from_millis(1)).await;
        first.abort();
        for waiting in [second, third] {
            assert_eq!(waiting.await.expect("it ends"), Ok(Some(0)));
        }
        assert_eq!(ask().await.expect("it ends"), Ok(Some(1)), "asked again");
    }

    #[tokio::test]
    async fn a_question_that_panicked_is_asked_again() {
        let flight = Flight::<u8>::default();
        let begin = || Ok::<_, Infallible>(async { panic!("on purpose") });
        assert_eq!(flight.join(begin).await, Ok(None));
        assert_eq!(flight.join(|| Ok::<_, Infallible>(async { 1 })).await, Ok(Some(1)));
        assert_eq!(Flight::<u8>::default().join(|| Err::<std::future::Ready<u8>, _>("no")).await, Err("no"));
    }
}
