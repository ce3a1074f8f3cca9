//! The remote APIServices: one backend each, kept in step with the objects.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::{ArcSwap, ArcSwapOption};
use base64::{Engine, engine::general_purpose::STANDARD};
use generic_server::{discovery::Resources, endpoint::Endpoint, registry::Lister, tasks::Task};
use machinery::{Str, Value, meta::GroupVersion};
use outbound::{
    Asker, HttpsClient, Identity, Resolver, ServerCertificates, ServiceRef, Trust, Unavailable, egress::Network,
};
use storage::cache::{Everything, Followed, Scope, WatchEvent};

use crate::local::AUTOMANAGED;

/// One remote APIService.
pub(crate) struct Backend {
    pub(crate) group: Str,
    pub(crate) version: Str,
    pub(crate) service: ServiceRef,
    pub(crate) group_priority: i64,
    pub(crate) version_priority: i64,
    /// The spec that it was made from.
    spec: Value,
    /// None if the caBundle is no bundle: then nothing can be trusted.
    pub(crate) client: Result<HttpsClient, String>,
    /// What is wrong with its certificates.
    pub(crate) certificates: ServerCertificates,
    pub(crate) resolver: Arc<Resolver>,
    pub(crate) proxied: Proxied,
    /// Whether it can be reached, as far as is known; not at first.
    pub(crate) state: ArcSwap<Result<(), Unavailable>>,
    /// What it said that it serves.
    pub(crate) resources: ArcSwapOption<Resources>,
    /// Held while it is being checked, so that a slow one is asked once at a time.
    pub(crate) checking: tokio::sync::Mutex<()>,
}

impl Backend {
    fn new(spec: &Value, all: &Backends) -> Option<Self> {
        let service = spec.get("service").filter(|s| s.as_object().is_some())?;
        let text = |value: &Value, key: &str| Str::from(value.str_at(&[key]).unwrap_or(""));
        let number = |key: &str| spec.get(key).and_then(Value::as_i64).unwrap_or(0);
        let port = service.get("port").and_then(Value::as_i64).and_then(|p| u16::try_from(p).ok()).unwrap_or(443);
        let service = ServiceRef { namespace: text(service, "namespace"), name: text(service, "name"), port };
        let certificates = ServerCertificates::new(Asker::Aggregator);
        let unknown = Unavailable { reason: "Unknown", message: "not checked yet".to_owned() };
        Some(Backend {
            group: text(spec, "group"),
            version: text(spec, "version"),
            group_priority: number("groupPriorityMinimum"),
            version_priority: number("versionPriority"),
            client: client(spec, &service, all, &certificates),
            certificates,
            service,
            spec: spec.clone(),
            resolver: all.resolver.clone(),
            proxied: all.proxied,
            state: ArcSwap::from_pointee(Err(unknown)),
            resources: ArcSwapOption::empty(),
            checking: tokio::sync::Mutex::new(()),
        })
    }

    /// The APIService's name.
    pub(crate) fn name(&self) -> String {
        format!("{}.{}", self.version, self.group)
    }
}

/// How requests are handed on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Proxied {
    /// Answers that send a client elsewhere are errors.
    pub(crate) rejects_redirects: bool,
    /// Backends are told the UIDs of users (RemoteRequestHeaderUID).
    pub(crate) sends_uids: bool,
}

/// All remote APIServices.
pub(crate) struct Backends {
    resolver: Arc<Resolver>,
    proxy: Identity,
    proxied: Proxied,
    all: ArcSwap<HashMap<GroupVersion, Arc<Backend>>>,
    /// What somebody has registered of the chain itself.
    local: ArcSwap<Vec<LocalVersion>>,
    generation: AtomicU64,
}

/// A local APIService that is somebody's own: its group version is listed as it says, even if nobody serves it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LocalVersion {
    pub(crate) group: Str,
    pub(crate) version: Str,
    pub(crate) group_priority: i64,
    pub(crate) version_priority: i64,
}

impl LocalVersion {
    fn read(spec: &Value) -> Self {
        let text = |key: &str| Str::from(spec.str_at(&[key]).unwrap_or(""));
        let number = |key: &str| spec.get(key).and_then(Value::as_i64).unwrap_or(0);
        LocalVersion {
            group: text("group"),
            version: text("version"),
            group_priority: number("groupPriorityMinimum"),
            version_priority: number("versionPriority"),
        }
    }
}

impl Backends {
    pub(crate) fn new(resolver: Arc<Resolver>, proxy: Identity, proxied: Proxied) -> Self {
        let (all, local, generation) = (ArcSwap::default(), ArcSwap::default(), AtomicU64::new(0));
        Backends { resolver, proxy, proxied, all, local, generation }
    }

