//! The status of disruption budgets, by which evictions are allowed or refused.

mod scale;
mod stale;
mod status;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use machinery::{
    Str, Value,
    json::scan,
    meta::{GrRef, Meta, Timestamp, int_or_percent::IntOrPercent, selector::LabelSelector, status::Status},
};
use storage::cache::{CacheEntry, Object, ReadAt};

use crate::{
    events::{About, Events},
    follow::follow,
    objects::{self, Key},
    ready::Ready,
    shared::Shared,
    workqueue::{Backoff, Outcome, Queue},
};
use status::Counts;

const BUDGETS: GrRef<'static> = GrRef::new("policy", "poddisruptionbudgets");
const WORKERS: usize = 1;

/// The budgets that there are: by namespace and name, whom they select.
type Selectors = HashMap<Str, HashMap<Str, LabelSelector>>;

struct Controller {
    shared: Arc<Shared>,
    queue: Queue<Key>,
    selectors: Mutex<Selectors>,
    events: Events,
}

/// Keeps it up to date.
pub(crate) async fn run(shared: Arc<Shared>, ready: Ready) {
    let queue = Queue::new("disruption", Backoff::default(), &shared.metrics);
    let stale = Queue::new("stale_pod_disruption", Backoff::default(), &shared.metrics);
    let (budgets, pods) = (shared.lister(BUDGETS.group, BUDGETS.resource).clone(), shared.lister("", "pods").clone());
    let events = shared.events("controllermanager");
    let controller =
        Arc::new(Controller { shared: shared.clone(), queue: queue.clone(), selectors: Mutex::default(), events });
    let (of_budget, of_pod, cleaned) = (controller.clone(), controller.clone(), stale.clone());
    let pod_changed = move |old: Option<&Arc<Object>>, new: Option<&Arc<Object>>| {
        of_pod.pod_changed(old, new);
        if let Some(pod) = new.filter(|pod| stale::may_be(pod)) {
            cleaned.add(Key::of(pod));
        }
    };
    let sync = move |key: Key| {
        let controller = controller.clone();
        async move { controller.sync(&key).await }
    };
    let clean = move |key: Key| {
        let shared = shared.clone();
        async move { stale::sync(&shared, &key).await }
    };
    let known = pods.clone();
    let work = async {
        if known.cache().ready().await.is_ok() {
            tokio::join!(queue.work(WORKERS, sync), stale.work(WORKERS, clean));
        }
    };
    tokio::select! {
        () = follow(&budgets, move |old, new| of_budget.budget_changed(old, new), || ready.synced()) => {}
        () = follow(&pods, pod_changed, || {}) => {}
        () = work => {}
    }
}

fn selector_of(budget: &Object) -> LabelSelector {
    let selector = scan::field(budget.bytes(), &["spec", "selector"]);
    let selector = selector.and_then(|text| machinery::codec::json::decode(text).ok());
    // None selects nothing, an empty one everything.
    selector.and_then(|selector| LabelSelector::from_value(&selector).ok()).unwrap_or_else(LabelSelector::nothing)
}

impl Controller {
    fn selectors(&self) -> MutexGuard<'_, Selectors> {
        self.selectors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn budget_changed(&self, old: Option<&Arc<Object>>, new: Option<&Arc<Object>>) {
        let Some(key) = new.or(old).map(|budget| Key::of(budget)) else { return };
        let mut selectors = self.selectors();
        match new {
            Some(budget) => {
                selectors.entry(key.namespace.clone()).or_default().insert(key.name.clone(), selector_of(budget));
                self.queue.add(key);
            }
            None => {
                if let Some(budgets) = selectors.get_mut(&key.namespace) {
                    budgets.remove(&key.name);
                    if budgets.is_empty() {
                        selectors.remove(&key.namespace);
                    }
                }
            }
        }
    }

    fn pod_changed(&self, old: Option<&Arc<Object>>, new: Option<&Arc<Object>>) {
        let namespace = new.or(old).and_then(|pod| pod.namespace()).unwrap_or_default();
        let selectors = self.selectors();
        let Some(budgets) = selectors.get(namespace) else { return };
        for (name, selector) in budgets {
            let selects = |pod: &&Arc<Object>| selector.matches_with(|label| pod.labels().get(label));
            if old.iter().chain(new.iter()).any(selects) {
                self.queue.add(Key { namespace: namespace.into(), name: name.clone() });
            }
        }
    }

