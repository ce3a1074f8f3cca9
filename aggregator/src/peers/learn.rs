//! Learning what the other servers serve: by their discovery, when one comes or is another one, and from time to time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use generic_server::{
    discovery::{Freshness, Group, Resources, Version, priority},
    tasks::Task,
};
use http::header;
use http_body_util::{BodyExt as _, Limited};
use machinery::{Str, Value, codec::json, meta::GroupVersionResource};
use outbound::{full, root_cause};
use storage::cache::{Everything, Scope};

use super::{PROXIED, Peer, Peers};

/// The largest discovery document that is believed, in bytes.
const LIMIT: usize = 8 << 20;
const PATIENCE: Duration = Duration::from_secs(5);
/// How long what is known is good for.
const AGAIN: Duration = Duration::from_secs(30);
/// How soon a server that did not answer is asked again, at first.
const SOON: Duration = Duration::from_secs(1);
/// What a server alone serves, in any form that its version knows.
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer,\
                      application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
/// As whom an API server asks.
const USER: &str = "system:apiserver";
const NAMESPACE: &str = "kube-system";
const IDENTITY: (&str, &str) = ("apiserver.kubernetes.io/identity", "kube-apiserver");

/// Keeps what is known of the peers up to date.
pub(super) fn task(peers: Arc<Peers>) -> Task {
    Task::new("peer-discovery-workers", move |cx| {
        let peers = peers.clone();
        async move {
            peers.leases.ready().await?;
            let mut changes = peers.leases.cache().follow(Scope::All, Arc::new(Everything));
            let mut pause = SOON;
            loop {
                let asked = peers.holders();
                let is_complete = peers.learn(&asked).await;
                cx.ready();
                pause = if is_complete { AGAIN } else { (pause * 2).min(AGAIN) };
                let again = tokio::time::sleep(pause);
                tokio::pin!(again);
                loop {
                    tokio::select! {
                        () = cx.cancelled() => return Ok(()),
                        () = &mut again => break,
                        next = changes.next() => match next {
                            None => return Ok(()),
                            Some(_) if peers.holders() != asked => {
                                pause = SOON;
                                break;
                            }
                            Some(_) => {} // a lease was renewed
                        },
                    }
                }
            }
        }
    })
}

impl Peers {
    /// The other servers that have a lease, and who holds it.
    fn holders(&self) -> BTreeSet<(Str, String)> {
        let snapshot = self.leases.cache().latest();
        let leases = snapshot.range(&self.leases.namespace_prefix(NAMESPACE), None).filter_map(|entry| entry.object());
        let others = leases.filter(|o| o.labels().get(IDENTITY.0) == Some(IDENTITY.1) && o.name() != self.name);
        let holder = |lease: &Value| lease.str_at(&["spec", "holderIdentity"]).map(str::to_owned);
        let held = others.filter_map(|o| Some((Str::from(o.name()), holder(&self.leases.decode(o.bytes()).ok()?)?)));
        held.collect()
    }

    /// Asks all of them. Answers whether all have answered.
    async fn learn(&self, holders: &BTreeSet<(Str, String)>) -> bool {
        let (mut known, mut is_complete) = (BTreeMap::new(), true);
        for (name, _) in holders {
            match self.ask(name).await {
                Ok(peer) => _ = known.insert(name.clone(), peer),
                Err((kind, why)) => {
                    is_complete = false;
                    self.metrics.unlearned(kind);
                    tracing::debug!(peer = name.as_str(), why, "a peer does not say what it serves");
                }
            }
        }
        self.set(known);
        is_complete
    }

    /// What a peer serves, but for what is registered in the cluster: custom resources and aggregated servers are known here.
    async fn ask(&self, name: &Str) -> Result<Peer, (&'static str, String)> {
        let found = self.addresses.find(std::slice::from_ref(name)).await;
        let found = found.map_err(|error| ("hostport_resolution", error.to_string()))?;
        let no_address = || ("hostport_resolution", "it has written no address".to_owned());
        let address = found.into_iter().next().ok_or_else(no_address)?;
        let mut peer = Peer::default();
        for path in ["/api", "/apis"] {
            let document = self.document(&address, path).await.map_err(|why| ("fetch_discovery", why))?;
            for group in document.get("items").and_then(Value::as_array).unwrap_or_default() {
                self.add(&mut peer, group);
            }
        }
        Ok(peer)
    }

    fn add(&self, peer: &mut Peer, group: &Value) {
        let name = Str::from(group.str_at(&["metadata", "name"]).unwrap_or_default());
        let mut versions = Vec::new();
        for version in group.get("versions").and_then(Value::as_array).unwrap_or_default() {
            let Some(version_name) = version.str_at(&["version"]).map(Str::from) else { continue };
            if self.is_registered(&name, &version_name) {
                continue;
            }
            let resources = version.get("resources").cloned().unwrap_or_default();
            let names = resources.as_array().unwrap_or_default().iter().filter_map(|r| r.str_at(&["resource"]));
            peer.resources.extend(names.map(|r| GroupVersionResource::new(name.clone(), version_name.clone(), r)));
            versions.push(Version {
                priority: priority(&name, &version_name).version,
                resources: Some(Arc::new(Resources::from_aggregated(&resources))),
                freshness: Freshness::Current,
                name: version_name,
            });
        }
        if let Some(first) = versions.first().filter(|_| !name.is_empty()) {
            peer.groups.push(Group { priority: priority(&name, &first.name).group, name, versions });
        }
    }

    /// Whether a version is served by definitions or APIServices, which all servers have.
    fn is_registered(&self, group: &str, version: &str) -> bool {
        let custom = |table: &Arc<arc_swap::ArcSwap<generic_server::table::ResourceTable>>| {
            let table = table.load();
            table.group(group).is_some_and(|rows| !rows.is_built_in())
        };
        self.backends.get(group, version).is_some() || self.tables.iter().any(custom)
    }

    async fn document(&self, address: &str, path: &str) -> Result<Value, String> {
        let request = http::Request::get(format!("https://{address}{path}"))
            .header(header::ACCEPT, ACCEPT)
            .header(PROXIED, "true")
            .header("x-remote-user", USER)
            .header("x-remote-uid", USER)
            .header("x-remote-group", "system:authenticated")
            .body(full(""))
            .map_err(|error| error.to_string())?;
        let late = |_| "context deadline exceeded".to_owned();
        let answered = tokio::time::timeout(PATIENCE, self.client.request(request)).await.map_err(late)?;
        let answer = answered.map_err(|error| root_cause(&error))?;
        self.metrics.rerouted(answer.status(), [""; 3]);
        if answer.status() != http::StatusCode::OK {
            return Err(format!("discovery request failed with status: {}", answer.status().as_u16()));
        }
        let read = tokio::time::timeout(PATIENCE, Limited::new(answer.into_body(), LIMIT).collect()).await;
        let body: Bytes = read.map_err(late)?.map_err(|error| error.to_string())?.to_bytes();
        json::decode(&body).map_err(|error| error.to_string())
    }
}
