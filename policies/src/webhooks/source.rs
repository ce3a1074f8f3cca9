//! The webhooks of all configurations, by the name of the configuration and then in their order there.
//!
//! They are read from the watch cache, so that a configuration counts for the next request after the one that wrote it. A
//! webhook keeps its connections as long as its configuration stays as it is.

use std::{collections::HashMap, sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use generic_server::{offload, registry::Lister};
use machinery::{
    Str, Value,
    codec::json,
    meta::{Meta, status::Status},
};
use outbound::Resolver;
use storage::cache::Snapshot;
use tokio::sync::Mutex;

use crate::{conditions::Conditions, matching::Matches, webhooks::review::Version};

/// How long a webhook may take that says nothing of it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// One webhook.
pub(super) struct Hook {
    pub(super) name: Str,
    /// The configuration's name.
    pub(super) configuration: Str,
    /// The configuration's name, the webhook's, and its place among those of its name.
    pub(super) key: String,
    pub(super) matches: Matches,
    pub(super) conditions: Conditions,
    /// A call that comes to nothing is a refusal.
    pub(super) fail: bool,
    /// It may be called for dry runs.
    pub(super) allows_dry_run: bool,
    /// It is called again if others change the object after it.
    pub(super) again: bool,
    pub(super) timeout: Duration,
    /// The first version of the review that both sides know.
    pub(super) review: Option<Version>,
    pub(super) client: outbound::Webhook,
}

impl Hook {
    fn of(webhook: &Value, configuration: &str, key: String, services: &Arc<Resolver>) -> Self {
        let text = |name: &str| webhook.str_at(&[name]);
        let versions = webhook.get("admissionReviewVersions").and_then(Value::as_array).unwrap_or_default();
        let seconds = webhook.get("timeoutSeconds").and_then(Value::as_i64).and_then(|s| u64::try_from(s).ok());
        Hook {
            name: text("name").unwrap_or_default().into(),
            configuration: configuration.into(),
            key,
            matches: Matches::of_webhook(webhook),
            conditions: Conditions::of(webhook, false),
            fail: text("failurePolicy") != Some("Ignore"),
            allows_dry_run: matches!(text("sideEffects"), Some("None" | "NoneOnDryRun")),
            again: text("reinvocationPolicy") == Some("IfNeeded"),
            timeout: seconds.map_or(TIMEOUT, Duration::from_secs),
            review: versions.iter().filter_map(Value::as_str).find_map(Version::of),
            client: outbound::Webhook::of_config(webhook.get("clientConfig").unwrap_or(&Value::Null), services.clone()),
        }
    }

    fn all_of(configuration: &Value, services: &Arc<Resolver>) -> Vec<Arc<Hook>> {
        let name = Meta::of(configuration).name();
        let webhooks = configuration.get("webhooks").and_then(Value::as_array).unwrap_or_default();
        let mut places: HashMap<&str, usize> = HashMap::new();
        let hooks = webhooks.iter().filter_map(|webhook| {
            let own = webhook.str_at(&["name"]).unwrap_or_default();
            let place = places.entry(own).or_default();
            *place += 1;
            let key = format!("{name}/{own}/{}", *place - 1);
            // Without rules it is about nothing.
            let has_rules = webhook.get("rules").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
            has_rules.then(|| Arc::new(Hook::of(webhook, name, key, services)))
        });
        hooks.collect()
    }
}

/// The webhooks of one kind of configurations.
pub(super) struct Source {
    configurations: Arc<Lister>,
    services: Arc<Resolver>,
    state: ArcSwapOption<State>,
    /// Held while configurations are read, so that each is read once.
    reading: Mutex<()>,
}

/// What the cache held, and what was made of it.
struct State {
    snapshot: Snapshot,
    hooks: Arc<Vec<Arc<Hook>>>,
    /// By the configuration's name.
    read: HashMap<Str, Read>,
}

/// What was read of a configuration, and from which uid and generation of it.
struct Read {
    generation: (Str, i64),
    hooks: Vec<Arc<Hook>>,
}

impl Source {
    pub(super) fn new(configurations: Arc<Lister>, services: Arc<Resolver>) -> Self {
        Source { configurations, services, state: ArcSwapOption::empty(), reading: Mutex::new(()) }
    }

    /// The webhooks; `None` if there are none.
    ///
    /// # Errors
    /// 503 and the like while the cache is not filled.
    pub(super) async fn hooks(&self) -> Result<Option<Arc<Vec<Arc<Hook>>>>, Status> {
        self.configurations.ready().await?;
        let snapshot = self.configurations.cache().latest();
        if snapshot.is_empty() {
            // Connections of webhooks that are gone are let go.
            if self.state.load().is_some() {
                self.state.store(None);
            }
            return Ok(None);
        }
        let hooks = self.of(&snapshot).await;
        Ok((!hooks.is_empty()).then_some(hooks))
    }

    async fn of(&self, snapshot: &Snapshot) -> Arc<Vec<Arc<Hook>>> {
        if let Some(state) = &*self.state.load()
            && state.snapshot.shares(snapshot)
        {
            return state.hooks.clone();
        }
        let _reading = self.reading.lock().await;
        let before = self.state.load_full();
        if let Some(state) = before.as_ref().filter(|state| state.snapshot.shares(snapshot)) {
            return state.hooks.clone();
        }
        // A configuration takes about as much time to look at as so many bytes of a document.
        let state = offload::once(snapshot.len() << 10, || self.read(snapshot, before.as_deref()));
        let hooks = state.hooks.clone();
        self.state.store(Some(Arc::new(state)));
        hooks
    }

    fn read(&self, snapshot: &Snapshot, before: Option<&State>) -> State {
        let (mut hooks, mut read) = (Vec::new(), HashMap::new());
        for entry in snapshot.range(self.configurations.prefix(), None) {
            let Some(configuration) = entry.object().and_then(|o| json::decode(o.bytes()).ok()) else { continue };
            let meta = Meta::of(&configuration);
            let (name, generation) = (Str::from(meta.name()), (Str::from(meta.uid()), meta.generation()));
            let known = before.and_then(|state| state.read.get(&name)).filter(|known| known.generation == generation);
            let own = match known {
                Some(known) => known.hooks.clone(),
                None => {
                    let size = entry.object().map_or(0, |object| object.bytes().len());
                    offload::once(size, || Hook::all_of(&configuration, &self.services))
                }
            };
            hooks.extend(own.iter().cloned());
            read.insert(name, Read { generation, hooks: own });
        }
        State { snapshot: snapshot.clone(), hooks: Arc::new(hooks), read }
    }
}
