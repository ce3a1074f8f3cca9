//! API versions and features that are switched on or off.

use std::collections::BTreeMap;

use generic_server::{
    features::{GateState, Versions},
    resource::{Emulation, Enablement, Resource},
};

use super::Findings;
use crate::flags::Parsed;

/// `--feature-gates`: gates as they are set, in the version that is emulated.
pub(super) fn gates(flags: &Parsed, versions: Versions, findings: &mut Findings) -> GateState {
    // The parser has checked that the values are booleans.
    let is_true = |value: String| matches!(value.as_bytes()[0], b'1' | b't' | b'T');
    let wanted: BTreeMap<String, bool> =
        flags.map("feature-gates").into_iter().map(|(name, value)| (name, is_true(value))).collect();
    let gates = GateState::new(versions, &wanted).unwrap_or_else(|why| {
        why.iter().for_each(|why| findings.error(why.to_string()));
        GateState::default()
    });
    let unfollowed = gates.unfollowed();
    if !unfollowed.is_empty() {
        findings.warn(format!("these features stay as this server has them: {}", unfollowed.join(", ")));
    }
    gates
}

/// `--runtime-config`: which API versions are served, of those that the emulated version has.
pub(super) fn apis(flags: &Parsed, versions: Versions, features: &GateState, findings: &mut Findings) -> Enablement {
    let emulation = Emulation {
        minor: versions.emulated,
        forward: flags.bool("emulation-forward-compatible"),
        named_forward: flags.bool("runtime-config-emulation-forward-compatible"),
    };
    let apis = Enablement::parse(&flags.map("runtime-config"));
    // Only emulation asks what there is: the rows are a sight to look through.
    let apis = apis.map_err(|error| error.to_string());
    let apis = match versions.emulates() {
        true => apis.and_then(|apis| apis.emulating(emulation, &rows(features)).map_err(|error| error.to_string())),
        false => apis,
    };
    apis.unwrap_or_else(|error| {
        findings.error(error);
        Enablement::default()
    })
}

/// The rows of built-in resources whose features are on.
fn rows(features: &GateState) -> Vec<Resource> {
    let is_on = |row: &Resource| row.availability.gate.is_none_or(|gate| features.is_on(gate));
    kube_core::resources().into_iter().filter(is_on).collect()
}
