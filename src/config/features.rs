//! API versions and features that are switched on or off.

use std::collections::BTreeMap;

use generic_server::{
    features::{
        Features,
        gates::{self, Effect, Gate, Stage},
    },
    resource::Enablement,
};

use super::Findings;
use crate::flags::Parsed;

/// Feature gates that were set.
#[derive(Clone, Debug, Default)]
pub struct FeatureGates {
    set: BTreeMap<String, bool>,
}

impl FeatureGates {
    /// Whether the feature is on. A name that v1.36 does not know is off.
    pub fn is_on(&self, name: &str) -> bool {
        let Some(gate) = gates::find(name) else { return false };
        let own = self.set.get(name).copied();
        let group = match gate.stage {
            Stage::Alpha => Some("AllAlpha"),
            Stage::Beta => Some("AllBeta"),
            Stage::Stable | Stage::Deprecated => None,
        };
        let of_group = group.filter(|_| gate.effect == Effect::Followed).and_then(|group| self.set.get(group).copied());
        own.or(of_group).unwrap_or(gate.default)
    }

    /// All that are on, for those who know nothing of flags.
    pub fn features(&self) -> Features {
        gates::GATES.iter().map(|gate| gate.name).filter(|name| self.is_on(name)).collect()
    }

    pub(super) fn from_flags(flags: &Parsed, findings: &mut Findings) -> Self {
        let mut set = BTreeMap::new();
        for (name, value) in flags.map("feature-gates") {
            // The parser has checked that the value is a boolean.
            let value = matches!(value.as_bytes()[0], b'1' | b't' | b'T');
            match gates::find(&name).map(|gate| refusal(gate, value)) {
                None => findings.error(format!("unrecognized feature gate: {name}")),
                Some(Some(why)) => findings.error(why),
                Some(None) => {
                    set.insert(name, value);
                }
            }
        }
        // AllAlpha=false is how things are.
        if set.get("AllAlpha") == Some(&true) || set.contains_key("AllBeta") {
            findings.warn("AllAlpha and AllBeta switch no features but those that this server can switch");
        }
        Self { set }
    }
}

/// Why a gate cannot be set so.
fn refusal(gate: &Gate, value: bool) -> Option<String> {
    let Gate { name, default, .. } = gate;
    match gate.effect {
        Effect::Locked if value != *default => {
            Some(format!("cannot set feature gate {name} to {value}, feature is locked to {default}"))
        }
        Effect::Fixed(way) if value != way && value != *default => {
            let what = if value { "have it" } else { "do without it" };
            Some(format!("cannot set feature gate {name} to {value}: this server does not {what} yet"))
        }
        _ => None,
    }
}

/// `--runtime-config`: which API versions are served.
pub(super) fn apis(flags: &Parsed, findings: &mut Findings) -> Enablement {
    Enablement::parse(&flags.map("runtime-config")).unwrap_or_else(|error| {
        findings.error(error);
        Enablement::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_server_cannot_do_is_refused_and_its_own_way_is_not() {
        let check = |name: &str, value: bool, expect: Option<&str>| {
            let gate = gates::find(name).expect("it is in the table");
            assert_eq!(refusal(gate, value).as_deref(), expect, "{name}={value}");
        };
        for value in [true, false] {
            check("APIResponseCompression", value, None); // works both ways
            check("SchedulerAsyncAPICalls", value, None); // is the scheduler's
            check("ConstrainedImpersonation", value, None); // the default, and this server's way
        }
        check("SidecarContainers", true, None);
        check(
            "SidecarContainers",
            false,
            Some("cannot set feature gate SidecarContainers to false, feature is locked to true"),
        );
        check("ShardedListAndWatch", false, None);
        check(
            "ShardedListAndWatch",
            true,
            Some("cannot set feature gate ShardedListAndWatch to true: this server does not have it yet"),
        );
        check("StorageVersionHash", true, None);
        check(
            "StorageVersionHash",
            false,
            Some("cannot set feature gate StorageVersionHash to false: this server does not do without it yet"),
        );
    }

    #[test]
    fn all_alpha_and_all_beta_speak_of_those_that_nobody_has_set() {
        let check = |set: &[(&str, bool)], name: &str, expect: bool| {
            let set = set.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
            assert_eq!(FeatureGates { set }.is_on(name), expect, "{name}");
        };
        check(&[], "AllowUnsafeMalformedObjectDeletion", false);
        check(&[("AllAlpha", true)], "AllowUnsafeMalformedObjectDeletion", true);
        check(&[("AllBeta", true)], "AllowUnsafeMalformedObjectDeletion", false);
        check(
            &[("AllAlpha", true), ("AllowUnsafeMalformedObjectDeletion", false)],
            "AllowUnsafeMalformedObjectDeletion",
            false,
        );
        check(&[("AllBeta", false)], "APIResponseCompression", false);
        check(&[("AllBeta", false), ("APIResponseCompression", true)], "APIResponseCompression", true);
        check(&[("AllAlpha", true)], "ShardedListAndWatch", false);
    }
}
