//! What is wrong with a store at present, part by part: a part that is well again takes back only its own complaint.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use crate::Error;

/// What can be in trouble. The first in this order is what refused writes and the store's health tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// The store as a whole has ended.
    Store,
    /// Writes cannot be made durable.
    Journal,
    /// The database does not take what the journal holds, or cannot be opened.
    Database,
    /// The disk is full.
    Room,
    /// Unused room cannot be given back.
    Copy,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Troubles(Mutex<BTreeMap<Part, Error>>);

impl Troubles {
    /// A part is in trouble.
    pub(crate) fn set(&self, part: Part, error: Error) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(part, error);
    }

    /// A part is in trouble, for this reason unless there is one already.
    pub(crate) fn set_first(&self, part: Part, error: Error) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(part).or_insert(error);
    }

    /// A part is well.
    pub(crate) fn clear(&self, part: Part) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&part);
    }

    /// The worst at present.
    pub(crate) fn worst(&self) -> Option<(Part, Error)> {
        let troubles = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        troubles.first_key_value().map(|(part, error)| (*part, error.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_well_again_hides_no_others_trouble() {
        let troubles = Troubles::default();
        let worst = || troubles.worst().map(|(part, _)| part);
        assert_eq!(worst(), None);
        troubles.set(Part::Room, Error::NoSpace("full".into()));
        troubles.set(Part::Database, Error::Unavailable("cannot be read".into()));
        assert_eq!(worst(), Some(Part::Database));
        troubles.clear(Part::Journal);
        troubles.clear(Part::Room);
        assert_eq!(worst(), Some(Part::Database));
        troubles.clear(Part::Database);
        assert_eq!(worst(), None);
    }
}
