//! Verdicts on tokens, kept for a while: a client sends the same token with each request. Tokens themselves are not kept.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::{Duration, Instant as StdInstant},
};

use async_trait::async_trait;
use aws_lc_rs::{
    hmac,
    rand::{SecureRandom as _, SystemRandom},
};
use machinery::Str;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry};
use tokio::{sync::OnceCell, time::Instant};

use crate::{TokenAuthenticator, TokenError, TokenOwner};

const SHARDS: usize = 32;
/// So many verdicts a shard keeps.
const PER_SHARD: usize = 1024;
/// How long a verdict may take.
const TIMEOUT: Duration = Duration::from_secs(30);

type Verdict = Result<Option<TokenOwner>, TokenError>;
/// The hash of a token and the audiences that it was asked for.
type Key = [u8; 32];

/// Authenticators behind a cache. Who asks for a token that is being judged gets that verdict.
pub struct CachedTokens {
    inner: Vec<Arc<dyn TokenAuthenticator>>,
    /// How long an owner is kept; zero: not at all.
    success_ttl: Duration,
    /// How long it is kept that a token is nobody's. What went wrong is never kept.
    failure_ttl: Duration,
    hash: hmac::Key,
    shards: [RwLock<HashMap<Key, (Verdict, Instant)>>; SHARDS],
    judging: Mutex<HashMap<Key, Arc<OnceCell<Verdict>>>>,
    metrics: CacheMetrics,
}

/// What is counted of all such caches, under upstream's names.
#[derive(Clone)]
pub struct CacheMetrics {
    requests: IntCounterVec,
    durations: HistogramVec,
    fetches: IntCounterVec,
    active: IntGaugeVec,
}

impl CacheMetrics {
    /// Metrics that count nothing yet.
    pub fn new(registry: &Registry) -> Self {
        let name = |name: &str| format!("authentication_token_cache_{name}");
        let status = ["status"];
        let counter = |own: &str, help: &str| IntCounterVec::new(Opts::new(name(own), help), &status);
        let durations = HistogramOpts::new(name("request_duration_seconds"), "Time to the verdict on a token.");
        let active = Opts::new(name("active_fetch_count"), "Tokens being judged now, and who waits for that.");
        let metrics = CacheMetrics {
            requests: counter("request_total", "Tokens by whether their verdict was kept.").expect("valid names"),
            durations: HistogramVec::new(durations, &status).expect("valid names"),
            fetches: counter("fetch_total", "Tokens that were judged.").expect("valid names"),
            active: IntGaugeVec::new(active, &status).expect("valid names"),
        };
        for collector in [
            Box::new(metrics.requests.clone()) as Box<dyn prometheus::core::Collector>,
            Box::new(metrics.durations.clone()),
            Box::new(metrics.fetches.clone()),
            Box::new(metrics.active.clone()),
        ] {
            registry.register(collector).expect("all caches share their metrics");
        }
        metrics
    }

    fn request(&self, kept: bool, since: StdInstant) {
        let status = [if kept { "hit" } else { "miss" }];
        self.requests.with_label_values(&status).inc();
        self.durations.with_label_values(&status).observe(since.elapsed().as_secs_f64());
    }

    fn active(&self, status: &'static str) -> Active {
        let gauge = self.active.with_label_values(&[status]);
        gauge.inc();
        Active(gauge)
    }
}

/// Counts down when it is over, however that comes.
struct Active(prometheus::IntGauge);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The system gives no random numbers, which keys of the cache are made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random numbers")]
pub struct NoRandomNumbers;

impl CachedTokens {
    /// A cache of what `inner`, asked in this order, say.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn new(
        inner: Vec<Arc<dyn TokenAuthenticator>>,
        success_ttl: Duration,
        failure_ttl: Duration,
        metrics: CacheMetrics,
    ) -> Result<Self, NoRandomNumbers> {
        let mut secret = [0; 32];
        SystemRandom::new().fill(&mut secret).map_err(|_| NoRandomNumbers)?;
        Ok(CachedTokens {
            inner,
            success_ttl,
            failure_ttl,
            hash: hmac::Key::new(hmac::HMAC_SHA256, &secret),
            shards: Default::default(),
            judging: Mutex::default(),
            metrics,
        })
    }

    /// Nobody can tell from outside which tokens share a place.
    fn key(&self, token: &str, audiences: Option<&[Str]>) -> Key {
        let mut context = hmac::Context::with_key(&self.hash);
        let mut add = |text: &str| {
            context.update(&(text.len() as u64).to_be_bytes());
            context.update(text.as_bytes());
        };
        add(token);
        add(if audiences.is_some() { "asked" } else { "" });
        audiences.unwrap_or_default().iter().for_each(|audience| add(audience));
        context.sign().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    fn kept(&self, key: &Key) -> Option<Verdict> {
        let shard = self.shard(key).read().unwrap_or_else(PoisonError::into_inner);
        let (verdict, until) = shard.get(key)?;
        (Instant::now() < *until).then(|| verdict.clone())
    }

    fn keep(&self, key: Key, verdict: &Verdict) {
        let ttl = match verdict {
            Ok(Some(_)) => self.success_ttl,
            Ok(None) => self.failure_ttl,
            Err(_) => return,
        };
        if ttl.is_zero() {
            return;
        }
        let now = Instant::now();
        let mut shard = self.shard(&key).write().unwrap_or_else(PoisonError::into_inner);
        if shard.len() >= PER_SHARD {
            shard.retain(|_, (_, until)| now < *until);
        }
        if shard.len() >= PER_SHARD {
            // Any of them: who is still there is asked for again.
            let some: Vec<Key> = shard.keys().take(PER_SHARD / 4).copied().collect();
            some.iter().for_each(|held| drop(shard.remove(held)));
        }
        shard.insert(key, (verdict.clone(), now + ttl));
    }

    fn shard(&self, key: &Key) -> &RwLock<HashMap<Key, (Verdict, Instant)>> {
        &self.shards[usize::from(key[0]) % SHARDS]
    }

    async fn judge(&self, token: &str, audiences: Option<&[Str]>) -> Verdict {
        let judged = async {
            let mut objections: Vec<TokenError> = Vec::new();
            for authenticator in &self.inner {
                match authenticator.authenticate(token, audiences).await {
                    Ok(Some(owner)) => return Ok(Some(owner)),
                    Ok(None) => {}
                    Err(why) => objections.push(why),
                }
            }
            match (objections.len(), objections.pop()) {
                (_, None) => Ok(None),
                (1, Some(one)) => Err(one),
                (_, Some(last)) => {
                    objections.push(last);
                    Err(TokenError::Several(objections))
                }
            }
        };
        let _active = self.metrics.active("in_flight");
        let judged = tokio::time::timeout(TIMEOUT, judged).await;
        let judged = judged.unwrap_or_else(|_| Err(TokenError::Unavailable("context deadline exceeded".to_owned())));
        self.metrics.fetches.with_label_values(&[if judged.is_ok() { "ok" } else { "error" }]).inc();
        judged
    }
}

