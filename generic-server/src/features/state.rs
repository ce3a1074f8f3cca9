//! Gates as they are set: which features are on in a server that behaves like a version of Kubernetes.

use std::collections::BTreeMap;

use prometheus::{IntGaugeVec, Opts, Registry};

use super::{
    Features,
    dependencies::DEPENDENCIES,
    gates::{self, Effect, GATES, Gate, Spec, Stage},
    versions::{BINARY, Minor, Versions},
};

/// A gate that cannot be set so. Shown, it is what upstream says, and of what this server does not follow what it says itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// There is none of this name.
    #[error("unrecognized feature gate: {0}")]
    Unknown(String),
    /// The emulated version does not have it.
    #[error(
        "cannot set feature gate {gate} to {value}, feature is PreAlpha at emulated version {}, min compatibility version {}",
        Minor(.versions.emulated), Minor(.versions.compatible)
    )]
    Newer {
        /// The gate.
        gate: &'static str,
        /// How it should be.
        value: bool,
        /// The versions of the server.
        versions: Versions,
    },
    /// It is as it is.
    #[error("cannot set feature gate {gate} to {value}, feature is locked to {}", !.value)]
    Locked {
        /// The gate.
        gate: &'static str,
        /// How it should be.
        value: bool,
    },
    /// This server does not follow it.
    #[error(
        "cannot set feature gate {gate} to {value}: this server does not {} yet",
        if *.value { "have it" } else { "do without it" }
    )]
    NotFollowed {
        /// The gate.
        gate: &'static str,
        /// How it should be.
        value: bool,
    },
    /// It is on, and others that it needs are not.
    #[error("{gate} is enabled, but depends on features that are disabled: [{}]", .off.join(" "))]
    Unmet {
        /// The gate.
        gate: &'static str,
        /// Those that it needs and that are off.
        off: Vec<&'static str>,
    },
}

/// Gates as they are set.
#[derive(Clone, Debug, Default)]
pub struct GateState {
    versions: Versions,
    set: BTreeMap<&'static str, bool>,
}

impl GateState {
    /// Sets gates by their names.
    ///
    /// # Errors
    /// All that cannot be set so.
    pub fn new(versions: Versions, wanted: &BTreeMap<String, bool>) -> Result<Self, Vec<GateError>> {
        let mut wrong = Vec::new();
        let mut set = BTreeMap::new();
        for (name, value) in wanted {
            match gates::find(name).map(|gate| (gate.name, refusal(gate, *value, versions))) {
                None => wrong.push(GateError::Unknown(name.clone())),
                Some((_, Some(why))) => wrong.push(why),
                Some((name, None)) => {
                    set.insert(name, *value);
                }
            }
        }
        let state = GateState { versions, set };
        if wrong.is_empty() {
            wrong = state.unmet_dependencies();
        }
        if wrong.is_empty() { Ok(state) } else { Err(wrong) }
    }

    /// Whether a feature is on. One that nobody knows is off.
    pub fn is_on(&self, name: &str) -> bool {
        let Some(gate) = gates::find(name) else { return false };
        match gate.effect {
            // Emulation and groups change nothing in what this server does not follow.
            Effect::Fixed(_) => {
                let here = gate.at(BINARY).is_some_and(|spec| spec.default);
                self.set.get(gate.name).copied().unwrap_or(here)
            }
            Effect::Followed | Effect::Unseen => self.wanted(gate),
        }
    }

    /// All that are on, for those who know nothing of how they were set.
    pub fn features(&self) -> Features {
        GATES.iter().map(|gate| gate.name).filter(|name| self.is_on(name)).collect()
    }

    /// All that there are in the emulated version: how far they are, and whether they are on.
    pub fn known(&self) -> impl Iterator<Item = (&'static Gate, Spec, bool)> {
        let spec = |gate: &'static Gate| Some((gate, gate.at(self.versions.emulated)?));
        GATES.iter().filter_map(spec).map(|(gate, spec)| (gate, spec, self.is_on(gate.name)))
    }

    /// Has the metrics say which features there are, and whether they are on.
    pub fn describe(&self, registry: &Registry) {
        let opts = Opts::new("kubernetes_feature_enabled", "Whether a feature is on (1) or off, and how far it is.");
        let enabled = IntGaugeVec::new(opts, &["name", "stage"]).expect("constant names are valid");
        for (gate, spec, on) in self.known() {
            enabled.with_label_values(&[gate.name, spec.stage.label()]).set(on.into());
        }
        registry.register(Box::new(enabled)).expect("the name is registered once");
    }

    /// Features that stay as they are here, though the emulated version, or a group of gates that was set, has them otherwise.
    pub fn unfollowed(&self) -> Vec<&'static str> {
        let fixed = GATES.iter().filter(|gate| matches!(gate.effect, Effect::Fixed(_)));
        fixed.filter(|gate| self.is_on(gate.name) != self.wanted(gate)).map(|gate| gate.name).collect()
    }

    /// Whether a feature is asked to be on: it was set, or a group that it is of was, or it is on by default.
    fn wanted(&self, gate: &Gate) -> bool {
        let spec = gate.at(self.versions.emulated);
        let group = match spec.map(|spec| spec.stage) {
            _ if is_group(gate) => None,
            Some(Stage::Alpha) => self.set.get("AllAlpha"),
            Some(Stage::Beta) => self.set.get("AllBeta"),
            Some(Stage::Stable | Stage::Deprecated) | None => None,
        };
        let set = self.set.get(gate.name).or(group).copied();
        set.unwrap_or_else(|| spec.is_some_and(|spec| spec.default))
    }

    fn unmet_dependencies(&self) -> Vec<GateError> {
        let wanted = |name: &str| gates::find(name).is_some_and(|gate| self.wanted(gate));
        let unmet = DEPENDENCIES.iter().filter(|(gate, _)| wanted(gate)).map(|(gate, needed)| {
            let off: Vec<&'static str> = needed.iter().copied().filter(|name| !wanted(name)).collect();
            (*gate, off)
        });
        unmet.filter(|(_, off)| !off.is_empty()).map(|(gate, off)| GateError::Unmet { gate, off }).collect()
    }
}

/// Whether a gate is one that speaks of others.
fn is_group(gate: &Gate) -> bool {
    matches!(gate.name, "AllAlpha" | "AllBeta")
}

/// Why a gate cannot be set so.
fn refusal(gate: &Gate, value: bool, versions: Versions) -> Option<GateError> {
    let Gate { name: gate_name, effect, .. } = *gate;
    let Some(spec) = gate.at(versions.emulated) else {
        return Some(GateError::Newer { gate: gate_name, value, versions });
    };
    if spec.locked && value != spec.default {
        return Some(GateError::Locked { gate: gate_name, value });
    }
    match effect {
        Effect::Fixed(way) if value != way && value != spec.default => {
            Some(GateError::NotFollowed { gate: gate_name, value })
        }
        _ => None,
    }
}

/// What `--help` says of gates that may be set: one line each, as upstream writes it.
pub fn help_lines() -> Vec<String> {
    let line = |gate: &Gate| {
        let spec = gate.at(BINARY)?;
        let may_be_set = is_group(gate) || matches!(spec.stage, Stage::Alpha | Stage::Beta);
        let (name, stage, default) = (gate.name, spec.stage.label(), spec.default);
        may_be_set.then(|| format!("kube:{name}=true|false ({stage} - default={default})"))
    };
    let mut lines: Vec<String> = GATES.iter().filter_map(line).collect();
    lines.sort();
    lines
}

#[cfg(test)]
mod tests;
