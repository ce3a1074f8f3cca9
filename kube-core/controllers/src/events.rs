//! Events by which controllers tell a user what is wrong with an object. The same one again only counts up.

use std::{collections::HashMap, sync::Arc};

use machinery::{
    Value,
    meta::{TimeForm, Timestamp},
    object,
};
use tokio::{sync::Mutex, time::Instant};

use crate::{client::Client, kinds::collection};

/// So many different events are remembered.
const REMEMBERED: usize = 4096;
/// An object has so many events at once (client-go: the same),
const BURST: u32 = 25;
/// and one more in so many seconds.
const REFILL_SECONDS: u64 = 300;

/// An object that events are about.
#[derive(Clone, Debug, Default)]
pub(crate) struct About<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
}

/// Who writes events.
#[derive(Clone)]
pub(crate) struct Events {
    client: Client,
    component: &'static str,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// The name of an event and how often it was made, by uid, reason and message.
    made: HashMap<(String, String, String), (String, i64)>,
    /// How many more an object may have, and since when, by uid.
    left: HashMap<String, (u32, Instant)>,
}

impl Seen {
    /// Whether an object may have another event.
    fn allows(&mut self, uid: &str) -> bool {
        if self.left.len() >= REMEMBERED {
            self.left.clear();
        }
        let now = Instant::now();
        let (left, since) = self.left.entry(uid.to_owned()).or_insert((BURST, now));
        let refilled = now.saturating_duration_since(*since).as_secs() / REFILL_SECONDS;
        if refilled > 0 {
            *left = left.saturating_add(u32::try_from(refilled).unwrap_or(BURST)).min(BURST);
            *since = now;
        }
        *left = match left.checked_sub(1) {
            Some(left) => left,
            None => return false,
        };
        true
    }
}

impl Events {
    pub(crate) fn new(client: Client, component: &'static str) -> Self {
        Events { client, component, seen: Arc::default() }
    }

    /// Makes an event of the type Warning or Normal.
    pub(crate) async fn make(&self, about: &About<'_>, kind: &str, reason: &str, message: &str) {
        let namespace = if about.namespace.is_empty() { "default" } else { about.namespace };
        let events = collection("", "v1", "events", namespace);
        let now = Timestamp::now();
        let key = (about.uid.to_owned(), reason.to_owned(), message.to_owned());
        let mut seen = self.seen.lock().await;
        if !seen.allows(about.uid) {
            return;
        }
        if let Some((name, count)) = seen.made.get_mut(&key) {
            *count += 1;
            let patch = object! { "count" => *count, "lastTimestamp" => now.text(TimeForm::Seconds) };
            let path = format!("{events}/{name}");
            drop(seen);
            if self.client.merge(&path, &patch).await.is_ok() {
                return;
            }
        } else {
            drop(seen);
        }
        // The name tells events of one object apart by the time.
        let nanos = i128::from(now.seconds()) * 1_000_000_000 + i128::from(now.nanos());
        let name = format!("{}.{nanos:x}", about.name);
        match self.client.create(&events, &self.event(about, (kind, reason, message), (namespace, &name), now)).await {
            Ok(_) => {
                let mut seen = self.seen.lock().await;
                if seen.made.len() >= REMEMBERED {
                    seen.made.clear();
                }
                seen.made.insert(key, (name, 1));
            }
            // A namespace that goes takes no events.
            Err(status) => tracing::debug!(error = status.message, reason, message, "an event cannot be written"),
        }
    }

    fn event(
        &self,
        about: &About<'_>,
        (kind, reason, message): (&str, &str, &str),
        (namespace, name): (&str, &str),
        now: Timestamp,
    ) -> Value {
        let now = now.text(TimeForm::Seconds);
        object! {
            "kind" => "Event", "apiVersion" => "v1",
            "metadata" => object! { "namespace" => namespace, "name" => name },
            "involvedObject" => object! {
                "apiVersion" => about.api_version, "kind" => about.kind, "namespace" => about.namespace,
                "name" => about.name, "uid" => about.uid,
            },
            "type" => kind, "reason" => reason, "message" => message, "count" => 1,
            "firstTimestamp" => now.as_str(), "lastTimestamp" => now.as_str(),
            "source" => object! { "component" => self.component },
            "reportingComponent" => self.component, "reportingInstance" => "",
        }
    }
}
