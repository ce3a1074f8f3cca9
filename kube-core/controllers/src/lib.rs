//! The controllers that make an API whole by itself: namespaces that are deleted go with all that is in them, what nobody
//! owns any more is collected, pods find a service account and the authority that they trust.
//!
//! Controllers that make pods or need nodes (deployments, jobs, scheduling) are kube-controller-manager's. While one holds its
//! lease, all of these stand down.
//!
//! ```
//! use controllers::Selection;
//!
//! let selection = Selection::parse(&["*", "-namespace-controller"]).unwrap();
//! assert!(selection.has("garbage-collector-controller") && !selection.has("namespace-controller"));
//! ```

mod authorities;
mod bootstrap_tokens;
mod certificates;
mod client;
mod disruption;
mod endpoints;
mod events;
mod families;
mod follow;
mod frame;
mod garbage;
mod kinds;
mod leadership;
mod legacy_tokens;
mod migrations;
mod names;
mod namespace;
mod objects;
mod per_namespace;
mod ready;
mod remote;
mod resource_quota;
mod role_aggregation;
mod root_ca;
mod selection;
mod service_accounts;
mod shared;
mod storage_versions;
mod ttl_after_finished;
mod volume_protection;
mod workqueue;

use std::sync::Arc;

use arc_swap::ArcSwap;
use generic_server::{
    registry::{Lister, Listers},
    table::ResourceTable,
    tasks::Task,
};
use machinery::Str;

pub use authorities::{Authorities, AuthorityError, AuthorityFiles};
pub use client::Door;
pub use names::names;
pub use selection::{Selection, UnknownController};

use families::Families;
use kinds::Kinds;
use leadership::Election;
use shared::Shared;

/// What controllers are built of.
pub struct Options<'a> {
    /// Which of them run.
    pub selection: &'a Selection,
    /// Where their requests go in.
    pub door: Door,
    /// The rows of all servers.
    pub tables: Vec<Arc<ArcSwap<ResourceTable>>>,
    /// What reads built-in kinds.
    pub listers: Listers,
    /// The definitions of custom resources.
    pub definitions: Arc<Lister>,
    /// Where metrics are registered.
    pub metrics: &'a prometheus::Registry,
    /// Whether no other server can be on this store.
    pub single: bool,
    /// What this server is called in leases.
    pub identity: Str,
    /// PEM: what pods trust this server by.
    pub root_ca: Str,
    /// Who signs requests for certificates.
    pub authorities: Authorities,
}

/// The tasks of the controllers that were asked for; none if there are none.
pub fn build(options: Options<'_>) -> Vec<Task> {
    if options.selection.is_empty() {
        return Vec::new();
    }
    let (kinds, listers) = (Arc::new(Kinds::new(options.tables)), Arc::new(options.listers));
    let (metrics, families) = (workqueue::Metrics::new(options.metrics), Families::new(options.metrics));
    let election = Election {
        leases: listers.of("coordination.k8s.io", "leases").clone(),
        door: options.door.clone(),
        single: options.single,
        identity: options.identity,
    };
    let (election, leadership) = leadership::task(election);
    let authorities = Arc::new(options.authorities);
    let mut tasks = vec![election];
    for controller in names::NAMES.iter().filter(|controller| options.selection.has(controller.name)) {
        let shared = Shared {
            door: options.door.clone(),
            account: controller.account,
            kinds: kinds.clone(),
            listers: listers.clone(),
            definitions: options.definitions.clone(),
            metrics: metrics.clone(),
            families: families.clone(),
            single: options.single,
            root_ca: options.root_ca.clone(),
            authorities: authorities.clone(),
        };
        tasks.push(frame::task(controller, Arc::new(shared), leadership.clone()));
    }
    tasks
}
