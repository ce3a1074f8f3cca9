//! What all controllers have in common.

use std::sync::Arc;

use generic_server::registry::{Lister, Listers};
use machinery::Str;

use crate::{
    authorities::Authorities,
    client::{Client, Door},
    events::Events,
    families::Families,
    kinds::Kinds,
    workqueue,
};

/// What controllers are made of.
pub(crate) struct Shared {
    pub(crate) door: Door,
    /// The account in kube-system that requests are made as.
    pub(crate) account: &'static str,
    pub(crate) kinds: Arc<Kinds>,
    /// What reads built-in kinds.
    pub(crate) listers: Arc<Listers>,
    /// The definitions of custom resources.
    pub(crate) definitions: Arc<Lister>,
    pub(crate) metrics: workqueue::Metrics,
    /// What only some controllers count.
    pub(crate) families: Families,
    /// Whether nobody else writes to the store: what was decided in this process is known to all of them.
    pub(crate) single: bool,
    /// PEM: what clients in pods trust this server by.
    pub(crate) root_ca: Str,
    /// Who signs requests for certificates.
    pub(crate) authorities: Arc<Authorities>,
}

impl Shared {
    /// The way in for this controller.
    pub(crate) fn client(&self) -> Client {
        Client::of_controller(self.door.clone(), self.account)
    }

    /// Who writes events for this controller.
    pub(crate) fn events(&self, component: &'static str) -> Events {
        Events::new(self.client(), component)
    }

    /// What reads a built-in kind that is always served.
    pub(crate) fn lister(&self, group: &'static str, plural: &'static str) -> &Arc<Lister> {
        self.listers.of(group, plural)
    }
}
