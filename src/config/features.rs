//! API versions and features that are switched on or off.

use std::collections::BTreeMap;

use generic_server::resource::Enablement;

use super::{Findings, gates::GATES};
use crate::flags::Parsed;

/// Whether a feature is on unless a flag says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Off,
    On,
    /// On, and no longer to be switched off.
    LockedOn,
    /// Off, and no longer to be switched on.
    LockedOff,
}

/// Feature gates that were set.
#[derive(Clone, Debug, Default)]
pub struct FeatureGates {
    set: BTreeMap<String, bool>,
}

impl FeatureGates {
    /// Whether the feature is on. A name that v1.36 does not know is off.
    pub fn is_on(&self, name: &str) -> bool {
        let default = GATES.iter().any(|(known, gate)| *known == name && matches!(gate, Gate::On | Gate::LockedOn));
        self.set.get(name).copied().unwrap_or(default)
    }

    /// Those that were set by the flag.
    pub fn set(&self) -> &BTreeMap<String, bool> {
        &self.set
    }

    pub(super) fn from_flags(flags: &Parsed, findings: &mut Findings) -> Self {
        let mut set = BTreeMap::new();
        for (name, value) in flags.map("feature-gates") {
            let invalid =
                |reason: &str| format!("invalid argument \"{name}={value}\" for \"--feature-gates\" flag: {reason}");
            // The parser has checked that the value is a boolean.
            let value_is = matches!(value.as_bytes()[0], b'1' | b't' | b'T');
            match GATES.iter().find(|(known, _)| *known == name) {
                None => findings.error(invalid(&format!("unrecognized feature gate: {name}"))),
                Some((_, Gate::LockedOn)) if !value_is => findings
                    .error(invalid(&format!("cannot set feature gate {name} to false, feature is locked to true"))),
                Some((_, Gate::LockedOff)) if value_is => findings
                    .error(invalid(&format!("cannot set feature gate {name} to true, feature is locked to false"))),
                Some(_) => {
                    set.insert(name, value_is);
                }
            }
        }
        Self { set }
    }
}

/// `--runtime-config`: which API versions are served.
pub(super) fn apis(flags: &Parsed, findings: &mut Findings) -> Enablement {
    Enablement::parse(&flags.map("runtime-config")).unwrap_or_else(|error| {
        findings.error(error);
        Enablement::default()
    })
}