    /// Who serves a group version, if it is a remote server.
    pub(crate) fn get(&self, group: &str, version: &str) -> Option<Arc<dyn Endpoint>> {
        let all = self.all.load();
        if all.is_empty() {
            return None; // the usual case, on every request's way
        }
        all.get(&GroupVersion::new(group, version)).map(|b| b.clone() as Arc<dyn Endpoint>)
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Backend>> {
        self.all.load().values().cloned().collect()
    }

    /// Whether an APIService of this name was somebody's own when it was last looked at.
    fn knows(&self, name: &str) -> bool {
        let (version, group) = name.split_once('.').unwrap_or((name, ""));
        self.all.load().contains_key(&GroupVersion::new(group, version))
            || self.local.load().iter().any(|own| own.group == group && own.version == version)
    }

    /// Group versions of the chain that somebody has registered.
    pub(crate) fn local(&self) -> Arc<Vec<LocalVersion>> {
        self.local.load_full()
    }

    fn set_local(&self, local: Vec<LocalVersion>) {
        if **self.local.load() != local {
            self.local.store(Arc::new(local));
            self.changed();
        }
    }

    /// A number that changes with what discovery says of them.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Discovery has something new to say.
    pub(crate) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Brings the backends into step with the APIServices. One whose spec is the same stays, with its connections.
    fn set(&self, services: impl Iterator<Item = Value>) {
        let before = self.all.load_full();
        let mut after = HashMap::new();
        for service in services {
            let Some(spec) = service.get("spec") else { continue };
            let text = |key: &str| spec.str_at(&[key]).unwrap_or_default();
            let key = GroupVersion::new(text("group"), text("version"));
            let kept = before.get(&key).filter(|b| b.spec == *spec).cloned();
            if let Some(backend) = kept.or_else(|| Backend::new(spec, self).map(Arc::new)) {
                after.insert(key, backend);
            }
        }
        let same = before.len() == after.len()
            && after.iter().all(|(k, b)| before.get(k).is_some_and(|old| Arc::ptr_eq(old, b)));
        if !same {
            self.all.store(Arc::new(after));
            self.changed();
        }
    }
}

/// Keeps the backends in step with the APIServices.
pub(crate) fn follow(registry: Arc<Lister>, backends: Arc<Backends>) -> Task {
    Task::new("start-kube-aggregator-informers", move |cx| {
        let (registry, backends) = (registry.clone(), backends.clone());
        async move {
            let mut follower = registry.cache().follow(Scope::All, Arc::new(Everything));
            loop {
                let next = tokio::select! {
                    () = cx.cancelled() => return Ok(()),
                    next = follower.next() => next,
                };
                match next {
                    None => return Ok(()),
                    // What we keep ourselves is nothing to be reached, and there may be thousands of them.
                    Some(Followed::Event(WatchEvent::Object { object, .. }))
                        if object.labels().get(AUTOMANAGED).is_some() && !backends.knows(object.name()) =>
                    {
                        continue;
                    }
                    Some(_) => {}
                }
                let snapshot = registry.cache().latest();
                // Our own, which are most, are told without a look into them.
                let others = snapshot
                    .range(registry.prefix(), None)
                    .filter_map(|e| e.object())
                    .filter(|o| o.labels().get(AUTOMANAGED).is_none())
                    .filter_map(|o| registry.decode(o.bytes()).ok());
                let (remote, local): (Vec<Value>, Vec<Value>) =
                    others.partition(|o| o.at(&["spec", "service"]).is_some_and(|s| !s.is_null()));
                backends.set(remote.into_iter());
                backends.set_local(local.iter().filter_map(|o| o.get("spec")).map(LocalVersion::read).collect());
                cx.ready();
            }
        }
    })
}

/// A client that trusts what the APIService says, and shows the front proxy's certificate.
fn client(
    spec: &Value,
    service: &ServiceRef,
    all: &Backends,
    certificates: &ServerCertificates,
) -> Result<HttpsClient, String> {
    let insecure = spec.get("insecureSkipTLSVerify").and_then(Value::as_bool).unwrap_or(false);
    let bundle = STANDARD.decode(spec.str_at(&["caBundle"]).unwrap_or("")).map_err(|e| e.to_string())?;
    let trust = match bundle.as_slice() {
        _ if insecure => Trust::Anybody,
        [] => Trust::System,
        bundle => Trust::Bundle(bundle),
    };
    let dial = all.resolver.egress.to(Network::Cluster);
    let client = outbound::client_noting(dial, trust, Some(service.server_name()), Some(&all.proxy), certificates);
    client.map_err(|error| error.to_string())
}
