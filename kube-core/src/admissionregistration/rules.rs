//! Rules of webhooks and admission policies.

use machinery::{Value, object};

use super::{policies, static_names, webhooks};
use crate::{
    defaults::{each, pointer, within},
    strategy::Rules,
};

/// The rules of policies that change objects.
pub(super) const MUTATING_POLICIES: Rules = Rules::COUNTED
    .conditional()
    .any_finalizers()
    .defaults(policy)
    .validate(|cx, policy, errors| {
        policies::mutating(cx, policy, errors);
        static_names::check(cx, policy, errors);
    })
    .validate_update(policies::mutating_update)
    .warn(|new, _| static_names::warn(new));

/// The rules of policies that judge objects; a controller writes their status.
pub(super) const VALIDATING_POLICIES: Rules = Rules::COUNTED
    .with_status()
    .status_alone()
    .conditional()
    .any_finalizers()
    .defaults(policy)
    .validate(|cx, policy, errors| {
        policies::validating(cx, policy, errors);
        static_names::check(cx, policy, errors);
    })
    .validate_update(policies::validating_update)
    .validate_status(policies::validating_status)
    .warn(|new, _| static_names::warn(new))
    .warn_status(static_names::warn);

/// The rules of bindings of policies that change objects.
pub(super) const MUTATING_BINDINGS: Rules = Rules::COUNTED
    .conditional()
    .any_finalizers()
    .defaults(|binding| within(binding, "spec", |spec| within(spec, "matchResources", match_resources)))
    .validate(|cx, binding, errors| {
        policies::mutating_binding(cx, binding, errors);
        static_names::check(cx, binding, errors);
    })
    .validate_update(|cx, new, _, errors| policies::mutating_binding(cx, new, errors))
    .warn(|new, _| static_names::warn(new));

/// The rules of bindings of policies that judge objects.
pub(super) const VALIDATING_BINDINGS: Rules = MUTATING_BINDINGS
    .validate(|cx, binding, errors| {
        policies::validating_binding(cx, binding, errors);
        static_names::check(cx, binding, errors);
    })
    .validate_update(|cx, new, _, errors| policies::validating_binding(cx, new, errors));

/// The rules of configurations of validating webhooks.
pub(super) const VALIDATING_WEBHOOKS: Rules = Rules::PLAIN
    .counts(&["webhooks"])
    .conditional()
    .any_finalizers()
    .defaults(|config| each(config, "webhooks", webhook))
    .validate(|cx, configuration, errors| {
        webhooks::configuration(cx, configuration, errors);
        static_names::check(cx, configuration, errors);
    })
    .validate_update(webhooks::configuration_update)
    .warn(|new, _| static_names::warn(new));

/// The rules of configurations of mutating webhooks.
pub(super) const MUTATING_WEBHOOKS: Rules = Rules {
    defaults: |config| {
        each(config, "webhooks", |hook| {
            webhook(hook);
            pointer(hook, "reinvocationPolicy", "Never");
        });
    },
    ..VALIDATING_WEBHOOKS
};

fn policy(policy: &mut Value) {
    within(policy, "spec", |spec| {
        pointer(spec, "failurePolicy", "Fail");
        within(spec, "matchConstraints", match_resources);
    });
}

fn match_resources(resources: &mut Value) {
    pointer(resources, "matchPolicy", "Equivalent");
    pointer(resources, "namespaceSelector", object! {});
    pointer(resources, "objectSelector", object! {});
    for list in ["resourceRules", "excludeResourceRules"] {
        each(resources, list, scope);
    }
}

fn scope(rule: &mut Value) {
    pointer(rule, "scope", "*");
}

fn webhook(hook: &mut Value) {
    pointer(hook, "failurePolicy", "Fail");
    pointer(hook, "matchPolicy", "Equivalent");
    pointer(hook, "namespaceSelector", object! {});
    pointer(hook, "objectSelector", object! {});
    pointer(hook, "timeoutSeconds", 10);
    within(hook, "clientConfig", |config| within(config, "service", |service| pointer(service, "port", 443)));
    each(hook, "rules", scope);
}
