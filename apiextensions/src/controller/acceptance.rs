//! New definitions are accepted, established and served by the very write that makes them.
//!
//! What the controller would write to the status of a new definition is known before it is stored. So it goes to the store
//! together with the definition, as writes of their own in one commit. The resource is served from before the commit on:
//! nobody can read that it is established and not find it.

use std::sync::Arc;

use async_trait::async_trait;
use generic_server::registry::{Reservation, Reserve};
use machinery::{Str, Value, meta::status::Status};
use storage::Revision;
use tokio::sync::OwnedMutexGuard;

use super::{
    Controller,
    naming::{self, Step},
    state::Slot,
};

/// More writes than this do not follow a definition's first one.
const MOST_WRITES: usize = 8;

/// Accepts new definitions.
pub(crate) struct Acceptances(pub(crate) Arc<Controller>);

#[async_trait]
impl Reserve for Acceptances {
    async fn reserve(
        &self,
        _new: &mut Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<Box<dyn Reservation>, Status> {
        let controller = (old.is_none() && !dry_run).then(|| self.0.clone());
        Ok(Box::new(Acceptance { controller, taken: None }))
    }

    /// The controller sees for itself that a definition is gone.
    async fn release(&self, _definition: &Value) {}
}

/// What one new definition has been given.
struct Acceptance {
    /// None for writes that are no business of ours.
    controller: Option<Arc<Controller>>,
    taken: Option<Taken>,
}

struct Taken {
    controller: Arc<Controller>,
    name: Str,
    /// Nobody else acts on the definition meanwhile.
    slot: OwnedMutexGuard<Slot>,
    /// The write is done or did not happen; otherwise nobody knows.
    settled: bool,
}

#[async_trait]
impl Reservation for Acceptance {
    async fn sequel(&mut self, definition: &Value) -> Vec<Value> {
        let Some(controller) = &self.controller else { return Vec::new() };
        let name = Str::from(definition.str_at(&["metadata", "name"]).unwrap_or(""));
        let slot = controller.slots.get(&name).lock_owned().await;
        if !slot.is_empty() || controller.shelf.get(&name).is_some() {
            return Vec::new(); // the store will say so too, or the old one is not cleared up yet
        }
        let mut taken = Taken { controller: controller.clone(), name, slot, settled: false };
        let states = taken.states(definition);
        if let Some(last) = states.last() {
            taken.serve(last);
        }
        self.taken = Some(taken);
        states
    }

    fn written(&mut self, last: Revision) {
        if let Some(taken) = &mut self.taken {
            taken.slot.revision = last;
            taken.settled = true;
        }
    }

    async fn commit(mut self: Box<Self>) {
        // Dropped in peace: it is told that all is written.
    }

    async fn roll_back(mut self: Box<Self>) {
        if let Some(taken) = &mut self.taken {
            taken.controller.forget(&taken.name, &mut taken.slot);
            taken.controller.slots.forget(&taken.name);
            taken.settled = true;
        }
    }
}

impl Taken {
    /// What the definition becomes, write by write.
    fn states(&self, definition: &Value) -> Vec<Value> {
        let claim = self.controller.claims.claim(&self.name, definition);
        let (mut states, mut current) = (Vec::new(), definition.clone());
        while states.len() < MOST_WRITES
            && let Step::Write(edit) = naming::next(&current, &claim.names)
        {
            edit(&mut current);
            states.push(current.clone());
        }
        states
    }

    fn serve(&mut self, definition: &Value) {
        self.controller.shelf.announce(&self.name, definition.clone());
        // No object of it is older than what the store has now.
        let revision = self.controller.definitions.cache().latest().revision();
        self.controller.serve(&self.name, &mut self.slot, definition, revision);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.controller.shelf.arrived(&self.name);
        if self.settled {
            return;
        }
        // The request was given up while the write was on its way, or the store could not say what came of it.
        self.slot.revision = 0;
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (controller, name) = (self.controller.clone(), self.name.clone());
            runtime.spawn(async move { controller.sync(&name).await });
        }
    }
}
