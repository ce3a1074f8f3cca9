//! Gates as they are set.

use super::*;
use crate::features::OLDEST;

/// The gates of the real server: name, stage, default, and whether the help shows it.
const FACTS: &str = include_str!("../facts.tsv");

fn state(minor: u32, set: &[(&str, bool)]) -> Result<GateState, Vec<String>> {
    let wanted = set.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    let state = GateState::new(Versions::emulating(minor), &wanted);
    state.map_err(|wrong| wrong.iter().map(ToString::to_string).collect())
}

/// What a row of the table is, for messages.
fn rows() -> impl Iterator<Item = &'static Gate> {
    GATES.iter()
}

#[test]
fn the_table_is_sorted_and_holds_each_gate_once() {
    let names: Vec<String> = rows().map(|gate| gate.name.to_ascii_lowercase()).collect();
    assert!(names.is_sorted_by(|a, b| a < b));
}

#[test]
fn the_table_says_what_the_real_server_says() {
    let facts = FACTS.lines().filter(|line| !line.starts_with('#'));
    let facts: BTreeMap<&str, Vec<&str>> =
        facts.map(|line| line.split('\t').collect::<Vec<_>>()).map(|cells| (cells[0], cells)).collect();
    assert_eq!(rows().count(), facts.len());
    let help = help_lines();
    for gate in rows() {
        let spec = gate.at(BINARY).expect("every gate is one of this version");
        let stage = if spec.stage == Stage::Stable { "GA" } else { spec.stage.label() };
        let shown = help.iter().any(|line| line.starts_with(&format!("kube:{}=", gate.name)));
        let ours = [gate.name, stage, &spec.default.to_string(), if shown { "yes" } else { "no" }].map(str::to_owned);
        assert_eq!(facts[gate.name], ours);
    }
}

