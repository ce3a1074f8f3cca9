//! Serves the resources that definitions define: rows of the resource table, one a served version, behind one registry.

mod columns;
mod conversion;
mod converted;
mod jsonpath;
mod metrics;
mod rows;
mod strategy;
mod tables;
mod webhook;

use std::sync::Arc;

use generic_server::{
    admission::Admission,
    registry::{Backing, Lister, Registry},
    resource::Resource,
    table::TableEntry,
};
use machinery::{Str, Value};
use outbound::Resolver;

pub use metrics::ConversionMetrics;
pub(crate) use tables::Tables;

use self::{strategy::CustomStrategy, webhook::Webhook};
use crate::definition::{Definition, ESTABLISHED, NAMES_ACCEPTED, Names, Shelf, TERMINATING, is_true};

/// What serving takes.
#[derive(Clone)]
pub(crate) struct Means {
    /// Where definitions are found.
    pub(crate) shelf: Arc<Shelf>,
    /// Where objects are kept.
    pub(crate) backing: Backing,
    /// Who admits writes.
    pub(crate) admission: Arc<dyn Admission>,
    /// Where webhooks are found.
    pub(crate) services: Arc<Resolver>,
    pub(crate) metrics: Arc<ConversionMetrics>,
}

/// What one definition serves.
pub(crate) struct Served {
    uid: Str,
    group: Str,
    /// Counts what changes the rows' schemas.
    generation: i64,
    names: Names,
    terminating: bool,
    registry: Arc<Registry>,
    strategy: Arc<CustomStrategy>,
    webhook: Option<Arc<Webhook>>,
    entries: Vec<Arc<TableEntry>>,
}

impl Served {
    /// What a definition serves; `None` as long as its names are not accepted. `revision` is the definition's.
    pub(crate) fn new(definition: &Value, revision: u64, means: &Means) -> Option<Self> {
        if !is_true(definition, NAMES_ACCEPTED) && !is_true(definition, ESTABLISHED) {
            return None;
        }
        let view = Definition(definition);
        let names = view.accepted_names();
        let terminating = is_true(definition, TERMINATING);
        let strategy = Arc::new(CustomStrategy::new(view, &means.shelf));
        strategy.set_terminating(terminating);
        let webhook = Webhook::of(view, &strategy, &means.services, &means.metrics);
        let rows = shown(rows::rows(view, &names, terminating, &strategy, webhook.as_ref()), means);
        let stored = rows.iter().find(|row| row.is_storage_version())?;
        let lister = Lister::custom(stored.clone(), &rows, revision, &means.backing);
        let registry = Arc::new(Registry::new(lister, means.admission.clone()));
        Some(Served {
            uid: view.uid(),
            group: view.group(),
            generation: view.generation(),
            entries: rows::entries(view, rows, &registry),
            names,
            terminating,
            registry,
            strategy,
            webhook,
        })
    }

    /// Takes over a change of the definition. Answers whether the rows are others now.
    pub(crate) fn update(&mut self, definition: &Value, revision: u64, means: &Means) -> bool {
        let view = Definition(definition);
        if view.generation() != self.generation {
            if let Some(new) = Served::new(definition, revision, means) {
                let old = std::mem::replace(self, new);
                old.stop();
            }
            return true;
        }
        let names = view.accepted_names();
        let terminating = is_true(definition, TERMINATING);
        if names == self.names && terminating == self.terminating {
            return false;
        }
        self.strategy.set_terminating(terminating);
        let rows = shown(rows::rows(view, &names, terminating, &self.strategy, self.webhook.as_ref()), means);
        self.entries = rows::entries(view, rows, &self.registry);
        (self.names, self.terminating) = (names, terminating);
        true
    }

    /// The uid of the definition.
    pub(crate) fn uid(&self) -> Str {
        self.uid.clone()
    }

    /// The names of the versions, if there are several.
    pub(crate) fn versions(&self) -> Vec<Str> {
        self.registry.versions().iter().map(|row| row.version.clone()).collect()
    }

    /// The objects.
    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Ends the watches and the cache, once requests that have begun are through.
    pub(crate) fn stop(self) {
        tokio::spawn(async move {
            tokio::time::sleep(rows::GRACE).await;
            self.registry.stop();
        });
    }
}

/// Rows, as discovery shows them with the features of this server.
fn shown(mut rows: Vec<Resource>, means: &Means) -> Vec<Resource> {
    rows.iter_mut().for_each(|row| row.show_hash(&means.backing.settings.features));
    rows
}
