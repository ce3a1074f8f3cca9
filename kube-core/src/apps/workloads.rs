//! Deployments, replica sets, daemon sets and stateful sets.

use std::num::IntErrorKind;

use generic_server::resource::WriteContext;
use machinery::{Value, meta::names};

use super::validation;
use crate::core::pods::template::warnings;
use crate::{
    core::{claims, pods},
    defaults::{each, is_empty, part, pointer, text, within},
    strategy::Rules,
    validation::not_an_int64,
};

const WORKLOAD: Rules = Rules::WORKLOAD;

/// The rules of deployments.
pub(super) const DEPLOYMENTS: Rules = WORKLOAD
    .counts(&["spec", "metadata.annotations"])
    .defaults(deployment)
    .refuse(|deployment| {
        let why = not_an_int64(deployment.str_at(&ROLLBACK_TO)?)?;
        let (name, text) = (ROLLBACK_TO[2], deployment.str_at(&ROLLBACK_TO)?);
        Some(format!("failed to parse annotation[{name}]={text} as int64: {why}"))
    })
    .status_leaves(&[&["spec"], &["metadata", "labels"]])
    .validate(validation::deployment)
    .validate_update(validation::deployment_update)
    .validate_status(validation::deployment_status)
    .warn(warnings);

/// The rules of replica sets.
pub(super) const REPLICA_SETS: Rules = WORKLOAD
    .defaults(|set| {
        within(set, "spec", |spec| {
            pointer(spec, "replicas", 1);
            within(spec, "template", pods::template_defaults);
        });
    })
    .validate(validation::replica_set)
    .validate_update(validation::replica_set_update)
    .validate_status(validation::replica_set_status)
    .warn(warnings);

/// The rules of daemon sets.
pub(super) const DAEMON_SETS: Rules = WORKLOAD
    .hidden_annotations(&[TEMPLATE_GENERATION[2]])
    .defaults(daemon_set)
    .refuse(|set| not_an_int64(set.str_at(&TEMPLATE_GENERATION)?))
    .create(create_daemon_set)
    .update(update_daemon_set)
    .validate(validation::daemon_set)
    .validate_update(validation::daemon_set_update)
    .validate_status(validation::daemon_set_status)
    .warn(pods::warnings::controller);

/// The rules of stateful sets.
pub(super) const STATEFUL_SETS: Rules = WORKLOAD
    .names(names::name_is_dns_label)
    .defaults(stateful_set)
    .feature_defaults("MaxUnavailableStatefulSet", |set| {
        within(set, "spec", |spec| {
            let strategy = part(spec, "updateStrategy");
            if strategy.str_at(&["type"]) == Some("RollingUpdate") {
                within(strategy, "rollingUpdate", |rolling| pointer(rolling, "maxUnavailable", 1));
            }
        });
    })
    .validate(validation::stateful_set)
    .validate_update(validation::stateful_set_update)
    .validate_status(validation::stateful_set_status)
    .warn(stateful_set_warnings);

/// The rules of controller revisions.
pub(super) const CONTROLLER_REVISIONS: Rules =
    Rules::PLAIN.validate(validation::controller_revision).validate_update(validation::controller_revision_update);

fn stateful_set_warnings(set: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = pods::warnings::controller(set, old);
    if set.at(&["spec", "revisionHistoryLimit"]).and_then(Value::as_i64).is_some_and(|limit| limit < 0) {
        let text =
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended";
        warnings.push(text.to_owned());
    }
    warnings
}

/// Stands for a field that only an older version has.
const ROLLBACK_TO: [&str; 3] = ["metadata", "annotations", "deprecated.deployment.rollback.to"];

fn deployment(deployment: &mut Value) {
    match deployment.str_at(&ROLLBACK_TO).map(str::parse::<i64>) {
        Some(Ok(revision)) => deployment.set(&ROLLBACK_TO, revision.to_string()),
        Some(Err(error)) if *error.kind() == IntErrorKind::Empty => {
            deployment.remove_at(&ROLLBACK_TO);
            if is_empty(deployment.at(&ROLLBACK_TO[..2])) {
                deployment.remove_at(&ROLLBACK_TO[..2]);
            }
        }
        _ => {}
    }
    within(deployment, "spec", |spec| {
        within(spec, "template", pods::template_defaults);
        pointer(spec, "replicas", 1);
        let strategy = part(spec, "strategy");
        text(strategy, "type", "RollingUpdate");
        if strategy.str_at(&["type"]) == Some("RollingUpdate") {
            let rolling = part(strategy, "rollingUpdate");
            pointer(rolling, "maxUnavailable", "25%");
            pointer(rolling, "maxSurge", "25%");
        }
        pointer(spec, "revisionHistoryLimit", 10);
        pointer(spec, "progressDeadlineSeconds", 600);
    });
}

fn daemon_set(set: &mut Value) {
    if set.str_at(&TEMPLATE_GENERATION).is_none() {
        set.set(&TEMPLATE_GENERATION, "0");
    }
    within(set, "spec", |spec| {
        within(spec, "template", pods::template_defaults);
        let strategy = part(spec, "updateStrategy");
        text(strategy, "type", "RollingUpdate");
        if strategy.str_at(&["type"]) == Some("RollingUpdate") {
            let rolling = part(strategy, "rollingUpdate");
            pointer(rolling, "maxUnavailable", 1);
            pointer(rolling, "maxSurge", 0);
        }
        // Of another type it has numbers all the same, if it is there: upstream's stored form knows no absence.
        within(strategy, "rollingUpdate", |rolling| {
            pointer(rolling, "maxUnavailable", 0);
            pointer(rolling, "maxSurge", 0);
        });
        pointer(spec, "revisionHistoryLimit", 10);
    });
}