#[test]
fn older_versions_had_the_gates_that_the_real_server_shows() {
    let facts: Vec<Vec<&str>> = include_str!("../emulated.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').collect())
        .collect();
    for minor in [33, 34] {
        let of_version = facts.iter().filter(|cells| cells[0] == minor.to_string());
        let expected: BTreeMap<&str, (&str, bool)> =
            of_version.map(|cells| (cells[1], (cells[2], cells[3] == "1"))).collect();
        let found = rows().filter_map(|gate| Some((gate.name, gate.at(minor)?)));
        let found: BTreeMap<&str, (&str, bool)> =
            found.map(|(name, spec)| (name, (spec.stage.label(), spec.default))).collect();
        assert_eq!(found, expected, "1.{minor}");
    }
}

#[test]
fn a_gates_life_goes_on_and_what_is_locked_stays_so() {
    for gate in rows() {
        assert!(!gate.phases.is_empty() && gate.phases.is_sorted_by(|a, b| a.0 < b.0), "{}", gate.name);
        let specs: Vec<Spec> = gate.phases.iter().filter_map(|(since, ..)| gate.at(*since)).collect();
        assert!(specs.is_sorted_by(|a, b| a != b && (b.locked || !a.locked)), "{}: {specs:?}", gate.name);
    }
}

#[test]
fn every_gate_may_be_set_in_every_version_as_its_row_says() {
    for (minor, gate, value) in
        (OLDEST..=BINARY).flat_map(|minor| rows().flat_map(move |gate| [false, true].map(|value| (minor, gate, value))))
    {
        let expect = match gate.at(minor) {
            None => Some("feature is PreAlpha"),
            Some(spec) if value == spec.default => None,
            Some(spec) if spec.locked => Some("feature is locked to"),
            Some(_) if gate.effect == Effect::Fixed(!value) => Some("this server does not"),
            Some(_) => None,
        };
        match (state(minor, &[(gate.name, value)]), expect) {
            (Ok(state), None) => assert_eq!(state.is_on(gate.name), value, "{} 1.{minor}", gate.name),
            (Err(refusals), Some(expect)) => assert!(refusals.iter().all(|why| why.contains(expect)), "{refusals:?}"),
            (Err(refusals), None) => {
                let unmet = |why: &String| why.contains("depends on features that are disabled");
                assert!(refusals.iter().all(unmet), "{} 1.{minor}: {refusals:?}", gate.name);
            }
            (Ok(_), Some(expect)) => panic!("{}={value} in 1.{minor}: {expect}", gate.name),
        }
    }
}

#[test]
fn every_gate_that_may_be_set_in_this_version_works_both_ways() {
    let fixed = rows().filter(|gate| matches!(gate.effect, Effect::Fixed(_)));
    let open: Vec<&str> =
        fixed.filter(|gate| !gate.at(BINARY).is_some_and(|spec| spec.locked)).map(|gate| gate.name).collect();
    assert_eq!(open, [""; 0]);
}

#[test]
fn what_cannot_be_set_so_is_refused_in_upstreams_words() {
    let check = |minor: u32, set: &[(&str, bool)], expect: &[&str]| {
        assert_eq!(state(minor, set).map(|_| ()).err().unwrap_or_default(), expect, "{set:?}");
    };
    check(36, &[("SidecarContainers", true), ("APIResponseCompression", false), ("SchedulerAsyncAPICalls", true)], &[]);
    check(
        36,
        &[("SidecarContainers", false), ("ImageVolume", false)],
        &[
            "cannot set feature gate ImageVolume to false, feature is locked to true",
            "cannot set feature gate SidecarContainers to false, feature is locked to true",
        ],
    );
    check(34, &[("ImageVolume", false)], &[]);
    check(36, &[("NoSuchFeature", false)], &["unrecognized feature gate: NoSuchFeature"]);
    check(
        34,
        &[("NodeDeclaredFeatures", true)],
        &["cannot set feature gate NodeDeclaredFeatures to true, feature is PreAlpha at emulated version 1.34, min \
           compatibility version 1.33"],
    );
    check(
        36,
        &[("ClusterTrustBundleProjection", true), ("TopologyAwareWorkloadScheduling", true)],
        &[
            "ClusterTrustBundleProjection is enabled, but depends on features that are disabled: [ClusterTrustBundle]",
            "TopologyAwareWorkloadScheduling is enabled, but depends on features that are disabled: [GenericWorkload]",
        ],
    );
    check(
        36,
        &[("NodeDeclaredFeatures", false)],
        &[
            "ExtendWebSocketsToKubelet is enabled, but depends on features that are disabled: [NodeDeclaredFeatures]",
            "InPlacePodLevelResourcesVerticalScaling is enabled, but depends on features that are disabled: \
             [NodeDeclaredFeatures]",
            "InPlacePodVerticalScalingInitContainers is enabled, but depends on features that are disabled: \
             [NodeDeclaredFeatures]",
            "RestartAllContainersOnContainerExits is enabled, but depends on features that are disabled: \
             [NodeDeclaredFeatures]",
        ],
    );
}

#[test]
fn all_alpha_and_all_beta_speak_of_those_that_nobody_has_set() {
    let check = |minor: u32, set: &[(&str, bool)], name: &str, expect: bool| {
        assert_eq!(state(minor, set).expect("may be set").is_on(name), expect, "{set:?} {name}");
    };
    let unsafe_deletion = "AllowUnsafeMalformedObjectDeletion";
    check(36, &[], unsafe_deletion, false);
    check(36, &[("AllAlpha", true)], unsafe_deletion, true);
    check(36, &[("AllBeta", true)], unsafe_deletion, false);
    check(36, &[("AllAlpha", true), (unsafe_deletion, false)], unsafe_deletion, false);
    check(36, &[("AllBeta", false)], "APIResponseCompression", false);
    check(36, &[("AllBeta", false), ("APIResponseCompression", true)], "APIResponseCompression", true);
    // What is beta now was alpha before.
    check(34, &[("AllAlpha", true)], "DRAConsumableCapacity", true);
    check(36, &[("AllAlpha", true)], "KMSv1", false);
}

#[test]
fn features_are_as_they_were_in_the_emulated_version() {
    let check = |minor: u32, name: &str, expect: bool| {
        assert_eq!(state(minor, &[]).expect("may be so").is_on(name), expect, "{name} 1.{minor}");
    };
    check(35, "ConstrainedImpersonation", false);
    check(36, "ConstrainedImpersonation", true);
    check(34, "EnvFiles", false);
    check(35, "EnvFiles", true);
    let known = |minor: u32, name: &str| state(minor, &[]).expect("may be so").known().any(|(g, ..)| g.name == name);
    assert!(known(36, "ShardedListAndWatch") && !known(35, "ShardedListAndWatch"));
}
