//! What a write takes from finite pools (addresses, ports): reserved before it, given back if it fails.
//!
//! Rather leaked than given out twice: once a write may have reached the store, a reservation is only taken back when the
//! store has said that it did not happen. What leaks, the kind's repair task finds.

use async_trait::async_trait;
use machinery::{Value, meta::status::Status};
use storage::Revision;

use super::{Registry, Write};

/// The pools that a kind's objects take from.
#[async_trait]
pub trait Reserve: Send + Sync {
    /// Reserves what `new` asks for beyond `old`, and writes into it what was chosen. Objects are in the storage version,
    /// as the client and admission left them. A dry run looks, and takes nothing.
    ///
    /// # Errors
    /// What the client hears when a pool has not what is asked for.
    async fn reserve(
        &self,
        new: &mut Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<Box<dyn Reservation>, Status>;

    /// The object is gone: gives back what it held.
    async fn release(&self, object: &Value);
}

/// What one write has reserved.
#[async_trait]
pub trait Reservation: Send {
    /// The states that a new object goes through at once after `object`, the one that a create writes: each of them is a
    /// write to its status by the server, told to watchers like any other, and all are done together with the create. Asked
    /// for when nothing else can refuse the create but the store.
    async fn sequel(&mut self, _object: &Value) -> Vec<Value> {
        Vec::new()
    }

    /// The object and its sequel are written; the last write's revision.
    fn written(&mut self, _last: Revision) {}

    /// The write is done: the object keeps what was reserved, and what it held before and no longer needs is given back.
    async fn commit(self: Box<Self>);

    /// The write did not happen: what was reserved for it is given back.
    async fn roll_back(self: Box<Self>);
}

/// A write's reservation, if its kind has pools.
pub(super) struct Held {
    reservation: Option<Box<dyn Reservation>>,
    /// The write is on its way, and nobody knows yet whether it happened.
    in_doubt: bool,
}

impl Held {
    /// The write goes to the store now.
    pub(super) fn writing(&mut self) {
        self.in_doubt = true;
    }

    /// The states that follow a new object's first.
    pub(super) async fn sequel(&mut self, object: &Value) -> Vec<Value> {
        match &mut self.reservation {
            Some(reservation) => reservation.sequel(object).await,
            None => Vec::new(),
        }
    }

    /// All is written; the revision of the last write.
    pub(super) fn written(&mut self, last: Revision) {
        if let Some(reservation) = &mut self.reservation {
            reservation.written(last);
        }
    }

    /// The store has refused the write.
    pub(super) fn refused(&mut self) {
        self.in_doubt = false;
    }

    /// Keeps the reservation if the write was done, gives it back if it was not.
    pub(super) async fn settle(mut self, done: bool) {
        let Some(reservation) = self.reservation.take() else { return };
        if done {
            reservation.commit().await;
        } else if !self.in_doubt {
            reservation.roll_back().await;
        }
    }
}

/// The request was given up halfway.
impl Drop for Held {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take()
            && !self.in_doubt
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(reservation.roll_back());
        }
    }
}

impl Registry {
    /// Reserves what the object needs.
    pub(super) async fn reserve(
        &self,
        write: &Write<'_>,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<Held, Status> {
        let reservation = match &self.reserve {
            Some(pools) if write.subresource.is_empty() => Some(pools.reserve(new, old, write.options.dry_run).await?),
            _ => None,
        };
        Ok(Held { reservation, in_doubt: false })
    }

    /// Gives back what an object held that is gone.
    pub(super) async fn release(&self, object: &Value) {
        if let Some(pools) = &self.reserve {
            pools.release(object).await;
        }
    }
}