    async fn sync(&self, key: &Key) -> Result<Outcome, Status> {
        let Some(budget) = objects::read(&self.shared, BUDGETS, key).await? else { return Ok(Outcome::Done) };
        let pods = self.pods(key, &budget).await?;
        let now = Timestamp::now();
        let (new, recheck) = match self.expected(&budget, &pods, key).await {
            Ok((expected, desired)) => {
                let (disrupted, recheck) = status::disrupted(&budget, &pods, now.seconds());
                let current = status::healthy(&pods, &disrupted);
                (status::written(&budget, Counts { current, desired, expected }, disrupted, now), recheck)
            }
            Err(why) => {
                let message = format!("Failed to calculate the number of expected pods: {why}");
                self.tell(key, &budget, ("Warning", "CalculateExpectedPodCountFailed", &message)).await;
                (status::failed(&budget, &why, now), None)
            }
        };
        let Some(new) = new else { return Ok(after(recheck)) };
        let mut changed = budget;
        changed.set(&["status"], new);
        let path = format!("{}/status", key.path(BUDGETS.in_version("v1")));
        match objects::written(self.shared.client().update(&path, &changed).await)? {
            Outcome::Done => Ok(after(recheck)),
            other => Ok(other),
        }
    }

    /// The pods that the budget selects.
    async fn pods(&self, key: &Key, budget: &Value) -> Result<Vec<Value>, Status> {
        let selector = budget.at(&["spec", "selector"]).map(LabelSelector::from_value);
        let selector = selector.and_then(Result::ok).unwrap_or_else(LabelSelector::nothing);
        let lister = self.shared.lister("", "pods");
        let snapshot = lister.cache().read(ReadAt::Latest).await;
        let snapshot = snapshot.map_err(|error| Status::internal_error(error.to_string()))?;
        let pods = snapshot.range(&lister.namespace_prefix(&key.namespace), None).filter_map(CacheEntry::object);
        let pods = pods.filter(|pod| selector.matches_with(|label| pod.labels().get(label)));
        let pods = pods.map(|pod| lister.decode(pod.bytes())).collect::<Result<Vec<_>, _>>()?;
        if pods.is_empty() {
            self.tell(key, budget, ("Normal", "NoPods", "No matching pods found")).await;
        }
        Ok(pods)
    }

    /// How many pods there should be, and how many of them must be healthy.
    async fn expected(&self, budget: &Value, pods: &[Value], key: &Key) -> Result<(i64, i64), String> {
        let amount = |name: &str| budget.at(&["spec", name]).filter(|value| !value.is_null());
        let read = |value: &Value| IntOrPercent::from_value(value).map_err(|error| error.to_string());
        if let Some(unavailable) = amount("maxUnavailable") {
            let expected = self.scale(budget, pods, key).await?;
            return Ok((expected, (expected - read(unavailable)?.rounded_up(expected)).max(0)));
        }
        match amount("minAvailable") {
            None => Ok((0, 0)),
            Some(Value::Int(desired)) => Ok((i64::try_from(pods.len()).unwrap_or(i64::MAX), *desired)),
            Some(share) => {
                let expected = self.scale(budget, pods, key).await?;
                Ok((expected, read(share)?.rounded_up(expected)))
            }
        }
    }

    async fn scale(&self, budget: &Value, pods: &[Value], key: &Key) -> Result<i64, String> {
        let scale = scale::of_all(&self.shared, pods, &key.namespace).await?;
        if scale.has_unmanaged {
            let selector =
                budget.at(&["spec", "selector"]).map(machinery::codec::json::encode_text).unwrap_or_default();
            let message = format!(
                "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a result, the \
                 status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for \
                 these pods please set \".spec.minAvailable\" field of the PDB to an integer value."
            );
            self.tell(key, budget, ("Warning", "UnmanagedPods", &message)).await;
        }
        Ok(scale.pods)
    }

    async fn tell(&self, key: &Key, budget: &Value, (kind, reason, message): (&str, &str, &str)) {
        let about = About {
            api_version: "policy/v1",
            kind: "PodDisruptionBudget",
            namespace: &key.namespace,
            name: &key.name,
            uid: Meta::of(budget).uid(),
        };
        self.events.make(&about, kind, reason, message).await;
    }
}

fn after(seconds: Option<i64>) -> Outcome {
    seconds.map_or(Outcome::Done, |seconds| Outcome::After(Duration::from_secs(seconds.max(1).unsigned_abs())))
}
