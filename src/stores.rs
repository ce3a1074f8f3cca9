//! The stores: the embedded one or etcd, and other etcd servers for some resources.

use std::{collections::HashMap, sync::Arc};

use anyhow::{Context as _, Result};
use generic_server::registry::Placement;
use machinery::meta::GroupResource;
use outbound::egress::{Egress, Network};
use storage::{
    Store,
    embedded::{self, Embedded},
    etcd::{Etcd, EtcdOptions},
};

use crate::config::{self, Config};

/// What is open.
pub(crate) struct Stores {
    /// Where everything is that is not elsewhere.
    pub(crate) main: Arc<dyn Store>,
    /// The same, if it is the embedded one.
    pub(crate) embedded: Option<Arc<Embedded>>,
    /// Where the rest is, and how objects are written.
    pub(crate) placement: Placement,
}

/// Opens or reaches them.
pub(crate) async fn open(config: &Config, egress: &Egress) -> Result<Stores> {
    let storage = &config.storage;
    let Some(remote) = &storage.etcd else {
        let dir = config.data_dir.join("store");
        let options = embedded::EmbeddedOptions {
            compaction_interval: storage.compaction_interval,
            history: storage.history,
            from_snapshot: storage.from_snapshot.clone(),
            ..embedded::EmbeddedOptions::default()
        };
        let store = match &storage.from_snapshot {
            Some(snapshot) if !embedded::holds_store(&dir) => {
                let why = || format!("cannot start from the snapshot {}", snapshot.display());
                let store = Embedded::open(&dir, options).with_context(why)?;
                tracing::info!(snapshot = %snapshot.display(), "the store begins as a snapshot");
                store
            }
            _ => {
                Embedded::open(&dir, options).with_context(|| format!("cannot open the store in {}", dir.display()))?
            }
        };
        return Ok(Stores { main: store.clone(), embedded: Some(store), placement: Placement::default() });
    };
    let main = connect(config, egress, remote, remote.servers.clone()).await.context("cannot reach etcd")?;
    let mut others: HashMap<GroupResource, Arc<dyn Store>> = HashMap::new();
    let mut known: HashMap<Vec<String>, Arc<dyn Store>> = HashMap::new();
    for place in &storage.overrides {
        let mut servers = place.servers.clone();
        servers.sort_unstable();
        let store = match known.get(&servers) {
            Some(store) => store.clone(),
            None => {
                let why = || format!("cannot reach the etcd of {}/{}", place.group, place.resource);
                connect(config, egress, remote, place.servers.clone()).await.with_context(why)?
            }
        };
        known.insert(servers, store.clone());
        others.insert(GroupResource::new(place.group.as_str(), place.resource.as_str()), store);
    }
    Ok(Stores { main, embedded: None, placement: Placement { protobuf: storage.protobuf, others } })
}

async fn connect(
    config: &Config,
    egress: &Egress,
    remote: &config::Etcd,
    servers: Vec<String>,
) -> Result<Arc<dyn Store>> {
    let storage = &config.storage;
    let options = EtcdOptions {
        servers,
        ca: remote.ca.clone(),
        identity: remote.certificate.as_ref().map(|files| (files.certificate.clone(), files.key.clone())),
        prefix: storage.prefix.clone(),
        compaction_interval: storage.compaction_interval,
        lease_reuse: storage.lease_reuse,
        health_timeout: storage.health_timeout.max(storage.ready_timeout),
        dial: egress.to(Network::Etcd).cloned(),
        traced: config.tracing.is_some(),
        ..EtcdOptions::default()
    };
    Ok(Etcd::connect(options).await?)
}

impl Stores {
    /// The stores of single resources, each once.
    pub(crate) fn others(&self) -> Vec<Arc<dyn Store>> {
        let mut all: Vec<Arc<dyn Store>> = Vec::new();
        for store in self.placement.others.values() {
            if !all.iter().any(|known| Arc::ptr_eq(known, store)) {
                all.push(store.clone());
            }
        }
        all
    }
}