#[async_trait]
impl TokenAuthenticator for CachedTokens {
    async fn authenticate(&self, token: &str, audiences: Option<&[Str]>) -> Verdict {
        let started = StdInstant::now();
        let key = self.key(token, audiences);
        if let Some(verdict) = self.kept(&key) {
            self.metrics.request(true, started);
            return verdict;
        }
        let blocked = self.metrics.active("blocked");
        let cell = {
            let mut judging = self.judging.lock().unwrap_or_else(PoisonError::into_inner);
            judging.entry(key).or_default().clone()
        };
        // If the client goes away whose request it was, the next one that waits goes on.
        let leaving = Leaving { cache: self, key };
        let verdict = cell.get_or_init(|| async {
            // Another one may have been faster.
            match self.kept(&key) {
                Some(verdict) => verdict,
                None => self.judge(token, audiences).await,
            }
        });
        let verdict = verdict.await.clone();
        self.keep(key, &verdict);
        drop((leaving, blocked));
        self.metrics.request(false, started);
        verdict
    }
}

/// Somebody who waits for a verdict.
struct Leaving<'a> {
    cache: &'a CachedTokens,
    key: Key,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut judging = self.cache.judging.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |cell: &Arc<OnceCell<Verdict>>| cell.initialized() || Arc::strong_count(cell) <= 2;
        if judging.get(&self.key).is_some_and(is_over) {
            judging.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::User;

    /// Knows `good`, objects to `bad`, and counts what it is asked.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    #[async_trait]
    impl TokenAuthenticator for Counting {
        async fn authenticate(&self, token: &str, audiences: Option<&[Str]>) -> Verdict {
            self.0.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(10)).await;
            match token {
                "good" => {
                    let audiences = audiences.unwrap_or_default().into();
                    Ok(Some(TokenOwner::new(Arc::new(User::loopback()), audiences)))
                }
                "bad" => Err(TokenError::Invalid("bad".to_owned())),
                _ => Ok(None),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn verdicts_are_kept_for_their_time() {
        let (inner, metrics) = (Arc::new(Counting::default()), CacheMetrics::new(&Registry::new()));
        let cached = CachedTokens::new(vec![inner.clone()], Duration::from_secs(10), Duration::from_secs(2), metrics);
        let cached = cached.expect("random numbers");
        let asked = |n: usize| assert_eq!(inner.0.load(Ordering::SeqCst), n);
        let audiences = [Str::from("a")];
        for (token, audiences, asked_in_all) in [
            ("good", None, 1),
            ("good", None, 1),
            ("good", Some(&audiences[..]), 2),
            ("good", Some(&audiences[..]), 2),
            ("nobody", None, 3),
            ("nobody", None, 3),
            ("bad", None, 4),
            ("bad", None, 5),
        ] {
            let verdict = cached.authenticate(token, audiences).await;
            assert_eq!(verdict.is_err(), token == "bad");
            assert_eq!(verdict.ok().flatten().is_some(), token == "good");
            asked(asked_in_all);
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
        cached.authenticate("good", None).await.expect("good");
        cached.authenticate("nobody", None).await.expect("good");
        asked(6);
        tokio::time::sleep(Duration::from_secs(8)).await;
        cached.authenticate("good", None).await.expect("good");
        asked(7);
        let counted = |status| cached.metrics.requests.with_label_values(&[status]).get();
        assert_eq!((counted("hit"), counted("miss")), (4, 7));
        assert!(cached.judging.lock().expect("healthy").is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn one_verdict_serves_all_who_wait_and_outlives_who_leaves() {
        let inner = Arc::new(Counting::default());
        let metrics = CacheMetrics::new(&Registry::new());
        let cached = CachedTokens::new(vec![inner.clone()], Duration::ZERO, Duration::ZERO, metrics);
        let cached = Arc::new(cached.expect("random numbers"));
        let ask = || {
            let cached = cached.clone();
            tokio::spawn(async move { cached.authenticate("good", None).await })
        };
        let (first, second, third) = (ask(), ask(), ask());
        tokio::time::sleep(Duration::from_millis(1)).await;
        first.abort();
        for waiting in [second, third] {
            assert!(waiting.await.expect("it ends").expect("good").is_some());
        }
        assert_eq!(inner.0.load(Ordering::SeqCst), 2, "begun anew once, by one of those who waited");
        assert!(cached.judging.lock().expect("healthy").is_empty());
    }
}
