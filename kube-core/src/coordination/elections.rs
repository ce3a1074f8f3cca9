//! Coordinated leader election: components say that they would hold a lease, and this server says which of them does. Of
//! several API servers one looks after it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use generic_server::{
    options::DeleteOptions,
    registry::Registry,
    tasks::{Task, TaskContext, TaskResult},
};
use machinery::{Str, Value, meta::Status};
use storage::cache::{Everything, Scope};

use super::{
    election::{self, Candidate, Step},
    leadership::{Leadership, Timers},
};

/// Who writes, and the lease that says which server does.
const NAME: &str = "leader-election-controller";
/// How often leases are looked at although nothing has changed: they run out by themselves.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often candidates that have not been heard of are removed.
const COLLECT_EVERY: Duration = Duration::from_secs(30 * 60);

/// What the task works on.
#[derive(Clone)]
struct Elections {
    leases: Arc<Registry>,
    candidates: Arc<Registry>,
}

/// The task. `host` is this server's.
pub(crate) fn task(leases: &Arc<Registry>, candidates: &Arc<Registry>, host: &Str, timers: Timers) -> Task {
    let elections = Elections { leases: leases.clone(), candidates: candidates.clone() };
    let identity = Str::from(format!("{host}_{}", uuid::Uuid::new_v4()));
    let run = move |cx: TaskContext| {
        let (elections, identity) = (elections.clone(), identity.clone());
        async move {
            elections.leases.cache().ready().await?;
            elections.candidates.cache().ready().await?;
            cx.ready();
            let mut leadership = Leadership::new(elections.leases.clone(), NAME, identity, timers);
            loop {
                if leadership.holds().await {
                    elections.lead(&cx, &mut leadership).await?;
                }
                tokio::select! {
                    () = cx.cancelled() => {
                        leadership.release().await;
                        return Ok(());
                    }
                    () = tokio::time::sleep(leadership.timers.retry) => {}
                }
            }
        }
    };
    let task = Task::new("start-kube-apiserver-coordinated-leader-election-controller", run);
    task.after("start-system-namespaces-controller")
}

impl Elections {
    /// Looks after leases until this server does not lead any more.
    async fn lead(&self, cx: &TaskContext, leadership: &mut Leadership) -> TaskResult {
        let follow = |registry: &Registry| registry.cache().follow(Scope::All, Arc::new(Everything));
        let (mut of_leases, mut of_candidates) = (follow(&self.leases), follow(&self.candidates));
        let mut renewals = tokio::time::interval(leadership.timers.retry);
        let (mut looks, mut collections) = (tokio::time::interval(LOOK_EVERY), tokio::time::interval(COLLECT_EVERY));
        for interval in [&mut renewals, &mut looks, &mut collections] {
            interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        }
        loop {
            tokio::select! {
                () = cx.cancelled() => return Ok(()),
                _ = renewals.tick() => {
                    if !leadership.holds().await {
                        return Ok(());
                    }
                }
                _ = collections.tick() => self.collect().await,
                _ = looks.tick() => self.look().await,
                next = of_candidates.next() => match next {
                    Some(_) => self.look().await,
                    None => return Ok(()),
                },
                // Leases are renewed all the time; what one of them needs is seen at the next look.
                next = of_leases.next() => if next.is_none() {
                    return Ok(());
                },
            }
        }
    }

    /// All candidates, by the lease that they are for, in order of their names.
    fn all(&self) -> BTreeMap<(Str, Str), Vec<Candidate>> {
        let snapshot = self.candidates.cache().latest();
        let mut all: BTreeMap<(Str, Str), Vec<Candidate>> = BTreeMap::new();
        for object in snapshot.range(self.candidates.prefix(), None).filter_map(|entry| entry.object()) {
            let Ok(value) = self.candidates.decode(object.bytes()) else { continue };
            let candidate = Candidate::of(&value);
            let namespace = Str::from(value.str_at(&["metadata", "namespace"]).unwrap_or_default());
            all.entry((namespace, candidate.lease().clone())).or_default().push(candidate);
        }
        all
    }

    /// Takes the next step of each lease that has candidates. What goes wrong is wrong with one lease, and tried again.
    async fn look(&self) {
        for ((namespace, lease), candidates) in self.all() {
            if let Err(why) = self.advance(&namespace, &lease, candidates).await {
                tracing::warn!(%namespace, %lease, why, "cannot elect a leader");
            }
        }
    }

    async fn advance(&self, namespace: &str, lease: &str, mut candidates: Vec<Candidate>) -> Result<(), String> {
        let message = |status: Status| status.message.to_string();
        let now = election::now();
        candidates.retain(|candidate| !candidate.has_expired(now));
        let found = self.lease(namespace, lease).map_err(message)?;
        match election::step(now, found.as_ref(), &candidates)? {
            Step::Wait => Ok(()),
            Step::Ask(names) => {
                for name in names {
                    self.ask(namespace, &name, now).await.map_err(message)?;
                }
                Ok(())
            }
            Step::Settle { strategy, holder } => {
                self.settle((namespace, lease), now, &strategy, holder.as_deref()).await.map_err(message)
            }
        }
    }

    fn lease(&self, namespace: &str, name: &str) -> Result<Option<Value>, Status> {
        let snapshot = self.leases.cache().latest();
        let entry = snapshot.get(&self.leases.key(namespace, name));
        entry.and_then(|entry| entry.object()).map(|object| self.leases.decode(object.bytes())).transpose()
    }

    async fn ask(&self, namespace: &str, name: &str, now: i64) -> Result<(), Status> {
        let asked = election::time(now);
        let edit = |candidate: &Value| {
            let mut candidate = candidate.clone();
            candidate.set(&["spec", "pingTime"], asked.as_str());
            Ok(candidate)
        };
        match self.candidates.edit_as(NAME, (namespace, name, ""), edit).await {
            Ok(_) => Ok(()),
            Err(status) if status.is_not_found() => Ok(()),
            Err(status) => Err(status),
        }
    }

    async fn settle(&self, place: (&str, &str), now: i64, strategy: &str, holder: Option<&str>) -> Result<(), Status> {
        let edit = |lease: &Value| Ok(election::settled(now, lease, strategy, holder).unwrap_or_else(|| lease.clone()));
        match self.leases.edit_as(NAME, (place.0, place.1, ""), edit).await {
            Ok(_) => return Ok(()),
            Err(status) if status.is_not_found() => {}
            Err(status) => return Err(status),
        }
        match self.leases.create_as(NAME, election::new_lease(now, place, strategy, holder)).await {
            Ok(_) => Ok(()),
            Err(status) if status.is_already_exists() => Ok(()), // the next look sees it
            Err(status) => Err(status),
        }
    }

    /// Removes candidates that have not been heard of for long.
    async fn collect(&self) {
        let now = election::now();
        for ((namespace, _), candidates) in self.all() {
            for candidate in candidates.into_iter().filter(|candidate| candidate.has_expired(now)) {
                let options = DeleteOptions::default();
                match self.candidates.delete_admitted(&namespace, &candidate.name, &options).await {
                    Err(status) if !status.is_not_found() => {
                        tracing::warn!(%namespace, candidate = %candidate.name, error = %status.message, "cannot remove");
                    }
                    _ => {}
                }
            }
        }
    }
}
