//! `/healthz`, `/livez`, `/readyz`: checks in a list, and each of them alone.

mod slis;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use http::StatusCode;
use machinery::meta::status::Status;
use storage::encrypt::KmsError;

pub use slis::Slis;

use crate::{
    endpoint::Endpoint,
    request::Request,
    response::{Response, page_not_found, text},
    serve::Lifecycle,
    tasks::{State, TaskStatus, Tasks},
};

/// One check.
#[async_trait]
pub trait Check: Send + Sync {
    /// Whether all is well.
    ///
    /// # Errors
    /// Why not; this goes to the log, and to those who ask for this check alone.
    async fn check(&self) -> Result<(), Unhealthy>;
}

/// Why a check fails.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unhealthy {
    /// A task is still starting.
    #[error("not finished")]
    Starting,
    /// A task has failed, for this reason.
    #[error("{0}")]
    Task(String),
    /// The shutdown has begun.
    #[error("process is shutting down")]
    ShuttingDown,
    /// The store did not answer within this time.
    #[error("the store did not answer in {0:?}")]
    StoreTimeout(Duration),
    /// The store says itself what troubles it.
    #[error(transparent)]
    Store(#[from] storage::Error),
    /// KMS providers, by their names, are not well.
    #[error("{}", kms_failures(.0))]
    Kms(Vec<(String, KmsError)>),
    /// The watch cache of the resource with these keys is not filled.
    #[error("the cache of {0} is not filled")]
    CacheNotFilled(String),
}

fn kms_failures(failed: &[(String, KmsError)]) -> String {
    let failed: Vec<String> = failed.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    failed.join(", ")
}

/// The checks of one path.
pub struct Health {
    path: &'static str,
    checks: Vec<(String, Arc<dyn Check>)>,
    tasks: Option<Tasks>,
    /// Tasks that have checks under other names.
    known: Vec<&'static str>,
    last: Vec<(String, Arc<dyn Check>)>,
    slis: Option<Arc<Slis>>,
    /// Until then, tasks that are starting are well.
    grace: Option<Instant>,
}

impl Health {
    /// Checks below `path` (`livez`), beginning with those that every server has.
    pub fn new(path: &'static str) -> Self {
        let always: [(String, Arc<dyn Check>); 2] =
            [("ping".into(), Arc::new(Always)), ("log".into(), Arc::new(Always))];
        Health {
            path,
            checks: always.into(),
            tasks: None,
            known: Vec::new(),
            last: Vec::new(),
            slis: None,
            grace: None,
        }
    }

    /// With one more check.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, check: Arc<dyn Check>) -> Self {
        self.checks.push((name.into(), check));
        self
    }

    /// With the check of upstream's certificate for requests to itself, which cannot expire here: there are no such requests.
    #[must_use]
    pub fn alive(self) -> Self {
        self.with("loopback-serving-certificate", Arc::new(Always))
    }

    /// With a check for each task but these, which others look after.
    #[must_use]
    pub fn tasks(mut self, tasks: Tasks, known: Vec<&'static str>) -> Self {
        self.tasks = Some(tasks);
        self.known = known;
        self
    }

    /// For so long from now, tasks that are still starting do not count against it.
    #[must_use]
    pub fn lenient_for(mut self, grace: Duration) -> Self {
        self.grace = Some(Instant::now() + grace);
        self
    }

    /// The tasks that have a check of their own name.
    fn own(&self) -> impl Iterator<Item = TaskStatus> {
        let all = self.tasks.iter().flat_map(Tasks::status);
        all.filter(|task| !self.known.iter().any(|known| task.name == *known))
    }

    /// With a check behind those of the tasks.
    #[must_use]
    pub fn last(mut self, name: impl Into<String>, check: Arc<dyn Check>) -> Self {
        self.last.push((name.into(), check));
        self
    }

    /// Counting the results of all checks.
    #[must_use]
    pub fn counted(mut self, slis: Arc<Slis>) -> Self {
        self.slis = Some(slis);
        self
    }

    async fn run(&self) -> Vec<(String, Result<(), Unhealthy>)> {
        let mut results = Vec::new();
        for (name, check) in &self.checks {
            results.push((name.clone(), check.check().await));
        }
        for status in self.own() {
            let result = match status.state {
                State::Ready => Ok(()),
                State::Starting if self.grace.is_some_and(|until| Instant::now() < until) => Ok(()),
                State::Starting => Err(Unhealthy::Starting),
                State::Failed(why) => Err(Unhealthy::Task(why)),
            };
            results.push((format!("poststarthook/{}", status.name), result));
        }
        for (name, check) in &self.last {
            results.push((name.clone(), check.check().await));
        }
        if let Some(slis) = &self.slis {
            results.iter().for_each(|(name, result)| slis.note(self.path, name, result.is_ok()));
        }
        results
    }

    async fn all(&self, request: &Request) -> Response {
        let excluded: Vec<&str> = request.query.all("exclude").collect();
        let (mut report, mut failed) = (String::new(), Vec::new());
        for (name, result) in self.run().await {
            if excluded.contains(&name.as_str()) {
                report.push_str(&format!("[+]{name} excluded: ok\n"));
                continue;
            }
            match result {
                Ok(()) => report.push_str(&format!("[+]{name} ok\n")),
                Err(why) => {
                    report.push_str(&format!("[-]{name} failed: reason withheld\n"));
                    failed.push(format!("{name}: {why}"));
                }
            }
        }
        if !failed.is_empty() {
            tracing::info!(path = self.path, failed = failed.join("; "), "not healthy");
            return text(StatusCode::INTERNAL_SERVER_ERROR, format!("{report}{} check failed\n", self.path));
        }
        if request.query.has("verbose") {
            return text(StatusCode::OK, format!("{report}{} check passed\n", self.path));
        }
        text(StatusCode::OK, "ok")
    }

    async fn one(&self, name: &str) -> Response {
        match self.run().await.into_iter().find(|(known, _)| known == name) {
            None => page_not_found(),
            Some((_, Ok(()))) => text(StatusCode::OK, "ok"),
            Some((_, Err(why))) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n")),
        }
    }
}

