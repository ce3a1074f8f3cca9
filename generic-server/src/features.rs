//! Which features are on, by the names of their gates.

pub mod gates;

use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock},
};

/// The features that are on. By default those that are on when nothing is said.
#[derive(Clone, Debug)]
pub struct Features(Arc<BTreeSet<&'static str>>);

static DEFAULT: LazyLock<Features> =
    LazyLock::new(|| gates::GATES.iter().filter(|gate| gate.default).map(|gate| gate.name).collect());

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
    fn the_table_is_sorted_and_holds_each_gate_once() {
        let names: Vec<String> = gates::GATES.iter().map(|gate| gate.name.to_ascii_lowercase()).collect();
        assert!(names.is_sorted_by(|a, b| a < b));
    }

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
