//! Rules of webhooks and admission policies.

use machinery::{Value, object};

use crate::{
    defaults::{each, number, pointer, within},
    strategy::Rules,
};

/// The rules of policies.
pub(super) const POLICIES: Rules = Rules::COUNTED.conditional().defaults(policy);

/// The rules of policies whose status a controller writes.
pub(super) const VALIDATING_POLICIES: Rules = Rules { status: true, ..POLICIES };

/// The rules of bindings of policies.
pub(super) const BINDINGS: Rules = Rules::COUNTED.conditional().defaults(|binding| {
    within(binding, "spec", |spec| within(spec, "matchResources", match_resources));
});

/// The rules of configurations of validating webhooks.
pub(super) const VALIDATING_WEBHOOKS: Rules =
    Rules::PLAIN.counts(&["webhooks"]).conditional().defaults(|config| each(config, "webhooks", webhook));

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
    within(hook, "clientConfig", |config| within(config, "service", |service| number(service, "port", 443)));
    each(hook, "rules", scope);
}
