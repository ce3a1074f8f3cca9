//! What a definition serves: rows of the resource table, one a served version, behind one registry.

mod columns;
mod conversion;
mod jsonpath;
mod rows;
mod strategy;
mod tables;

use std::sync::Arc;

use generic_server::{
    registry::{Backing, Registry},
    server::Entry,
};
use machinery::{Str, Value};

pub(crate) use columns::{CREATED_DESCRIPTION, NAME_DESCRIPTION};
pub(crate) use tables::Tables;

use self::strategy::CustomStrategy;
use crate::definition::{Definition, ESTABLISHED, NAMES_ACCEPTED, Names, TERMINATING, is_true};

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
    entries: Vec<Arc<Entry>>,
}

impl Served {
    /// What a definition serves; `None` as long as its names are not accepted. `revision` is the definition's.
    pub(crate) fn new(definition: &Value, revision: u64, backing: &Backing) -> Option<Self> {
        if !is_true(definition, NAMES_ACCEPTED) && !is_true(definition, ESTABLISHED) {
            return None;
        }
        let view = Definition(definition);
        let names = view.accepted_names();
        let terminating = is_true(definition, TERMINATING);
        let strategy = Arc::new(CustomStrategy::new(view));
        strategy.set_terminating(terminating);
        let rows = rows::rows(view, &names, terminating, &strategy);
        let stored = rows.iter().find(|row| row.conversion.is_none())?;
        let registry = Registry::custom(stored.clone(), revision, backing);
        if rows.len() > 1 {
            registry.set_versions(rows.clone());
        }
        Some(Served {
            uid: view.uid(),
            group: view.group(),
            generation: view.generation(),
            entries: rows::entries(view, rows, &registry),
            names,
            terminating,
            registry,
            strategy,
        })
    }

    /// Takes over a change of the definition. Answers whether the rows are others now.
    pub(crate) fn update(&mut self, definition: &Value, revision: u64, backing: &Backing) -> bool {
        let view = Definition(definition);
        if view.generation() != self.generation {
            if let Some(new) = Served::new(definition, revision, backing) {
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
        let rows = rows::rows(view, &names, terminating, &self.strategy);
        self.entries = rows::entries(view, rows, &self.registry);
        (self.names, self.terminating) = (names, terminating);
        true
    }

    /// The uid of the definition.
    pub(crate) fn uid(&self) -> Str {
        self.uid.clone()
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
