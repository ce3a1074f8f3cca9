//! Candidates for a lease: who would hold it, and which version of what it is.

use generic_server::{
    printer::{AGE, Doc, NAME, Table, age, name, text, text_at},
    resource::WriteContext,
};
use machinery::meta::{names, semver::Version};

use crate::{
    strategy::Rules,
    validation::{Errors, Field},
};

/// The strategy that is Kubernetes' own.
const OLDEST: &str = "OldestEmulationVersion";

/// The rules.
pub(super) const RULES: Rules = Rules::PLAIN
    .create_on_update()
    .conditional()
    .any_finalizers()
    .names(|name, _| names::config_map_key(name))
    .validate(|_, candidate, errors| spec(&candidate.at("spec"), errors))
    .validate_update(update);

fn update(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (new, old) = (new.at("spec"), old.at("spec"));
    spec(&new, errors);
    new.at("leaseName").immutable(&old.at("leaseName"), errors);
}

fn spec(spec: &Field<'_>, errors: &mut Errors) {
    spec.at("leaseName").is_given(errors);
    let (emulated, binary) = (spec.at("emulationVersion"), spec.at("binaryVersion"));
    let emulation = if emulated.is_empty() { Version::default() } else { version(&emulated, errors) };
    if binary.is_given(errors) {
        let own = version(&binary, errors);
        if !emulated.is_empty() && own.compare(&emulation).is_lt() {
            binary.invalid("must be greater than or equal to `emulationVersion`", errors);
        }
    }
    let strategy = spec.at("strategy");
    if !strategy.is_given(errors) {
        return;
    }
    if strategy.text() == OLDEST && emulation.compare(&Version::default()).is_eq() {
        emulated.required("must be specified when `strategy` is 'OldestEmulationVersion'", errors);
    }
    lease_strategy(&strategy, errors);
}

/// Who wins a lease: a strategy of Kubernetes', or somebody's, named with a domain.
pub(super) fn lease_strategy(strategy: &Field<'_>, errors: &mut Errors) {
    // Upstream's errors name the member twice.
    let (holder, text) = (machinery::object! { "strategy" => strategy.text() }, strategy.value());
    let named = strategy.with(&holder);
    let named = named.at("strategy");
    let named = named.with(text);
    if strategy.text().contains('/') {
        named.check(names::qualified_name, errors);
    } else {
        named.one_of(&[OLDEST], errors);
    }
}

/// What is wrong with it is no version, which counts as zero.
fn version(version: &Field<'_>, errors: &mut Errors) -> Version {
    Version::parse(version.text()).unwrap_or_else(|_| {
        version.invalid("must be a valid semantic version", errors);
        Version::default()
    })
}

const SPEC: &str = "coordination.v1alpha2.LeaseCandidateSpec";

/// What each is.
pub(super) const TABLE: Table = Table::new(
    &[
        NAME,
        text("LeaseName", Doc::Of(SPEC, "leaseName")),
        text("BinaryVersion", Doc::Text("")),
        text("EmulationVersion", Doc::Text("")),
        AGE,
    ],
    |candidate, now| {
        let spec = |member| text_at(candidate, &["spec", member]);
        vec![name(candidate), spec("leaseName"), spec("binaryVersion"), spec("emulationVersion"), age(candidate, now)]
    },
);

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn check(candidate: &str, expect: &[&str]) {
        let value = json::decode(candidate.as_bytes()).expect("JSON");
        let mut errors = Errors::default();
        spec(&Field::root(&value), &mut errors);
        let found: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        assert_eq!(found, expect, "{candidate}");
    }

    #[test]
    fn versions_are_semantic_and_the_binary_is_no_older_than_what_it_emulates() {
        check(
            r#"{"leaseName":"l","binaryVersion":"1.36.0","emulationVersion":"1.35.0","strategy":"OldestEmulationVersion"}"#,
            &[],
        );
        check(
            r#"{"leaseName":"l","binaryVersion":"1.35.0","emulationVersion":"1.36.0","strategy":"a.b/c"}"#,
            &[r#"binaryVersion: Invalid value: "1.35.0": must be greater than or equal to `emulationVersion`"#],
        );
        check(
            r#"{"leaseName":"l","binaryVersion":"1.35","strategy":"OldestEmulationVersion"}"#,
            &[
                r#"binaryVersion: Invalid value: "1.35": must be a valid semantic version"#,
                "emulationVersion: Required value: must be specified when `strategy` is 'OldestEmulationVersion'",
            ],
        );
        check(
            r#"{"binaryVersion":"1.35.0","strategy":"Other"}"#,
            &[
                "leaseName: Required value",
                r#"strategy.strategy: Unsupported value: "Other": supported values: "OldestEmulationVersion""#,
            ],
        );
    }
}