fn stateful_set(set: &mut Value) {
    within(set, "spec", |spec| {
        within(spec, "template", pods::template_defaults);
        text(spec, "podManagementPolicy", "OrderedReady");
        let strategy = part(spec, "updateStrategy");
        if is_empty(strategy.get("type")) {
            text(strategy, "type", "RollingUpdate");
            part(strategy, "rollingUpdate"); // whoever names the type says all of it
        }
        if strategy.str_at(&["type"]) == Some("RollingUpdate") {
            within(strategy, "rollingUpdate", |rolling| pointer(rolling, "partition", 0));
        }
        let retention = part(spec, "persistentVolumeClaimRetentionPolicy");
        text(retention, "whenDeleted", "Retain");
        text(retention, "whenScaled", "Retain");
        pointer(spec, "replicas", 1);
        pointer(spec, "revisionHistoryLimit", 10);
        each(spec, "volumeClaimTemplates", |template| {
            // Whatever it says that it is.
            template.set(&["apiVersion"], "v1");
            template.set(&["kind"], "PersistentVolumeClaim");
            claims::claim(template);
        });
    });
}

/// Counts changes of the template, for controllers of old.
const TEMPLATE_GENERATION: [&str; 3] = ["metadata", "annotations", "deprecated.daemonset.template.generation"];

fn template_generation(set: &Value) -> i64 {
    set.str_at(&TEMPLATE_GENERATION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn create_daemon_set(_cx: &WriteContext<'_>, set: &mut Value) {
    let generation = template_generation(set).max(1);
    set.set(&TEMPLATE_GENERATION, generation.to_string());
}

fn update_daemon_set(_cx: &WriteContext<'_>, new: &mut Value, old: &Value) {
    let template = ["spec", "template"];
    let changed = match (new.at(&template), old.at(&template)) {
        (Some(new), Some(old)) => !new.semantic_eq(old),
        (new, old) => new.is_some() != old.is_some(),
    };
    let generation = template_generation(old) + i64::from(changed);
    new.set(&TEMPLATE_GENERATION, generation.to_string());
}

#[cfg(test)]
mod tests {
    use machinery::object;

    use super::*;

    #[test]
    fn a_rolling_update_of_a_daemon_set_has_both_its_numbers_whatever_the_type() {
        let check = |strategy: Value, unavailable: Value, surge: Value| {
            let mut set = object! { "spec" => object! { "updateStrategy" => strategy } };
            daemon_set(&mut set);
            let number =
                |member| set.at(&["spec", "updateStrategy", "rollingUpdate", member]).cloned().unwrap_or_default();
            assert_eq!((number("maxUnavailable"), number("maxSurge")), (unavailable, surge));
        };
        let rolling = |members: Value| object! { "type" => "OnDelete", "rollingUpdate" => members };
        check(Value::object(), Value::from(1), Value::from(0));
        check(object! { "type" => "OnDelete" }, Value::Null, Value::Null);
        check(rolling(Value::object()), Value::from(0), Value::from(0));
        check(rolling(object! { "maxSurge" => "30%" }), Value::from(0), Value::from("30%"));
    }

    #[test]
    fn annotations_that_stand_for_numbers_are_numbers() {
        let annotated = |path: &[&str; 3], text: &str| {
            let mut object = Value::object();
            object.set(path, text);
            object
        };
        let check = |text: &str, expect: Option<&str>| {
            let found = (DAEMON_SETS.refuse)(&annotated(&TEMPLATE_GENERATION, text));
            assert_eq!(found.as_deref(), expect);
        };
        check("5", None);
        check("+5", None);
        check("", Some("strconv.ParseInt: parsing \"\": invalid syntax"));
        check("x", Some("strconv.ParseInt: parsing \"x\": invalid syntax"));
        let large = "99999999999999999999";
        check(large, Some(&format!("strconv.ParseInt: parsing \"{large}\": value out of range")));

        let read = |text: &str| {
            let mut object = annotated(&ROLLBACK_TO, text);
            deployment(&mut object);
            match (DEPLOYMENTS.refuse)(&object) {
                None => object.str_at(&ROLLBACK_TO).unwrap_or_default().to_owned(),
                Some(why) => why,
            }
        };
        assert_eq!(read("+5"), "5");
        assert_eq!(read(""), "");
        let why = "failed to parse annotation[deprecated.deployment.rollback.to]=x as int64: strconv.ParseInt: parsing \"x\": invalid \
                   syntax";
        assert_eq!(read("x"), why);
    }

    #[test]
    fn a_daemon_set_counts_changes_of_its_template_in_an_annotation() {
        let cx = WriteContext {
            group: "apps",
            version: "v1",
            namespace: "n",
            subresource: "",
            user: &auth::User::default(),
            features: &Default::default(),
        };
        let mut old = object! { "spec" => object! { "template" => object! { "a" => 1 } } };
        create_daemon_set(&cx, &mut old);
        assert_eq!(old.str_at(&TEMPLATE_GENERATION), Some("1"));
        let mut new = object! { "spec" => object! { "template" => object! { "a" => 2 } } };
        update_daemon_set(&cx, &mut new, &old);
        assert_eq!(new.str_at(&TEMPLATE_GENERATION), Some("2"));
        let mut same = object! { "spec" => object! { "template" => object! { "a" => 1 } } };
        update_daemon_set(&cx, &mut same, &old);
        assert_eq!(same.str_at(&TEMPLATE_GENERATION), Some("1"));
    }
}
