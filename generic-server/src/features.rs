//! Which features are on, by the names of their gates, and which version of Kubernetes the server behaves like.

mod dependencies;
pub mod gates;
mod state;
mod versions;

use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock},
};

pub use state::{GateError, GateState, help_lines};
pub use versions::{BINARY, Minor, OLDEST, Versions};

/// The features that are on. By default those that are on when nothing is said.
#[derive(Clone, Debug)]
pub struct Features(Arc<BTreeSet<&'static str>>);

static DEFAULT: LazyLock<Features> = LazyLock::new(|| GateState::default().features());

impl Features {
    /// Whether a feature is on. One that nobody knows is off.
    pub fn is_on(&self, gate: &str) -> bool {
        self.0.contains(gate)
    }
}

impl Default for Features {
    fn default() -> Self {
        DEFAULT.clone()
    }
}

impl FromIterator<&'static str> for Features {
    fn from_iter<I: IntoIterator<Item = &'static str>>(gates: I) -> Self {
        Features(Arc::new(gates.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_default_features_are_as_the_table_says() {
        let features = Features::default();
        assert!(
            features.is_on("PodLevelResources") && !features.is_on("GenericWorkload") && !features.is_on("Unknown")
        );
    }

    #[test]
    fn gates_of_members_are_gates_that_are_followed() {
        for gate in machinery::schema::builtin::gates() {
            let found = gates::find(gate).unwrap_or_else(|| panic!("{gate}"));
            let only_dropped = matches!(found.effect, gates::Effect::Followed | gates::Effect::Fixed(_));
            assert!(only_dropped, "{gate}: {:?}", found.effect);
        }
    }
}
