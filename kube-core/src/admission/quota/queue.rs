//! Writes that wait for their share: those of a namespace are decided together, and its quotas written once for all of them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use generic_server::registry::Registry;
use machinery::{
    Str, Value,
    meta::{MetaMut, Quantity, status::Status},
};
use tokio::sync::oneshot;

use super::{
    Quota,
    charge::{Ask, Limited},
};
use crate::{admission::parsed::Parsed, core::pods::Amounts};

/// How often quotas are read anew when somebody else has written them first.
const MAX_ATTEMPTS: usize = 8;

/// A write and where its decision goes.
struct Waiter {
    ask: Ask,
    decision: oneshot::Sender<Result<(), Status>>,
}

impl Waiter {
    fn tell(self, decision: Result<(), Status>) {
        let _ = self.decision.send(decision); // a request that was given up no longer listens
    }
}

/// The waiting writes, by namespace. An entry is there while somebody decides for the namespace.
type Waiting = Mutex<HashMap<Str, Vec<Waiter>>>;

/// The queue. It is as long as there are requests in flight.
pub(super) struct Queue {
    waiting: Arc<Waiting>,
    decider: Arc<Decider>,
}

/// Decides about the writes of a namespace.
struct Decider {
    quotas: Arc<Parsed<Quota>>,
    /// Writes what is used.
    writer: Arc<Registry>,
    limited: Arc<[Limited]>,
}

impl Queue {
    pub(super) fn new(quotas: Arc<Parsed<Quota>>, writer: Arc<Registry>, limited: Arc<[Limited]>) -> Self {
        Queue { waiting: Arc::default(), decider: Arc::new(Decider { quotas, writer, limited }) }
    }

    /// Waits for the decision. What was charged stays charged if the request is given up in between.
    pub(super) async fn decide(&self, namespace: &str, ask: Ask) -> Result<(), Status> {
        let (decision, decided) = oneshot::channel();
        self.enter(namespace, Waiter { ask, decision });
        decided.await.unwrap_or_else(|_| Err(Status::internal_error("resource quota evaluation was given up")))
    }

    /// Lets a write wait, and begins the turn of its namespace if nobody decides there.
    fn enter(&self, namespace: &str, waiter: Waiter) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(others) = waiting.get_mut(namespace) {
            return others.push(waiter);
        }
        waiting.insert(namespace.into(), vec![waiter]);
        let turn = Turn { waiting: self.waiting.clone(), namespace: namespace.into() };
        let decider = self.decider.clone();
        tokio::spawn(async move {
            while let Some(waiters) = turn.next() {
                decider.decide(&turn.namespace, waiters).await;
            }
        });
    }
}

/// The turn of a namespace, until nobody waits there.
struct Turn {
    waiting: Arc<Waiting>,
    namespace: Str,
}

impl Turn {
    /// Those who wait now; none ends the turn.
    fn next(&self) -> Option<Vec<Waiter>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.get_mut(&self.namespace).map(std::mem::take) {
            Some(waiters) if !waiters.is_empty() => Some(waiters),
            _ => {
                waiting.remove(&self.namespace);
                None
            }
        }
    }
}

/// A turn that ends before its time takes nobody with it: whoever comes next gets another one.
impl Drop for Turn {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.namespace);
        }
    }
}

impl Decider {
    /// Decides by what is known. That grants no more than there is, for usage is written by compare-and-swap; but who is
    /// refused by quotas that may be old is judged once more, by those that the store has.
    async fn decide(&self, namespace: &str, waiters: Vec<Waiter>) {
        let known = self.quotas.known(namespace).await;
        let is_latest = known.as_ref().map_or(true, |(_, is_latest)| *is_latest);
        let refused = self.decide_by(known.map(|(quotas, _)| quotas), namespace, waiters).await;
        if is_latest || refused.is_empty() {
            return refused.into_iter().for_each(|(waiter, refusal)| waiter.tell(Err(refusal)));
        }
        let again = refused.into_iter().map(|(waiter, _)| waiter).collect();
        let refused = self.decide_by(self.quotas.fresh(namespace).await, namespace, again).await;
        refused.into_iter().for_each(|(waiter, refusal)| waiter.tell(Err(refusal)));
    }

    /// Decides by these quotas, and tells those who get their share; the others, which these quotas refuse.
    async fn decide_by(
        &self,
        mut quotas: Result<Vec<Arc<Quota>>, Status>,
        namespace: &str,
        mut waiters: Vec<Waiter>,
    ) -> Vec<(Waiter, Status)> {
        let mut refused = Vec::new();
        let mut last = Status::internal_error("resource quota evaluation was given up");
        for attempt in 0..MAX_ATTEMPTS {
            let (before, mut after): (Vec<Arc<Quota>>, Vec<Quota>) = match quotas {
                Ok(quotas) => (quotas.clone(), quotas.iter().map(|quota| Quota::clone(quota)).collect()),
                Err(status) => {
                    last = status;
                    break;
                }
            };
            let refusals = self.charge(&mut waiters, &mut after);
            if attempt == 0 {
                refused = refusals;
            } else {
                refusals.into_iter().for_each(|(waiter, refusal)| waiter.tell(Err(refusal)));
            }
            let mut failed = Vec::new();
            for (old, new) in before.iter().zip(&after).filter(|(old, new)| old.used != new.used) {
                if let Err(status) = self.write(namespace, old, &new.used).await {
                    failed.push(old.name.clone());
                    last = status;
                }
            }
            if failed.is_empty() {
                waiters.into_iter().for_each(|waiter| waiter.tell(Ok(())));
                return refused;
            }
            // Those that were written hold their share already; one that is gone binds nobody.
            quotas = self.quotas.fresh(namespace).await;
            if let Ok(quotas) = &mut quotas {
                quotas.retain(|quota| failed.contains(&quota.name));
            }
        }
        waiters.into_iter().for_each(|waiter| waiter.tell(Err(last.clone())));
        refused
    }

    /// Charges one after the other. Those that remain are waiting for the quotas to be written; those who are refused are
    /// given back.
    fn charge(&self, waiters: &mut Vec<Waiter>, quotas: &mut [Quota]) -> Vec<(Waiter, Status)> {
        let mut refused = Vec::new();
        for waiter in std::mem::take(waiters) {
            match waiter.ask.charge(quotas, &self.limited) {
                Err(refusal) => refused.push((waiter, refusal)),
                Ok(changes) if changes.is_empty() || waiter.ask.dry_run => waiter.tell(Ok(())),
                Ok(changes) => {
                    changes.into_iter().for_each(|(at, used)| quotas[at].used = used);
                    waiters.push(waiter);
                }
            }
        }
        refused
    }

    /// Writes the usage, unless somebody else has written the quota since.
    async fn write(&self, namespace: &str, quota: &Quota, used: &Amounts) -> Result<(), Status> {
        let edit = |current: &Value| {
            let mut new = current.clone();
            MetaMut::of(&mut new).set_resource_version(quota.resource_version.clone());
            for (name, amount) in used {
                let same = current.at(&["status", "used", name]).and_then(|v| Quantity::from_value(v).ok());
                if same.as_ref() != Some(amount) {
                    new.set(&["status", "used", name], amount);
                }
            }
            Ok(new)
        };
        self.writer.edit(namespace, &quota.name, "status", edit).await.map(|_| ())
    }
}
