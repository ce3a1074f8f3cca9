//! When what endpoints tell has changed: the earliest change of the service or of a pod since the last sync.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use machinery::{
    Str,
    meta::{TimeForm, Timestamp},
};

use super::{pod::Pod, service::Service};
use crate::objects::Key;

/// What was seen of each service.
#[derive(Default)]
pub(super) struct TriggerTimes(Mutex<HashMap<Key, Seen>>);

#[derive(Default)]
struct Seen {
    service: Option<Timestamp>,
    pods: HashMap<Str, Timestamp>,
}

impl TriggerTimes {
    /// The time of the change that a sync answers to; of a service that is new here, when it was made.
    pub(super) fn at_sync(&self, key: &Key, service: &Service, pods: &[Pod]) -> Option<Timestamp> {
        let made = service.made_at();
        let since = pods.iter().filter_map(|pod| Some((pod.name().clone(), pod.ready_since()?)));
        let now = Seen { service: made, pods: since.collect() };
        let before = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        let time = match &before {
            None => made,
            Some(before) => {
                let changed = |(name, time): (&Str, &Timestamp)| {
                    before.pods.get(name).is_none_or(|seen| time > seen).then_some(*time)
                };
                let pods = now.pods.iter().filter_map(changed);
                pods.chain(made.filter(|made| before.service.is_none_or(|seen| *made > seen))).min()
            }
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), now);
        time
    }

    pub(super) fn forget(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// A time of an object.
pub(super) fn parse(text: &str) -> Option<Timestamp> {
    Timestamp::parse(text, TimeForm::Seconds).ok()
}

/// The text of the annotation.
pub(super) fn written(time: Timestamp) -> String {
    time.text(TimeForm::Seconds)
}

#[cfg(test)]
mod tests {
    use machinery::{array, object};

    use super::*;

    #[test]
    fn the_earliest_change_since_the_last_sync_counts() {
        let at = |seconds: i64| written(Timestamp::new(seconds, 0));
        let service = Service(object! { "metadata" => object! { "creationTimestamp" => at(100) } });
        let pod = |name: &str, since: i64| {
            let ready = object! { "type" => "Ready", "status" => "True", "lastTransitionTime" => at(since) };
            Pod::of(
                &object! { "metadata" => object! { "name" => name }, "status" => object! { "conditions" => array![ready] } },
            )
        };
        let (times, key) = (TriggerTimes::default(), Key { namespace: "n".into(), name: "s".into() });
        let check = |pods: &[Pod], expect: Option<i64>| {
            assert_eq!(times.at_sync(&key, &service, pods).map(Timestamp::seconds), expect);
        };
        check(&[pod("a", 200)], Some(100));
        check(&[pod("a", 200)], None);
        check(&[pod("a", 210), pod("b", 205)], Some(205));
        check(&[pod("b", 205)], None);
        times.forget(&key);
        check(&[pod("b", 205)], Some(100));
    }
}