#[async_trait]
impl Endpoint for Health {
    async fn serve(&self, request: Request) -> Result<Response, Status> {
        let name = request.info.path.strip_prefix('/').and_then(|p| p.strip_prefix(self.path));
        Ok(match name {
            Some("") => self.all(&request).await,
            Some(rest) => self.one(rest.strip_prefix('/').unwrap_or("")).await,
            None => page_not_found(),
        })
    }

    fn listed(&self) -> Vec<String> {
        let tasks = self.own().map(|task| format!("poststarthook/{}", task.name));
        let checks = self.checks.iter().chain(&self.last).map(|(name, _)| name.clone());
        checks.chain(tasks).map(|name| format!("/{}/{name}", self.path)).collect()
    }
}

/// A check that never fails: that it is answered is the proof.
struct Always;

#[async_trait]
impl Check for Always {
    async fn check(&self) -> Result<(), Unhealthy> {
        Ok(())
    }
}

/// Tasks are ready: those that do the work of one of upstream's hooks.
pub struct TasksReady(pub Tasks, pub Vec<&'static str>);

#[async_trait]
impl Check for TasksReady {
    async fn check(&self) -> Result<(), Unhealthy> {
        self.1.iter().try_for_each(|task| match self.0.state(task) {
            Some(State::Ready) => Ok(()),
            Some(State::Failed(why)) => Err(Unhealthy::Task(why)),
            Some(State::Starting) | None => Err(Unhealthy::Starting),
        })
    }
}

/// Fails once the shutdown has begun.
pub struct NotShuttingDown(pub Lifecycle);

#[async_trait]
impl Check for NotShuttingDown {
    async fn check(&self) -> Result<(), Unhealthy> {
        if self.0.not_ready().is_cancelled() { Err(Unhealthy::ShuttingDown) } else { Ok(()) }
    }
}

/// The store answers, within this time.
pub struct StoreAnswers(pub Arc<dyn storage::Store>, pub Duration);

#[async_trait]
impl Check for StoreAnswers {
    async fn check(&self) -> Result<(), Unhealthy> {
        let answer = tokio::time::timeout(self.1, self.0.health()).await;
        Ok(answer.map_err(|_| Unhealthy::StoreTimeout(self.1))??)
    }
}

/// A KMS provider of the encryption at rest is well, by its position; `None`: all are.
pub struct KmsProvider(pub Arc<storage::encrypt::Encryption>, pub Option<usize>);

#[async_trait]
impl Check for KmsProvider {
    async fn check(&self) -> Result<(), Unhealthy> {
        let wanted = self.0.kms_health().into_iter().enumerate().filter(|(at, _)| self.1.is_none_or(|one| one == *at));
        let failed: Vec<_> = wanted.filter_map(|(_, (name, health))| Some((name, health.err()?))).collect();
        if failed.is_empty() { Ok(()) } else { Err(Unhealthy::Kms(failed)) }
    }
}

/// All watch caches are filled.
pub struct CachesFilled(pub Vec<Arc<storage::cache::Cache>>);

#[async_trait]
impl Check for CachesFilled {
    async fn check(&self) -> Result<(), Unhealthy> {
        match self.0.iter().find(|cache| !cache.is_live()) {
            None => Ok(()),
            Some(cache) => Err(Unhealthy::CacheNotFilled(cache.prefix().to_string())),
        }
    }
}
