//! The webhooks of all configurations, by the name of the configuration and then in their order there.
//!
//! They are read from the watch cache, so that a configuration counts for the next request after the one that wrote it. A
//! webhook keeps its connections as long as its configuration stays as it is.

use std::{collections::HashMap, sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use generic_server::{offload, registry::Lister, resource::Resource};
use machinery::{
    Str, Value,
    codec::json,
    meta::{Meta, status::Status},
};
use outbound::{Resolver, WebhookUsers};
use storage::cache::Snapshot;
use tokio::sync::Mutex;

use crate::{
    conditions::Conditions,
    manifest::{self, Loaded, Static},
    matching::{Matches, is_configuration},
    webhooks::review::Version,
};

/// How long a webhook may take that says nothing of it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// One webhook.
pub(super) struct Hook {
    pub(super) name: Str,
    /// The configuration's name.
    pub(super) configuration: Str,
    /// The configuration's name, the webhook's, and its place among those of its name; of a file it begins with `manifest/`.
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
    fn of(webhook: &Value, configuration: &str, key: String, callers: &Callers) -> Self {
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
            client: outbound::Webhook::of_config_as(
                webhook.get("clientConfig").unwrap_or(&Value::Null),
                callers.services.clone(),
                callers.users.as_deref(),
            ),
        }
    }

    /// The webhooks of files.
    pub(super) fn all_of_files(loaded: &Loaded, callers: &Callers) -> Vec<Arc<Hook>> {
        loaded.objects.iter().flat_map(|configuration| Hook::all_of(configuration, "manifest/", callers)).collect()
    }

    /// The webhooks of a configuration; `place` is where that stands, as keys begin.
    fn all_of(configuration: &Value, place: &str, callers: &Callers) -> Vec<Arc<Hook>> {
        let name = Meta::of(configuration).name();
        let webhooks = configuration.get("webhooks").and_then(Value::as_array).unwrap_or_default();
        let mut places: HashMap<&str, usize> = HashMap::new();
        let hooks = webhooks.iter().filter_map(|webhook| {
            let own = webhook.str_at(&["name"]).unwrap_or_default();
            let number = places.entry(own).or_default();
            *number += 1;
            let key = format!("{place}{name}/{own}/{}", *number - 1);
            // Without rules it is about nothing.
            let has_rules = webhook.get("rules").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
            has_rules.then(|| Arc::new(Hook::of(webhook, name, key, callers)))
        });
        hooks.collect()
    }
}

/// What calls are made with.
#[derive(Clone)]
pub(super) struct Callers {
    pub(super) services: Arc<Resolver>,
    /// As whom webhooks are called; `None`: as nobody.
    pub(super) users: Option<Arc<WebhookUsers>>,
}

/// The webhooks of one kind of configurations.
pub(super) struct WebhookSource {
    configurations: Arc<Lister>,
    /// Webhooks of files.
    files: Option<Arc<Static<Arc<Hook>>>>,
    callers: Callers,
    state: ArcSwapOption<State>,
    /// Held while configurations are read, so that each is read once.
    reading: Mutex<()>,
}

type Hooks = Arc<Vec<Arc<Hook>>>;

/// What the cache and the files held, and what was made of it.
struct State {
    snapshot: Snapshot,
    files: Option<Hooks>,
    hooks: Hooks,
    /// By the configuration's name.
    read: HashMap<Str, Read>,
}

/// What was read of a configuration, and from which uid and generation of it.
struct Read {
    generation: (Str, i64),
    hooks: Vec<Arc<Hook>>,
}

impl WebhookSource {
    pub(super) fn new(configurations: Arc<Lister>, callers: Callers, files: Option<Arc<Static<Arc<Hook>>>>) -> Self {
        WebhookSource { configurations, files, callers, state: ArcSwapOption::empty(), reading: Mutex::new(()) }
    }

    /// The webhooks that may have a say in writes of a row, those of files first; `None` if there are none. About what
    /// configures admission only those of files have: nobody may lock themselves out of that.
    ///
    /// # Errors
    /// 503 and the like while the cache is not filled.
    pub(super) async fn hooks(&self, row: &Resource) -> Result<Option<Hooks>, Status> {
        let files = manifest::current(self.files.as_ref());
        if is_configuration(row) {
            return Ok(files);
        }
        self.configurations.ready().await?;
        let snapshot = self.configurations.cache().latest();
        if snapshot.is_empty() {
            // Connections of webhooks that are gone are let go.
            if self.state.load().is_some() {
                self.state.store(None);
            }
            return Ok(files);
        }
        let hooks = self.of(&snapshot, files).await;
        Ok((!hooks.is_empty()).then_some(hooks))
    }

    async fn of(&self, snapshot: &Snapshot, files: Option<Hooks>) -> Hooks {
        let as_pointer = |files: &Option<Hooks>| files.as_ref().map(Arc::as_ptr);
        let shows = |state: &State| as_pointer(&state.files) == as_pointer(&files) && state.snapshot.shares(snapshot);
        if let Some(state) = &*self.state.load()
            && shows(state)
        {
            return state.hooks.clone();
        }
        let _reading = self.reading.lock().await;
        let before = self.state.load_full();
        if let Some(state) = before.as_ref().filter(|state| shows(state)) {
            return state.hooks.clone();
        }
        // A configuration takes about as much time to look at as so many bytes of a document.
        let state = offload::once(snapshot.len() << 10, || self.read(snapshot, files.clone(), before.as_deref()));
        let hooks = state.hooks.clone();
        self.state.store(Some(Arc::new(state)));
        hooks
    }

    fn read(&self, snapshot: &Snapshot, files: Option<Hooks>, before: Option<&State>) -> State {
        let mut hooks = files.as_deref().cloned().unwrap_or_default();
        let mut read = HashMap::new();
        for entry in snapshot.range(self.configurations.prefix(), None) {
            let Some(configuration) = entry.object().and_then(|o| json::decode(o.bytes()).ok()) else { continue };
            let meta = Meta::of(&configuration);
            let (name, generation) = (Str::from(meta.name()), (Str::from(meta.uid()), meta.generation()));
            let known = before.and_then(|state| state.read.get(&name)).filter(|known| known.generation == generation);
            let own = match known {
                Some(known) => known.hooks.clone(),
                None => {
                    let size = entry.object().map_or(0, |object| object.bytes().len());
                    offload::once(size, || Hook::all_of(&configuration, "", &self.callers))
                }
            };
            hooks.extend(own.iter().cloned());
            read.insert(name, Read { generation, hooks: own });
        }
        State { snapshot: snapshot.clone(), files, hooks: Arc::new(hooks), read }
    }
}
