//! Which features are on, by the names of their gates.

use std::{collections::BTreeSet, sync::Arc};

/// The features that are on.
#[derive(Clone, Debug, Default)]
pub struct Features(Arc<BTreeSet<&'static str>>);

impl Features {
    /// Whether a feature is on. One that nobody knows is off.
    pub fn is_on(&self, gate: &str) -> bool {
        self.0.contains(gate)
    }
}

impl FromIterator<&'static str> for Features {
    fn from_iter<I: IntoIterator<Item = &'static str>>(gates: I) -> Self {
        Features(Arc::new(gates.into_iter().collect()))
    }
}
